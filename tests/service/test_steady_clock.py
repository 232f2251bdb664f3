"""A wall clock that steps, drifts and lies; and the time that passes all the same."""

import time
from dataclasses import dataclass

import numpy as np
import pytest

from kreach.service.steady_clock import (
    MAX_DRIFT,
    MAX_SLEW_SECONDS,
    MAX_STEP_SECONDS,
    SETTLE_SECONDS,
    TOLERANCE_SECONDS,
    ClockMark,
    ClockStep,
    SteadyClock,
    boot_number,
    boot_seconds,
)

NOW = 1_793_500_000.0
DAY = 86_400.0
YEAR = 365 * DAY


@dataclass
class Machine:
    """A machine whose clocks the test sets."""

    wall: float = NOW
    uptime: float = 50.0

    def clock(self, mark: ClockMark | None = None, *, confirm: bool = False) -> SteadyClock:
        return SteadyClock(mark, lambda: self.wall, lambda: self.uptime, boot=1, confirm=confirm)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.uptime += seconds


def in_doubt(clock: SteadyClock) -> bool:
    return clock.doubt is not None


def test_it_is_the_wall_clock_while_that_is_steady() -> None:
    machine = Machine()
    clock = machine.clock()
    for seconds in (0.01, 3.0, 3_600.0, YEAR):
        machine.passes(seconds)
        assert clock() == pytest.approx(machine.wall, abs=1e-6)
        assert not in_doubt(clock)


