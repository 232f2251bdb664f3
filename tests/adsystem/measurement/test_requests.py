"""Reach from impressions and requests: whoever visits how often, and whatever history said."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom, poisson

import kreach as kr
from kreach.adsystem.measurement.requests import adapted, measure_with_requests
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_law import VisitLaw
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray


def groups_of(sizes: npt.ArrayLike, targeted: npt.ArrayLike | None = None) -> DisjointAudience:
    audience = kr.Audience.disjoint(sizes, targeted)
    assert isinstance(audience, DisjointAudience)
    return audience


def people_of(law: VisitLaw, count: int, generator: np.random.Generator) -> IntArray:
    """Requests of each of so many people."""
    return generator.choice(len(law.pmf), count, p=law.pmf).astype(np.int64)


def some_won(
    visits: IntArray, size: int, share: float, generator: np.random.Generator
) -> tuple[IntArray, IntArray, int]:
    """Requests and impressions of groups of `size`, and how many people truly were reached."""
    won = generator.binomial(visits, share)
    return (
        visits.reshape(-1, size).sum(axis=1),
        won.reshape(-1, size).sum(axis=1),
        int((won > 0).sum()),
    )


def test_a_law_from_people() -> None:
    law = VisitLaw.of_people([5, 3, 0, 2])
    assert law.pmf.tolist() == [0.5, 0.3, 0.0, 0.2]
    assert law.mean == pytest.approx(0.9)
    with pytest.raises(ValueError, match="read-only"):
        law.pmf[0] = 1.0


@pytest.mark.parametrize(
    "people", [[], [0, 0], [3, -1], [1.5], [float("nan")], [[1, 2]], ["a"], [True, 2], 7]
)
def test_people_that_are_no_histogram(people: npt.ArrayLike) -> None:
    with pytest.raises(KreachError, match="people_by_visits"):
        VisitLaw.of_people(people)


@given(
    people=st.lists(st.integers(0, 50), min_size=2, max_size=20).filter(lambda p: sum(p[1:]) > 0),
    activity=st.floats(0.1, 3.0),
    intensity=st.floats(0.1, 8.0),
)
def test_stretching_multiplies_the_mean(
    people: list[int], activity: float, intensity: float
) -> None:
    """Up to where everybody comes; then visits only grow with intensity."""
    law = VisitLaw.of_people(people)
    stretched = law.stretched(activity, intensity)
    assert stretched.pmf.sum() == pytest.approx(1.0)
    assert (stretched.pmf >= 0.0).all()
    wanted = activity * intensity * law.mean
    assert stretched.mean <= wanted * (1.0 + 1e-9)
    if stretched.pmf[0] > 1e-9:
        assert stretched.mean == pytest.approx(wanted, rel=1e-9)


def test_stretching_by_whole_numbers() -> None:
    law = VisitLaw.of_people([6, 3, 1])
    assert law.stretched(1.0, 1.0).pmf[:3].tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert law.stretched(2.0, 1.0).pmf[:3].tolist() == pytest.approx([0.2, 0.6, 0.2])
    assert law.stretched(1.0, 3.0).pmf[:7].tolist() == pytest.approx([0.6, 0, 0, 0.3, 0, 0, 0.1])
    assert law.stretched(9.0, 1.0).pmf[:3].tolist() == pytest.approx([0.0, 0.75, 0.25])


def test_groups_are_added_and_kinds_shared() -> None:
    """Equal groups are computed once; the result is that of one after the other."""
    law = VisitLaw.of_people([50, 20, 9, 5, 3, 2, 1, 1, 0, 0, 1])
    sizes, targeted = [5, 5, 8, 5, 8, 3], [5, 5, 6, 5, 6, 0]
    requests, won = [9, 9, 12, 9, 3, 4], [4, 4, 5, 4, 0, 2]
    for cap in (1, 3):
        together = measure_with_requests(groups_of(sizes, targeted), law, requests, won, cap)
        alone = [
            measure_with_requests(groups_of([k], [u]), law, [v], [n], cap)
            for k, u, v, n in zip(sizes, targeted, requests, won, strict=True)
        ]
        assert together.reach == pytest.approx(sum(one.reach for one in alone), rel=1e-6)
        if cap == 1:
            assert together.std is not None
            variance = sum((one.std or 0.0) ** 2 for one in alone)
            assert together.std == pytest.approx(np.sqrt(variance), rel=1e-4)
        else:
            assert together.std is None


def test_nothing_won_reaches_nobody() -> None:
    law = VisitLaw.of_people([1, 1])
    actual = measure_with_requests(groups_of([3, 4]), law, [2, 0], [0, 0])
    assert (actual.cap, actual.reach, actual.std) == (1, 0.0, 0.0)
    assert measure_with_requests(groups_of([3]), law, [2], [2], cap=2).std is None
    unaimed = measure_with_requests(groups_of([3], [0]), law, [2], [2])
    assert (unaimed.reach, unaimed.std) == (0.0, 0.0)


def test_known_laws_agree_with_the_other_formulas() -> None:
    """Poisson visits are the uniform formula and negative binomial ones the dispersed one."""
    sizes, requests = [20, 20, 50], [30, 55, 80]
    won = [9, 21, 33]
    counts = np.arange(400)
    even = VisitLaw(poisson.pmf(counts, 2.0))
    uneven = VisitLaw(nbinom.pmf(counts, 0.4, 0.4 / 2.4))
    for law, audience in (
        (even, kr.Audience.disjoint(sizes)),
        (uneven, kr.Audience.disjoint(sizes, dispersion=0.4)),
    ):
        for cap in (1, 2, 4):
            actual = measure_with_requests(groups_of(sizes), law, requests, won, cap)
            assert actual.reach == pytest.approx(kr.measure(audience, won, cap).reach, rel=1e-5)


def test_more_requests_than_anybody_ever_made_are_measured_too() -> None:
    """What history never saw is unlikely, not impossible: finite, and no more than was won."""
    law = VisitLaw.of_people([9, 1])
    for k, requests, won in [(1, 50, 7), (5, 400, 3), (5, 400, 400), (20, 3_000, 11)]:
        actual = measure_with_requests(groups_of([k]), law, [requests], [won])
        assert 0.0 < actual.reach <= min(won, k) * (1.0 + 1e-6)
        assert actual.std is not None
        assert 0.0 <= actual.std <= k


@pytest.mark.parametrize("share", [0.03, 0.2, 0.6, 1.0])
def test_unequal_people_are_measured_without_bias(share: float) -> None:
    """Log-normal visits in groups by chance. z over 60 flights of 60 groups: mean within 4/√60 and
    spread near 1 (χ² of 60: within 4 standard errors, 1 ± 0.37)."""
    generator = np.random.default_rng(17)
    sizes = 20
    z = []
    for _ in range(60):
        visits = generator.poisson(generator.lognormal(0.0, 1.5, sizes * 60))
        law = VisitLaw.of_people(
            np.bincount(generator.poisson(generator.lognormal(0.0, 1.5, 40_000)))
        )
        requests, won, reached = some_won(visits, sizes, share, generator)
        actual = measure_with_requests(groups_of([sizes] * 60), law, requests, won)
        assert actual.std is not None
        z.append((actual.reach - reached) / actual.std)
    assert abs(np.mean(z)) < 4.0 / np.sqrt(60.0)
    assert 0.63 < np.std(z) < 1.37


def test_the_uniform_formula_would_be_far_off_there() -> None:
    """The reason for all this: the same flight under the paper's formula is 20 % too high."""
    generator = np.random.default_rng(18)
    visits = generator.poisson(generator.lognormal(0.0, 1.5, 20 * 200))
    law = VisitLaw.of_people(np.bincount(visits))
    requests, won, reached = some_won(visits, 20, 0.5, generator)
    sizes = [20] * 200
    uniform = kr.measure(kr.Audience.disjoint(sizes), won, 1).reach
    counted = measure_with_requests(groups_of(sizes), law, requests, won).reach
    assert uniform > 1.2 * reached
    assert counted == pytest.approx(reached, rel=0.03)


