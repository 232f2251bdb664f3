"""Groups that stay hold diversity floors by merging whole groups, and few of them."""

import numpy as np
import pytest

from kreach.publisher.diverse_merging import DiverseMerging
from kreach.publisher.grouping import AtRandom, DiversityFloors, form_groups
from kreach.publisher.grouping.diversity import SensitiveValues
from kreach.publisher.grouping.spreading import DiversityRefused
from kreach.publisher.people import People
from kreach.publisher.regrouping import regroup
from tests.publisher.populations import column


def people_with(values: list[object]) -> People:
    return People(np.ones(len(values), dtype=np.int64), {"illness": column(values)})


def merged(values: list[object], groups: list[int], floors: DiversityFloors) -> list[int]:
    result = np.array(groups)
    floor = DiverseMerging(people_with(values), ("illness",), floors)
    counts = np.ones(len(groups), dtype=np.bool_)
    floor.merge(result, counts, np.zeros(max(groups) + 1, dtype=np.int64), min_counted=3)
    return [int(group) for group in result]


def test_two_groups_that_help_each_other_are_merged_and_no_others() -> None:
    values: list[object] = [*"aaa", *"bbb", *"abc", *"abc"]
    groups = [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert merged(values, groups, DiversityFloors(2)) == [1] * 6 + [2] * 3 + [3] * 3


def test_groups_that_hold_the_floors_are_left() -> None:
    values: list[object] = [*"abc", *"abc"]
    assert merged(values, [0] * 3 + [4] * 3, DiversityFloors(3)) == [0] * 3 + [4] * 3


def test_a_group_stays_inside_its_cell_if_that_helps() -> None:
    people = people_with([*"aaa", *"abc", *"ab", *"c"])
    groups = np.array([0] * 3 + [1] * 3 + [2] * 3)
    cells = np.array([7, 7, 8])
    floor = DiverseMerging(people, ("illness",), DiversityFloors(2))
    assert floor.merge(groups, np.ones(9, dtype=np.bool_), cells, min_counted=3) == 1
    assert groups[0] == groups[3] != groups[6]


def test_what_cannot_be_held_is_refused_with_numbers() -> None:
    values: list[object] = [*"aaa" * 20, *"bbb"]
    groups = np.repeat(np.arange(21), 3).tolist()
    with pytest.raises(DiversityRefused, match=r"illness: groups of 12 people have as few as 1 "):
        merged(values, groups, DiversityFloors(2))
    with pytest.raises(DiversityRefused, match=r"^min_l of 3 cannot be held"):
        merged(values, groups, DiversityFloors(3))


@pytest.mark.parametrize(
    "floors", [DiversityFloors(3), DiversityFloors(2, 2.0), DiversityFloors(2, 1.0, 0.3)]
)
def test_regrouping_keeps_the_floors_and_moves_nobody_alone(floors: DiversityFloors) -> None:
    generator = np.random.default_rng(5)
    values = generator.choice(list("abcde"), 2_400, p=[0.6, 0.2, 0.1, 0.06, 0.04])
    people = people_with(values[:2_000].tolist())
    old = form_groups(people, 10, AtRandom(), seed=2)
    stays = generator.random(2_000) < 0.8
    named = generator.integers(0, old.group_count, 400)
    next_people = people_with([*values[:2_000][stays].tolist(), *values[2_000:].tolist()])
    diverse = DiverseMerging(next_people, ("illness",), floors)
    plain = regroup(old, stays, 400, 1, named=named)
    renewed = regroup(old, stays, 400, 1, named=named, diverse=diverse)
    seen = SensitiveValues(next_people.attribute("illness"))
    assert not floors.hold(seen.in_groups(plain.assignment.group_of())).all(), "worth a repair"
    assert floors.hold(seen.in_groups(renewed.assignment.group_of())).all()
    assert 0 < renewed.diversity_merges < plain.assignment.group_count / 2
    before = np.concatenate([old.group_of()[stays], named])
    pairs = np.unique(np.stack([before, renewed.assignment.group_of()]), axis=1, return_counts=True)
    assert pairs[1].min() >= 2, "everybody has company of the old group"