@pytest.mark.parametrize("step", [1.0, 4.9, -1.0, -4.9])
def test_a_leap_second_is_nothing_to_talk_about(step: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += step
    for _ in range(200):
        before = clock()
        machine.passes(0.1)
        assert clock() >= before
        assert not in_doubt(clock)
    assert clock() == pytest.approx(machine.wall, abs=0.01)


@pytest.mark.parametrize("step", [6.0, 3_600.0, DAY, 10 * YEAR, -6.0, -3_600.0, -10 * YEAR])
def test_a_step_is_doubted_and_time_goes_on(step: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += step
    for passed in range(1, 500):
        machine.passes(1.0)
        assert clock() == pytest.approx(NOW + passed, abs=1e-3)
    assert clock.doubt is not None
    assert clock.doubt.lead_seconds == pytest.approx(step, abs=1e-3)
    assert ("ahead of" if step > 0 else "behind") in clock.doubt.reason
    machine.wall -= step  # it was a mistake
    machine.passes(1.0)
    assert clock() == pytest.approx(NOW + 500, abs=1e-3)
    assert not in_doubt(clock)


def test_a_step_forward_is_believed_at_last() -> None:
    for step, needed in ((6.0, SETTLE_SECONDS), (DAY, DAY / 10)):
        machine = Machine()
        clock = machine.clock()
        machine.wall += step
        clock.check()
        machine.passes(needed - 1.0)
        assert clock() == pytest.approx(machine.wall - step)
        assert in_doubt(clock)
        machine.passes(1.0)
        clock.check()
        assert not in_doubt(clock)
        assert clock() == pytest.approx(machine.wall)


def test_one_of_years_is_not_however_long_it_lasts() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += MAX_STEP_SECONDS + DAY
    for _ in range(100):
        machine.passes(DAY)
        clock.check()
    assert in_doubt(clock)
    assert clock() == pytest.approx(NOW + 100 * DAY)


def test_a_clock_that_keeps_stepping_is_never_believed() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.wall += 100.0
        for _ in range(10):
            machine.passes(SETTLE_SECONDS / 11)
            clock.check()
        assert in_doubt(clock)
    assert clock() == pytest.approx(machine.wall - 10_000.0)


def test_steps_are_proposed_to_who_has_to_confirm_them() -> None:
    machine = Machine()
    clock = machine.clock(confirm=True)
    machine.wall += 100.0
    clock.check()
    machine.passes(SETTLE_SECONDS)
    clock.check()
    assert clock.proposal == ClockStep(NOW + SETTLE_SECONDS, machine.wall)
    assert in_doubt(clock)
    assert clock() == pytest.approx(machine.wall - 100.0)
    assert clock.accept()
    assert not in_doubt(clock)
    assert clock() == pytest.approx(machine.wall)
    assert not clock.accept()


def test_a_proposal_ends_with_the_next_step() -> None:
    machine = Machine()
    clock = machine.clock(confirm=True)
    machine.wall += 100.0
    clock.check()
    machine.passes(SETTLE_SECONDS)
    clock.check()
    machine.wall -= 50.0
    clock.check()
    assert clock.proposal is None
    assert not clock.accept()


def test_a_step_back_of_an_hour_is_caught_up_with() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall -= MAX_SLEW_SECONDS
    clock.check()
    machine.passes(SETTLE_SECONDS)
    clock.check()
    assert not in_doubt(clock)
    before = clock()
    for _ in range(round(2 * MAX_SLEW_SECONDS) + 10):
        machine.passes(1.0)
        now = clock()
        assert before <= now <= before + 1.0 + 1e-3
        before = now
    assert clock() == pytest.approx(machine.wall, abs=1.0)
    assert not in_doubt(clock)


def test_a_machine_that_is_suspended_while_time_runs_slow() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall -= 3.0
    clock.check()
    machine.passes(8 * 3_600.0)  # and nobody compares the clocks
    assert clock() == pytest.approx(machine.wall, abs=1e-3)
    assert not in_doubt(clock)


def test_one_of_a_day_is_not() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall -= DAY
    clock.check()
    machine.passes(DAY)
    assert clock() == pytest.approx(NOW + DAY)
    assert in_doubt(clock)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_wall_does_time_neither_falls_nor_runs_ahead(seed: int) -> None:
    generator = np.random.default_rng(seed)
    machine = Machine()
    clock = machine.clock(confirm=True)  # and nobody does
    before, began = clock(), machine.uptime
    for _ in range(5_000):
        seconds = float(generator.exponential(0.3))
        machine.passes(seconds)
        machine.wall += float(generator.choice([0.0, 0.0, 0.0, 0.1, 1.0, -1.0, 40.0, -40.0, DAY]))
        now = clock()
        assert now >= before
        before = now
        passed = machine.uptime - began
        assert now <= NOW + passed * (1.0 + MAX_DRIFT) + TOLERANCE_SECONDS + 1e-3
        assert now >= NOW + passed * 0.5 - 1e-3


def mark_at(machine: Machine, boot: int = 1) -> ClockMark:
    return ClockMark(machine.wall, machine.wall, boot, machine.uptime)


@pytest.mark.parametrize("step", [3_600.0, 10 * YEAR, -3_600.0, -10 * YEAR])
def test_a_restart_does_not_believe_a_step_either(step: float) -> None:
    machine = Machine()
    mark = mark_at(machine)
    machine.passes(100.0)
    machine.wall += step
    clock = machine.clock(mark)
    assert in_doubt(clock)
    assert clock() == pytest.approx(NOW + 100.0)
    machine.wall -= step
    machine.passes(1.0)
    assert clock() == pytest.approx(NOW + 101.0)
    assert not in_doubt(clock)


def test_after_a_reboot_the_wall_clock_may_be_later_but_not_by_years() -> None:
    for off, doubted in ((10.0, False), (30 * DAY, False), (2 * YEAR, True), (-60.0, True)):
        machine = Machine()
        mark = mark_at(machine, boot=7)
        machine.wall += off
        machine.uptime = 3.0
        clock = machine.clock(mark)
        assert (clock.doubt is not None) == doubted
        assert clock() == pytest.approx(NOW if doubted else machine.wall)


def test_without_a_reading_it_begins_no_earlier_than_it_ended() -> None:
    machine = Machine()
    assert machine.clock(ClockMark(NOW - 5 * YEAR))() == NOW
    clock = machine.clock(ClockMark(NOW + 100.0))
    assert clock() == NOW + 100.0
    assert in_doubt(clock)


def test_a_thread_that_sleeps_between_two_readings_is_no_step() -> None:
    machine = Machine()
    readings = 0

    def slow_wall() -> float:
        nonlocal readings
        readings += 1
        if readings <= 2:
            return machine.wall
        if readings % 2:
            machine.passes(20.0)
        wall = machine.wall
        if not readings % 2:
            machine.passes(20.0)
        return wall

    clock = SteadyClock(None, slow_wall, lambda: machine.uptime)
    for _ in range(50):
        machine.passes(0.2)
        clock.check()
        assert not in_doubt(clock)


def test_the_machines_own_clocks() -> None:
    clock = SteadyClock()
    assert abs(clock() - time.time()) < TOLERANCE_SECONDS
    assert boot_seconds() > 0.0
    assert boot_number() == boot_number()
