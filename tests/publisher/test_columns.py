"""Columns that a build keeps: identifiers are refused, rare values of segments are pooled."""

from collections.abc import Sequence

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.publisher.columns import pool_small_values, refuse_identifying, value_crowds
from kreach.publisher.people import Attribute, People
from tests.publisher.populations import column


def people_with(values: Sequence[object]) -> People:
    return People(np.ones(len(values), dtype=np.int64), {"town": column(values)})


def test_crowds_by_hand() -> None:
    crowds = value_crowds(column(["a"] * 5 + ["b"] * 3 + ["c", "c"] + ["d"]), group_size=4)
    assert (crowds.values, crowds.small_values, crowds.people_in_small_values) == (4, 3, 6)
    assert (crowds.nearly_alone, crowds.identifying) == (3, False)


def test_small_values_are_pooled_and_others_stay() -> None:
    people = people_with(["Bath"] * 5 + ["York"] * 4 + ["Ely", None, "Wells", "Wells"])
    pooled, counts = pool_small_values(people, ("town",), group_size=4)
    assert counts == {"town": 4}
    assert pooled.attribute("town").labels == ("(other)", "Bath", "York")
    assert np.bincount(pooled.attribute("town").codes).tolist() == [4, 5, 4]
    assert value_crowds(pooled.attribute("town"), 4).small_values == 0


def test_missing_values_that_are_many_stay_missing() -> None:
    people = people_with([None] * 5 + ["York"] * 4 + ["Ely"])
    pooled, _ = pool_small_values(people, ("town",), group_size=4)
    assert pooled.attribute("town").labels == (None, "(other)", "York")


def test_nothing_is_pooled_where_all_are_large_or_no_segment() -> None:
    people = people_with(["Bath"] * 5 + ["York"] * 4)
    same, counts = pool_small_values(people, ("town",), group_size=4)
    assert counts == {}
    assert same.attribute("town") is people.attribute("town")
    assert pool_small_values(people_with(["a", "b"]), (), group_size=4)[1] == {}


def test_identifiers_are_refused_whatever_they_are_called() -> None:
    people = People(np.ones(9, dtype=np.int64), {"score": Attribute.of(np.arange(9.0))})
    with pytest.raises(KreachError, match=r"^column score identifies people: 100% of them"):
        refuse_identifying(people)
    refuse_identifying(people_with(["a"] * 9))
    refuse_identifying(people_with(["a"] * 5 + [1, 2, 3, 4]))
