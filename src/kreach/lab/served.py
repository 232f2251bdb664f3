"""Campaigns in the live bidder's own code, on simulated time: what the lab proves is what runs.

Requests go through `CatalogueBidder` and the ledger as in the bidder's process, several campaigns
side by side; only HTTP, the journal and the child process that solves plans are left out. With
`memory_hours` a gateway drops bids for people who saw the ad as often as the campaign's cap in that
time, and the bidder's catalogue says so (unless `told` is off).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from kreach.adsystem.bidserver.campaign_runtime import CampaignRuntime
from kreach.adsystem.bidserver.catalogue_bidder import CatalogueBidder
from kreach.adsystem.bidserver.terms import Terms
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.ledger.account import NO_LIMIT, Account
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.ledger.tokens import Claim
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import as_micros
from kreach.boundary.openrtb import Banner, BidRequest, Imp
from kreach.boundary.times import HOUR_SECONDS, MICROS
from kreach.boundary.visit_model import VisitModel
from kreach.lab.auctions import Gateway, Stream
from kreach.numeric.types import IntArray

__all__ = ["EXPIRY_SECONDS", "Delivery", "ServedBidder", "serve"]

EXPIRY_SECONDS = 900


@dataclass
class Delivery:
    """What one campaign got."""

    campaign: Campaign
    spend: float = 0.0
    wins: list[int] = field(default_factory=list)  # requests, by index
    shortfall: str | None = None  # as the bidder shows it

    def reach(self, person: IntArray, cap: int) -> int:
        """The truth: people, or impressions up to the cap."""
        seen = np.bincount(person[np.array(self.wins, dtype=np.int64)])
        return int(np.minimum(seen, cap).sum())


class ServedBidder:
    """One bidder and its campaigns; each enters when it is added."""

    def __init__(
        self,
        sizes: IntArray,
        model: VisitModel | None,
        start: float,
        settings: BidderSettings | None = None,
        seed: int = 0,
        *,
        memory_hours: float | None = None,
        told: bool = True,
    ) -> None:
        names = tuple(f"g{group}" for group in range(len(sizes)))
        created = datetime.fromtimestamp(start, UTC)
        catalogue = Catalogue(
            "served",
            created,
            int(sizes.min()),
            names,
            sizes,
            model=model,
            memory_hours=memory_hours if told else None,
        )
        self._memory_hours = memory_hours
        self._gateways: dict[int, Gateway] = {}
        self._families: dict[str, tuple[Family, Account]] = {}
        self._ledger = Ledger(1)
        self._audience = Audience.disjoint(sizes)
        self.bidder = CatalogueBidder(
            catalogue, 1, self._ledger, settings or BidderSettings(), start, seed=seed
        )
        self.deliveries: dict[int, Delivery] = {}
        banner = Banner(w=300, h=250)
        self._request = BidRequest(id="1", imp=[Imp(id="1", banner=banner)])

    def add_family(self, family: Family) -> None:
        """Add a family; campaigns that name it join it."""
        micros = NO_LIMIT if family.budget is None else as_micros("budget", family.budget)
        account = Account(micros, None, 0.0)
        account.granted = micros
        self._families[family.id] = (family, account)

    def _family_of(self, campaign: Campaign) -> Family | None:
        return None if campaign.family is None else self._families[campaign.family][0]

    def add(self, campaign: Campaign) -> int:
        """Add a campaign; returns its number."""
        number, account = self._open_account(campaign)
        if campaign.family is not None:
            account.join(self._families[campaign.family][1])
        self._ledger.accounts[number] = account
        self.deliveries[number] = Delivery(campaign)
        if self._memory_hours is not None:
            remembered = self._memory_hours * HOUR_SECONDS
            self._gateways[number] = Gateway(campaign.largest_cap, remembered)
        family = self._family_of(campaign)
        self.bidder.update(number, campaign, account, lambda: self._audience, family)
        return number

    def _open_account(self, campaign: Campaign) -> tuple[int, Account]:
        """A number and an account that holds the whole budget."""
        account = self.new_account(campaign)
        account.granted = account.budget
        return len(self.deliveries) + 1, account

    @staticmethod
    def new_account(campaign: Campaign) -> Account:
        """An account that nothing is granted to yet."""
        daily = None
        if campaign.daily_budget is not None:
            daily = as_micros("daily_budget", campaign.daily_budget)
        return Account(as_micros("budget", campaign.budget), daily, campaign.start.timestamp())

    def change(self, number: int, campaign: Campaign) -> None:
        """Change a campaign: pause it, resume it, give it another budget."""
        account = self._ledger.accounts[number]
        account.budget = account.granted = as_micros("budget", campaign.budget)
        family = self._family_of(campaign)
        self.bidder.update(number, campaign, account, lambda: self._audience, family)

    def tick(self, now: float) -> None:
        """What the process does a few times a second: who may bid, and plans that are due."""
        self.bidder.update_active(now)
        for runtime in list(self.bidder.runtimes.values()):
            if runtime.campaign.state == "running":
                task = self.bidder.plan_task(runtime, now)
                if task is not None:
                    self.bidder.adopt(runtime, *task.run())
                self.deliveries[runtime.number].shortfall = runtime.shortfall

    def request(self, at: int, group: int, now: float, price: float, person: int = 0) -> int | None:
        """A request and its auction, won by at least the price; the campaign that won it.

        Only a gateway with a memory looks at the person.
        """
        pending = self.bidder.begin_request(group, now, self._request)
        imp, terms = self._request.imp[0], Terms(0, pending.venue)
        runtime, claim, _, _ = self.bidder.offer(pending, imp, terms, None, EXPIRY_SECONDS)
        if runtime is None or claim is None:
            return None
        micros = max(round(price * MICROS), 1)
        gateway = self._gateways.get(runtime.number)
        if claim.micros < micros or (gateway is not None and not gateway.allows(person, now)):
            self._ledger.void(claim, now)
            self._ledger.voided(claim)
            self.bidder.learn(runtime, claim.micros, 0, won=False, group=group, issued=now)
            return None
        if gateway is not None:
            gateway.show(person, now)
        self._won(runtime, claim, micros, now)
        self.deliveries[runtime.number].wins.append(at)
        return runtime.number

    def _won(self, runtime: CampaignRuntime, claim: Claim, micros: int, now: float) -> None:
        """Book a billed impression."""
        self._ledger.post(claim, micros, now)
        self._ledger.posted(claim, micros)
        runtime.bidder.valuation.record(claim.group, claim.issued_micros / MICROS)
        self.bidder.learn(runtime, claim.micros, micros, won=True, issued=now)
        self.deliveries[runtime.number].spend += micros / MICROS

    def runtime(self, number: int) -> CampaignRuntime:
        """The state of a campaign in the bidder."""
        return self.bidder.runtimes[number]


def serve(
    bidder: ServedBidder,
    stream: Stream,
    events: Sequence[tuple[float, Callable[[], object]]] = (),
    tick_seconds: float = 60.0,
) -> dict[int, Delivery]:
    """Run a stream (times since 1970) through a bidder; `events` happen at their times."""
    waiting = sorted(events, key=lambda event: event[0])
    columns = (stream.group, stream.at, stream.price, stream.person)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    next_tick = -np.inf
    for at, (group, now, price, person) in enumerate(rows):
        while waiting and waiting[0][0] <= now:
            waiting.pop(0)[1]()
            next_tick = -np.inf
        if now >= next_tick:
            bidder.tick(now)
            next_tick = now + tick_seconds
        bidder.request(at, group, now, price, person)
    return bidder.deliveries
