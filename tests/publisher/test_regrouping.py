"""People join and leave: groups keep k, nobody is lost, and nobody is moved alone."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.grouping import Assignment, AtRandom, Overlapping, form_groups
from kreach.publisher.lineage import crowds_over_versions
from kreach.publisher.regrouping import Regrouping, regroup
from tests.publisher.populations import crowd


def groups_of(*sizes: int, k: int) -> Assignment:
    """Groups of the given sizes, one after the other."""
    return Assignment(np.repeat(np.arange(len(sizes)), sizes).reshape(-1, 1), k, "by hand")


def leaving(assignment: Assignment, *counts: int) -> BoolArray:
    """Who stays if so many leave each group, the first of each."""
    stays = np.ones(len(assignment.groups), dtype=np.bool_)
    for group, count in enumerate(counts):
        stays[np.flatnonzero(assignment.group_of() == group)[:count]] = False
    return stays


def together(assignment: Assignment, stays: BoolArray, renewed: Regrouping) -> IntArray:
    """People who stayed, by old group (row) and new group (column)."""
    old = assignment.group_of()[stays]
    table = np.zeros((assignment.group_count, renewed.assignment.group_count), dtype=np.int64)
    np.add.at(table, (old, renewed.assignment.group_of()[: len(old)]), 1)
    return table


@st.composite
def changes(draw: st.DrawFn) -> tuple[Assignment, BoolArray, int, int]:
    """Groups of k to 3k − 1, who stays, how many join, and a seed."""
    k = draw(st.integers(1, 8))
    sizes = draw(st.lists(st.integers(k, 3 * k - 1), min_size=1, max_size=10))
    assignment = groups_of(*sizes, k=k)
    seed = draw(st.integers(0, 999))
    generator = np.random.default_rng(seed)
    remain = generator.choice(draw(st.sampled_from([[1.0], [0.9], [0.0, 0.4, 1.0]])), len(sizes))
    stays = generator.random(len(assignment.groups)) < remain[assignment.group_of()]
    joining = draw(st.integers(0, 4 * k))
    return assignment, stays, joining, seed


@given(change=changes())
def test_groups_keep_k_and_everybody_is_accounted_for(
    change: tuple[Assignment, BoolArray, int, int],
) -> None:
    assignment, stays, joining, seed = change
    k, staying = assignment.group_size, int(stays.sum())
    if staying + joining < k:
        with pytest.raises(KreachError, match=rf"^people must be at least group_size \({k}\)"):
            regroup(assignment, stays, joining, seed)
        return
    renewed = regroup(assignment, stays, joining, seed)
    result = renewed.assignment
    assert len(result.groups) == staying + joining
    assert result.group_sizes.min() >= k
    assert result.group_size == k
    assert result.strategy == assignment.strategy
    assert (renewed.joined, renewed.left) == (joining, len(stays) - staying)
    assert together(assignment, stays, renewed).sum() == staying


@given(change=changes())
def test_moves_are_counted(change: tuple[Assignment, BoolArray, int, int]) -> None:
    """At least the moves that any naming of the new groups needs; none if nothing broke or grew."""
    assignment, stays, joining, seed = change
    if int(stays.sum()) + joining < assignment.group_size:
        return
    renewed = regroup(assignment, stays, joining, seed)
    table = together(assignment, stays, renewed)
    rows, columns = linear_sum_assignment(-table)
    least = int(stays.sum() - table[rows, columns].sum())
    assert least <= renewed.moved <= stays.sum()
    if renewed.merged_groups == renewed.split_groups == 0:
        assert renewed.moved == 0
        assert (np.count_nonzero(table, axis=1) <= 1).all()
        assert (np.count_nonzero(table, axis=0) <= 1).all()


@example(  # three are left of a broken group; the group that takes them in is split at once
    change=(
        groups_of(28, 12, k=10),
        leaving(groups_of(28, 12, k=10), 0, 9),
        0,
        0,
    )
)
@given(change=changes())
def test_nobody_moves_alone(change: tuple[Assignment, BoolArray, int, int]) -> None:
    """Who stayed of an old group stays together, or every part of a split keeps a crowd of them."""
    assignment, stays, joining, seed = change
    k = assignment.group_size
    if int(stays.sum()) + joining < k or k == 1:
        return
    renewed = regroup(assignment, stays, joining, seed)
    for row in together(assignment, stays, renewed):
        parts = row[row > 0]
        assert len(parts) <= 1 or parts.min() > 1, f"of {parts.sum()} people one went alone"
        if len(parts) > 1:
            assert renewed.split_groups


@given(change=changes())
def test_the_seed_alone_decides_regrouping(
    change: tuple[Assignment, BoolArray, int, int],
) -> None:
    assignment, stays, joining, seed = change
    if int(stays.sum()) + joining < assignment.group_size:
        return
    one, two = (regroup(assignment, stays, joining, seed) for _ in range(2))
    np.testing.assert_array_equal(one.assignment.groups, two.assignment.groups)


@given(change=changes(), share=st.sampled_from([1.0, 0.7, 0.3]))
def test_named_newcomers_stay_and_only_counted_people_make_k(
    change: tuple[Assignment, BoolArray, int, int], share: float
) -> None:
    """The laws of a renewal: k counted people everywhere, and nobody moves who need not."""
    assignment, stays, joining, seed = change
    k, generator = assignment.group_size, np.random.default_rng(seed)
    total = int(stays.sum()) + joining
    counted = generator.random(total) < share
    named = generator.integers(0, assignment.group_count, joining)
    if counted.sum() < k:
        with pytest.raises(KreachError, match=rf"^people must be at least group_size \({k}\)"):
            regroup(assignment, stays, joining, seed, counted=counted, named=named)
        return
    renewed = regroup(assignment, stays, joining, seed, counted=counted, named=named)
    after = renewed.assignment.group_of()
    assert len(after) == total, "nobody is lost or doubled"
    sizes = np.bincount(after[counted], minlength=renewed.assignment.group_count)
    assert sizes.min() >= k
    assert renewed.new_groups == 0
    before = np.concatenate([assignment.group_of()[stays], named])
    level = np.bincount(before[counted], minlength=assignment.group_count)
    for group in np.flatnonzero((level >= k) & (level < 3 * k)).tolist():
        stayed = after[before == group]
        assert (stayed == stayed[0]).all(), "a group that holds k stays together"
    for group in np.unique(before).tolist():
        _, parts = np.unique(after[before == group], return_counts=True)
        assert len(parts) == 1 or parts.min() >= max(2, k // 4), "company in every part"


@given(change=changes())
def test_linking_two_versions_leaves_what_is_left_of_a_group(
    change: tuple[Assignment, BoolArray, int, int],
) -> None:
    """The linkage law: without splits, a crowd is everybody of one old group, newcomers too."""
    assignment, stays, joining, seed = change
    if int(stays.sum()) + joining < assignment.group_size:
        return
    named = np.random.default_rng(seed).integers(0, assignment.group_count, joining)
    renewed = regroup(assignment, stays, joining, seed, named=named)
    before = np.concatenate([assignment.group_of()[stays], named])
    crowd = crowds_over_versions(np.stack([before, renewed.assignment.group_of()], axis=1))
    if renewed.split_groups == 0:
        np.testing.assert_array_equal(crowd, np.bincount(before)[before])
    else:
        assert crowd.max(initial=0) <= np.bincount(before).max()


@given(change=changes(), kinds=st.integers(1, 3))
def test_cells_are_kept_apart_as_far_as_k_allows(
    change: tuple[Assignment, BoolArray, int, int], kinds: int
) -> None:
    assignment, stays, joining, seed = change
    k, generator = assignment.group_size, np.random.default_rng(seed)
    if int(stays.sum()) + joining < k:
        return
    of_group = generator.integers(0, kinds, assignment.group_count)
    cells = np.concatenate(
        [of_group[assignment.group_of()][stays], generator.integers(0, kinds, joining)]
    )
    renewed = regroup(assignment, stays, joining, seed, cells=cells)
    assert renewed.assignment.group_sizes.min() >= k
    people = np.bincount(cells, minlength=kinds)
    if (people[people > 0] >= k).all():  # every cell can stand alone
        groups = renewed.assignment.group_of()
        pairs = np.unique(np.stack([groups, cells], axis=1), axis=0)
        assert len(pairs) == renewed.assignment.group_count, "every group is of one cell"


def test_room_for_those_who_stop_coming() -> None:
    assignment = groups_of(7, 6, 9, 14, k=5)
    everybody = np.ones(36, dtype=np.bool_)
    renewed = regroup(assignment, everybody, 0, seed=1, repair_below=8)
    assert together(assignment, everybody, renewed).tolist() == [
        [7, 0, 0],
        [6, 0, 0],
        [0, 9, 0],
        [0, 0, 14],
    ]
    assert renewed.assignment.group_size == 5
    with pytest.raises(KreachError, match=r"^repair_below must be a whole number from 5"):
        regroup(assignment, everybody, 0, seed=1, repair_below=4)


def test_nothing_happens_when_nobody_comes_or_goes() -> None:
    assignment = form_groups(crowd(200, seed=1), 10, AtRandom(), seed=1)
    renewed = regroup(assignment, np.ones(200, dtype=np.bool_), 0, seed=1)
    np.testing.assert_array_equal(renewed.assignment.groups, assignment.groups)
    assert (renewed.moved, renewed.merged_groups, renewed.split_groups) == (0, 0, 0)


def test_newcomers_fill_the_gaps_and_nobody_moves() -> None:
    assignment = groups_of(5, 5, 5, k=5)
    stays = leaving(assignment, 1, 2, 0)
    renewed = regroup(assignment, stays, 3, seed=1)
    assert renewed.assignment.group_sizes.tolist() == [5, 5, 5]
    assert (renewed.moved, renewed.new_groups, renewed.left) == (0, 0, 3)


def test_the_groups_that_lack_fewest_are_completed_first() -> None:
    assignment = groups_of(5, 5, 5, k=5)
    renewed = regroup(assignment, leaving(assignment, 3, 1, 2), 3, seed=1)
    table = together(assignment, leaving(assignment, 3, 1, 2), renewed)
    assert renewed.merged_groups == 1, "only the group of two is still broken"
    assert renewed.moved == 2
    assert (np.count_nonzero(table, axis=1) == 1).all()
    assert sorted(renewed.assignment.group_sizes.tolist()) == [5, 7]


def test_broken_groups_merge_whole() -> None:
    """Left are 4, 3 and 9 of k = 5: the 4 and the 3 become one group, under the larger's name."""
    assignment = groups_of(5, 5, 9, k=5)
    stays = leaving(assignment, 1, 2, 0)
    renewed = regroup(assignment, stays, 0, seed=1)
    assert together(assignment, stays, renewed).tolist() == [[4, 0], [3, 0], [0, 9]]
    assert (renewed.moved, renewed.merged_groups, renewed.split_groups) == (3, 2, 0)


