"""Reports with draws keep within what any assignment of the impressions allows."""

from dataclasses import replace

import numpy as np
import pytest

import kreach as kr

SESSIONS = replace(
    kr.VisitModel.flat(20),
    gap_edges_seconds=(1800.0,),
    continuation_odds=np.array([[9.0]]),
    requests_per_session=np.array([0.7, 0.2, 0.1]),
)


@pytest.mark.parametrize("cap", range(1, 9))
def test_more_impressions_per_draw_than_requests_per_session(cap: int) -> None:
    """Six impressions a minute apart in each group: reach and interval are possible ones."""
    groups = np.repeat(np.arange(50), 6)
    times = np.tile(60.0 * np.arange(6), 50)
    report = kr.measure_times(kr.Audience.disjoint([20] * 50), groups, times, [cap], model=SESSIONS)
    least, most = report[cap].bounds
    low, high = report[cap].interval()
    assert least <= low <= report[cap].reach <= high <= most


def test_reach_rises_without_a_jump_where_the_cap_no_longer_matters() -> None:
    groups, times = np.zeros(6, np.int64), 60.0 * np.arange(6)
    audience = kr.Audience.disjoint([20])
    reports = kr.measure_times(audience, groups, times, range(1, 8), model=SESSIONS)
    reach = [reports[cap].reach for cap in range(1, 8)]
    steps = np.diff(reach)
    assert (steps >= -1e-9).all()
    assert steps.max() <= reach[0] + 1e-9  # nobody new: at most one more each
    assert reach[-1] == 6.0


def test_what_is_certain_has_no_variance() -> None:
    report = kr.measure_times(
        kr.Audience.disjoint([20]), [0, 0, 0], [0, 9, 99], [3], model=SESSIONS
    )
    assert report[3].reach == 3.0
    assert report[3].std == 0.0
    assert report[3].interval() == (3.0, 3.0)


def test_a_group_of_one_beside_others_has_a_variance() -> None:
    never = replace(SESSIONS, meetings=np.zeros_like(SESSIONS.meetings))
    audience = kr.Audience.disjoint([1, 20])
    report = kr.measure_times(audience, [0, 1, 1], [0, 0, 9_999], [1], model=never)[1]
    assert np.isfinite(report.std)


def test_a_row_in_a_wrong_year_costs_nothing() -> None:
    far = 2.4e11  # seconds: some eight thousand years on
    audience = kr.Audience.disjoint([20])
    report = kr.measure_times(audience, [0, 0], [0.0, far], [1], model=SESSIONS)[1]
    assert report.reach == pytest.approx(1.95, abs=0.01)
