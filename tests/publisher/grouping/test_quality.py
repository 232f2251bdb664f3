"""What each strategy is for: pure cells, contiguous rates, information kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.publisher.audit import coverage
from kreach.publisher.grouping import AtRandom, ByAttributes, ByRates, BySegments, form_groups
from kreach.publisher.grouping.attributes import information_kept
from kreach.publisher.people import Attribute, People
from tests.publisher.populations import column, crowd, populations


def mean_coverage(people: People, group_of: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Coverage of each town, weighted by its people."""
    codes = people.attribute("town").codes
    covered = 0.0
    for code in np.unique(codes).tolist():
        targeted = codes == code
        covered += coverage(group_of, targeted.astype(np.int64)) * np.count_nonzero(targeted)
    return covered / people.count


@given(people=populations(), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_segments_cut_a_cell_of_at_least_k_on_its_own(people: People, k: int, seed: int) -> None:
    """Nobody of another cell joins, except where fewer than k people are left over in all."""
    if people.count < k:
        return
    group_of = form_groups(people, k, BySegments(("town", "age")), seed).group_of()
    cells = people.codes(("town", "age"))
    _, cell_of, cell_sizes = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    cell_of = cell_of.ravel()
    left_over = 0
    for cell in np.flatnonzero(cell_sizes >= k).tolist():
        members = cell_of == cell
        groups = np.unique(group_of[members])
        outsiders = int(np.count_nonzero(np.isin(group_of, groups) & ~members))
        if not outsiders:
            assert len(groups) == cell_sizes[cell] // k
        left_over += outsiders
    assert left_over < k


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("k", "groups"), [(2, 12), (5, 20), (8, 25), (20, 40)])
@pytest.mark.parametrize(("towns", "skew"), [(2, 1.0), (5, 1.0), (5, 3.0)])
def test_segments_cover_no_less_than_random_groups(
    k: int, groups: int, towns: int, skew: float, seed: int
) -> None:
    """No law: in small populations a lucky draw can win by a hair. Not in these."""
    count = k * groups + seed % k
    generator = np.random.default_rng(seed)
    places = Attribute.of((towns * generator.random(count) ** skew).astype(int))
    people = People(np.zeros(count, dtype=np.int64), {"town": places})
    aligned = form_groups(people, k, BySegments(("town",)), seed).group_of()
    shuffled = [
        mean_coverage(people, form_groups(people, k, AtRandom(), chance).group_of())
        for chance in range(5)
    ]
    assert mean_coverage(people, aligned) >= np.mean(shuffled) - 1e-12


def test_people_left_over_from_one_cell_stay_together() -> None:
    """Seven in Bath make two groups; the two in York spoil one of them, not both."""
    people = People(np.zeros(9, dtype=np.int64), {"town": column(["Bath"] * 7 + ["York"] * 2)})
    assignment = form_groups(people, 3, BySegments(("town",)), seed=0)
    assert len(set(assignment.group_of()[7:].tolist())) == 1


@pytest.mark.parametrize("by_rate", [False, True])
def test_segments_cover_almost_everything_in_a_crowd(by_rate: bool) -> None:
    people = crowd(5_000, seed=11)
    aligned = form_groups(people, 20, BySegments(("town", "device"), by_rate), seed=1).group_of()
    shuffled = form_groups(people, 20, AtRandom(), seed=1).group_of()
    assert mean_coverage(people, aligned) > 0.97
    assert mean_coverage(people, shuffled) < 0.35


def test_small_cells_are_pooled_with_neighbours_of_the_same_town_first() -> None:
    """Four devices of two in each town: no cell has k = 4, both towns have."""
    towns = np.repeat([0, 1], 8)
    devices = np.tile(np.repeat([0, 1, 2, 3], 2), 2)
    people = People(
        np.zeros(16, dtype=np.int64),
        {"town": Attribute.of(towns), "device": Attribute.of(devices)},
    )
    assignment = form_groups(people, 4, BySegments(("town", "device")), seed=0)
    assert assignment.group_sizes.tolist() == [4, 4, 4, 4]
    assert len(np.unique(np.stack([assignment.group_of(), towns], axis=1), axis=0)) == 4


