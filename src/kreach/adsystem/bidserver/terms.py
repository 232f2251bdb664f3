"""On which terms a place can be bought: its open auction, and the deals it offers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kreach.adsystem.bidserver.exchanges import FIXED_PRICE, SECOND_PRICE
from kreach.boundary.currencies import Rates
from kreach.boundary.openrtb_places import Deal, Imp

__all__ = ["Place", "Terms", "place_of"]

_FIRST, _FIXED = 1, 3  # `at`
_DEFAULT_CURRENCY = "USD"  # of floors, says OpenRTB


class Terms(NamedTuple):
    """The minimum bid in micros, the venue, and of a deal its id and advertisers."""

    floor: int
    venue: int
    deal: str | None = None
    domains: frozenset[str] | None = None


@dataclass(slots=True)
class Place:
    """A placement: `floor` of its open auction, None if only deals are sold."""

    imp: Imp
    floor: int | None
    venue: int
    deals: Mapping[str, Terms] | None = None

    def terms(self, deals: Sequence[str], *, deals_only: bool = False) -> Terms | None:
        """The terms for a campaign that names these deals, a deal before the open auction."""
        if self.deals:
            for name in deals:
                if name in self.deals:
                    return self.deals[name]
        if self.floor is None or deals_only:
            return None
        return Terms(self.floor, self.venue)


def place_of(
    imp: Imp, venue: int, first_price_venue: int, rates: Rates, currency: str, seat: str
) -> tuple[Place | None, str]:
    """A placement as it can be bought with bids in a currency; or why it cannot."""
    if imp.banner is None and imp.video is None and imp.audio is None and imp.native is None:
        return None, "no media type"
    floor: int | None = 0
    why = ""
    if imp.bidfloor is not None and imp.bidfloor > 0.0:
        floor, why = _floor(imp.bidfloor, imp.bidfloorcur, rates, currency)
    pmp = imp.pmp
    if pmp is None:
        return (None, why) if floor is None else (Place(imp, floor, venue), "")
    if pmp.private_auction:
        floor, why = None, "private auction"
    deals = {}
    for deal in pmp.deals or ():
        terms = _deal_terms(deal, imp, venue, first_price_venue, rates, currency, seat)
        if terms is not None and deal.id is not None:
            deals[deal.id] = terms
    if floor is None and not deals:
        return None, why
    return Place(imp, floor, venue, deals), ""


def _floor(
    floor: float, floor_currency: str | None, rates: Rates, currency: str
) -> tuple[int | None, str]:
    floor_currency = floor_currency or _DEFAULT_CURRENCY
    if floor_currency not in rates:
        return None, "floor currency"
    return rates.min_micros(floor, floor_currency, currency), "below floor"


def _deal_terms(
    deal: Deal, imp: Imp, venue: int, first_price_venue: int, rates: Rates, currency: str, seat: str
) -> Terms | None:
    """The terms of a deal; None if it is not for us or cannot be understood."""
    if deal.id is None or (deal.wseat and seat not in deal.wseat):
        return None
    floor: int | None = 0
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
