"""Three campaigns together as a panel corrects them: one number for a campaign wherever it is."""

from datetime import UTC, datetime

import numpy as np
import pytest

import kreach as kr
from kreach.boundary.correction import PanelRelease

NAMES = ("a", "b", "c")
GROUPS = 30


def panel(differences: dict[str, float]) -> list[kr.Correction]:
    release_day = datetime(2026, 11, 2, tzinfo=UTC)
    return [
        kr.Correction(
            name,
            "v1",
            "uniform",
            None,
            GROUPS,
            GROUPS,
            None,
            (PanelRelease(release_day, (difference, difference / 4), 1.0, (1.0,) * 2, (0.1,) * 2),),
        )
        for name, difference in differences.items()
    ]


@pytest.mark.parametrize(
    "differences",
    [
        {"a": -12.0, "b": 5.0, "c": -3.0, "a + b + c": -20.0},
        {"a": 20.0, "b": -20.0, "c": 0.0, "a + b + c": 30.0},
        {"a": 0.0, "b": 0.0, "c": 0.0, "a + b + c": 0.0},
    ],
)
def test_increments_and_pairs_agree_with_the_parts(differences: dict[str, float]) -> None:
    chance = np.random.default_rng(3)
    rows = 600
    log_rows = {
        "campaign": chance.choice(NAMES, rows, p=[0.5, 0.3, 0.2]).tolist(),
        "group": [f"g{at}" for at in chance.integers(0, GROUPS, rows).tolist()],
        "ts": ["2026-11-01"] * rows,
    }
    with kr.EmbeddedEngine() as engine:
        sizes = {"group": [f"g{at}" for at in range(GROUPS)], "size": [40] * GROUPS}
        groups = kr.open_groups(engine, sizes)
        log = kr.ImpressionLog.open(engine, log_rows)
        found = kr.measure_together(log, groups, [1, 2], campaigns=NAMES)
        document = kr.corrected_together(log, groups, found, panel(differences))
    own = [part.reports[0].unique_reach for part in document.parts]
    assert document.combined is not None
    for combined in (document.combined, *document.more_caps):
        whole = combined.union.unique_reach
        steps = combined.incremental
        so_far = [step.unique_reach_so_far for step in steps]
        assert so_far[0] == pytest.approx(own[0])
        assert so_far[-1] == pytest.approx(whole)
        assert so_far == sorted(so_far)
        assert sum(step.adds.unique_reach for step in steps) == pytest.approx(whole)
    matrix = np.array(document.overlap_matrix)
    assert np.diag(matrix) == pytest.approx(own)
    assert matrix == pytest.approx(matrix.T)
    for one in range(len(NAMES)):
        for other in range(len(NAMES)):
            assert matrix[one, other] <= min(own[one], own[other]) + 1e-9
            if one != other:
                assert matrix[one, other] >= own[one] + own[other] - whole - 1e-9