def test_what_cannot_merge_joins_the_smallest_whole_group() -> None:
    assignment = groups_of(6, 7, 5, k=5)
    stays = leaving(assignment, 0, 0, 3)
    renewed = regroup(assignment, stays, 0, seed=1)
    assert together(assignment, stays, renewed).tolist() == [[6, 0], [0, 7], [2, 0]]
    assert renewed.moved == 2


def test_many_newcomers_form_groups_of_their_own() -> None:
    assignment = groups_of(5, 5, k=5)
    renewed = regroup(assignment, np.ones(10, dtype=np.bool_), 13, seed=1)
    assert renewed.assignment.group_sizes.tolist() == [5, 5, 7, 6]
    assert (renewed.moved, renewed.new_groups, renewed.joined) == (0, 2, 13)


def test_few_newcomers_join_the_smallest_groups_one_each() -> None:
    assignment = groups_of(6, 5, 7, k=5)
    renewed = regroup(assignment, np.ones(18, dtype=np.bool_), 2, seed=1)
    assert renewed.assignment.group_sizes.tolist() == [7, 6, 7]
    assert renewed.moved == 0


def test_a_group_of_three_times_k_is_split_into_crowds() -> None:
    """One group is all there is: newcomers have nowhere else to go."""
    assignment = groups_of(14, k=5)
    renewed = regroup(assignment, np.ones(14, dtype=np.bool_), 1, seed=1)
    assert sorted(renewed.assignment.group_sizes.tolist()) == [7, 8]
    assert renewed.split_groups == 1
    table = together(assignment, np.ones(14, dtype=np.bool_), renewed)
    assert renewed.moved == table[0, 1], "the second part has a new name"
    assert table.min() >= 5


