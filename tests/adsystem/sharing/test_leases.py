"""How much is asked for, what is given back, and what of a day may be used."""

from pathlib import Path

import pytest

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.sharing.grants import Grants
from kreach.adsystem.sharing.leases import apply_day_lease, budget_status, lease_size
from kreach.adsystem.sharing.redis_pool import BudgetStatus, LeaseGrant
from tests.adsystem.ledger.sample_journals import journal, wait

UNIT = 1_000_000


def account(budget: int = 100 * UNIT, daily: int | None = None, granted: int = 0) -> Account:
    made = Account(budget, daily, 0.0)
    made.day_grants = {}
    made.granted = granted
    return made


def told(made: Account, day: int | None = None, *, idle: bool = False) -> BudgetStatus:
    return budget_status(7, made, day, 4, idle=idle, asking=True)


@pytest.mark.parametrize(
    ("limit", "left", "bidders", "expected"),
    [
        (100 * UNIT, 100 * UNIT, 2, 2 * UNIT),  # a fiftieth
        (100 * UNIT, 8 * UNIT, 2, UNIT),  # near the end, a quarter of an equal share
        (100 * UNIT, 8 * UNIT, 10, 200_000),
        (100 * UNIT, 0, 2, 50_000),  # at least this, or single bids would not fit
        (100_000, 100_000, 2, 50_000),
    ],
)
def test_slices_get_smaller_towards_the_end(
    limit: int, left: int, bidders: int, expected: int
) -> None:
    assert lease_size(limit, left, bidders) == expected


@pytest.mark.parametrize(
    ("limit", "left", "bid", "expected"),
    [
        (100 * UNIT, 100 * UNIT, 1_000, 2 * UNIT),  # it holds thousands of bids as it is
        (100 * UNIT, 100 * UNIT, UNIT, 4 * UNIT),  # four bids
        (10 * UNIT, 6 * UNIT, UNIT, 3 * UNIT),  # not more than an equal share,
        (10 * UNIT, UNIT + 1, UNIT, UNIT),  # and at last one bid,
        (10 * UNIT, UNIT // 2, UNIT, UNIT // 2),  # or what is left
    ],
)
def test_slices_hold_several_bids(limit: int, left: int, bid: int, expected: int) -> None:
    assert lease_size(limit, left, 2, bid) == expected


def test_more_is_asked_for_when_half_a_slice_is_left() -> None:
    made = account(granted=2 * UNIT)
    assert told(made) == BudgetStatus(7, 100 * UNIT, 0, 2 * UNIT)
    made.reserve(UNIT + 1, 0)
    assert told(made).wanted == 3 * UNIT + 1
    almost = account(budget=110_000, granted=80_000)
    almost.reserve(70_000, 0)
    assert told(almost).wanted == 110_000  # never beyond the budget


def test_what_others_spent_makes_slices_smaller() -> None:
    made = account()
    made.spent_elsewhere = 84 * UNIT
    assert told(made).wanted == UNIT


def test_what_is_not_needed_is_out_of_the_account_before_others_hear_of_it() -> None:
    made = account(granted=7 * UNIT)
    made.reserve(UNIT, 0)
    assert told(made).wanted == 3 * UNIT
    assert made.granted == 3 * UNIT
    assert told(made, idle=True).wanted == made.granted == UNIT  # only what is out


def test_what_is_held_is_told_without_asking() -> None:
    made = account(granted=UNIT)
    assert budget_status(7, made, None, 4, idle=False, asking=False).wanted == UNIT


def test_a_day_has_its_own_slices() -> None:
    made = account(daily=10 * UNIT, granted=2 * UNIT)
    made.day_grants = {3: 150_000}
    made.reserve(100_000, 3)
    assert told(made, 3)[4:] == (3, 10 * UNIT, 0, 300_000)
    made.day_grants = {3: UNIT}
    assert told(made, 3)[4:] == (3, 10 * UNIT, 0, 300_000)
    assert made.day_grants == {3: 300_000}


def test_what_an_earlier_run_may_have_out_is_told_and_not_used() -> None:
    made = account(daily=10 * UNIT)
    made.book(200_000, 3)
    made.carry(UNIT, 100.0)
    said = budget_status(7, made, 3, 4, idle=False, asking=False)
    assert said == BudgetStatus(7, 100 * UNIT, 200_000, UNIT, 3, 10 * UNIT, 200_000, UNIT)
    assert made.day_grants == {3: 0}
    made.expire_carried(101.0)
    assert made.available(3) == 0  # though the flight's money is there


@pytest.mark.parametrize(
    ("granted", "allowed", "all_told", "usable"),
    [
        (500, 900, True, 500),
        (500, 400, True, 400),  # Redis took down what was said; others hold the rest
        (500, 900, False, 0),  # who has not told may hold it
        (500, 0, True, 30),  # what is out is out
    ],
)
def test_of_a_day_only_what_others_leave_may_be_used(
    granted: int, allowed: int, all_told: bool, usable: int
) -> None:
    made = account(daily=1_000, granted=UNIT)
    made.book(30, 2)
    made.day_grants = {1: 700}
    apply_day_lease(made, 2, LeaseGrant(0, 0, 0, granted, allowed, 55), leasing=all_told)
    assert made.day_grants == {2: usable}
    assert made.spent_elsewhere_on == {2: 55}


def test_a_day_keeps_what_it_has_while_others_are_waited_for() -> None:
    made = account(daily=1_000, granted=UNIT)
    made.day_grants = {2: 300}
    apply_day_lease(made, 2, LeaseGrant(0, 0, 0, 300, 1_000, 0), leasing=False)
    assert made.day_grants == {2: 300}
    apply_day_lease(
        made, 2, LeaseGrant(0, 0, 0, 300, 200, 0), leasing=True
    )  # the day's budget was lowered
    assert made.day_grants == {2: 200}


def grants_of(folder: Path) -> dict[int, int]:
    with journal(folder) as log:
        return dict(log.read("SELECT campaign, micros FROM grants"))


def test_grants_count_when_the_log_has_them(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    with journal(tmp_path) as log:
        grants = Grants(
            log, lambda done: done, lambda number, micros: heard.append((number, micros))
        )
        grants.raise_to(1, 500)
        assert grants.max_logged(1) == 500  # it may be written already
        wait(log)
        assert heard == [(1, 500)]
        grants.lower(1, 600)
        grants.lower(1, 200)
        assert grants.max_logged(1) == 500  # not before it is written
        wait(log)
        assert (heard, grants.max_logged(1)) == ([(1, 500)], 200)
    assert grants_of(tmp_path) == {1: 200}


def test_a_grant_that_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    with journal(tmp_path) as log:
        grants = Grants(
            log, lambda done: done, lambda number, micros: heard.append((number, micros))
        )
        grants.load(1, 300)
        log.run_now(lambda connection: connection.execute("DROP TABLE grants"))
        grants.raise_to(1, 500)
        wait(log)
        assert heard == []
        assert grants.max_logged(1) == 500  # nobody knows how far it got
        grants.settle({1: 100})
        assert grants.max_logged(1) == 500


def test_at_the_end_what_is_held_is_written_whatever_is_under_way(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    with journal(tmp_path) as log:
        grants = Grants(
            log, lambda done: done, lambda number, micros: heard.append((number, micros))
        )
        grants.load(2, 80)
        grants.raise_to(1, 500)
        grants.settle({1: 120, 2: 80, 3: 0})
        assert [grants.max_logged(number) for number in (1, 2, 3)] == [120, 80, 0]
    assert grants_of(tmp_path) == {1: 120, 2: 80, 3: 0}
