"""Conversion of prices: never below a floor, never above what was reserved."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.currencies import MICROS_PER_CPM, Rates, paid_micros
from kreach.errors import KreachError

rates = st.floats(1e-4, 1e4)
RATES = {"EUR": 1.085, "JPY": 0.0067}


@given(st.integers(1, 10**12), rates)
def test_what_is_billed_is_within_what_was_reserved(micros: int, rate: float) -> None:
    table = Rates("USD", {"EUR": rate})
    bid = table.bid_micros(micros, "EUR")
    paid = paid_micros(bid, table.nanos("EUR"))
    assert paid <= micros
    assert micros - paid < max(rate, 1.0) + 1  # less than a micro of either currency is lost


@given(rates)
def test_the_smallest_bid_is_not_zero_in_its_currency(rate: float) -> None:
    table = Rates("USD", {"KWD": rate})
    smallest = table.smallest_bid("KWD")
    assert table.bid_micros(smallest, "KWD") >= 1
    assert table.bid_micros(smallest - 1, "KWD") == 0
    assert table.smallest_bid("USD") == 1


@given(st.floats(0.0, 1e6), rates, rates)
def test_the_lowest_bid_reaches_the_floor(floor: float, floor_rate: float, bid_rate: float) -> None:
    table = Rates("USD", {"EUR": floor_rate, "JPY": bid_rate})
    lowest = table.min_micros(floor, "EUR", "JPY")
    assert lowest is not None
    bid = table.bid_micros(lowest, "JPY")
    assert bid > 0
    asked = max(ceil(floor * MICROS_PER_CPM - 1e-6), 0)
    assert bid * table.nanos("JPY") >= asked * table.nanos("EUR")


@given(st.floats(0.0, 1e6))
def test_our_own_currency_is_not_converted(floor: float) -> None:
    assert Rates("USD", RATES).min_micros(floor, "USD", "USD") == max(
        ceil(floor * MICROS_PER_CPM - 1e-6), 0
    )


@pytest.mark.parametrize("floor", [1e9, float("inf"), float("nan")])
def test_floors_beyond_all_bids(floor: float) -> None:
    assert Rates("USD", RATES).min_micros(floor, "USD", "USD") is None


@pytest.mark.parametrize("bad", [{"eur": 1.0}, {"EURO": 1.0}, {"USD": 1.0}, {"EUR": -1.0}])
def test_rates_that_make_no_sense(bad: dict[str, float]) -> None:
    with pytest.raises(KreachError, match="rates must"):
        Rates("USD", bad)
