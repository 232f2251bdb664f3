"""What is shown of noisy numbers: they agree with each other, their intervals hold the truth."""

from itertools import combinations, pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import kreach as kr
from kreach.adsystem.disclosure.noise.answers import (
    AudienceFacts,
    NoisyAnswer,
    draw_answer,
    exact_counts,
)
from kreach.adsystem.disclosure.noise.consistency import consistent, running_max
from kreach.adsystem.disclosure.noise.intervals import Intervals
from kreach.adsystem.disclosure.noise.mechanism import Strength, Vector
from kreach.adsystem.disclosure.noise.reports import noise_info, noisy_cap_reports
from kreach.boundary.audience import Audience
from kreach.boundary.discrete_noise import MILLIS, Draw, Part
from kreach.numeric.falling import nearest_falling
from kreach.numeric.types import FloatArray, IntArray
from tests.adsystem.report_services import plain

STRENGTH = Strength(2_000_000, 10, 6, 20_000)

numbers = st.integers(-3_000_000, 3_000_000)
vectors = st.builds(
    Vector,
    st.lists(numbers, min_size=6, max_size=6).map(tuple),
    numbers,
    st.integers(-3_000, 20_000),
    st.integers(-(10**7), 10**9),
)
targets = st.builds(AudienceFacts, st.integers(0, 3_000), st.booleans(), st.booleans())


def seeded(seed: int) -> Draw:
    """Noise of the right scale that a test can repeat: for what follows a draw, not for draws."""
    generator = np.random.default_rng(seed)

    def draw(part: Part, values: object) -> list[int]:
        noise = np.rint(generator.normal(0.0, part.scale, len(values)))  # type: ignore[arg-type]
        return [int(value) for value in np.array(values) + noise]

    return draw


def check_rules(shown: Vector, people: int, price_micros: int = 20_000) -> None:
    """The rules that exact numbers obey."""
    edges = [people * MILLIS, *shown.at_least, 0]
    assert all(more >= less for more, less in pairwise(edges))
    assert shown.rest >= 0
    assert shown.impressions * MILLIS >= sum(shown.at_least) + shown.rest
    assert 0 <= shown.spend_micros <= shown.impressions * price_micros


def error(one: Vector, other: Vector) -> float:
    """Squared difference in units of σ, money aside."""
    by_people, by_impressions, _ = STRENGTH.parts
    a = np.array([*one.at_least, one.rest]) - np.array([*other.at_least, other.rest])
    n = one.impressions - other.impressions
    return float((a**2).sum()) / by_people.scale**2 + (n / by_impressions.scale) ** 2


@given(noisy=vectors, target=targets)
def test_what_is_shown_breaks_no_rule(noisy: Vector, target: AudienceFacts) -> None:
    shown = consistent(noisy, STRENGTH, target.people, target.everyone)
    check_rules(shown, target.people)


@given(
    noisy=vectors,
    people=st.integers(1, 3_000),
    falls=st.lists(st.integers(0, 500_000), min_size=6, max_size=6),
    rest=st.integers(0, 800_000),
    others=st.integers(0, 900),
    everyone=st.booleans(),
)
def test_it_is_the_nearest_that_breaks_none(
    noisy: Vector, people: int, falls: list[int], rest: int, others: int, everyone: bool
) -> None:
    """Nearer to the noisy vector than any that could be true, and nearer to the truth than it."""
    at_least = np.minimum(np.cumsum(falls[::-1])[::-1], people * MILLIS)
    total = int(at_least.sum()) + rest
    rest += -total % MILLIS  # whole impressions
    impressions = (int(at_least.sum()) + rest) // MILLIS + (0 if everyone else others)
    truth = Vector(tuple(at_least.tolist()), rest, impressions, 0)
    shown = consistent(noisy, STRENGTH, people, everyone)
    rounding = 0.05  # N is rounded up to whole impressions
    assert error(noisy, shown) <= error(noisy, truth) + rounding
    assert error(shown, truth) <= error(noisy, truth) + rounding


def test_a_vector_without_fault_is_shown_as_it_is() -> None:
    noisy = Vector((900_500, 400_250, 1_000, 1_000, 3, 0), 0, 2_000, 5_000_000)
    assert consistent(noisy, STRENGTH, 1_000, False) == noisy


def test_where_everybody_is_targeted_impressions_and_people_mend_each_other() -> None:
    """3,000 impressions counted, 2,000 person by person: both give way, the noisier one more."""
    noisy = Vector((1_500_000, 400_000, 100_000, 0, 0, 0), 0, 3_000, 0)
    shown = consistent(noisy, STRENGTH, 10_000, True)
    by_person = (sum(shown.at_least) + shown.rest) / MILLIS
    assert 2_000 < by_person <= shown.impressions < 3_000
    assert shown.impressions == ceil(by_person)
    assert consistent(noisy, STRENGTH, 10_000, False) == noisy


