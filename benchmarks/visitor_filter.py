"""The visitor filter, request by request, beside the meter without a clock."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

import kreach as kr
from benchmarks.timing import duration, print_table, race_prepared

__all__ = ["run"]

_GROUP_SIZE = 20
_GROUPS = 5_000
_SESSIONS = 60_000
_DAYS = 3.0
_LAGS = 3

Stream = list[tuple[int, float, bool]]


def run() -> None:
    """Print what an event costs, by share won and caps."""
    generator = np.random.default_rng(4)
    for share in (0.05, 0.3):
        for caps in ([1], [1, 2, 3]):
            _race(_stream(generator, share), share, caps)
    print("  An event is a request or a win; a request is one event, and a won one two. The meter")
    print("  is asked for the value of every request and told every win, as the filter is.")


def _model() -> kr.VisitModel:
    """Odds as on a news site: 0.9 within a minute, 0.5 at a quarter of an hour, little after."""
    edges = (30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0)
    nearest = np.array([7.0, 40.0, 12.0, 5.0, 2.5, 1.0, 0.3, 0.08, 0.02])
    return replace(
        kr.VisitModel.flat(_GROUP_SIZE, 0.6),
        gap_edges_seconds=edges,
        continuation_odds=np.array([nearest * 0.4**lag for lag in range(_LAGS)]),
    )


def _stream(generator: np.random.Generator, share: float) -> Stream:
    """Sessions of four requests on average, some minutes apart, in order of time."""
    length = generator.geometric(0.25, _SESSIONS)
    start = np.repeat(generator.uniform(0.0, _DAYS * 86_400.0, _SESSIONS), length)
    seconds = start + generator.exponential(300.0, len(start))
    group = np.repeat(generator.integers(_GROUPS, size=_SESSIONS), length)
    order = np.argsort(seconds)
    won = generator.random(len(order)) < share
    return list(zip(group[order].tolist(), seconds[order].tolist(), won.tolist(), strict=True))


def _race(stream: Stream, share: float, caps: list[int]) -> None:
    audience = kr.Audience.disjoint(np.full(_GROUPS, _GROUP_SIZE))
    events = len(stream) + sum(won for _, _, won in stream)
    contestants: dict[str, Callable[[], Callable[[], object]]] = {
        "kr.VisitorFilter": lambda: partial(
            _filter, kr.VisitorFilter(audience, _model(), caps), stream
        ),
        "kr.ReachMeter": lambda: partial(_meter, kr.ReachMeter(audience, caps), stream),
        "kr.ReachMeter.record": lambda: partial(_record, kr.ReachMeter(audience, caps), stream),
    }
    timings = race_prepared(contestants, repeats=5)
    once = timings["kr.ReachMeter"].seconds
    print_table(
        f"{len(stream):,} requests, {share:.0%} won, {_GROUPS:,} groups, {_LAGS} lags, caps {caps}",
        ("method", "best time", "an event", "÷ meter"),
        [
            (name, duration(t.seconds), duration(t.seconds / events), f"{t.seconds / once:.1f}")
            for name, t in timings.items()
        ],
    )


def _filter(visitors: kr.VisitorFilter, stream: Stream) -> object:
    for group, now, won in stream:
        visitors.request(group, now)
        if won:
            visitors.won(group, now)
    return visitors.reach


def _meter(meter: kr.ReachMeter, stream: Stream) -> object:
    caps = meter.caps
    for group, _, won in stream:
        for cap in caps:
            meter.reach_probability(group, cap)
        if won:
            meter.record(group)
    return meter.reach


def _record(meter: kr.ReachMeter, stream: Stream) -> object:
    """Wins only, read at the end."""
    for group, _, won in stream:
        if won:
            meter.record(group)
    return meter.reach
