"""Rows that are made together are those that would be made one by one."""

import numpy as np
import pytest

from kreach.adsystem.measurement.visitor_table import KINDS_AT_ONCE, VisitorTable
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.visit_model import VisitModel

SIZES = np.arange(1, 2 * KINDS_AT_ONCE)


def sample_table(top: int) -> VisitorTable:
    audience = Audience.disjoint(SIZES)
    assert isinstance(audience, DisjointAudience)
    model = VisitModel.flat(30, dispersion=0.6)
    table = VisitorTable(audience, model, top, 1.0)
    table.refresh({0: 40.0, 3: 11.5}, [30.0, 12.0][: top - 1], 90_000_000_000)
    return table


@pytest.mark.parametrize("top", [1, 2, 3])
def test_rows_of_neighbours_are_the_same_numbers(top: int) -> None:
    table = sample_table(top)
    table.grow(KINDS_AT_ONCE + 3, 5)
    made = [kind for kind, rows in enumerate(table.rows) if rows]
    assert made == list(range(KINDS_AT_ONCE, len(SIZES)))
    probability = table.kind_probability()
    for kind in made:
        draws = np.arange(len(table.rows[kind]), dtype=np.float64)
        alone = [tuple(row) for row in probability.under(kind, draws).tolist()]
        assert table.rows[kind] == alone


def test_a_kind_with_many_draws_gets_its_rows_and_is_not_made_for_others() -> None:
    table = sample_table(2)
    rows = table.grow(7, 500)
    assert len(rows) >= 502
    table.refresh({0: 40.0}, [30.0], 90_000_000_000)
    table.grow(8, 0)
    assert not table.rows[7]
    assert table.rows[6]
    assert len(table.grow(7, 0)) >= 502
