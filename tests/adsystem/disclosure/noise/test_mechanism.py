"""The mechanism: how far a person can move what is released, and the noise that is drawn."""

import itertools
from collections.abc import Iterator
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.mechanism import Strength, Vector, add_noise, exact_vector
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.audience import Audience
from kreach.boundary.discrete_noise import MILLIS, NANOS, Part, opendp_draw, privacy_epsilon
from kreach.numeric.types import IntArray

AUDIENCES = {
    "uniform": kr.Audience.disjoint([5, 8, 6, 20]),
    "targeted": kr.Audience.disjoint([5, 8, 6, 20], [0, 3, 6, 7]),
    "dispersed": kr.Audience.disjoint([5, 8, 6, 20], [5, 3, 6, 7], 0.3),
    "profiled": kr.Audience.profiled([[0.1, 0.2, 0.7], [0.25, 0.25, 0.5], [1.0], [0.01, 0.99]]),
    "overlapping": kr.Audience.overlapping(
        [9, 8, 7, 5], [((0, 1), 4), ((0,), 3), ((1, 2), 2), ((2, 3), 4), ((1,), 2)]
    ),
}
STRENGTH = Strength(2_000_000, 10, 6, 20_000)


def released(audience: Audience, counts: IntArray, top: int) -> IntArray:
    vector = exact_vector(kr.measure(audience, counts, 1), top, 0)
    return np.array([*vector.at_least, vector.rest])


def expected(audience: Audience, counts: IntArray, top: int) -> np.ndarray:
    report = kr.measure(audience, counts, 1)
    people = report.at_least(top)
    return np.append(people, report.exposure.targeted_impressions - people.sum())


@pytest.mark.parametrize("kind", AUDIENCES)
@given(data=st.data())
def test_one_impression_moves_people_by_at_most_one_in_all(kind: str, data: st.DataObject) -> None:
    audience = AUDIENCES[kind]
    counts = np.array(data.draw(st.lists(st.integers(0, 30), min_size=4, max_size=4)))
    top = data.draw(st.integers(2, 12))
    more = counts.copy()
    more[data.draw(st.integers(0, 3))] += 1
    moved = expected(audience, more, top) - expected(audience, counts, top)
    assert moved.min() > -1e-9
    assert moved.sum() <= 1.0 + 1e-9


@pytest.mark.parametrize("kind", AUDIENCES)
@given(data=st.data())
def test_what_is_released_moves_by_no_more_than_the_distance(
    kind: str, data: st.DataObject
) -> None:
    """Rounded, for any impressions of one person added to any log, or taken away from it."""
    audience = AUDIENCES[kind]
    counts = np.array(data.draw(st.lists(st.integers(0, 20), min_size=4, max_size=4)))
    groups = data.draw(st.lists(st.integers(0, 3), max_size=STRENGTH.max_per_person))
    more = counts + np.bincount(groups, minlength=4)
    top = STRENGTH.max_frequency
    moved = released(audience, more, top) - released(audience, counts, top)
    assert sqrt(float((moved**2).sum())) <= STRENGTH.parts[0].distance
    assert abs(int(more.sum() - counts.sum())) <= STRENGTH.parts[1].distance


def test_the_distance_is_needed() -> None:
    """A person whose impressions are all of other people's first: nothing smaller would do."""
    wide = kr.Audience.disjoint([1_000_000])
    moved = released(wide, np.array([10]), 6) - released(wide, np.array([0]), 6)
    assert sqrt(float((moved**2).sum())) > 0.999 * STRENGTH.parts[0].distance


def rounded_moves(components: int, length: int) -> Iterator[int]:
    """Σ n_j² of all whole moves that rounding can make of Σ x_j ≤ length."""
    for moves in itertools.product(range(length + 1), repeat=components):
        # x_j just above n_j − 1 is the least that can be rounded to a move by n_j
        if sum(max(n - 1, 0) for n in moves) < length:
            yield sum(n * n for n in moves)