@pytest.mark.parametrize(
    ("requests", "won", "cap", "name"),
    [
        ([3, 4], [3, 5], 1, r"impressions_by_group\[1\]"),
        ([3], [1, 1], 1, "requests_by_group"),
        ([3, 4], [1], 1, "impressions_by_group"),
        ([3, -4], [1, 1], 1, "requests_by_group"),
        ([3, 4], [1, -1], 1, "impressions_by_group"),
        ([3, 4], [1, 0.5], 1, "impressions_by_group"),
        ([3, 4], [1, 1], 0, "cap"),
        ([3, 4], [1, 1], 1.5, "cap"),
    ],
)
def test_bad_input(requests: npt.ArrayLike, won: npt.ArrayLike, cap: int, name: str) -> None:
    law = VisitLaw.of_people([1, 1])
    with pytest.raises(KreachError, match=f"^{name}"):
        measure_with_requests(groups_of([3, 3]), law, requests, won, cap)


def test_overlapping_groups_are_refused() -> None:
    law = VisitLaw.of_people([1, 1])
    for audience in (
        kr.Audience.overlapping([3, 3], [((0,), 2), ((0, 1), 1)]),
        kr.Audience.profiled([[0.5, 0.5], [0.5, 0.5]]),
    ):
        with pytest.raises(KreachError, match=r"^audience"):
            measure_with_requests(audience, law, [3, 3], [1, 1])  # type: ignore[arg-type]


