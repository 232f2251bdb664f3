"""Diversity inside groups: measured by hand and by brute force, and held by every strategy."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.audit import coverage
from kreach.publisher.grouping import (
    AtRandom,
    ByRates,
    BySegments,
    Diverse,
    DiversityFloors,
    DiversityRefused,
    Overlapping,
    form_groups,
)
from kreach.publisher.grouping.diversity import SensitiveValues
from kreach.publisher.grouping.spreading import MAX_GROWTH, _round_robin
from kreach.publisher.people import Attribute, People
from tests.publisher.populations import STRATEGIES, column, crowd, populations

# Measures


def test_measures_by_hand() -> None:
    """Shares of all: a ½, b ½. One group of one value, one of both, one of ¾ and ¼."""
    values = SensitiveValues(column(["a"] * 4 + ["a", "a", "b", "b"] + ["b", "b", "b", "a"]))
    assert values.counts.tolist() == [7, 5]
    seen = values.in_groups(np.repeat([0, 1, 2], 4))
    assert seen.distinct.tolist() == [1, 2, 2]
    assert seen.top_share.tolist() == [1.0, 0.5, 0.75]
    assert seen.entropy_l == pytest.approx([1.0, 2.0, np.exp(-0.75 * np.log(0.75) + np.log(4) / 4)])
    assert seen.t == pytest.approx([5 / 12, 1 / 12, 0.75 - 5 / 12])


def test_the_distance_of_numbers_is_the_papers() -> None:
    """Li et al., section 5.1: {3k,4k,5k} and {6k,8k,11k} of {3k..11k}: 0.375 and 0.167."""
    salaries = np.array([3, 4, 5, 6, 11, 8, 7, 9, 10])
    seen = SensitiveValues(Attribute.of(salaries)).in_groups(np.repeat([0, 1, 2], 3))
    assert seen.t[0] == pytest.approx(0.375)
    assert seen.t[1] == pytest.approx(0.167, abs=0.0005)


@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=40),
    groups=st.integers(1, 5),
    ordered=st.booleans(),
)
def test_measures_agree_with_their_definitions(
    values: list[int], groups: int, ordered: bool
) -> None:
    group_of = np.arange(len(values)) % groups
    attribute = Attribute.of(np.array(values)) if ordered else column([f"v{v}" for v in values])
    seen = SensitiveValues(attribute).in_groups(group_of)
    present = sorted(set(values))
    everybody = np.array([values.count(v) for v in present]) / len(values)
    for group in range(min(groups, len(values))):
        mine = [v for v, g in zip(values, group_of.tolist(), strict=True) if g == group]
        q = np.array([mine.count(v) for v in present]) / len(mine)
        distance = 0.5 * np.abs(q - everybody).sum()
        if ordered:
            steps = max(len(present) - 1, 1)
            distance = np.abs(np.cumsum(q - everybody)).sum() / steps
        assert seen.t[group] == pytest.approx(distance, abs=1e-12)
        assert seen.distinct[group] == len(set(mine))
        assert seen.sizes[group] == len(mine)
        assert np.log(seen.entropy_l[group]) == pytest.approx(-(q[q > 0] @ np.log(q[q > 0])))


def test_floors_check_themselves() -> None:
    for wrong in ({"min_l": 0}, {"min_entropy_l": 0.5}, {"max_t": 0.0}, {"max_t": 1.5}):
        with pytest.raises(KreachError, match=rf"^{next(iter(wrong))} must be a"):
            DiversityFloors(**wrong)
    with pytest.raises(KreachError, match=r"^sensitive must name at least one column"):
        Diverse(AtRandom(), ())


# Dealing


@given(
    runs=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 25), st.integers(1, 7)), min_size=1)
)
def test_round_robin_gives_the_slots_in_ascending_order(runs: list[tuple[int, int, int]]) -> None:
    offset, length, groups = (np.array(column) for column in zip(*runs, strict=True))
    offset = offset % groups
    expected: list[int] = []
    for start, count, slots in zip(offset.tolist(), length.tolist(), groups.tolist(), strict=True):
        expected += sorted((start + i) % slots for i in range(count))
    assert _round_robin(offset, length, groups).tolist() == expected


def layers(groups: IntArray) -> list[IntArray]:
    """The groups of each partition, and the combinations of all."""
    columns = [np.unique(layer, return_inverse=True)[1] for layer in groups.T]
    return [*columns, np.unique(groups, axis=0, return_inverse=True)[1].ravel()]


FLOORS = (
    DiversityFloors(2),
    DiversityFloors(3),
    DiversityFloors(1, 1.8),
    DiversityFloors(1, 1.0, 0.3),
    DiversityFloors(2, 1.3, 0.5),
)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@given(
    people=populations(),
    k=st.integers(1, 12),
    floors=st.sampled_from(FLOORS),
    sensitive=st.sampled_from([("town",), ("age",), ("town", "age")]),
    seed=st.integers(0, 9),
)
def test_every_strategy_holds_the_floors_or_refuses(
    name: str,
    people: People,
    k: int,
    floors: DiversityFloors,
    sensitive: tuple[str, ...],
    seed: int,
) -> None:
    if people.count < k:
        return
    diverse = Diverse(STRATEGIES[name], sensitive, floors)
    assert diverse.name == STRATEGIES[name].name
    try:
        assignment = form_groups(people, k, diverse, seed)
    except DiversityRefused:
        assignment = form_groups(people, k, diverse.lenient(), seed)
        assert assignment.group_sizes.min() >= k
        return
    for groups in layers(assignment.groups):
        for column_name in sensitive:
            seen = SensitiveValues(people.attribute(column_name)).in_groups(groups)
            assert floors.hold(seen).all()
    again = form_groups(people, k, diverse, seed)
    np.testing.assert_array_equal(assignment.groups, again.groups)
    everybody = Counter(assignment.groups[:, 0].tolist())
    assert sum(everybody.values()) == people.count


def test_groups_that_hold_the_floors_stay_as_they_are() -> None:
    people = crowd(2_000, seed=3)
    plain = form_groups(people, 20, ByRates(), seed=1).group_of()
    diverse = Diverse(ByRates(), ("device",), DiversityFloors(2))
    spread = form_groups(people, 20, diverse, seed=1).group_of()
    pairs = np.unique(np.stack([plain, spread], axis=1), axis=0)
    assert len(pairs) == plain.max() + 1


def rate_spread(people: People, groups: IntArray) -> float:
    """Mean distance of visits from the mean of the group, relative to the mean of all."""
    mean = np.bincount(groups, weights=people.visits) / np.bincount(groups)
    return float(np.abs(people.visits - mean[groups]).mean() / people.visits.mean())


def ill_people(count: int, share: float, seed: int) -> People:
    generator = np.random.default_rng(seed)
    rare = np.array(["flu", "gout", "mumps"])[generator.integers(0, 3, count)]
    condition = np.where(generator.random(count) < share, rare, "none")
    return People(
        generator.negative_binomial(0.6, 0.06, count),
        {
            "condition": Attribute.of(condition),
            "town": Attribute.of(generator.integers(0, 3, count)),
            "region": Attribute.of(generator.integers(0, 5, count)),
        },
    )


@pytest.mark.parametrize("sensitive", [("condition",), ("condition", "region")])
def test_rates_stay_together_although_values_are_spread(sensitive: tuple[str, ...]) -> None:
    """3 % are ill: groups of 20 grow to about 33, and each has somebody ill of its own rate."""
    people = ill_people(6_000, 0.03, seed=5)
    plain = form_groups(people, 20, ByRates(), seed=1).group_of()
    spread = form_groups(people, 20, Diverse(ByRates(), sensitive), seed=1)
    ill = np.count_nonzero(people.attribute("condition").codes != 3)
    assert 0.95 * ill <= spread.group_count <= ill
    at_random = form_groups(people, 20, AtRandom(), seed=1).group_of()
    assert rate_spread(people, plain) < rate_spread(people, spread.group_of()) < 0.06
    assert rate_spread(people, at_random) > 0.8


def test_segments_are_kept_where_they_hold_the_floor() -> None:
    people = ill_people(4_000, 0.2, seed=6)
    diverse = Diverse(BySegments(("town",)), ("condition",), DiversityFloors(3))
    groups = form_groups(people, 20, diverse, seed=1).group_of()
    for town in range(3):
        targeted = people.attribute("town").codes == town
        assert coverage(groups, targeted.astype(np.int64)) == 1.0


def test_a_segment_without_other_values_is_mixed_with_its_neighbor() -> None:
    """All of town 0 are ill: only people of other towns can hide them."""
    towns = np.repeat([0, 1, 2], [100, 300, 300])
    condition = np.where((towns == 0) | (np.arange(700) % 3 == 0), "flu", "none")
    people = People(
        np.zeros(700, dtype=np.int64),
        {"town": Attribute.of(towns), "condition": Attribute.of(condition)},
    )
    diverse = Diverse(BySegments(("town",)), ("condition",))
    groups = form_groups(people, 20, diverse, seed=1).group_of()
    assert SensitiveValues(people.attribute("condition")).in_groups(groups).distinct.min() == 2
    last = (towns == 2).astype(np.int64)
    assert coverage(groups, last) == 1.0, "the town that is no neighbor stays as it is"


def test_overlapping_groups_hold_floors_in_every_combination() -> None:
    people = ill_people(3_000, 0.2, seed=7)
    assignment = form_groups(people, 20, Diverse(Overlapping(3, 10), ("condition",)), seed=1)
    _, combination, people_in = np.unique(
        assignment.groups, axis=0, return_inverse=True, return_counts=True
    )
    seen = SensitiveValues(people.attribute("condition")).in_groups(combination.ravel())
    assert seen.distinct.min() >= 2
    assert people_in.min() >= 10


# Refusals


def test_floors_that_everybody_together_breaks_are_refused_with_the_reason() -> None:
    people = ill_people(2_000, 0.02, seed=8)
    with pytest.raises(DiversityRefused, match=r"condition has 4 different values among all"):
        form_groups(people, 20, Diverse(ByRates(), ("condition",), DiversityFloors(5)), seed=1)
    floors = DiversityFloors(2, 2.0)
    said = r"min_entropy_l of 2 .* one value is held by 9\d% of them"
    with pytest.raises(DiversityRefused, match=said):
        form_groups(people, 20, Diverse(ByRates(), ("condition",), floors), seed=1)


def test_groups_do_not_grow_without_bound() -> None:
    people = ill_people(5_000, 0.002, seed=9)
    with pytest.raises(DiversityRefused) as refused:
        form_groups(people, 20, Diverse(ByRates(), ("condition",)), seed=1)
    assert f"groups may grow to {MAX_GROWTH} times group_size" in str(refused.value)
    assert "condition: groups of 100 people have as few as 1 different values" in str(refused.value)
    closest = Diverse(AtRandom(), ("region",), DiversityFloors(1, 1.0, 0.001))
    with pytest.raises(DiversityRefused, match=r"region: groups of 25 people are .* t = "):
        form_groups(people, 5, closest, seed=1)
