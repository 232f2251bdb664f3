"""Many campaigns in one bidder: each with its own counts, budget and pace."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kreach.adsystem.bidding.bidder import Bidder
from kreach.display.objects import Tabular
from kreach.display.table import Table, columns_of
from kreach.errors import KreachError

__all__ = ["Offer", "Portfolio"]


@dataclass(frozen=True)
class Offer:
    """The campaign that bids for a request, and what."""

    campaign: str
    bid: float
    auction: str | None = field(default=None, repr=False)


class Portfolio(Tabular):
    """Campaigns side by side. The best bid goes out; the others neither pay nor learn.

    A campaign is eligible for the groups it names (all, if none). Its wins touch its own counts
    and purse only.

    >>> import kreach as kr
    >>> market, audience = kr.LogNormalMarket(0.0, 0.7), kr.Audience.disjoint([20] * 50)
    >>> portfolio = kr.Portfolio()
    >>> for name, cap in (("spring", 1), ("winter", 3)):
    ...     purse = kr.Purse(budget=50.0, start=0.0, end=86_400.0)
    ...     portfolio.add(name, kr.PlanningBidder(audience, cap, purse, market), groups=[7])
    >>> portfolio.offer(group=7, now=1.0).campaign
    'spring'
    >>> portfolio.offer(group=8, now=1.0) is None
    True
    """

    def __init__(self) -> None:
        self._bidders: dict[str, Bidder] = {}
        self._groups: dict[str, frozenset[int] | None] = {}

    def add(self, campaign: str, bidder: Bidder, groups: Iterable[int] | None = None) -> None:
        """Add a campaign under a name of its own."""
        if campaign in self._bidders:
            raise KreachError(f"campaign {campaign!r} is in the portfolio already")
        self._bidders[campaign] = bidder
        self._groups[campaign] = None if groups is None else frozenset(groups)

    def to_dict(self) -> dict[str, Any]:
        """Each campaign's bidder as plain values, by name."""
        return {name: bidder.to_dict() for name, bidder in self._bidders.items()}

    def _display(self) -> Table:
        rows = [{"campaign": name, **facts} for name, facts in self.to_dict().items()]
        return Table(f"{len(rows)} campaigns", columns_of(rows))

    def __repr__(self) -> str:
        return f"Portfolio({', '.join(self._bidders) or 'empty'})"

    def remove(self, campaign: str) -> Bidder:
        """Take a campaign out and return its bidder."""
        self._known(campaign)
        del self._groups[campaign]
        return self._bidders.pop(campaign)

    def offer(
        self, group: int, now: float, floor: float = 0.0, auction: str | None = None
    ) -> Offer | None:
        """The best bid of all eligible campaigns, the earlier added of equal ones; None if none."""
        best: Offer | None = None
        for campaign, bidder in self._bidders.items():
            groups = self._groups[campaign]
            if groups is None or group in groups:
                bid = bidder.bid(group, now, floor, auction)
                if bid > 0.0 and (best is None or bid > best.bid):
                    best, beaten = Offer(campaign, bid, auction), best
                elif bid > 0.0:
                    beaten = Offer(campaign, bid)
                else:
                    continue
                if beaten is not None:
                    self._bidders[beaten.campaign].withdraw(group, beaten.bid)
        return best

    def won(self, offer: Offer, group: int, price: float, now: float) -> None:
        """The offer won at this price."""
        self._known(offer.campaign).won(group, offer.bid, price, now, offer.auction)

    def lost(self, offer: Offer, group: int) -> None:
        """The offer lost."""
        self._known(offer.campaign).lost(group, offer.bid, offer.auction)

    def _known(self, campaign: str) -> Bidder:
        if campaign not in self._bidders:
            raise KreachError(f"no campaign {campaign!r} in the portfolio")
        return self._bidders[campaign]
