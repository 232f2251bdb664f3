"""Exchange rates, and conversion of prices in whole micros.

A rate says what one unit of a currency is worth in ours; it is held in billionths. Conversion
always rounds against us where it must round, so that a bid is never below a floor, and what is
billed for a bid never above what was reserved for it.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from math import ceil, isfinite

from kreach.errors import KreachError

__all__ = ["MICROS_PER_CPM", "Rates", "paid_micros"]

MICROS_PER_CPM = 1_000  # a price is per thousand, the ledger counts single impressions
_NANOS = 10**9
_MAX_CPM = 1e9


class Rates:
    """Rates of other currencies against ours.

    >>> rates = Rates("USD", {"EUR": 1.085})
    >>> rates.min_micros(2.0, "EUR", "EUR")       # a floor of 2 EUR per thousand, in micros of USD
    2170
    >>> rates.bid_micros(2170, "EUR")             # and what that bid is in EUR
    2000
    >>> rates.min_micros(2.0, "JPY", "USD") is None
    True
    """

    def __init__(self, home: str, rates: Mapping[str, float]) -> None:
        self.home = home
        self._nanos = {home: _NANOS}
        for currency, rate in rates.items():
            if not (len(currency) == 3 and currency.isascii() and currency.isupper()):
                rule = "be of currencies by three capital letters (ISO 4217)"
                raise KreachError.rule("rates", rule, currency)
            if currency == home:
                raise KreachError.rule("rates", "be of other currencies than our own", currency)
            if not (isfinite(rate) and 1e-6 <= rate <= 1e6):
                raise KreachError.rule("rates", "lie between 0.000001 and 1000000", rate)
            exact = Decimal(repr(rate)) * _NANOS
            self._nanos[currency] = int(exact.quantize(Decimal(1), ROUND_HALF_UP))

    def __contains__(self, currency: str) -> bool:
        return currency in self._nanos

    def nanos(self, currency: str) -> int:
        """What a billionth of our currency goes into one unit of a known one."""
        return self._nanos[currency]

    def min_micros(self, floor: float, currency: str, bid_currency: str) -> int | None:
        """The lowest bid, in micros of ours, that is not below a floor (CPM) in a currency.

        The bid is made in `bid_currency`. None if one of them is unknown, or the floor is beyond
        all bids.
        """
        rate, bid_rate = self._nanos.get(currency), self._nanos.get(bid_currency)
        if rate is None or bid_rate is None or not (isfinite(floor) and floor < _MAX_CPM):
            return None
        asked = ceil(floor * MICROS_PER_CPM - 1e-6)  # micros of the floor's currency
        if asked <= 0:
            return 0 if bid_rate == _NANOS else self.smallest_bid(bid_currency)
        if rate == bid_rate == _NANOS:
            return asked
        bid = -(-asked * rate // bid_rate)  # of the bid's
        return -(-bid * bid_rate // _NANOS)

    def smallest_bid(self, currency: str) -> int:
        """The lowest bid, in micros of ours, that is not zero in a known currency."""
        return -(-self._nanos[currency] // _NANOS)

    def bid_micros(self, micros: int, currency: str) -> int:
        """Micros of ours in another currency, rounded down."""
        return micros * _NANOS // self._nanos[currency]


def paid_micros(micros: int, nanos: int) -> int:
    """Micros of a currency with this rate in ours, rounded up.

    >>> paid_micros(2000, Rates("USD", {"EUR": 1.085}).nanos("EUR"))
    2170
    """
    return -(-micros * nanos // _NANOS)
