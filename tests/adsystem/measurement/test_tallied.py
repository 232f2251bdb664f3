"""Overlapping groups from tallies: the same report as from the classes, as far as tallies know.

An engine makes the tallies in SQL. Here they are made in plain Python, class by class and pair by
pair, so that what is tested is only what becomes of them.
"""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.measurement.disjoint import Cells
from kreach.adsystem.measurement.overlapping import OverlappingExposure
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.measurement.tallied import ClassTallies, TalliedExposure
from kreach.boundary.audience import OverlappingAudience
from kreach.errors import KreachError
from kreach.numeric import overlap
from kreach.numeric.types import IntArray
from tests.strategies import Campaign, audiences, campaigns, caps, overlapping

CLOSE = 1e-10
Counts = tuple[int, ...]


def classes_of(audience: OverlappingAudience) -> dict[Counts, int]:
    """Head-counts by set of groups: a class is known by its groups."""
    people: Counter[Counts] = Counter()
    for row, headcount in zip(audience.classes.tolist(), audience.headcounts.tolist(), strict=True):
        people[tuple(group for group in row if group >= 0)] += headcount
    return dict(people)


def tallies_of(campaign: Campaign) -> ClassTallies:
    """What an engine would have counted."""
    assert isinstance(campaign.audience, OverlappingAudience)
    classes, n = classes_of(campaign.audience), campaign.impressions
    size_of = campaign.audience.group_sizes.tolist()
    sizes = sorted({size_of[group] for groups in classes for group in groups})

    def by_size(groups: set[int]) -> Counts:
        return tuple(sum(n[g] for g in groups if size_of[g] == size) for size in sizes)

    people: Counter[Counts] = Counter()
    in_class: Counter[Counts] = Counter()
    for groups, heads in classes.items():
        people[by_size(set(groups))] += heads
        in_class[by_size(set(groups))] += heads * (heads - 1)
    weights: Counter[tuple[Counts, Counts, Counts]] = Counter()
    for one, other in combinations(sorted(classes), 2):
        shared = {g for g in set(one) & set(other) if n[g] > 0 and size_of[g] > 1}
        if shared:
            key = by_size(shared), by_size(set(one) - shared), by_size(set(other) - shared)
            weights[key] += 2 * classes[one] * classes[other]
    cells: Counter[tuple[int, int, int]] = Counter()
    for group, size in enumerate(size_of):
        targeted = sum(heads for groups, heads in classes.items() if group in groups)
        if targeted:
            cells[size, targeted, n[group]] += 1
    kinds = np.array(list(cells), dtype=float).reshape(-1, 3)
    return ClassTallies(
        sizes=np.array(sizes, dtype=float),
        trials=table(list(people), len(sizes)),
        people=np.array(list(people.values()), dtype=float),
        pairs=np.array([in_class[key] for key in people], dtype=float),
        shared=table([key[0] for key in weights], len(sizes)),
        first=table([key[1] for key in weights], len(sizes)),
        second=table([key[2] for key in weights], len(sizes)),
        weights=np.array(list(weights.values()), dtype=float),
        groups=Cells(
            kinds[:, 0],
            kinds[:, 1],
            np.full(len(kinds), np.inf),
            kinds[:, 2],
            np.array(list(cells.values()), dtype=float),
        ),
        max_groups=max(len(groups) for groups in classes),
    )


def table(rows: list[Counts], width: int) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def both(campaign: Campaign) -> tuple[TalliedExposure, OverlappingExposure]:
    assert isinstance(campaign.audience, OverlappingAudience)
    n = np.array(campaign.impressions, dtype=np.int64)
    return TalliedExposure(tallies_of(campaign)), OverlappingExposure(campaign.audience, n)


def check(campaign: Campaign) -> None:
    """Everything that tallies and classes both say, for every cap that makes a difference."""
    tallied, classes = both(campaign)
    assert tallied.people.sum() == classes.people.sum()
    assert tallied.max_trials == classes.max_trials
    assert tallied.targeted_impressions == pytest.approx(
        classes.targeted_impressions, rel=CLOSE, abs=CLOSE
    )
    for cap in range(1, tallied.max_trials + 3):
        assert tallied.reach(cap) == pytest.approx(classes.reach(cap), rel=CLOSE, abs=CLOSE)
        assert tallied.over_exposed(cap) == pytest.approx(
            classes.over_exposed(cap), rel=CLOSE, abs=CLOSE
        )
        assert tallied.variance(cap) == pytest.approx(classes.variance(cap), rel=CLOSE, abs=CLOSE)
        number, wanted = tallied.at_least_variance(cap), classes.at_least_variance(cap)
        assert number == pytest.approx(wanted, rel=CLOSE, abs=CLOSE)
        actual, exact = tallied.frequency(cap), classes.frequency(cap)
        assert actual.tolist() == pytest.approx(exact.tolist(), rel=CLOSE, abs=CLOSE)