@pytest.mark.parametrize(("components", "length"), [(2, 4), (3, 3), (4, 5), (5, 2)])
def test_rounding_several_numbers_moves_them_a_little_more(components: int, length: int) -> None:
    """Each number alone moves by ⌈x⌉ at most; together they pass the length that x had."""
    assert max(rounded_moves(components, length)) == length**2 + components - 1
    assert length**2 + components - 1 > length**2


def loss(impressions: int, most: int) -> float:
    """What an answer of cost 1 for `most` impressions costs for some, rounding and all."""
    if impressions == 0:
        return 0.0
    moved, allowed = (Strength(1_000, m, 6, 1).parts[0].distance for m in (impressions, most))
    return moved**2 / allowed**2


def losses(charges: list[tuple[int, int, float]], spread: np.ndarray, most: int) -> float:
    """The sum over answers about [start, end), for a person with impressions spread over cells."""
    return sum(rho * loss(int(spread[a:b].sum()), most) for a, b, rho in charges)


@given(
    stretches=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=8),
    most=st.integers(1, 6),
)
def test_spending_is_the_max_over_any_one_cell(stretches: list[tuple[int, int]], most: int) -> None:
    """However a person's impressions are spread over cells: by enumeration."""
    charges = [(a, min(a + n, 4), 1.0 + a) for a, n in stretches]
    by_cell = [sum(rho for a, b, rho in charges if a <= cell < b) for cell in range(4)]
    spreads = (s for s in itertools.product(range(most + 1), repeat=4) if sum(s) <= most)
    worst = max(losses(charges, np.array(spread), most) for spread in spreads)
    assert worst == pytest.approx(max(by_cell), rel=1e-12)


@given(most=st.integers(1, 10_000), share=st.floats(0.0, 1.0), top=st.integers(2, 100))
def test_an_impression_bears_at_most_its_share(most: int, share: float, top: int) -> None:
    some = max(round(share * most), 1)
    moved, allowed = (Strength(1_000, m, top, 1).parts[0].distance for m in (some, most))
    assert moved**2 / allowed**2 <= some / most + 1e-12


@given(most=st.integers(1, 500), times=st.integers(1, 50))
def test_more_impressions_cost_their_square(most: int, times: int) -> None:
    assert loss(times * most, most) <= times**2


# -- the budget ---------------------------------------------------------------------------------


@given(
    rho=st.floats(0.01, 10.0),
    share=st.floats(0.05, 0.95),
    points=st.integers(1, 400),
    questions=st.integers(1, 400),
)
def test_all_answers_together_cost_at_most_the_budget(
    rho: float, share: float, points: int, questions: int
) -> None:
    settings = NoiseSettings(
        rho=rho, series_share=share, max_points=points, max_questions=questions
    )
    budget = Budget(settings)
    in_all = points * budget.point.rho_nanos + questions * budget.question.rho_nanos
    assert in_all <= budget.rho_nanos <= rho * NANOS
    assert budget.point.pot_nanos + budget.question.pot_nanos == budget.rho_nanos
    assert in_all > budget.rho_nanos - points - questions  # nothing but what does not divide


@given(rho=st.integers(100, 10**10), m=st.integers(1, 500), top=st.integers(2, 60))
def test_parts_cost_what_the_answer_costs(rho: int, m: int, top: int) -> None:
    parts = Strength(rho, m, top, 5_000).parts
    assert sum(part.rho_nanos for part in parts) == rho
    for part in parts:
        assert part.distance**2 / (2.0 * part.scale**2) <= part.rho_nanos / NANOS
        assert part.distance**2 / (2.0 * part.scale**2) > 0.99999 * part.rho_nanos / NANOS


def test_the_defaults_are_what_the_docs_say() -> None:
    facts = Budget(NoiseSettings()).facts()
    assert facts["epsilon"] == pytest.approx(3.967, abs=0.001)
    assert facts["point"]["std_people"] == pytest.approx(185.2, abs=0.1)
    assert facts["question"]["std_people"] == pytest.approx(106.9, abs=0.1)