@given(several=st.lists(vectors, min_size=1, max_size=12), target=targets)
def test_numbers_so_far_never_fall_and_break_no_rule(
    several: list[Vector], target: AudienceFacts
) -> None:
    shown = None
    for noisy in several:
        now = consistent(noisy, STRENGTH, target.people, target.everyone)
        after = now if shown is None else running_max(shown, now)
        check_rules(after, target.people)
        if shown is not None:
            assert all(a >= b for a, b in zip(after.at_least, shown.at_least, strict=True))
            assert after.impressions >= shown.impressions
            assert after.spend_micros >= shown.spend_micros
        shown = after


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_falling_sequences_are_those_of_scipy(values: list[float]) -> None:
    given_values = np.array(values)
    ours = nearest_falling(given_values)
    theirs = isotonic_regression(given_values, increasing=False).x
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-6)


# -- intervals ----------------------------------------------------------------------------------


def random_audience(generator: np.random.Generator, kind: str) -> Audience:
    groups = int(generator.integers(1, 5))
    if kind == "profiled":
        sizes = generator.integers(1, 6, groups)
        return kr.Audience.profiled(
            [np.sort(generator.dirichlet(np.full(size, 0.5))).tolist() for size in sizes]
        )
    if kind == "overlapping":
        classes = [
            (c, int(generator.integers(1, 4))) for c in [(0,), (1,), *combinations(range(3), 2)]
        ]
        sizes = np.array([sum(n for c, n in classes if g in c) for g in range(3)])
        return kr.Audience.overlapping((sizes + generator.integers(0, 3, 3)).tolist(), classes)
    sizes = generator.integers(2, 9, groups)
    targeted = sizes if kind == "uniform" else generator.integers(1, sizes + 1)
    spread = float(generator.choice([0.05, 0.3, 2.0])) if kind == "dispersed" else None
    return kr.Audience.disjoint(sizes.tolist(), targeted.tolist(), spread)


@pytest.mark.parametrize("kind", ["uniform", "targeted", "dispersed", "profiled", "overlapping"])
def test_the_variance_of_the_model_is_never_more_than_its_bound(kind: str) -> None:
    """On exact numbers, where the bounds are theorems; the exact variance is the library's."""
    generator = np.random.default_rng(5)
    for _ in range(60):
        audience = random_audience(generator, kind)
        counts = generator.integers(0, int(generator.choice([2, 5, 25])), audience.group_count)
        exact = exact_counts(audience, counts, 0, STRENGTH)
        limits = Intervals(NoisyAnswer(exact, exact, STRENGTH, AudienceFacts.of(audience)))
        for cap in range(1, STRENGTH.max_frequency):
            report = kr.measure(audience, counts, cap)
            variance = report.exposure.at_least_variance(cap)
            rounding = 0.02  # to thousandths, times up to 2j - 1 and reach
            assert report.variance <= limits.reach_variance(cap) + rounding
            assert variance <= limits.at_least_variance(cap) + rounding


@pytest.mark.parametrize("kind", ["uniform", "targeted", "overlapping", "profiled", "dispersed"])
def test_facts_of_an_audience(kind: str) -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        audience = random_audience(generator, kind)
        target = AudienceFacts.of(audience)
        ones = np.ones(audience.group_count, dtype=np.int64)
        on_targeted = kr.measure(audience, ones, 1).exposure.targeted_impressions
        assert target.everyone == (on_targeted == pytest.approx(audience.group_count))
        assert target.independent == (kind != "dispersed")
        assert target.people == audience.targeted_user_count


def realised(audience: Audience, counts: IntArray, trials: int, seed: int) -> IntArray:
    """Exposure counts of people in trials, by dealing impressions out: (trials, people)."""
    generator = np.random.default_rng(seed)
    sizes = audience.group_sizes
    parts = []
    for size, n in zip(sizes.tolist(), counts.tolist(), strict=True):
        dispersion = getattr(audience, "dispersion", None)
        shares: FloatArray = np.full((trials, size), 1.0 / size)
        if dispersion is not None:
            shares = generator.dirichlet(np.full(size, float(dispersion[0])), trials)
        parts.append(generator.multinomial(n, shares))
    return np.concatenate(parts, axis=1)


SMALL = kr.Audience.disjoint([20] * 60)
LARGE = kr.Audience.disjoint([50] * 200)
SPREAD = kr.Audience.disjoint([50] * 100, dispersion=0.6)
FINE = Strength(200_000_000, 10, 6, 20_000)  # noise of the size of the model's own deviations
SCENES = [
    (SMALL, 0.0, STRENGTH),
    (SMALL, 0.5, STRENGTH),
    (LARGE, 30.0, STRENGTH),
    (LARGE, 30.0, FINE),
    (LARGE, 100.0, FINE),
    (SPREAD, 60.0, FINE),
]