@settings(max_examples=60)
@given(campaigns(overlapping(), most=6))
def test_tallies_say_what_classes_say(campaign: Campaign) -> None:
    """Sizes equal and mixed, groups of one, untargeted members, classes listed twice."""
    check(campaign)


@pytest.mark.parametrize(
    ("sizes", "classes", "impressions"),
    [
        ([1], [((0,), 1)], (4,)),
        ([1, 1], [((0, 1), 1)], (2, 3)),
        ([1, 3], [((0, 1), 1), ((1,), 2)], (2, 3)),
        ([1, 3, 3], [((0, 1), 1), ((1, 2), 1), ((2,), 2)], (2, 3, 1)),
        ([1, 4, 6], [((0, 1, 2), 1), ((1, 2), 2), ((2,), 2)], (5, 3, 4)),
        ([1, 1, 5], [((0, 2), 1), ((1, 2), 1), ((2,), 2)], (1, 0, 6)),
    ],
)
def test_groups_of_one_beside_others(
    sizes: list[int], classes: list[tuple[tuple[int, ...], int]], impressions: Counts
) -> None:
    """A group of one leaves nothing to chance, and p = 1 divides by zero where it is forgotten."""
    check(Campaign(kr.Audience.overlapping(sizes, classes), impressions))


@pytest.mark.parametrize(
    ("sizes", "classes", "impressions"),
    [
        ([4], [((0,), 4)], (6,)),  # one class, no pair of classes
        ([4, 4], [((0,), 4), ((1,), 4)], (3, 5)),  # nobody is shared
        ([4, 4], [((0, 1), 4)], (3, 5)),  # everybody is
        ([9, 9], [((0, 1), 1)], (7, 7)),  # nearly nobody is targeted
        ([3, 3], [((0,), 1), ((0, 1), 2), ((1,), 1)], (0, 0)),  # nothing was shown
        ([3, 3], [((0,), 1), ((0, 1), 2)], (0, 5)),
        ([2, 3, 7], [((0, 1, 2), 2), ((1, 2), 1), ((2,), 3)], (3, 1, 4)),
    ],
)
def test_plain_cases(
    sizes: list[int], classes: list[tuple[tuple[int, ...], int]], impressions: Counts
) -> None:
    check(Campaign(kr.Audience.overlapping(sizes, classes), impressions))


def test_a_larger_audience() -> None:
    """Head-counts and pairs in the thousands, where a weight forgotten would show."""
    generator = np.random.default_rng(5)
    classes: list[tuple[Counts, int]] = [((j,), int(generator.integers(1, 9))) for j in range(12)]
    classes += [
        ((j, (j + d) % 12), int(generator.integers(1, 9))) for j in range(12) for d in (1, 5)
    ]
    classes += [((j, j + 4, j + 8), 3) for j in range(4)]
    members = np.zeros(12, dtype=np.int64)
    for groups, heads in classes:
        members[list(groups)] += heads
    sizes = np.where(np.arange(12) % 2 == 0, members.max() + 2, members.max() + 9)
    n = tuple(generator.integers(0, 60, 12).tolist())
    tallied, by_class = both(Campaign(kr.Audience.overlapping(sizes, classes), n))
    for cap in (1, 2, 3, 8, 25, tallied.max_trials, 10**6):
        assert tallied.reach(cap) == pytest.approx(by_class.reach(cap), rel=CLOSE)
        assert tallied.variance(cap) == pytest.approx(by_class.variance(cap), rel=1e-9)
    for count in (1, 2, 3, 8, 25):
        number, wanted = tallied.at_least_variance(count), by_class.at_least_variance(count)
        assert number == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@settings(max_examples=30)
