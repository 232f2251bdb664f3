"""The rolling meter: which impressions lie inside (t − span, t]."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from tests.strategies import audiences

PAIR = kr.Audience.disjoint([2])
START = datetime(2026, 11, 1, tzinfo=UTC)


def test_the_window_is_half_open() -> None:
    """(t − span, t]: now is inside, exactly one span ago is not."""
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=10.0)
    assert meter.record(0, 0.0)
    meter.advance(9.999999)
    assert meter.impressions == 1
    meter.advance(10.0)
    assert meter.impressions == 0
    assert meter.reach == {1: 0.0}
    assert not meter.record(0, 0.0)  # exactly one span old
    assert meter.record(0, 0.000001)
    assert meter.late == 1


def test_impressions_out_of_order() -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=10)
    assert meter.record(0, 100)
    assert meter.record(0, 95)
    assert meter.record(0, 91)
    assert not meter.record(0, 90)
    assert not meter.record(0, -1e9)
    assert meter.late == 2
    assert meter.impressions == 3
    assert meter.reach == {1: pytest.approx(1.75)}
    meter.advance(101)
    assert meter.impressions == 2
    meter.advance(50)  # time does not run backwards
    assert meter.impressions == 2
    meter.advance(105)
    assert meter.impressions == 1
    assert meter.reach == {1: pytest.approx(1.0)}


def test_impressions_at_the_same_moment_leave_together() -> None:
    meter = kr.RollingReachMeter(kr.Audience.disjoint([2, 3]), caps=[1, 2], span=5)
    for group in (1, 0, 1, 1):
        meter.record(group, 7)
    assert meter.impressions == 4
    meter.advance(12)
    assert meter.impressions == 0
    assert meter.reach == {1: pytest.approx(0.0), 2: pytest.approx(0.0)}


def test_a_jump_in_time_empties_the_window() -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=1)
    for second in range(20):
        meter.record(0, second / 20)
    assert meter.impressions == 20
    assert meter.record(0, 1e12)
    assert meter.impressions == 1
    assert meter.reach == {1: pytest.approx(1.0)}


def test_reach_probability_looks_at_the_window_only() -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=10)
    assert meter.reach_probability(0, 1) == 1.0
    meter.record(0, 0)
    assert meter.reach_probability(0, 1) == 0.5
    meter.advance(10)
    assert meter.reach_probability(0, 1) == 1.0


def test_datetimes_of_any_zone() -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=timedelta(days=7))
    east = timezone(timedelta(hours=5, minutes=30))
    assert meter.record(0, START)
    assert meter.record(0, (START + timedelta(days=1)).astimezone(east))
    meter.advance((START + timedelta(days=7) - timedelta(microseconds=1)).astimezone(east))
    assert meter.impressions == 2
    meter.advance(START + timedelta(days=7))
    assert meter.impressions == 1
    # seconds since 1970 are the same clock
    meter.advance((START + timedelta(days=8)).timestamp())
    assert meter.impressions == 0


@given(
    st.integers(-(10**10), 10**10),
    st.one_of(st.integers(1, 10**7), st.integers(1, 10**12)),
    st.integers(0, 3),
)
def test_boundaries_are_exact_to_the_microsecond(start: int, span: int, early: int) -> None:
    """An impression is inside until exactly one span later, whatever the span."""
    begin = START + timedelta(microseconds=start)
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=timedelta(microseconds=span))
    meter.record(0, begin)
    meter.advance(begin + timedelta(microseconds=max(0, span - 1 - early)))
    assert meter.impressions == 1
    meter.advance(begin + timedelta(microseconds=span))
    assert meter.impressions == 0


@pytest.mark.parametrize("moment", [np.int64(5), np.float32(5.0), np.float64(5.0), 5, 5.0])
def test_numbers_of_every_kind_are_moments(moment: float) -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=np.int64(10))  # type: ignore[arg-type]
    assert meter.record(0, moment)
    meter.advance(moment)
    assert meter.impressions == 1


@pytest.mark.parametrize(
    "far", [1e300, -1e300, 1.7e308, 10**30, 10**400], ids=lambda far: f"{str(far)[:3]}"
)
def test_moments_beyond_all_measure_are_accepted_or_refused(far: float) -> None:
    """Either way without another kind of error, and without harm to the window."""
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=10)
    meter.record(0, 5)
    refused = False
    try:
        meter.advance(far)
    except kr.KreachError:
        refused = True
    assert meter.impressions == (1 if refused or far < 0 else 0)
    with suppress(kr.KreachError):
        endless = kr.RollingReachMeter(PAIR, caps=[1], span=abs(far))
        endless.record(0, 0)
        endless.advance(1e9)
        assert endless.impressions == 1


def test_an_unknown_group_changes_nothing() -> None:
    meter = kr.RollingReachMeter(PAIR, caps=[1], span=10)
    meter.record(0, 5)
    for group in (1, -1, "0", True):
        with pytest.raises(kr.KreachError, match="group"):
            meter.record(group, 1_000)  # type: ignore[arg-type]
    assert meter.impressions == 1
    assert meter.late == 0
    assert meter.reach == {1: pytest.approx(1.0)}


events = st.lists(
    st.tuples(st.sampled_from(["record", "record", "record", "advance"]), st.integers(0, 40)),
    max_size=40,
)


@given(audiences(), st.integers(1, 15), st.integers(1, 3), events, st.data())
def test_equals_a_meter_over_the_events_inside_at_every_step(
    audience: kr.Audience,
    span: int,
    cap: int,
    steps: list[tuple[str, int]],
    data: st.DataObject,
) -> None:
    rolling = kr.RollingReachMeter(audience, [cap, cap + 2], span)
    accepted: list[tuple[int, int]] = []
    now, late = -(10**9), 0
    for step, moment in steps:
        if step == "advance":
            rolling.advance(moment)
        else:
            group = data.draw(st.integers(0, audience.group_count - 1))
            fresh = moment > now - span
            assert rolling.record(group, moment) == fresh
            if fresh:
                accepted.append((moment, group))
            late += not fresh
        now = max(now, moment)
        inside = [group for moment, group in accepted if now - span < moment <= now]
        counts = np.bincount(inside, minlength=audience.group_count)
        assert rolling.impressions == len(inside)
        assert rolling.late == late
        for one in (cap, cap + 2):
            wanted = kr.measure(audience, counts, one).reach
            assert rolling.reach[one] == pytest.approx(wanted, rel=1e-10, abs=1e-11)
            chances = kr.reach_probability(audience, counts, one)
            assert rolling.reach_probability(0, one) == pytest.approx(
                chances[0], rel=1e-10, abs=1e-11
            )