HISTORY = VisitLaw.of_people([400, 250, 120, 80, 50, 30, 20, 15, 10, 8, 5, 4, 3, 2, 1, 1, 1])


def distance(a: FloatArray, b: FloatArray) -> float:
    """The largest gap between two distribution functions."""
    width = max(len(a), len(b))
    gap = np.pad(a, (0, width - len(a))) - np.pad(b, (0, width - len(b)))
    return float(np.abs(np.cumsum(gap)).max())


@pytest.mark.parametrize(
    ("activity", "intensity"), [(1.0, 1.0), (0.6, 1.0), (1.0, 2.0), (0.5, 3.0), (1.4, 1.0)]
)
def test_a_law_of_history_becomes_that_of_the_window(activity: float, intensity: float) -> None:
    """From 1,500 groups: the share of people who come within 6 %, requests per person exactly."""
    generator = np.random.default_rng(19)
    truth = HISTORY.stretched(activity, intensity)
    sizes = np.full(1_500, 10)
    requests = people_of(truth, 15_000, generator).reshape(-1, 10).sum(axis=1)
    actual = adapted(HISTORY, sizes, requests)
    assert actual.mean == pytest.approx(requests.sum() / 15_000, rel=1e-9)
    assert 1.0 - actual.pmf[0] == pytest.approx(1.0 - truth.pmf[0], rel=0.06)
    assert distance(actual.pmf, truth.pmf) < 0.04


def test_no_change_leaves_the_law_nearly_as_it_was() -> None:
    generator = np.random.default_rng(20)
    requests = people_of(HISTORY, 40_000, generator).reshape(-1, 20).sum(axis=1)
    actual = adapted(HISTORY, np.full(2_000, 20), requests)
    assert distance(actual.pmf, HISTORY.pmf) < 0.02


def test_adapting_measures_a_quieter_window_better() -> None:
    """Half of the people stay away: history as it is says too many of them came."""
    generator = np.random.default_rng(21)
    visits = people_of(HISTORY.stretched(0.5, 2.0), 20 * 300, generator)
    requests, won, reached = some_won(visits, 20, 0.7, generator)
    audience = groups_of([20] * 300)
    law = adapted(HISTORY, audience.group_sizes, requests)
    actual = measure_with_requests(audience, law, requests, won).reach
    untouched = measure_with_requests(audience, HISTORY, requests, won).reach
    assert actual == pytest.approx(reached, rel=0.04)
    assert abs(actual - reached) < 0.3 * abs(untouched - reached)


def test_a_window_without_requests_tells_nothing() -> None:
    actual = adapted(HISTORY, np.array([5, 5]), np.array([0, 0]))
    assert actual.pmf.tolist() == HISTORY.pmf.tolist()


def test_a_history_without_visits_can_be_adapted() -> None:
    """Nothing to stretch: some law comes back, without warnings, and it can be measured with."""
    empty = VisitLaw.of_people([10])
    actual = adapted(empty, np.array([5, 5]), np.array([3, 1]))
    assert actual.pmf.sum() == pytest.approx(1.0)
    reach = measure_with_requests(groups_of([5, 5]), actual, [3, 1], [2, 1]).reach
    assert 0.0 < reach <= 3.0 * (1.0 + 1e-6)
