"""A public tool agrees: pyCANON gives the same k, l and t for the same tables.

Its answers are in pycanon.json (see pycanon_values.py). It rounds entropy l down to a whole number,
and where that is whole but for rounding errors, to one less (7.999999999999998 to 7); kreach keeps
the fraction. Otherwise there is no difference: distances are equal between categories and ordered
between numbers.
"""

import json
from typing import Any

import numpy as np
import pytest

from kreach.publisher.audit import audit
from kreach.publisher.grouping import Assignment
from kreach.publisher.people import Attribute, People
from tests.golden.pycanon_values import VALUES, tables

CASES: list[dict[str, Any]] = json.loads(VALUES.read_text())["tables"]


@pytest.mark.parametrize("at", range(len(CASES)))
def test_k_l_and_t_agree_with_pycanon(at: int) -> None:
    table, answer = CASES[at]["table"], CASES[at]["answer"]
    columns = {name: Attribute.of(np.array(table[name])) for name in ("condition", "age")}
    people = People(np.zeros(len(table["group"]), dtype=np.int64), columns)
    groups = np.array(table["group"]).reshape(-1, 1)
    report = audit(people, Assignment(groups, answer["k"], "by hand"))
    assert int(report.sizes.least) == answer["k"]
    for view in report.columns:
        expected = answer[view.name]
        assert view.ordered == (view.name == "age")
        assert view.min_distinct == expected["l"]
        around = {int(view.min_entropy_l - 1e-9), int(view.min_entropy_l + 1e-9)}
        assert expected["entropy_l"] in around
        assert view.max_t == pytest.approx(expected["t"], abs=1e-12)


def test_the_tables_are_those_of_the_generator() -> None:
    assert [case["table"] for case in CASES] == tables()