@pytest.mark.parametrize("scene", range(len(SCENES)))
def test_intervals_hold_what_was_really_reached(scene: int) -> None:
    """300 campaigns, level 0.95: at least 0.93 of the intervals hold (std of a share: 0.013)."""
    audience, per_group, strength = SCENES[scene]
    generator = np.random.default_rng(scene)
    counts = generator.poisson(per_group, audience.group_count).astype(np.int64)
    exact, target = exact_counts(audience, counts, 0, strength), AudienceFacts.of(audience)
    trials = 300
    seen = realised(audience, counts, trials, scene)
    draw = seeded(scene)
    covered = {"reach 1": 0, "reach 3": 0, "2+": 0, "average": 0}
    for people in seen:
        limits = Intervals(draw_answer(exact, strength, target, draw))
        low, high = limits.reach(1, 0.95)
        covered["reach 1"] += low <= int((people > 0).sum()) <= high
        low, high = limits.reach(3, 0.95)
        covered["reach 3"] += low <= int(np.minimum(people, 3).sum()) <= high
        low, high = limits.at_least(2, 0.95)
        covered["2+"] += low <= int((people > 1).sum()) <= high
        low, high = limits.average(0.95)
        average = people.sum() / max((people > 0).sum(), 1)
        covered["average"] += low <= average <= high
    assert all(count >= 0.93 * trials for count in covered.values()), covered


def test_intervals_of_numbers_so_far_hold_although_they_are_maxima() -> None:
    """Thirty points of a campaign that stands still: shown values drift up, intervals do not."""
    audience, strength = LARGE, STRENGTH
    generator = np.random.default_rng(8)
    counts = generator.poisson(30.0, audience.group_count).astype(np.int64)
    exact, target = exact_counts(audience, counts, 0, strength), AudienceFacts.of(audience)
    seen = realised(audience, counts, 60, 8)
    draw, covered, drift = seeded(8), np.zeros(30), np.zeros(30)
    for people in seen:
        before = None
        for at in range(30):
            before = draw_answer(exact, strength, target, draw, before)
            shown = before.shown.at_least[0] / MILLIS
            low, high = Intervals(before).reach(1, 0.95)
            assert low <= shown <= high
            covered[at] += low <= int((people > 0).sum()) <= high
            drift[at] += shown - exact.at_least[0] / MILLIS
    assert covered.sum() >= 0.93 * 30 * 60
    assert covered.min() >= 0.80 * 60  # none of them much less; one share of 60 has a std of 0.03
    assert drift[-1] / 60 > STRENGTH.parts[0].scale / MILLIS  # what the docs warn of


def test_without_overlap_in_time_std_is_noise_and_model_together() -> None:
    exact = Vector((500_000, 100_000, 0, 0, 0, 0), 0, 600, 0)
    limits = Intervals(NoisyAnswer(exact, exact, STRENGTH, AudienceFacts(1_000, True, True)))
    noise = STRENGTH.parts[0].scale / MILLIS
    q = 500 - 100
    assert limits.reach_variance(1) == pytest.approx(min(500 - 500**2 / 1_000, q * (1 - q / 600)))
    assert limits.reach_std(2) ** 2 == pytest.approx(2 * noise**2 + limits.reach_variance(2))


# -- documents ----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(noisy=vectors, target=targets, level=st.floats(0.01, 0.9999))
def test_documents_agree_with_themselves(
    noisy: Vector, target: AudienceFacts, level: float
) -> None:
    shown = consistent(noisy, STRENGTH, target.people, target.everyone)
    documents = plain(
        noisy_cap_reports(NoisyAnswer(noisy, shown, STRENGTH, target), (1, 3, 5), level)
    )
    for row in documents:
        cap = row["cap"]
        assert row["unique_reach"] <= row["reach"] + 1e-9
        assert row["reach"] <= row["impressions"] + 1e-9
        assert row["reach"] <= cap * target.people + 1e-9
        assert row["interval"][0] <= row["reach"] <= row["interval"][1]
        assert sum(row["frequency"]) == pytest.approx(target.people)
        assert min(row["frequency"]) >= 0.0
        assert row["at_least"] == sorted(row["at_least"], reverse=True)
        assert row["over_exposed"] == row["at_least"][cap]
        assert row["bounds"] is None
        low, high = row["average_frequency_interval"]
        assert low <= row["average_frequency"] <= high
        for value, (low, high) in zip(row["at_least"], row["at_least_intervals"], strict=True):
            assert 0.0 <= low <= value <= high <= target.people
    assert documents[0]["reach"] == documents[0]["unique_reach"]


def test_answers_are_kept_and_read_again_as_they_were() -> None:
    exact = exact_counts(SMALL, np.full(60, 7), 1_234, STRENGTH)
    answer = draw_answer(exact, STRENGTH, AudienceFacts.of(SMALL), seeded(1), stride_seconds=86_400)
    assert NoisyAnswer.from_document(answer.document()) == answer
    info = plain(noise_info(answer))
    assert info["rho"] == 0.002
    assert info["std_people"] == pytest.approx(10.001 / (2 * 0.0014) ** 0.5, rel=1e-4)
