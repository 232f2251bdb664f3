"""The clocks that services run on."""

import time
from pathlib import Path

import pytest

from kreach.errors import KreachError
from kreach.service.clock import ClockMark, ClockSettings, FollowingClock, ReplayClock, SteadyClock


def test_a_clock_that_is_believed_never_goes_back() -> None:
    now = 1_000.0
    clock = FollowingClock(ClockMark(1_500.0), lambda: now)
    assert clock() == 1_500.0
    now = 1e9
    assert clock() == 1e9
    now = 2_000.0
    assert clock() == 1e9
    assert clock.doubt is None


def test_by_default_it_is_the_machines() -> None:
    assert abs(SteadyClock()() - time.time()) < 5.0


def test_a_replayed_clock_is_what_the_replay_sets(tmp_path: Path) -> None:
    path = tmp_path / "now"
    hand = ReplayClock(path, 1_000.0)
    clock = ClockSettings(time_file=path).steady(ClockMark(900.0))
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
