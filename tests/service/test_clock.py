"""A clock that never runs backwards."""

import time
from pathlib import Path

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.service.clock import ClockSettings, ReplayClock, SteadyClock


class ManualClock:
    """A clock's hand that tests move."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def sample_clock(
    wall: float = 1_000.0, not_before: float = 0.0
) -> tuple[SteadyClock, ManualClock, ManualClock]:
    walls, monotonic = ManualClock(wall), ManualClock(50.0)
    return SteadyClock(not_before, walls, monotonic), walls, monotonic


def test_it_is_the_wall_clock_while_that_is_steady() -> None:
    clock, wall, monotonic = sample_clock()
    for _ in range(5):
        assert clock() == wall.at
        wall.at += 3.0
        monotonic.at += 3.0
    assert clock.behind_seconds == 0.0


def test_a_step_forward_is_followed() -> None:
    clock, wall, monotonic = sample_clock()
    wall.at += 3_600.0
    monotonic.at += 1.0
    assert clock() == 4_600.0


def test_a_step_back_is_not() -> None:
    clock, wall, monotonic = sample_clock()
    wall.at -= 3_600.0
    assert clock() == 1_000.0
    monotonic.at += 7.0
    wall.at += 7.0
    assert clock() == 1_007.0
    assert clock.behind_seconds == 3_600.0
    wall.at = 2_000.0
    assert clock() == 2_000.0
    assert clock.behind_seconds == 0.0


def test_it_begins_no_earlier_than_it_ended() -> None:
    clock, wall, monotonic = sample_clock(wall=1_000.0, not_before=1_500.0)
    assert clock() == 1_500.0
    monotonic.at += 10.0
    wall.at += 10.0
    assert clock() == 1_510.0
    assert sample_clock(wall=1_000.0, not_before=900.0)[0]() == 1_000.0


def test_it_never_falls_whatever_the_wall_does() -> None:
    clock, wall, monotonic = sample_clock()
    generator = np.random.default_rng(1)
    before, passed = clock(), monotonic.at
    for _ in range(2_000):
        monotonic.at += float(generator.exponential(0.1))
        wall.at += float(generator.normal(0.0, 5.0))
        now = clock()
        assert now - before >= (monotonic.at - passed) - 1e-6
        before, passed = now, monotonic.at


def test_by_default_it_is_the_machines() -> None:
    assert abs(SteadyClock()() - time.time()) < 5.0


def test_a_replayed_clock_is_what_the_replay_sets(tmp_path: Path) -> None:
    path = tmp_path / "now"
    hand = ReplayClock(path, 1_000.0)
    clock = ClockSettings(time_file=path).steady(900.0)
    assert clock() == 1_000.0
    hand.set(2_500.25)
    assert clock() == 2_500.25
    hand.set(2_000.0)  # never back
    assert clock() == 2_500.25


def test_a_replayed_clock_needs_its_file(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="time_file must hold a time"):
        ClockSettings(time_file=tmp_path / "none").steady()
    with pytest.raises(KreachError, match="be left out beside start_file"):
        ClockSettings(time_file=tmp_path / "a", start_file=tmp_path / "b", start_seconds=1.0)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "bid.example.com", "::"])
def test_nobody_else_may_reach_a_service_on_replayed_time(tmp_path: Path, host: str) -> None:
    with pytest.raises(KreachError, match="loopback"):
        ClockSettings(time_file=tmp_path / "now").check_host(host)
    for allowed in ("127.0.0.1", "::1", "localhost"):
        ClockSettings(time_file=tmp_path / "now").check_host(allowed)
    ClockSettings().check_host(host)
