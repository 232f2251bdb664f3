"""Laws of the visitor filter: one kernel, revert, flat = today's meter, times alone count."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from tests.boundary.test_visit_model import model

CLOSE = 1e-11
SIZES = (20, 5, 1, 2)
AUDIENCE = kr.Audience.disjoint(SIZES, targeted_counts=[20, 3, 1, 2])


class Event(NamedTuple):
    group: int
    gap: float
    won: bool


events = st.lists(
    st.builds(
        Event,
        st.integers(0, len(SIZES) - 1),
        st.sampled_from([0.0, 5.0, 100.0, 1000.0, 5000.0, 90_000.0]),
        st.booleans(),
    ),
    max_size=40,
)
several_caps = st.sets(st.integers(1, 4), min_size=1, max_size=3).map(sorted)


def steady() -> kr.VisitModel:
    """Sessions without hours of people: c is the same for every calendar."""
    return replace(model(), meetings=np.full((12, 12, 9), 0.12))


def as_dict(visitors: kr.VisitorFilter, value: float | dict[int, float]) -> dict[int, float]:
    return value if isinstance(value, dict) else {visitors.caps[0]: value}


def play(visitors: kr.VisitorFilter, stream: list[Event], start: float = 0.0) -> float:
    now = start
    for event in stream:
        now += event.gap
        visitors.request(event.group, now)
        if event.won:
            visitors.won(event.group, now)
    return now


@given(events, several_caps)
def test_reach_is_the_sum_of_the_values_of_what_was_won(
    stream: list[Event], caps: list[int]
) -> None:
    visitors = kr.VisitorFilter(AUDIENCE, model(), caps)
    total = dict.fromkeys(caps, 0.0)
    now = 0.0
    for event in stream:
        now += event.gap
        values = as_dict(visitors, visitors.request(event.group, now))
        assert all(-1e-12 <= value <= 1.0 + 1e-12 for value in values.values())
        assert sorted(values.values()) == [
            values[cap] for cap in caps
        ]  # a higher cap is worth more
        if event.won:
            added = as_dict(visitors, visitors.won(event.group, now))
            assert added == pytest.approx(values, rel=CLOSE, abs=1e-14)
            for cap in caps:
                total[cap] += values[cap]
        assert visitors.reach == pytest.approx(total, rel=CLOSE, abs=1e-13)


@given(events, several_caps, st.sampled_from([None, 0.4]))
def test_a_flat_model_is_the_meter_of_today(
    stream: list[Event], caps: list[int], dispersion: float | None
) -> None:
    audience = kr.Audience.disjoint(SIZES, [20, 3, 1, 2], dispersion)
    visitors = kr.VisitorFilter(audience, kr.VisitModel.flat(20, dispersion), caps)
    meter = kr.ReachMeter(audience, caps)
    now = 0.0
    recorded: list[tuple[int, float]] = []
    for event in stream:
        now += event.gap
        values = as_dict(visitors, visitors.request(event.group, now))
        wanted = {cap: meter.reach_probability(event.group, cap) for cap in caps}
        assert values == pytest.approx(wanted, rel=1e-12, abs=1e-13)
        if event.won:
            visitors.won(event.group, now)
            meter.record(event.group)
            recorded.append((event.group, now))
        assert visitors.reach == pytest.approx(meter.reach, rel=1e-12, abs=1e-12)
        assert visitors.draws(event.group) == meter.count(event.group)
    if recorded and now - recorded[-1][1] < 3600.0:  # later it is no longer held
        visitors.revert(*recorded[-1])
        meter.revert(recorded[-1][0])
        assert visitors.reach == pytest.approx(meter.reach, rel=1e-11, abs=1e-11)


@given(events, events, st.integers(0, len(SIZES) - 1), several_caps)
def test_won_then_revert_is_identity(
    before: list[Event], after: list[Event], group: int, caps: list[int]
) -> None:
    with_it, without = (kr.VisitorFilter(AUDIENCE, model(), caps) for _ in range(2))
    for visitors in (with_it, without):
        now = play(visitors, before) + 20.0
        visitors.request(group, now)
    with_it.won(group, now)
    with_it.revert(group, now)
    assert with_it.reach == pytest.approx(without.reach, rel=1e-12, abs=1e-13)
    for visitors in (with_it, without):
        play(visitors, after, now)
    assert with_it.reach == pytest.approx(without.reach, rel=1e-10, abs=1e-12)
    for j in range(len(SIZES)):
        assert with_it.draws(j) == pytest.approx(without.draws(j), rel=1e-12, abs=1e-13)


@given(st.lists(st.tuples(st.sampled_from([0.0, 5.0, 100.0, 1000.0]), st.booleans()), max_size=8),
       st.data())  # fmt: skip
def test_a_late_revert_undoes_what_it_did_to_later_requests(
    rest: list[tuple[float, bool]], data: st.DataObject
) -> None:
    """Cap 1 and a steady model: nothing but times and wins counts, in whatever order they come."""
    with_it, without = (kr.VisitorFilter(AUDIENCE, steady()) for _ in range(2))
    group = data.draw(st.integers(0, 1))
    for visitors in (with_it, without):
        visitors.request(group, 0.0)
        visitors.won(group, 0.0)
        visitors.request(group, 50.0)
    with_it.won(group, 50.0)
    now = 60.0
    for gap, won in rest:
        now += gap
        for visitors in (with_it, without):
            visitors.request(group, now)
            if won:
                visitors.won(group, now)
    with_it.revert(group, 50.0)
    assert with_it.reach == pytest.approx(without.reach, rel=1e-11)
    assert with_it.draws(group) == pytest.approx(without.draws(group), rel=1e-12)
    assert with_it.request(group, now + 9.0) == pytest.approx(without.request(group, now + 9.0))


@given(st.lists(st.sampled_from([0.0, 5.0, 100.0, 1000.0]), min_size=1, max_size=10), st.data())
def test_the_order_in_which_notices_come_does_not_matter(
    gaps: list[float], data: st.DataObject
) -> None:
    times = np.cumsum(gaps).tolist()
    won = data.draw(st.lists(st.sampled_from(times), max_size=len(times), unique=True))
    shuffled = data.draw(st.permutations(won))
    in_order, late = (kr.VisitorFilter(AUDIENCE, steady()) for _ in range(2))
    for now in times:
        in_order.request(0, now)
        late.request(0, now)
    for now in sorted(won):
        in_order.won(0, now)
    for now in shuffled:
        late.won(0, now)
    assert late.draws(0) == pytest.approx(in_order.draws(0), rel=1e-12)
    assert late.reach == pytest.approx(in_order.reach, rel=1e-11)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
def test_the_filter_is_near_reports_from_effective_draws(seed: int, share: float) -> None:
    """Everything won is what a log tells too; less of it, the filter knows more."""
    generator = np.random.default_rng(seed)
    count, groups = 400, 10
    group = generator.integers(groups, size=count)
    seconds = np.sort(generator.uniform(0.0, 43_200.0, count))
    won = generator.random(count) < share
    audience = kr.Audience.disjoint(np.full(groups, 20))
    site = replace(steady(), hourly_traffic=np.ones(24))
    visitors = kr.VisitorFilter(audience, site, caps=[1, 3])
    for j, now, is_won in zip(group.tolist(), seconds.tolist(), won.tolist(), strict=True):
        visitors.request(j, now)
        if is_won:
            visitors.won(j, now)
    reports = kr.measure_times(audience, group[won], seconds[won], [1, 3], model=site)
    for cap in (1, 3):
        assert visitors.reach[cap] == pytest.approx(reports[cap].reach, rel=0.2)
