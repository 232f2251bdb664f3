"""What may cross about sessions: a small table of shares by gap, and nothing else."""

from dataclasses import FrozenInstanceError, fields

import pytest

from kreach.boundary.recency import RecencyTable
from kreach.errors import KreachError


def test_gaps_fall_into_half_open_ranges() -> None:
    table = RecencyTable((60.0, 3_600.0), (0.9, 0.4, 0.1))
    gaps = (0.0, 59.999, 60.0, 3_599.0, 3_600.0, 1e12)
    assert [table.same(gap) for gap in gaps] == [0.9, 0.9, 0.4, 0.4, 0.1, 0.1]


def test_no_edges_is_one_share_for_all() -> None:
    table = RecencyTable((), (0.25,))
    assert [table.same(gap) for gap in (0.0, 1e9)] == [0.25, 0.25]


def test_it_holds_two_rows_of_numbers_and_cannot_be_changed() -> None:
    table = RecencyTable((60.0,), (0.9, 0.1))
    assert [field.name for field in fields(table)] == ["edges_seconds", "same_visitor"]
    with pytest.raises(FrozenInstanceError):
        table.same_visitor = (1.0, 1.0)  # type: ignore[misc]
    assert table == RecencyTable((60.0,), (0.9, 0.1))


@pytest.mark.parametrize(
    ("edges", "shares", "message"),
    [
        ((60.0, 60.0), (0.9, 0.5, 0.1), r"^edges_seconds must rise from above 0, got"),
        ((60.0, 30.0), (0.9, 0.5, 0.1), r"^edges_seconds must rise from above 0, got"),
        ((0.0,), (0.9, 0.1), r"^edges_seconds must rise from above 0, got"),
        ((-5.0, 3.0), (0.9, 0.5, 0.1), r"^edges_seconds must rise from above 0, got"),
        ((float("nan"),), (0.9, 0.1), r"^edges_seconds must rise from above 0, got"),
        ((60.0,), (0.9,), r"^same_visitor must have one entry more than edges \(2\), got 1"),
        (
            (60.0,),
            (0.9, 0.5, 0.1),
            r"^same_visitor must have one entry more than edges \(2\), got 3",
        ),
        ((60.0,), (1.1, 0.1), r"^same_visitor must lie between 0 and 1, got 1.1"),
        ((60.0,), (0.9, -0.1), r"^same_visitor must lie between 0 and 1, got -0.1"),
        ((60.0,), (0.9, float("nan")), r"^same_visitor must lie between 0 and 1, got nan"),
    ],
)
def test_what_is_no_table_is_refused(
    edges: tuple[float, ...], shares: tuple[float, ...], message: str
) -> None:
    with pytest.raises(KreachError, match=message):
        RecencyTable(edges, shares)