def test_a_split_is_not_decided_by_the_order_of_ids() -> None:
    """People stand in the order of their ids; chance, not that order, decides who goes where."""
    assignment = groups_of(29, k=10)
    everybody = np.ones(29, dtype=np.bool_)
    splits = {
        tuple(regroup(assignment, everybody, 1, seed).assignment.group_of()[:29].tolist())
        for seed in range(4)
    }
    assert len(splits) == 4


def test_everybody_leaves_and_others_come() -> None:
    assignment = groups_of(5, 5, k=5)
    renewed = regroup(assignment, np.zeros(10, dtype=np.bool_), 11, seed=1)
    assert renewed.assignment.group_sizes.tolist() == [6, 5]
    assert (renewed.moved, renewed.left, renewed.joined, renewed.new_groups) == (0, 10, 11, 2)


@pytest.mark.parametrize(
    ("churn", "replaced", "max_moved"),
    [(0.05, 0.8, 0.05), (0.2, 0.0, 0.25), (0.1, 2.0, 0.02), (0.0, 1.0, 0.02)],
)
def test_a_population_lives_for_years(churn: float, replaced: float, max_moved: float) -> None:
    """Shrinking, growing, steady: k holds in every version and few people move."""
    assignment = form_groups(crowd(1_500, seed=3), 20, AtRandom(), seed=3)
    generator = np.random.default_rng(4)
    moved = people = 0
    for version in range(25):
        count = len(assignment.groups)
        stays = generator.random(count) >= churn
        joining = round(replaced * np.count_nonzero(~stays)) if churn else 15
        if np.count_nonzero(stays) + joining < 20:
            break
        renewed = regroup(assignment, stays, joining, seed=version)
        assignment = renewed.assignment
        assert assignment.group_sizes.min() >= 20
        assert assignment.group_sizes.max() < 80
        moved, people = moved + renewed.moved, people + count
    assert moved / people < max_moved