@given(people=populations(), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_rates_make_groups_contiguous_in_visits(people: People, k: int, seed: int) -> None:
    if people.count < k:
        return
    assignment = form_groups(people, k, ByRates(), seed)
    lows, highs = [], []
    for group in range(assignment.group_count):
        mine = people.visits[assignment.group_of() == group]
        lows.append(int(mine.min()))
        highs.append(int(mine.max()))
    order = np.lexsort((highs, lows))
    for before, after in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        assert highs[before] <= lows[after]


def test_equal_rates_are_mixed_at_random() -> None:
    """Who visited equally often is not grouped by their place in the file."""
    people = People(np.ones(400, dtype=np.int64))
    group_of = form_groups(people, 20, ByRates(), seed=1).group_of()
    spread = [np.ptp(np.flatnonzero(group_of == group)) for group in range(20)]
    assert min(spread) > 200


def test_segments_and_rates_line_up_rates_inside_a_cell() -> None:
    people = crowd(3_000, seed=12)
    assignment = form_groups(people, 20, BySegments(("device",), by_rate=True), seed=1)
    plain = form_groups(people, 20, BySegments(("device",)), seed=1)

    def spread(group_of: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        groups = range(int(group_of.max()) + 1)
        return float(np.mean([np.ptp(people.visits[group_of == group]) for group in groups]))

    assert spread(assignment.group_of()) < spread(plain.group_of()) / 8
    pairs = np.stack([assignment.group_of(), people.attribute("device").codes], axis=1)
    assert len(np.unique(pairs, axis=0)) == assignment.group_count, "every group is in one cell"


@pytest.mark.parametrize("names", [("town",), ("town", "device"), ("town", "device", "age")])
def test_attributes_keep_more_information_than_chance(names: tuple[str, ...]) -> None:
    people = crowd(4_000, seed=13)
    by_attributes = form_groups(people, 20, ByAttributes(names), seed=1).group_of()
    at_random = form_groups(people, 20, AtRandom(), seed=1).group_of()
    kept, lost = (information_kept(people, groups, names) for groups in (by_attributes, at_random))
    assert all(kept[name] > lost[name] + 0.2 for name in names)


def test_attributes_keep_everything_where_cells_are_large_enough() -> None:
    people = People(
        np.zeros(60, dtype=np.int64),
        {
            "town": column(["Bath"] * 20 + ["York"] * 40),
            "device": column((["desk"] * 10 + ["phone"] * 10) * 3),
        },
    )
    assignment = form_groups(people, 10, ByAttributes(), seed=3)
    assert information_kept(people, assignment.group_of(), ("town", "device")) == {
        "town": 1.0,
        "device": 1.0,
    }


def test_information_kept_by_hand() -> None:
    """Ranks 1/8, 3/8, 5/8, 7/8: groups of neighbours span 1/4, of far people 1/2 each."""
    people = People(np.zeros(4, dtype=np.int64), {"age": Attribute.of(np.array([10, 20, 30, 40]))})
    assert information_kept(people, np.array([0, 0, 1, 1]), ("age",)) == {"age": 0.75}
    assert information_kept(people, np.array([0, 1, 0, 1]), ("age",)) == {"age": 0.5}
    assert information_kept(people, np.array([0, 0, 0, 0]), ("age",)) == {"age": 0.25}


def test_attributes_cut_between_values_not_inside_them() -> None:
    """11 of one value, 9 of the other: a cut in the middle would split the larger."""
    people = People(np.zeros(20, dtype=np.int64), {"town": column(["Bath"] * 11 + ["York"] * 9)})
    assignment = form_groups(people, 8, ByAttributes(("town",)), seed=5)
    assert sorted(assignment.group_sizes.tolist()) == [9, 11]
    assert len(set(assignment.group_of()[:11].tolist())) == 1
