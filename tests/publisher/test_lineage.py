"""Crowds over versions, against counting by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kreach.numeric.types import IntArray
from kreach.publisher.lineage import Crowds, crowds_over_versions


def by_hand(groups: IntArray) -> list[int]:
    """Everybody against everybody."""
    result = []
    for mine in groups:
        first = int(np.argmax(mine >= 0))
        same = (groups[:, first:] == mine[first:]).all(axis=1)
        result.append(int(same.sum()))
    return result


@given(
    people=st.integers(1, 30),
    versions=st.integers(1, 5),
    groups=st.integers(1, 4),
    seed=st.integers(0, 999),
)
def test_crowds_are_people_in_the_same_groups_since(
    people: int, versions: int, groups: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    table = generator.integers(0, groups, (people, versions))
    first = generator.integers(0, versions, people)
    table[np.arange(versions) < first[:, None]] = -1
    assert crowds_over_versions(table).tolist() == by_hand(table)


@given(seed=st.integers(0, 99))
def test_one_more_version_makes_no_crowd_larger(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 3, (40, 4))
    assert (crowds_over_versions(table) <= crowds_over_versions(table[:, 1:])).all()


def test_the_document() -> None:
    crowds = Crowds.of(np.array([[0, 0], [0, 0], [0, 1], [-1, 0]]))
    assert crowds.document() == {
        "versions": 2,
        "singled_out": 1,
        "in_small_crowds": 4,
        "smallest": 1,
        "median": 2.0,
    }
