"""A purse: nothing past the budget or the day, nothing outside the flight, refunds to the cent."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kreach as kr

DAY = 86_400.0


def spend_greedily(
    purse: kr.Purse, shares: Sequence[float], moments: Sequence[float]
) -> dict[int, float]:
    """Pay a share of what is available at each moment; what was paid, by day."""
    by_day: dict[int, float] = {}
    for share, now in zip(shares, moments, strict=True):
        price = share * purse.available(now)
        purse.pay(price, now)
        day = int((now - purse.start) // DAY)
        by_day[day] = by_day.get(day, 0.0) + price
    return by_day


shares_paid = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)), max_size=30)


@given(budget=st.floats(1e-6, 1e12), shares=shares_paid)
@example(budget=1.8100476180589211, shares=[0.34804710439257025 / 1.8100476180589211, 1.0])
@example(budget=1.5 + 2.0**-52, shares=[2.0**-52, 1.0])
def test_never_over_the_budget(budget: float, shares: list[float]) -> None:
    purse = kr.Purse(budget, 0.0, 1.0)
    spend_greedily(purse, shares, [0.5] * len(shares))
    assert 0.0 <= purse.spent <= budget
    assert purse.available(0.5) >= 0.0


def test_what_is_available_may_be_paid() -> None:
    """Not by the last digit of a float either."""
    purse = kr.Purse(1.8100476180589211, 0.0, 1.0)
    purse.pay(0.34804710439257025, 0.0)
    purse.pay(purse.available(0.0), 0.0)
    assert purse.spent <= purse.budget


@given(
    budget=st.floats(1.0, 1e6),
    share_of_day=st.floats(0.01, 1.5),
    shares=shares_paid,
    gaps=st.lists(st.floats(0.0, 1.2 * DAY), min_size=30, max_size=30),
)
def test_never_over_the_day(
    budget: float, share_of_day: float, shares: list[float], gaps: list[float]
) -> None:
    daily = share_of_day * budget
    start = 0.3 * DAY
    purse = kr.Purse(budget, start, start + 20 * DAY, daily_budget=daily)
    moments = [start + sum(gaps[: at + 1]) for at in range(len(shares))]
    by_day = spend_greedily(purse, shares, moments)
    assert purse.spent <= budget
    assert max(by_day.values(), default=0.0) <= daily * (1.0 + 1e-12)


def test_a_day_begins_where_the_flight_does() -> None:
    """Days count from the start, here 18:00: at midnight nothing new is available."""
    start = 0.75 * DAY
    purse = kr.Purse(100.0, start, start + 3 * DAY, daily_budget=10.0)
    assert purse.available(start) == 10.0
    purse.pay(10.0, start + 60.0)
    assert purse.available(DAY) == 0.0
    assert purse.available(start + DAY - 1.0) == 0.0
    assert purse.available(start + DAY) == 10.0
    purse.pay(4.0, start + DAY)
    assert purse.available(start + DAY) == 6.0
    assert purse.available(start + 2.5 * DAY) == 10.0  # what a day leaves does not move on


def test_the_flight_limits_the_last_days() -> None:
    purse = kr.Purse(25.0, 0.0, 10 * DAY, daily_budget=10.0)
    for day in range(3):
        purse.pay(purse.available(day * DAY), day * DAY)
    assert purse.spent == 25.0
    assert purse.available(3 * DAY) == 0.0


@pytest.mark.parametrize("now", [-1.0, 99.999, 200.0, 200.001, 1e9, float("nan")])
def test_nothing_outside_the_flight(now: float) -> None:
    """A flight covers [start, end)."""
    assert kr.Purse(5.0, 100.0, 200.0).available(now) == 0.0


@pytest.mark.parametrize("now", [100.0, 150.0, 199.999])
def test_everything_inside_it(now: float) -> None:
    assert kr.Purse(5.0, 100.0, 200.0).available(now) == 5.0


def test_what_can_still_be_planned() -> None:
    """The rest of today, and a daily budget for each day to come, but not more than there is."""
    purse = kr.Purse(100.0, 0.0, 4 * DAY, daily_budget=20.0)
    assert purse.plannable(0.0) == pytest.approx(80.0)
    purse.pay(5.0, 0.5 * DAY)
    assert purse.plannable(0.5 * DAY) == pytest.approx(75.0)
    assert purse.plannable(3.5 * DAY) == pytest.approx(20.0)
    assert kr.Purse(30.0, 0.0, 4 * DAY, daily_budget=20.0).plannable(0.0) == 30.0
    plain = kr.Purse(30.0, 0.0, 4 * DAY)
    plain.pay(12.0, 1.0)
    assert plain.plannable(2.0) == 18.0


def test_a_refund_comes_back() -> None:
    purse = kr.Purse(10.0, 0.0, 1.0)
    purse.pay(6.0, 0.0)
    purse.refund(2.5)
    assert (purse.spent, purse.available(0.5)) == (3.5, 6.5)


@given(amounts=st.lists(st.floats(0.0, 3.0), max_size=8), data=st.data())
def test_what_is_held_is_not_available(amounts: list[float], data: st.DataObject) -> None:
    """Held amounts may be released in any order; afterwards everything is available again."""
    purse = kr.Purse(20.0, 0.0, 1.0)
    for at, amount in enumerate(amounts):
        purse.hold(amount)
        assert purse.available(0.5) == pytest.approx(max(20.0 - sum(amounts[: at + 1]), 0.0))
    assert purse.spent == 0.0
    for amount in data.draw(st.permutations(amounts)):
        purse.release(amount)
    assert purse.available(0.5) == 20.0


def test_a_day_too_is_held_back() -> None:
    purse = kr.Purse(100.0, 0.0, 3 * DAY, daily_budget=10.0)
    purse.hold(4.0)
    assert purse.available(1.0) == 6.0
    purse.release(4.0)
    purse.pay(3.0, 1.0)
    assert purse.available(1.0) == 7.0


@given(prices=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=12), data=st.data())
@example(prices=[0.1, 0.7], data=None)
def test_everything_paid_can_be_refunded(prices: list[float], data: st.DataObject | None) -> None:
    """In any order, whatever floats round."""
    purse = kr.Purse(1e9, 0.0, 1.0)
    for price in prices:
        purse.pay(price, 0.0)
    order = prices[::-1] if data is None else data.draw(st.permutations(prices))
    for price in order:
        purse.refund(price)
    assert purse.spent == pytest.approx(0.0, abs=1e-9 * sum(prices))
    assert purse.spent >= 0.0


@pytest.mark.parametrize("price", [-1.0, 3.1, float("nan"), float("inf")])
def test_a_refund_of_what_was_not_paid_is_refused(price: float) -> None:
    purse = kr.Purse(10.0, 0.0, 1.0)
    purse.pay(3.0, 0.0)
    with pytest.raises(
        kr.KreachError, match=r"^price must lie between 0 and the spend \(3.0\), got"
    ):
        purse.refund(price)
    assert purse.spent == 3.0


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_an_impossible_price_is_refused(price: float) -> None:
    purse = kr.Purse(10.0, 0.0, 1.0)
    with pytest.raises(kr.KreachError, match=r"^price must be a finite number ≥ 0, got"):
        purse.pay(price, 0.0)
    assert purse.spent == 0.0


@pytest.mark.parametrize("wrong", [0.0, -5.0, float("nan"), float("inf")])
def test_an_impossible_budget_is_refused(wrong: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^budget must be a finite number > 0, got"):
        kr.Purse(wrong, 0.0, 1.0)
    with pytest.raises(kr.KreachError, match=r"^daily_budget must be a finite number > 0, got"):
        kr.Purse(1.0, 0.0, 1.0, daily_budget=wrong)


@pytest.mark.parametrize(("start", "end"), [(5.0, 5.0), (5.0, 4.0), (0.0, float("nan"))])
def test_a_flight_that_ends_before_it_starts_is_refused(start: float, end: float) -> None:
    with pytest.raises(kr.KreachError, match=rf"^end must come after the start \({start}\), got"):
        kr.Purse(1.0, start, end)