def test_epsilon_of_rho_is_the_smallest_over_orders() -> None:
    """(ε, δ) from Rényi divergence αρ at order α: ε = αρ + ln(1/δ)/(α − 1), at the best α."""
    alphas = 1.0 + np.geomspace(1e-3, 1e4, 200_001)
    for rho, delta in [(0.25, 1e-6), (0.01, 1e-9), (2.0, 1e-5)]:
        tried = alphas * rho + np.log(1.0 / delta) / (alphas - 1.0)
        assert privacy_epsilon(rho, delta) == pytest.approx(tried.min(), rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rho": 0.0}, "rho must lie between"),
        ({"rho": float("nan")}, "rho must lie between"),
        ({"series_share": 1.0}, "series_share must lie between"),
        ({"delta": 0.5}, "delta must lie between"),
        ({"max_per_person": 0}, "max_per_person must lie between"),
        ({"max_frequency": 1}, "max_frequency must lie between"),
        ({"max_price_cpm": 0.0}, "max_price_cpm must lie between"),
        ({"point_seconds": 7_000}, "point_seconds must divide a day"),
        ({"settle_seconds": -1.0}, "settle_seconds must lie between"),
    ],
)
def test_settings_are_checked(changed: dict[str, float], message: str) -> None:
    with pytest.raises(kr.KreachError, match=message):
        NoiseSettings(**changed)  # type: ignore[arg-type]


def test_strength_is_checked() -> None:
    with pytest.raises(kr.KreachError, match="max_per_person must be at least 1, got 0"):
        Strength(1_000, 0, 5, 5)
    with pytest.raises(kr.KreachError, match="rho_nanos must be enough to be shared"):
        Strength(2, 1, 5, 5)


# -- OpenDP -------------------------------------------------------------------------------------


def test_noise_is_a_discrete_gaussian_of_the_scale() -> None:
    """4,000 draws; |z| < 5.5 has a false alarm below 1e-7 for each of the three."""
    draw, part = opendp_draw(), Part(10.0, 2_000_000)
    values = np.array(draw(part, [1_000] * 4_000)) - 1_000
    n = len(values)
    assert abs(values.mean()) * sqrt(n) / part.scale < 5.5
    assert abs(values.var() / part.scale**2 - 1.0) * sqrt(n / 2.0) < 5.5
    inside = np.mean(np.abs(values) < part.scale)
    assert abs(inside - 0.6827) * sqrt(n / (0.6827 * 0.3173)) < 5.5


def test_numbers_of_a_vector_get_noise_of_their_own_part() -> None:
    """Medians of |noise| over 400 vectors are 0.6745 σ, each within 5.5 of its std 1.17 σ/√n."""
    vector = Vector((5_000, 4_000), 100, 7, 90)
    drawn = [add_noise(vector, STRENGTH, opendp_draw()) for _ in range(400)]
    people, impressions, spend = STRENGTH.parts
    for part, noise in (
        (people, [one.at_least[0] - 5_000 for one in drawn]),
        (people, [one.rest - 100 for one in drawn]),
        (impressions, [one.impressions - 7 for one in drawn]),
        (spend, [one.spend_micros - 90 for one in drawn]),
    ):
        off = np.median(np.abs(noise)) / part.scale - 0.6745
        assert abs(off) * sqrt(400) / 0.79 < 5.5
    assert len({one.at_least for one in drawn}) == 400


def test_a_part_that_costs_more_than_it_says_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Part, "scale", property(lambda self: 1.0))
    with pytest.raises(RuntimeError, match="a mechanism costs"):
        opendp_draw()(Part(9.0, 2_000_001), [0])


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(kr.KreachError, match=r"\[noise\] needs the extra 'dp': .*kreach\[dp\]"):
        opendp_draw()


def test_people_are_counted_in_thousandths() -> None:
    report = kr.measure(kr.Audience.disjoint([4, 4]), [3, 1], 1)
    vector = exact_vector(report, 2, 17)
    assert vector.at_least == tuple(int(value * MILLIS + 0.5) for value in report.at_least(2))
    assert sum(vector.at_least) + vector.rest == pytest.approx(4 * MILLIS, abs=2)
    assert (vector.impressions, vector.spend_micros) == (4, 17)
    assert ceil(vector.rest / MILLIS) == 1
