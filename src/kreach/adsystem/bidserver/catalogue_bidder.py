"""All campaigns on one catalogue: which one bids for a request, and how much."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.bidding.bidder import PaperBidder, PlanningBidder
from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.bidding.board_visitors import BoardVisitors, RecentWins
from kreach.adsystem.bidding.competition import Competition
from kreach.adsystem.bidding.family import FamilyExposure
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.valuation import CapRule, VisitorValuation
from kreach.adsystem.bidding.worth import SessionValues, Worth, worth_table
from kreach.adsystem.bidserver.campaign_runtime import (
    CampaignRuntime,
    board_valuation,
    individual_valuation,
    make_bidder,
    memory_seconds_of,
    value_cap,
    visit_model_of,
)
from kreach.adsystem.bidserver.competition_samples import CompetitionSamples
from kreach.adsystem.bidserver.exchanges import (
    FIRST_PRICE,
    FIXED_PRICE,
    SECOND_PRICE,
    Exchanges,
    auction_of,
)
from kreach.adsystem.bidserver.pending_request import PendingRequest
from kreach.adsystem.bidserver.places import is_eligible
from kreach.adsystem.bidserver.plan_task import PlanTask
from kreach.adsystem.bidserver.request_hours import RequestHours
from kreach.adsystem.bidserver.request_samples import RequestSamples
from kreach.adsystem.bidserver.terms import Deals, Terms, terms_for
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.family import Family, check_family
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.ledger.tokens import Claim
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.openrtb import BidRequest, Imp
from kreach.numeric.types import IntArray

__all__ = ["CatalogueBidder"]

_SLOTS_AT_ONCE = 16
_MICROS = 1e6
_FIRST = 1  # `at`: a first-price auction
_FIRST_SAMPLES = 256  # requests checked for eligibility at first,
_SAMPLE_EVERY = 1  # and later one of so many times the number of campaigns


class CatalogueBidder:
    """The campaigns of one catalogue, side by side. Used by one thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        number: int,
        ledger: Ledger,
        settings: BidderSettings,
        now: float,
        exchanges: Exchanges | None = None,
        seed: int | None = None,
    ) -> None:
        self.catalogue, self.number = catalogue, number
        self.find_group = catalogue.finder()
        market = settings.market_mu, settings.market_sigma
        self.exchanges = exchanges or Exchanges(*market)  # of all catalogues
        self._ledger = ledger
        self._settings = settings
        self.traffic = Traffic(len(catalogue), now)
        self.own_requests = 0  # since the start, of this bidder alone
        self.request_hours = RequestHours(now)
        self.board = Board(len(catalogue), seed)
        self.recent_wins = RecentWins()
        self.competition = Competition()
        self._now = now
        self.runtimes: dict[int, CampaignRuntime] = {}
        self._families: dict[str, FamilyExposure] = {}  # those with caps
        self._pools = np.zeros(0, dtype=np.int64)  # by slot: who plans as one campaign, or -1
        self._by_slot: list[CampaignRuntime | None] = []
        self._individual: list[CampaignRuntime] = []
        self._audiences: dict[str, tuple[int | None, Audience]] = {}
        self._prior_requests = 5.0 * len(catalogue)
        self._samples = RequestSamples()
        self._compared = CompetitionSamples(self.board, self.competition, self._samples)
        self._sampled = 0  # requests, since a campaign was added that had none
        self._until_sample = 1

    def update(
        self,
        number: int,
        campaign: Campaign,
        account: Account,
        audience: Callable[[], Audience],
        family: Family | None = None,
    ) -> CampaignRuntime:
        """Add a campaign, or apply its changes; counts and what it learned stay."""
        self._record_compared()
        self._samples.count(self.runtimes.values())
        before = self.runtimes.get(number)
        at, people = self._audience(campaign.audience, audience)
        shared = self._exposure(family, people)
        model = visit_model_of(campaign, people, self.catalogue, shared)
        memory = memory_seconds_of(campaign, self.catalogue, model, shared)
        slot = before.slot if before is not None else None
        if before is not None:
            valuation = before.bidder.valuation if before.slot is None else None
        else:
            valuation = individual_valuation(campaign, people, model, memory, shared)
        if valuation is None:
            slot = self._free_slot() if slot is None else slot
            valuation = board_valuation(
                campaign, people, model, self.board, slot, self.recent_wins, before, memory, shared
            )
            if at is None:
                kinds = kind_probabilities(people, campaign.largest_cap)[1]
                at = self.board.add_audience(kinds)
                self._audiences[campaign.audience] = (at, people)
        settings = self._settings
        bidder = make_bidder(
            campaign,
            people,
            value_cap(campaign, shared),
            valuation,
            account,
            self.traffic,
            market=(settings.market_mu, settings.market_sigma),
            plans=settings.plans,
            hourly=settings.hourly or (None if model is None else model.hourly_traffic.tolist()),
            model=model,
            memory_seconds=memory,
            first_bid_share=settings.first_bid_share,
        )
        bidder.markets.market_hours = self.exchanges.hours.of(f"{self.number}:{number}")
        runtime = CampaignRuntime(number, campaign, at, bidder, account, slot, bidder.multiplier)
        if before is not None:
            runtime.bids, runtime.wins, runtime.losses = before.bids, before.wins, before.losses
            runtime.usable = before.usable
            runtime.passing = before.passing if runtime.drops_repeats else 1.0
            if runtime.same_eligibility(before):
                runtime.sampled_requests, runtime.eligible_requests = (
                    before.sampled_requests,
                    before.eligible_requests,
                )
            self._inherit(before, runtime)
        if not runtime.sampled_requests:
            self._sampled = 0
            self._until_sample = 1
        self._place(runtime)
        return runtime

    def _exposure(self, family: Family | None, audience: Audience) -> FamilyExposure | None:
        """The impressions of a family with caps on this catalogue."""
        if family is None or not family.caps:
            return None
        check_family(family, audience)
        if family.id not in self._families:
            rules = [CapRule(cap.limit, cap.span_seconds) for cap in family.caps]
            self._families[family.id] = FamilyExposure(rules, len(self.catalogue))
        return self._families[family.id]

    def _audience(self, name: str, audience: Callable[[], Audience]) -> tuple[int | None, Audience]:
        if name not in self._audiences:
            self._audiences[name] = (None, audience())
        return self._audiences[name]

    def _free_slot(self) -> int:
        if None not in self._by_slot:
            self.board.add_slots(_SLOTS_AT_ONCE)
            self.competition.add_slots(_SLOTS_AT_ONCE)
            self._samples.add_slots(_SLOTS_AT_ONCE)
            self._by_slot += [None] * _SLOTS_AT_ONCE
        slot = self._by_slot.index(None)
        self.competition.forget(slot)
        return slot

    def _inherit(self, before: CampaignRuntime, runtime: CampaignRuntime) -> None:
        runtime.multiplier = self.multiplier(before)
        runtime.bidder.remember(before.bidder.memory())
        runtime.forget_shading()
        if before in self._individual:
            self._individual.remove(before)

    def _place(self, runtime: CampaignRuntime) -> None:
        self.runtimes[runtime.number] = runtime
        self._samples.place(runtime)
        if runtime.slot is None:
            self._individual.append(runtime)
            return
        board, slot = self.board, runtime.slot
        self._by_slot[slot] = runtime
        board.multipliers[slot] = np.inf  # inactive until the next tick
        board.forget_rankings()
        board.ends[slot] = runtime.end
        board.most[slot] = runtime.max_micros / _MICROS
        bidder = runtime.bidder
        if isinstance(bidder, PaperBidder):
            board.set_paper(slot, bidder.step_size, *bidder.multipliers)
        self._set_worth(runtime, self._worth(runtime, 0.0)(None))

    def _worth(self, runtime: CampaignRuntime, max_left: float) -> Callable[[Plan | None], Worth]:
        bidder = runtime.bidder
        passing = False
        if isinstance(bidder, PlanningBidder):
            probability, kinds = bidder.kind_probability, bidder.kind_of_group
            if isinstance(bidder.valuation, BoardVisitors):
                probability = bidder.valuation.kind_probability(self._now)
                passing = bidder.valuation.drops_repeats
        else:
            people = self._audiences[runtime.campaign.audience][1]
            family = self._families.get(runtime.campaign.family or "")
            cap = value_cap(runtime.campaign, family)
            probability, kinds = kind_probabilities(people, cap)
        assert runtime.slot is not None
        most = int(self.board.max_counted[runtime.slot])
        count = int(kinds.max(initial=0)) + 1
        return partial(worth_table, count, probability, most, max_left, passing=passing)

    def _set_worth(self, runtime: CampaignRuntime, worth: Worth, plan: Plan | None = None) -> None:
        assert runtime.slot is not None
        assert runtime.audience is not None
        bidder = runtime.bidder
        rate = bidder.left_per_time if isinstance(bidder, PlanningBidder) else 0.0
        sessions = None if plan is None or plan.more <= 0.0 else SessionValues(plan.response)
        self.board.set_worth(runtime.slot, runtime.audience, worth, rate, sessions)

    def multiplier(self, runtime: CampaignRuntime) -> float:
        """The budget multiplier λ of a campaign now."""
        if isinstance(runtime.bidder, PlanningBidder) or runtime.slot is None:
            return runtime.bidder.multiplier
        on_board = float(self.board.multipliers[runtime.slot])
        return on_board if runtime.active else runtime.multiplier

    def update_active(self, now: float) -> None:
        """Activate campaigns that can bid now, deactivate those that cannot."""
        self._now = now
        self._record_compared()
        self.board.turn_to(now)
        self._samples.count(self.runtimes.values())
        members: dict[str, list[CampaignRuntime]] = {}
        for runtime in self.runtimes.values():
            if runtime.account.family is not None:
                runtime.account.demand = runtime.demand(now)
                members.setdefault(runtime.campaign.family or "", []).append(runtime)
        if members:
            self._pool(list(members.values()))
        totals = {
            name: some[0].account.family.member_totals()
            for name, some in members.items()
            if some[0].account.family is not None
        }
        for runtime in self.runtimes.values():
            self._set_active(runtime, runtime.can_bid(now))
            if runtime.active:
                shared = totals.get(runtime.campaign.family or "")
                runtime.weight = runtime.share(now, shared) / (runtime.end - now)
                if runtime.slot is not None:
                    self.board.weights[runtime.slot] = runtime.weight

    def _pool(self, families: list[list[CampaignRuntime]]) -> None:
        """Have members that are valued and fly alike plan as one campaign."""
        self._pools = np.full(self.board.slots, -1, dtype=np.int64)
        for number, members in enumerate(families):
            running = [each for each in members if each.account.demand]
            alike = len(running) > 1 and all(
                each.pooled and each.plans_alike(running[0]) for each in running
            )
            for each in members:
                pooled = alike and each.account.demand != 0
                each.pool(pooled)
                if pooled and each.slot is not None:
                    self._pools[each.slot] = number

    def _set_active(self, runtime: CampaignRuntime, active: bool) -> None:
        if active == runtime.active:
            return
        self._record_compared()
        if runtime.slot is not None:
            multiplier = self.multiplier(runtime)
            runtime.multiplier = multiplier
            self.board.multipliers[runtime.slot] = multiplier if active else np.inf
            if active:  # inactive ones are skipped
                self.board.forget_rankings()
        runtime.active = active

    def begin_request(
        self, group: int, now: float, request: BidRequest, exchange: str = ""
    ) -> PendingRequest:
        """Count a request; then call `offer` for each of its places."""
        traffic = self.traffic
        by_group = traffic.by_group
        requests = by_group[group] + 1
        by_group[group] = requests
        traffic.total += 1
        self.own_requests += 1
        self._until_sample -= 1
        sampled = self._until_sample <= 0
        if sampled:
            self._sample(request)
        share = (requests + 5.0) / (traffic.total + self._prior_requests)
        individual: Sequence[tuple[float, float, CampaignRuntime]] = ()
        if self._individual:
            individual = [
                (runtime.bidder.value(group, now), self.board.luck(runtime.weight), runtime)
                for runtime in self._individual
                if runtime.active and any(runtime.is_eligible(request, imp) for imp in request.imp)
            ]
        if self.board.paper:
            self.board.drift(group, share)
        venue = SECOND_PRICE
        if request.at == _FIRST:
            venue = self.exchanges.venue(exchange) if exchange else FIRST_PRICE
        shares = self.recent_wins.shares(group, now)
        pending = PendingRequest(
            group, requests, share, now, request, individual, shares, sampled, venue
        )
        if venue != SECOND_PRICE:
            pending.first_price_venue = venue
        return pending

    def offer(
        self,
        pending: PendingRequest,
        imp: Imp,
        open_terms: Terms | None,
        deals: Deals | None,
        seconds: int,
        accepts: Callable[[CampaignRuntime, Terms], bool] | None = None,
    ) -> tuple[CampaignRuntime | None, Claim | None, Terms | None, str]:
        """The campaign that bids for a place, its reserved money and terms; or why none does.

        Of the campaigns that want the request one bids: more likely one that values it more, or
        that has more money for the time left (`Board.ranks`). Its bid may be lower than its value:
        a first price is shaded, a budget may run low. A campaign gets at most one place.
        Without `open_terms` the place is sold by deals only. `accepts` is a condition of the
        exchange or of a deal.
        """
        reason = "no campaign"
        skip = pending.bidding
        while True:
            value, runtime = self._best(pending, imp, skip)
            if pending.sampled:
                self._compare(pending, imp)
            if runtime is None:
                return None, None, None, reason
            terms = open_terms
            if imp.pmp is not None:
                needs = runtime.requirements
                terms = terms_for(terms, deals or {}, needs.deals, deals_only=needs.deals_only)
            skip = (*skip, runtime)
            if terms is None or (accepts is not None and not accepts(runtime, terms)):
                continue
            floor, venue, micros = terms.floor, terms.venue, value * _MICROS
            if micros < floor:
                reason = "below floor"
                if deals is not None:  # another may have a deal with a lower floor
                    continue
                return None, None, None, reason
            wanted = int(micros)
            if venue != SECOND_PRICE:
                wanted = self._limited(runtime, value, pending, terms)
            highest, lowest = runtime.max_micros, runtime.min_micros
            wanted = highest if wanted > highest else wanted
            minimum = floor if floor > lowest else lowest
            reason = "below floor"
            if wanted >= minimum:
                number, group, now = runtime.number, pending.group, pending.now
                claim = self._ledger.take(
                    number, self.number, group, wanted, now, seconds, minimum, venue
                )
                if claim is not None:
                    if runtime.drops_repeats:
                        runtime.note_passing(group)
                    pending.bidding = (*pending.bidding, runtime)
                    return runtime, claim, terms, ""
                reason = "no budget"
                if not runtime.can_bid(now):
                    self._set_active(runtime, False)

    def _limited(
        self, runtime: CampaignRuntime, value: float, pending: PendingRequest, terms: Terms
    ) -> int:
        """What to bid where a win costs its bid: an agreed price, or a shaded first price."""
        if terms.venue == FIXED_PRICE:
            return terms.floor or int(value * _MICROS)
        return int(self._shaded(runtime, value, pending, terms.venue) * _MICROS)

    def _shaded(
        self, runtime: CampaignRuntime, value: float, pending: PendingRequest, venue: int
    ) -> float:
        """The first-price bid for a value, which is limited to what may be bid at most."""
        if value * _MICROS >= runtime.max_micros:  # what is shaded is the value without the limit
            if runtime.slot is None:
                value = next(own for own, _, other in pending.individual if other is runtime)
            else:
                part = 1.0 if pending.shares is None else pending.shares.of(runtime.slot)
                value = self.board.unlimited(pending.group, runtime.slot, pending.share, part)
        shading = self.exchanges.shading(venue) or runtime.shading
        return shading.at(pending.now, value)

    def _best(
        self, pending: PendingRequest, imp: Imp, skip: tuple[CampaignRuntime, ...]
    ) -> tuple[float, CampaignRuntime | None]:
        """An eligible campaign that wants the request, and its value: likely the highest one."""
        board, group, now, request = self.board, pending.group, pending.now, pending.request
        shares, by_slot = pending.shares, self._by_slot
        above = shares if shares is not None and shares.drops_repeats else None  # others: at most 1
        ranks, complete = board.ranks(group, pending.requests, pending.share, above)
        best, worth, winner = 0.0, 0.0, None
        while True:
            for rank in ranks:
                if rank.score <= best:
                    complete = True
                    break
                runtime = by_slot[rank.slot]
                if runtime is None or not runtime.active or (skip and runtime in skip):
                    continue
                share = 1.0 if shares is None else shares.of(rank.slot)
                value = board.exact(rank, group, share)
                score = value * rank.luck
                if (
                    score > best
                    and runtime.start <= now < runtime.end
                    and is_eligible(runtime.requirements, request, imp)
                ):
                    best, worth, winner = score, value, runtime
            if complete:
                break
            ranks, complete = board.all_ranks(group, pending.share, above), True
        for unlimited, luck, runtime in pending.individual:
            value = min(unlimited, runtime.max_micros / _MICROS)
            score = value * luck
            if score <= best or runtime in skip or not runtime.start <= now < runtime.end:
                continue
            if is_eligible(runtime.requirements, request, imp):
                best, worth, winner = score, value, runtime
        return worth, winner

    def _compare(self, pending: PendingRequest, imp: Imp) -> None:
        """Have campaigns learn what others leave over, from one place of a request."""
        pending.sampled = False
        if self._compared.add(pending, imp):
            self._record_compared()

    def _record_compared(self) -> None:
        """Before anything changes that comparisons depend on."""
        self._compared.record(self._pools if len(self._pools) == self.board.slots else None)

    def plan_task(self, runtime: CampaignRuntime, now: float) -> PlanTask | None:
        """The plan that a campaign needs now: it is due, or its table needs more columns."""
        bidder, slot = runtime.bidder, runtime.slot
        narrow = slot is not None and self.board.max_counted[slot] >= self.board.columns[slot] - 1
        due = isinstance(bidder, PlanningBidder) and bidder.plan_due(now)
        if slot is not None:
            self.board.shares[slot] = runtime.eligible_share
        if not (narrow or due) or now >= runtime.end:
            return None
        if not isinstance(bidder, PlanningBidder):
            return PlanTask(None, self._worth(runtime, 0.0))
        bidder.arrivals.share = runtime.eligible_share
        self._record_compared()
        others = None if slot is None else self.competition.availability(slot)
        solve = bidder.plan_job(now, others)
        by_group = np.frombuffer(self.traffic.by_group, dtype=np.uint32)
        step = max(1, len(by_group) // 20_000)
        busiest = float(by_group[::step].max(initial=0)) + 5.0
        max_left = bidder.left_per_time * max(bidder.purse.end - now, 0.0) * busiest
        max_left /= self.traffic.total + self._prior_requests
        return PlanTask(solve, None if slot is None else self._worth(runtime, max_left))

    def _sample(self, request: BidRequest) -> None:
        """Have campaigns count whether a request is eligible. The request is not stored."""
        self._samples.add(request)
        self._sampled += 1
        often = self._sampled < _FIRST_SAMPLES
        if often:
            self._samples.count(self.runtimes.values())
        self._until_sample = 1 if often else _SAMPLE_EVERY * len(self.runtimes)

    @property
    def mismatches(self) -> Mapping[str, int]:
        """Why campaigns had no eligible place in sampled requests, by kind and rule."""
        return self._samples.mismatches

    def adopt(self, runtime: CampaignRuntime, plan: Plan | None, worth: Worth | None) -> None:
        """Bid by this plan, unless the campaign was changed meanwhile."""
        if self.runtimes.get(runtime.number) is not runtime:
            return
        self._record_compared()
        if plan is not None and isinstance(runtime.bidder, PlanningBidder):
            runtime.bidder.adopt(plan)
            runtime.note_plan(plan, self._now)
            runtime.forget_shading()
        if worth is not None and runtime.slot is not None:
            self._set_worth(runtime, worth, plan)
            if plan is not None and runtime.active:
                self.board.multipliers[runtime.slot] = runtime.bidder.multiplier
                self.board.forget_rankings()

    def load_counts(
        self,
        number: int,
        groups: IntArray,
        impressions: IntArray,
        recent: Sequence[tuple[int, float]] = (),
    ) -> None:
        """Add the impressions of the log at the start.

        `recent`: groups and times of those among them that the publisher may remember.
        """
        runtime = self.runtimes[number]
        valuation = runtime.bidder.valuation
        remembers = isinstance(valuation, VisitorValuation)
        if isinstance(valuation, BoardVisitors):
            remembers = valuation.drops_repeats
        if not remembers:
            recent = ()
        late = np.array([group for group, _ in recent], dtype=np.int64)
        groups, at = np.unique(np.concatenate([groups, late]), return_inverse=True)
        counts = np.concatenate([impressions, np.full(len(late), -1)])
        impressions = np.bincount(at, weights=counts, minlength=len(groups)).astype(np.int64)
        self.add_impressions(number, groups, impressions)
        if isinstance(valuation, BoardVisitors) and recent:
            valuation.load_shown(recent)
        elif recent:
            for group, moment in sorted(recent, key=lambda row: row[1]):
                valuation.record(group, moment)
        if runtime.slot is not None:
            self._record_compared()
            self._set_worth(runtime, self._worth(runtime, 0.0)(None))

    def add_impressions(
        self, number: int, groups: IntArray, impressions: IntArray, times: IntArray | None = None
    ) -> None:
        """Add impressions by group; with their times (in µs), where these count."""
        runtime = self.runtimes[number]
        valuation = runtime.bidder.valuation
        of_sessions = isinstance(valuation, BoardVisitors) and times is not None
        if isinstance(valuation, BoardValuation) and not of_sessions:
            valuation.load(groups, impressions)
            return
        record = valuation.record
        if times is not None:
            for group, micros in zip(groups.tolist(), times.tolist(), strict=True):
                record(group, micros / _MICROS)
            return
        for group, count in zip(groups.tolist(), impressions.tolist(), strict=True):
            for _ in range(count):
                record(group, 0.0)

    def learn(
        self,
        runtime: CampaignRuntime,
        micros: int,
        price: int,
        *,
        won: bool,
        venue: int = SECOND_PRICE,
        group: int | None = None,
        issued: float | None = None,
    ) -> None:
        """Learn from the outcome of a bid for a request of a group; `issued`: when it was made."""
        if won:
            runtime.wins += 1
            if runtime.slot is not None and isinstance(runtime.bidder, PaperBidder):
                self._spend(runtime, price)
        else:
            runtime.losses += 1
        if venue == FIXED_PRICE:
            return
        if micros > 0 and won:
            bid, auction = micros / _MICROS, auction_of(venue)
            issued = self._now if issued is None else issued
            runtime.bidder.markets.turn_to(issued)
            runtime.bidder.learn(bid, price / _MICROS, won=True, auction=auction)
            self.exchanges.learn(venue, bid, won=True, moment=issued)
        elif micros > 0:
            self.learn_losses(runtime, micros, 1, venue, group, issued)

    def learn_losses(
        self,
        runtime: CampaignRuntime,
        micros: int,
        count: int,
        venue: int,
        group: int | None = None,
        issued: float | None = None,
    ) -> None:
        """Learn from losses at about the same bid, as far as the publisher did not drop it."""
        if venue == FIXED_PRICE:
            return
        bid, auction = micros / _MICROS, auction_of(venue)
        issued = self._now if issued is None else issued
        runtime.bidder.markets.turn_to(issued)
        outbid = count * runtime.outbid(micros, auction, group)
        runtime.bidder.learn_losses(bid, outbid, auction)
        self.exchanges.learn(venue, bid, won=False, count=outbid, moment=issued)

    def _spend(self, runtime: CampaignRuntime, price: int) -> None:
        """The other half of the paper's rule: λ rises with what was spent."""
        bidder = runtime.bidder
        assert isinstance(bidder, PaperBidder)
        step = bidder.step_size * price / _MICROS / bidder.per_request
        if not runtime.active or runtime.slot is None:
            runtime.multiplier = min(runtime.multiplier + step, bidder.multipliers[1])
        else:
            self.board.rise(runtime.slot, step)
