"""Whose requests a campaign is sent (`requests` of a groups file): every engine, as the library."""

from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.errors import KreachError
from tests.contract.test_together import SIZES, counted, rows

NAMES = [f"g{at:02}" for at in range(12)]
TARGETED = [4] * 6 + [2] * 6


def groups_of(requests: list[Any]) -> dict[str, list[Any]]:
    return {"group": NAMES, "size": SIZES, "targeted": TARGETED, "requests": requests}


@pytest.mark.parametrize("requests", ["everyone", "targeted"])
def test_a_groups_file_that_says_whose_requests_is_measured_so(
    engine: Engine, requests: str
) -> None:
    log = rows(8)
    opened = kr.ImpressionLog.open(engine, log)
    groups = kr.open_groups(engine, groups_of([requests] * 12))
    found = kr.measure_window(opened, groups, [2], campaign="spring").report(2)
    mine = counted(log)
    of_spring = mine["group"][mine["campaign"] == "spring"]
    counts = np.array([np.count_nonzero(of_spring == name) for name in NAMES])
    audience = kr.Audience.disjoint(SIZES, TARGETED, requests=requests)
    wanted = kr.measure(audience, counts, cap=2)
    assert found.reach == pytest.approx(wanted.reach, rel=1e-9)
    assert found.std == pytest.approx(wanted.std, rel=1e-9)


@pytest.mark.parametrize(
    ("requests", "rule"),
    [
        (["nobody"] * 12, "have everyone or targeted in the column requests"),
        (["everyone"] * 11 + ["targeted"], "state the same requests for all groups"),
    ],
)
def test_a_bad_answer_is_refused(engine: Engine, requests: list[Any], rule: str) -> None:
    with pytest.raises(KreachError, match=rf"^groups must {rule}"):
        kr.open_groups(engine, groups_of(requests))
