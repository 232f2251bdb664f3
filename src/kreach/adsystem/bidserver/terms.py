"""On which terms a place can be bought: its open auction, and the deals it offers."""

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from kreach.adsystem.bidserver.exchanges import FIXED_PRICE, SECOND_PRICE
from kreach.boundary.currencies import MICROS_PER_CPM, Rates
from kreach.boundary.openrtb_places import Deal, Imp

__all__ = ["Deals", "Terms", "terms_for", "terms_of"]

_FIRST, _FIXED = 1, 3  # `at`
_MAX_CPM = 1e9
_DEFAULT_CURRENCY = "USD"  # of floors, says OpenRTB


class Terms(msgspec.Struct, frozen=True, gc=False):
    """The minimum bid in micros, the venue, and of a deal its id and advertisers.

    (A struct is made quicker than a tuple with names, and read quicker.)
    """

    floor: int
    venue: int
    deal: str | None = None
    domains: frozenset[str] | None = None


Deals = Mapping[str, Terms]


def terms_for(
    open_terms: Terms | None, deals: Deals, names: Sequence[str], *, deals_only: bool
) -> Terms | None:
    """The terms for a campaign that names these deals, a deal before the open auction."""
    for name in names:
        if name in deals:
            return deals[name]
    return None if deals_only else open_terms


def terms_of(
    imp: Imp, venue: int, first_price_venue: int, rates: Rates, currency: str, seat: str
) -> tuple[Terms | None, Deals | None, str]:
    """Terms of the open auction and of deals for bids in a currency; or why there are none."""
    if imp.banner is None and imp.video is None and imp.audio is None and imp.native is None:
        return None, None, "no media type"
    floor: int | None = 0 if currency == rates.home else rates.smallest_bid(currency)
    why = ""
    asked = imp.bidfloor
    if asked is not None and asked > 0.0:
        if asked < _MAX_CPM and currency == rates.home == (imp.bidfloorcur or _DEFAULT_CURRENCY):
            floor = ceil(asked * MICROS_PER_CPM - 1e-6)
        else:
            floor, why = _floor(asked, imp.bidfloorcur, rates, currency)
    pmp = imp.pmp
    if pmp is None:
        if floor is None:
            return None, None, why
        return Terms(floor, venue), None, why
    if pmp.private_auction:
        floor, why = None, "private auction"
    deals = {}
    for deal in pmp.deals or ():
        terms = _deal_terms(deal, venue, first_price_venue, rates, currency, seat)
        if terms is not None and deal.id is not None:
            deals[deal.id] = terms
    return (None if floor is None else Terms(floor, venue)), deals or None, why


def _floor(
    floor: float, floor_currency: str | None, rates: Rates, currency: str
) -> tuple[int | None, str]:
    floor_currency = floor_currency or _DEFAULT_CURRENCY
    if floor_currency not in rates:
        return None, "floor currency"
    return rates.min_micros(floor, floor_currency, currency), "below floor"


def _deal_terms(
    deal: Deal, venue: int, first_price_venue: int, rates: Rates, currency: str, seat: str
) -> Terms | None:
    """The terms of a deal; None if it is not for us or cannot be understood."""
    if deal.id is None or (deal.wseat and seat not in deal.wseat):
        return None
    floor: int | None = 0 if currency == rates.home else rates.smallest_bid(currency)
    if deal.bidfloor is not None and deal.bidfloor > 0.0:
        floor, _ = _floor(deal.bidfloor, deal.bidfloorcur, rates, currency)
    if floor is None:
        return None
    if deal.at == _FIXED:
        venue = FIXED_PRICE
    elif deal.at is not None:
        venue = first_price_venue if deal.at == _FIRST else SECOND_PRICE
    domains = frozenset(map(str.lower, deal.wadomain)) if deal.wadomain else None
    return Terms(floor, venue, deal.id, domains)
