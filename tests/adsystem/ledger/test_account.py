"""One campaign's money, step by step."""

import pytest

from kreach.adsystem.ledger.account import Account
from kreach.boundary.money import as_micros
from kreach.boundary.times import DAY_SECONDS
from kreach.errors import KreachError

START = 1_790_000_000.25
DAY_MICROS = DAY_SECONDS * 1_000_000


def granted(budget: int, daily: int | None = None, grant: int | None = None) -> Account:
    account = Account(budget, daily, START)
    account.granted = budget if grant is None else grant
    return account


def test_days_count_from_the_start_of_the_flight_to_the_micro() -> None:
    account = Account(100, None, START)
    first = round(START * 1e6)
    for day in (0, 1, 2, 500):
        assert account.day_of(first + day * DAY_MICROS) == day
        assert account.day_of(first + (day + 1) * DAY_MICROS - 1) == day
    assert account.day_of(first - 1) == -1


def test_what_is_not_granted_is_not_available() -> None:
    account = Account(1_000, None, START)
    assert account.available(0) == 0
    account.granted = 300
    assert account.available(0) == 300
    account.granted = 2_000  # more than the budget, which was lowered
    assert account.available(0) == 1_000


def test_the_last_micro_may_be_reserved_and_not_one_more() -> None:
    account = granted(1_000, daily=400)
    account.reserve(399, 0)
    with pytest.raises(KreachError, match="at most 1 micros, got 2"):
        account.reserve(2, 0)
    account.reserve(1, 0)
    assert account.available(0) == 0
    assert account.available(1) == 400
    for nothing in (0, -1):
        with pytest.raises(KreachError):
            account.reserve(nothing, 1)


def test_a_post_frees_what_it_did_not_cost_on_the_day_of_the_bid() -> None:
    account = granted(1_000, daily=400)
    account.reserve(400, 0)
    account.reserve(400, 1)
    account.post(400, 150, 0)
    assert (account.spent, account.reserved) == (150, 400)
    assert (account.spent_on(0), account.spent_on(1)) == (150, 0)
    assert (account.available(0), account.available(1)) == (250, 0)


def test_what_an_earlier_run_had_out_is_carried_until_it_must_have_expired() -> None:
    account = granted(1_000)
    account.book(200, 0)
    account.carry(700, until=50.0)
    assert (account.granted, account.carried, account.available(0)) == (700, 500, 0)
    assert account.hold_carried(120, 0)
    assert (account.reserved, account.carried, account.available(0)) == (120, 380, 0)
    assert not account.hold_carried(381, 0)
    account.unhold_carried(120, 0)
    assert (account.reserved, account.carried, account.available(0)) == (0, 500, 0)
    assert account.expire_carried(49.9) == 0
    assert account.expire_carried(50.0) == 500
    assert account.expire_carried(51.0) == 0
    assert account.available(0) == 500


def test_carried_money_counts_against_every_day() -> None:
    account = granted(1_000, daily=300)
    account.carry(250, until=50.0)
    account.granted = 1_000
    assert (account.available(0), account.available(1)) == (50, 50)


def test_an_earlier_run_cannot_have_had_more_out_on_a_day_than_the_day_allows() -> None:
    """Whatever is billed by mistake: no day pays for it twice."""
    account = granted(1_000, daily=300)
    account.book(250, 0)
    account.carry(900, until=50.0)
    assert not account.hold_carried(51, 0)
    assert account.hold_carried(50, 0)
    account.post(50, 50, 0)
    assert account.spent_on(0) == 300
    assert account.hold_carried(300, 1)


def test_grants_come_in_slices_and_never_beyond_the_budget() -> None:
    account = Account(1_000, None, START)
    assert account.wanted_grant(300) == 300
    account.granted = 300
    assert account.wanted_grant(300) is None
    account.reserve(150, 0)
    assert account.wanted_grant(300) is None  # half a slice is left
    account.reserve(1, 0)
    assert account.wanted_grant(300) == 451
    account.granted = 1_000
    account.reserve(849, 0)
    assert account.wanted_grant(300) is None
    account.budget = 1_100
    assert account.wanted_grant(300) == 1_100


def test_a_lowered_budget_stops_bids_and_keeps_what_was_spent() -> None:
    account = granted(1_000, daily=600)
    account.reserve(500, 0)
    account.post(500, 500, 0)
    account.reserve(50, 0)
    account.budget, account.daily = 400, 300
    assert (account.available(0), account.left(), account.left_today(0)) == (0, 0, 0)
    account.post(50, 50, 0)  # was out before: it is owed
    assert account.spent == 550
    account.budget = account.daily = 600
    assert account.available(0) == 50


def test_left_today() -> None:
    account = granted(1_000, daily=300)
    account.book(250, 0)
    assert (account.left(), account.left_today(0), account.left_today(1)) == (750, 50, 300)
    account.book(700, 5)
    assert account.left_today(1) == 50
    assert granted(1_000).left_today(3) == 1_000


@pytest.mark.parametrize(
    ("amount", "micros"), [(1, 1_000_000), (0.000001, 1), (12.345678, 12_345_678), (1e11, 10**17)]
)
def test_money_in_micros(amount: float, micros: int) -> None:
    assert as_micros("budget", amount) == micros


@pytest.mark.parametrize(
    "amount", [0, -1, 1e-7, 1.0000005, True, "1", None, float("nan"), float("inf"), 1e12]
)
def test_what_is_no_money_is_refused(amount: object) -> None:
    with pytest.raises(KreachError, match="budget must be money"):
        as_micros("budget", amount)
