"""Streaming reach, beside Algorithm 1 as the paper prints it and beside bincount."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

import kreach as kr
from benchmarks.printed_algorithm import GroupLevelAlgorithm, PrintedAlgorithm
from benchmarks.timing import check_agreement, duration, print_table, race_prepared

__all__ = ["run"]

_GROUP_SIZE = 20
_GROUPS = 200
_PEOPLE = _GROUPS * _GROUP_SIZE
_CAPS = (1, 2, 3)
_IMPRESSIONS = 20_000
_MANY = 5_000_000
_MANY_GROUPS = 1_000_000
_PARTITIONS = 3

Stream = list[int]
Members = Sequence[Sequence[int]]
Playback = Callable[[], dict[int, float]]


def run() -> None:
    """Print the stream on disjoint groups, on overlapping ones, and the batch."""
    generator = np.random.default_rng(2)
    disjoint = kr.Audience.disjoint(np.full(_GROUPS, _GROUP_SIZE))
    members = np.arange(_PEOPLE).reshape(_GROUPS, _GROUP_SIZE).tolist()
    stream = generator.integers(_GROUPS, size=_IMPRESSIONS).tolist()
    _stream(f"{_GROUPS} disjoint groups of {_GROUP_SIZE}", disjoint, members, stream, alone=True)

    overlapping, shared_members = _overlapping(generator)
    stream = generator.integers(len(shared_members), size=_IMPRESSIONS).tolist()
    title = f"{_PEOPLE:,} people, each in {_PARTITIONS} groups of {_GROUP_SIZE}"
    _stream(title, overlapping, shared_members, stream, alone=False)
    _batch(generator)


def _overlapping(generator: np.random.Generator) -> tuple[kr.Audience, Members]:
    """Everybody in one group of each of three random partitions."""
    orders = [generator.permutation(_PEOPLE) for _ in range(_PARTITIONS)]
    members = np.concatenate([order.reshape(_GROUPS, _GROUP_SIZE) for order in orders])
    group_of = np.empty((_PEOPLE, _PARTITIONS), dtype=np.int64)
    for partition, order in enumerate(orders):
        group_of[order, partition] = partition * _GROUPS + np.arange(_PEOPLE) // _GROUP_SIZE
    classes = [(tuple(groups), 1) for groups in group_of.tolist()]
    sizes = np.full(_PARTITIONS * _GROUPS, _GROUP_SIZE)
    return kr.Audience.overlapping(sizes, classes), members.tolist()


class _Streaming(Protocol):
    @property
    def reach(self) -> dict[int, float]: ...


def _fresh_meter(audience: kr.Audience, stream: Stream) -> Playback:
    meter = kr.ReachMeter(audience, _CAPS)
    return partial(_play, meter, meter.record, stream)


def _fresh_watched(audience: kr.Audience, stream: Stream) -> Playback:
    """Reach is read after every impression, as the printed algorithm puts it out."""
    meter = kr.ReachMeter(audience, _CAPS)

    def record_and_read(group: int) -> None:
        meter.record(group)
        meter.reach  # noqa: B018 - reading it is what costs

    return partial(_play, meter, record_and_read, stream)


def _fresh_printed(members: Members, stream: Stream) -> Playback:
    algorithm = PrintedAlgorithm(members, _PEOPLE, _GROUP_SIZE, max(_CAPS), len(stream))
    return partial(_play, algorithm, algorithm.win, stream)


def _fresh_group_level(members: Members, stream: Stream) -> Playback:
    counts = [len(people) for people in members]
    algorithm = GroupLevelAlgorithm(counts, _GROUP_SIZE, max(_CAPS), len(stream))
    return partial(_play, algorithm, algorithm.win, stream)


def _play(method: _Streaming, record: Callable[[int], None], stream: Stream) -> dict[int, float]:
    for group in stream:
        record(group)
    return method.reach


def _stream(
    title: str, audience: kr.Audience, members: Members, stream: Stream, *, alone: bool
) -> None:
    worst = _check_every_step(audience, members, stream)
    methods = {
        "kr.ReachMeter.record": partial(_fresh_meter, audience, stream),
        "the same, read each time": partial(_fresh_watched, audience, stream),
        "Algorithm 1 as printed": partial(_fresh_printed, members, stream),
    }
    if alone:
        methods["Algorithm 1 on groups"] = partial(_fresh_group_level, members, stream)
    timings = race_prepared(methods, repeats=5)
    ours = timings["kr.ReachMeter.record"]
    for name, timing in timings.items():
        result = list(timing.result.values())
        check_agreement(name, list(ours.result.values()), result, 1e-9)
    print_table(
        f"{title}, {len(stream):,} impressions one by one, caps 1 to {max(_CAPS)}",
        ("method", "best time", "an impression", "÷ ReachMeter"),
        [
            (
                name,
                duration(timing.seconds),
                duration(timing.seconds / len(stream)),
                f"{timing.seconds / ours.seconds:.1f}",
            )
            for name, timing in timings.items()
        ],
    )
    print(f"  Equal after every impression within {worst:.0e}. Reach is read at the end,")
    print("  and in the second row after every impression.")
    if alone:
        print('  "On groups" is the shortcut that the paper mentions but does not print.')


def _check_every_step(audience: kr.Audience, members: Members, stream: Stream) -> float:
    meter = kr.ReachMeter(audience, _CAPS)
    algorithm = PrintedAlgorithm(members, _PEOPLE, _GROUP_SIZE, max(_CAPS), len(stream))
    worst = 0.0
    for group in stream:
        meter.record(group)
        algorithm.win(group)
        ours, printed = list(meter.reach.values()), list(algorithm.reach.values())
        worst = max(worst, check_agreement("reach after an impression", ours, printed, 1e-9))
    return worst


def _batch(generator: np.random.Generator) -> None:
    groups = generator.integers(_MANY_GROUPS, size=_MANY)
    audience = kr.Audience.disjoint(np.full(_MANY_GROUPS, _GROUP_SIZE))

    def count() -> object:
        return np.bincount(groups, minlength=_MANY_GROUPS)

    def fresh_meter() -> Callable[[], object]:
        return partial(kr.ReachMeter(audience, _CAPS).record_many, groups)

    contestants = {"np.bincount": lambda: count, "kr.ReachMeter.record_many": fresh_meter}
    timings = race_prepared(contestants, repeats=5)
    meter = kr.ReachMeter(audience, _CAPS)
    meter.record_many(groups)
    impressions = np.bincount(groups, minlength=_MANY_GROUPS)
    for cap, reach in meter.reach.items():
        expected = kr.measure(audience, impressions, cap).reach
        check_agreement(f"reach at cap {cap}", reach, expected, 1e-9)
    once = timings["np.bincount"].seconds
    print_table(
        f"{_MANY:,} impressions at once on {_MANY_GROUPS:,} groups of {_GROUP_SIZE}, the same caps",
        ("method", "best time", "rows a second", "÷ bincount"),
        [
            (
                name,
                duration(timing.seconds),
                f"{_MANY / timing.seconds / 1e6:.0f} M",
                f"{timing.seconds / once:.1f}",
            )
            for name, timing in timings.items()
        ],
    )