@given(campaigns(overlapping(equal_sizes=False), most=5), caps)
def test_blocks_do_not_matter(campaign: Campaign, cap: int) -> None:
    tallied, _ = both(campaign)
    whole = tallied.variance(cap), tallied.at_least_variance(cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_TABLE_CELLS", 1)
        blocks = tallied.variance(cap), tallied.at_least_variance(cap)
    assert blocks == pytest.approx(whole, rel=1e-11, abs=1e-12)


@settings(max_examples=60)
@given(campaigns(overlapping(), most=6), caps)
def test_certified_bounds_contain_the_sharp_ones(campaign: Campaign, cap: int) -> None:
    tallied, classes = both(campaign)
    certified, sharp = tallied.certified_bounds(cap), classes.certified_bounds(cap)
    assert certified.attained == (False, False)
    assert 0 <= certified.bounds.least <= sharp.bounds.least
    assert sharp.bounds.most <= certified.bounds.most
    assert certified.bounds.most <= min(sum(campaign.impressions), cap * int(tallied.people.sum()))


def test_bounds_at_a_cap_beyond_everything() -> None:
    tallied, classes = both(Campaign(kr.Audience.overlapping([3, 3], [((0, 1), 3)]), (4, 5)))
    assert classes.certified_bounds(2**53).bounds == (9, 9)
    assert tallied.certified_bounds(2**53).bounds.most == 9
    assert tallied.certified_bounds(2**53).bounds.least <= 9


def test_a_report_from_tallies_is_normal() -> None:
    """Who shares a group with whom is unknown, so there is nothing to simulate on."""
    classes = [((j, (j + 1) % 8), 5) for j in range(8)]
    campaign = Campaign(kr.Audience.overlapping([12] * 8, classes), (9, 7, 8, 4, 0, 12, 3, 5))
    tallied, exposure = both(campaign)
    assert tallied.served_kinds() is None
    assert "Theorem 1" in tallied.basis
    assert "tallied" in tallied.basis
    for cap in (1, 3):
        report = ReachReport(cap, sum(campaign.impressions), 40, tallied)
        law = report.distribution()
        assert law.method == "normal"
        assert law.mean == pytest.approx(report.reach, abs=0.05 * report.std)
        spread = float(law.pmf @ (law.support - law.mean) ** 2)
        assert spread == pytest.approx(report.variance + 1 / 12, rel=0.02)  # rounded to people
        sampled = ReachReport(cap, sum(campaign.impressions), 40, exposure)
        for level in (0.5, 0.8, 0.95):
            assert report.interval(level) == pytest.approx(sampled.interval(level), abs=1.01)


levels = st.floats(0.01, 0.999)


@given(campaigns(audiences(), most=8), st.integers(1, 10), levels)
def test_interval_of_at_least_stays_possible(campaign: Campaign, count: int, level: float) -> None:
    """Around the mean, and never beyond the people or the impressions that there are."""
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    low, high = report.at_least_interval(count, level)
    mean = float(report.at_least(count)[-1])
    assert 0.0 <= low <= high
    assert low <= mean + 1e-9
    assert mean <= high + 1e-9
    assert high <= min(report.targeted_user_count, report.impressions // count)
    if count > report.exposure.max_trials:
        assert (low, high) == (0.0, 0.0)


@given(campaigns(audiences(), most=8), st.integers(1, 4), levels, levels)
def test_a_higher_level_contains_a_lower_one(
    campaign: Campaign, count: int, one: float, other: float
) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, 1)
    narrow = report.at_least_interval(count, min(one, other))
    wide = report.at_least_interval(count, max(one, other))
    assert wide[0] <= narrow[0]
    assert narrow[1] <= wide[1]


def test_interval_of_at_least_by_hand() -> None:
    """Two people, three impressions: two or three on one of them; 2+ is always one person."""
    report = kr.measure(kr.Audience.disjoint([2]), [3], 1)
    low, high = report.at_least_interval(2)
    assert low == pytest.approx(1.0, abs=1e-7)
    assert high == pytest.approx(1.0, abs=1e-7)
    # 3+: with chance 1/4 one person, else nobody; the upper end is one person
    low, high = report.at_least_interval(3, 0.95)
    assert (low, high) == (0.0, 1.0)
    low, high = report.at_least_interval(3, 0.5)
    assert high == pytest.approx(0.25 + 0.6744897501960817 * np.sqrt(3 / 16))
    assert report.at_least_interval(4) == (0.0, 0.0)


def test_rounding_does_not_turn_an_interval_round() -> None:
    """One impression reaches one person, and the sum that says so may be 1 + 2·10⁻¹⁶."""
    report = kr.measure(kr.Audience.disjoint([6, 1], dispersion=0.1), [1, 0], 1)
    low, high = report.at_least_interval(1, 0.5)
    assert low <= high <= 1.0
    assert low == pytest.approx(1.0)


def test_at_least_one_is_the_normal_interval_of_unique_reach() -> None:
    report = kr.measure(kr.Audience.disjoint([20] * 50), [25] * 50, 1)
    for level in (0.5, 0.95):
        expected = report.interval(level, "normal")
        assert report.at_least_interval(1, level) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_a_count_that_is_none(count: int) -> None:
    with pytest.raises(KreachError, match="count"):
        kr.measure(kr.Audience.disjoint([2]), [3], 1).at_least_interval(count)


def test_a_count_beyond_any_frequency() -> None:
    """Nobody saw it so often; if it is refused, the complaint names the caller's argument."""
    report = kr.measure(kr.Audience.disjoint([2]), [3], 1)
    try:
        actual = report.at_least_interval(10**7)
    except KreachError as error:
        actual = (0.0, 0.0) if str(error).startswith("count") else (1.0, 1.0)
    assert actual == (0.0, 0.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95])
def test_a_level_that_is_none(level: float) -> None:
    with pytest.raises(KreachError, match="level"):
        kr.measure(kr.Audience.disjoint([2]), [3], 1).at_least_interval(1, level)
