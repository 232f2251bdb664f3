"""Laws of every strategy: a partition (or several) with all groups of at least k, by seed alone."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.grouping import (
    Assignment,
    AtRandom,
    ByAttributes,
    BySegments,
    Overlapping,
    form_groups,
)
from kreach.publisher.grouping.base import cut_evenly, largest_group
from kreach.publisher.people import Attribute, People
from tests.publisher.populations import STRATEGIES, column, crowd, populations

sizes_k = st.integers(1, 12)
BOUNDED = sorted(set(STRATEGIES) - {"overlapping", "overlapping, no floor"})


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@given(people=populations(), k=sizes_k, seed=st.integers(0, 99))
def test_everybody_is_in_one_group_of_each_partition_or_there_are_too_few(
    name: str, people: People, k: int, seed: int
) -> None:
    strategy = STRATEGIES[name]
    if people.count < k:
        with pytest.raises(KreachError, match=rf"^people must be at least group_size \({k}\)"):
            form_groups(people, k, strategy, seed)
        return
    assignment = form_groups(people, k, strategy, seed)
    layers = assignment.groups.shape[1]
    assert assignment.groups.shape[0] == people.count
    assert assignment.group_sizes.min() >= k
    named: set[int] = set()
    for layer in range(layers):
        here = Counter(assignment.groups[:, layer].tolist())
        assert sum(here.values()) == people.count
        assert all(here[group] == assignment.group_sizes[group] for group in here)
        assert not named & set(here), "a group number serves in two partitions"
        named |= set(here)
    assert named == set(range(assignment.group_count))
    assert assignment.overlapping == (layers > 1)


@pytest.mark.parametrize("name", BOUNDED)
@example(  # the cell of three is one group; the fourth person must not make it a group of 2k
    people=People(
        np.zeros(4, dtype=np.int64),
        {
            "town": column(["Bath", "Bath", "Bath", "York"]),
            "age": column([1, 1, 1, 2]),
            "same": column([1, 1, 1, 1]),
            "unknown": column([None, None, None, None]),
        },
    ),
    k=2,
    seed=0,
)
@given(people=populations(), k=sizes_k, seed=st.integers(0, 99))
def test_no_group_reaches_twice_k(name: str, people: People, k: int, seed: int) -> None:
    if people.count >= k:
        assignment = form_groups(people, k, STRATEGIES[name], seed)
        assert assignment.group_sizes.max() <= 2 * k - 1 == largest_group(k)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@given(people=populations(), k=sizes_k, seed=st.integers(0, 99))
def test_the_seed_alone_decides(name: str, people: People, k: int, seed: int) -> None:
    if people.count >= k:
        first = form_groups(people, k, STRATEGIES[name], seed)
        again = form_groups(people, k, STRATEGIES[name], seed)
        np.testing.assert_array_equal(first.groups, again.groups)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_another_seed_groups_differently(name: str) -> None:
    people = crowd(400, seed=1)
    traits = {**people.attributes, "same": column([0] * 400), "unknown": column([None] * 400)}
    people = People(people.visits, traits)
    one, other = (form_groups(people, 5, STRATEGIES[name], seed) for seed in (1, 2))
    assert (one.groups != other.groups).any()


@given(
    people=populations(),
    k=sizes_k,
    floor=st.integers(1, 15),
    partitions=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_every_combination_of_overlapping_groups_is_held_by_the_floor(
    people: People, k: int, floor: int, partitions: int, seed: int
) -> None:
    if people.count < k:
        return
    assignment = form_groups(people, k, Overlapping(partitions, floor), seed)
    assert assignment.groups.shape == (people.count, partitions)
    _, headcounts = np.unique(assignment.groups, axis=0, return_counts=True)
    assert headcounts.min() >= min(floor, people.count)


def test_overlapping_partitions_really_cross() -> None:
    """With a floor of 5 and k = 20, hardly two bundles share all three groups."""
    assignment = form_groups(crowd(2_000, seed=2), 20, Overlapping(partitions=3, floor=5), seed=3)
    classes = np.unique(assignment.groups, axis=0)
    assert len(classes) > 350  # of 400 bundles; one partition alone would make 100


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_with_k_1_everybody_may_be_alone(name: str) -> None:
    people = crowd(50, seed=4)
    traits = {**people.attributes, "same": column([0] * 50), "unknown": column([None] * 50)}
    assignment = form_groups(People(people.visits, traits), 1, STRATEGIES[name], seed=0)
    if name == "overlapping":
        assert assignment.group_sizes.min() >= 4  # its floor ties people together even then
    else:
        assert (assignment.group_sizes == 1).all()


@given(lengths=st.lists(st.integers(1, 200), min_size=1, max_size=8), k=sizes_k)
def test_cut_evenly_makes_as_many_groups_as_fit_and_sizes_that_differ_by_one(
    lengths: list[int], k: int
) -> None:
    lengths = [max(length, k) for length in lengths]
    cut = cut_evenly(np.array(lengths), k)
    assert (np.diff(cut) >= 0).all(), "groups stand one after the other"
    start = 0
    for length in lengths:
        groups, sizes = np.unique(cut[start : start + length], return_counts=True)
        assert len(groups) == length // k
        assert sizes.max() - sizes.min() <= 1
        assert k <= sizes.min() <= sizes.max() <= 2 * k - 1
        start += length
    assert len(np.unique(cut)) == sum(length // k for length in lengths)


def test_cut_evenly_by_hand() -> None:
    assert cut_evenly(np.array([7, 3, 4]), 3).tolist() == [0] * 4 + [1] * 3 + [2] * 3 + [3] * 4


def test_an_assignment_that_breaks_its_promise_cannot_be_made() -> None:
    with pytest.raises(KreachError, match="at least 3 members in every group, got 2"):
        Assignment(np.array([[0], [0], [0], [1], [1]]), 3, "by hand")


def test_overlapping_assignments_have_no_one_group() -> None:
    assignment = form_groups(crowd(40, seed=5), 4, Overlapping(2, 4), seed=0)
    with pytest.raises(KreachError, match="assignment must be a partition, got 2 layers"):
        assignment.group_of()


@pytest.mark.parametrize("k", [0, -1, 2.5, True, float("nan"), "20"])
def test_a_group_size_that_is_none_is_refused(k: int) -> None:
    with pytest.raises(KreachError, match=r"^group_size must be a whole number from 1"):
        form_groups(crowd(40, seed=5), k, AtRandom(), seed=0)


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_that_is_none_is_refused(seed: int) -> None:
    with pytest.raises(KreachError, match=r"^seed must be a whole number from 0"):
        form_groups(crowd(40, seed=5), 4, AtRandom(), seed=seed)


def test_unknown_attributes_are_named_in_the_refusal() -> None:
    people = crowd(40, seed=5)
    for strategy in (ByAttributes(("tonw",)), BySegments(("tonw",))):
        with pytest.raises(KreachError, match=r"one of those loaded \(age, device, town\).*tonw"):
            form_groups(people, 4, strategy, seed=0)


def test_strategies_check_their_own_settings() -> None:
    with pytest.raises(KreachError, match=r"^attributes must name at least one"):
        BySegments(())
    with pytest.raises(KreachError, match=r"^partitions must be at least 1, got 0"):
        Overlapping(partitions=0)
    with pytest.raises(KreachError, match=r"^floor must be at least 1, got 0"):
        Overlapping(floor=0)


def test_missing_values_are_a_category_of_their_own() -> None:
    assignment = Attribute.of(np.array([3.0, np.nan, 1.0, 3.0]))
    assert assignment.labels == (None, 1.0, 3.0)
    assert assignment.codes.tolist() == [2, 0, 1, 2]
    masked = np.ma.masked_array(np.array([7, 8, 9]), mask=[False, True, False])
    assert Attribute.of(masked).labels == (None, 7, 9)
    assert column(["b", None, "a"]).codes.tolist() == [2, 0, 1]


def test_ranks_are_middle_ranks_and_ignore_outliers() -> None:
    ranks = Attribute.of(np.array([1.0, 1.0, 2.0, 1e9])).ranks()
    assert ranks.tolist() == [0.25, 0.25, 0.625, 0.875]