def test_regrouping_refuses_what_it_cannot_read() -> None:
    assignment = groups_of(5, 5, k=5)
    with pytest.raises(KreachError, match=r"^stays must be a bool for each of the 10"):
        regroup(assignment, np.ones(9, dtype=np.bool_), 0, seed=1)
    with pytest.raises(KreachError, match=r"^stays must be a bool"):
        regroup(assignment, np.ones(10, dtype=np.int64), 0, seed=1)
    with pytest.raises(KreachError, match=r"^joining must be a whole number from 0"):
        regroup(assignment, np.ones(10, dtype=np.bool_), -1, seed=1)
    three = np.array([0, 1, 2])
    with pytest.raises(KreachError, match=r"^named must be groups of the assignment \(0 to 1\)"):
        regroup(assignment, np.ones(10, dtype=np.bool_), 3, seed=1, named=three)
    with pytest.raises(KreachError, match=r"^named must be a int64 for each of the 2 people"):
        regroup(assignment, np.ones(10, dtype=np.bool_), 2, seed=1, named=three)
    with pytest.raises(KreachError, match=r"^counted must be a bool for each of the 10"):
        regroup(assignment, np.ones(10, dtype=np.bool_), 0, seed=1, counted=np.ones(9) > 0)
    with pytest.raises(KreachError, match=r"^cells must be a int64 for each of the 10"):
        regroup(assignment, np.ones(10, dtype=np.bool_), 0, seed=1, cells=three)
    with pytest.raises(KreachError, match=r"^seed must be"):
        regroup(assignment, np.ones(10, dtype=np.bool_), 0, seed=-1)
    overlapping = form_groups(crowd(40, seed=5), 4, Overlapping(2, 4), seed=0)
    with pytest.raises(KreachError, match=r"^assignment must be a partition"):
        regroup(overlapping, np.ones(40, dtype=np.bool_), 0, seed=1)
