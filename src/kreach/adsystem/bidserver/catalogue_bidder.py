"""All campaigns on one catalogue: who bids for a request, and how much."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.bidding.bidder import PaperBidder, PlanningBidder
from kreach.adsystem.bidding.board import Board, BoardValuation, Worth, worth_table
from kreach.adsystem.bidding.planning import Plan, kind_probabilities
from kreach.adsystem.bidding.shading import Shading
from kreach.adsystem.bidserver.campaign_runtime import Play, make_bidder, own_valuation
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.ledger.tokens import Claim
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.openrtb import BidRequest, Imp
from kreach.numeric.types import IntArray

__all__ = ["Asked", "Desk", "PlanTask"]

_SLOTS_AT_ONCE = 16
_MICROS = 1e6
_FIRST_LOOKS = 256  # requests that campaigns look at, to see how many suit them,
_LOOK_EVERY = 4  # and later one of so many times the number of campaigns


@dataclass(frozen=True)
class PlanTask:
    """A plan to be solved and the table to be made with it. Holds copies: run it anywhere."""

    solve: Callable[[], Plan] | None
    worth: Callable[[Plan | None], Worth] | None

    def run(self) -> tuple[Plan | None, Worth | None]:
        """The plan and its table."""
        plan = None if self.solve is None else self.solve()
        if self.worth is None:
            return plan, None
        worth = self.worth(plan)
        return None if plan is None else plan.without_tables(), worth  # which are in `worth` now


@dataclass(slots=True)
class Asked:
    """A request on its way through the desk."""

    group: int
    requests: int  # of the group so far
    share: float
    now: float
    request: BidRequest
    alone: Sequence[tuple[float, Play]]
    taken: tuple[Play, ...] = ()


class Desk:
    """The campaigns of one catalogue, side by side. Not for use by several threads."""

    def __init__(
        self,
        catalogue: Catalogue,
        number: int,
        ledger: Ledger,
        settings: BidderSettings,
        now: float,
    ) -> None:
        self.catalogue, self.number = catalogue, number
        self._ledger = ledger
        self._settings = settings
        self.traffic = Traffic(len(catalogue), now)
        self.board = Board(len(catalogue))
        self.plays: dict[int, Play] = {}
        self._by_slot: list[Play | None] = []
        self._alone: list[Play] = []
        self._audiences: dict[str, tuple[int | None, Audience]] = {}
        self._prior = 5.0 * len(catalogue)
        self._looks = 0  # at requests, since a campaign came that had seen none
        self._until_look = 1

    def put(
        self, number: int, campaign: Campaign, account: Account, audience: Callable[[], Audience]
    ) -> Play:
        """Take a campaign up, or take up its changes: its counts and what it learned stay."""
        before = self.plays.get(number)
        at, people = self._audience(campaign.audience, audience)
        own = own_valuation(campaign, people)
        slot = before.slot if before is not None else None
        if before is not None:
            own = before.bidder.valuation if before.slot is None else None
        valuation = own
        if valuation is None:
            slot = self._free_slot() if slot is None else slot
            valuation = BoardValuation(self.board, slot)
            if at is None:
                kinds = kind_probabilities(people, campaign.largest_cap)[1]
                at = self.board.add_audience(kinds)
                self._audiences[campaign.audience] = (at, people)
        settings = self._settings
        bidder = make_bidder(
            campaign,
            people,
            valuation,
            account,
            self.traffic,
            market=(settings.market_mu, settings.market_sigma),
            plans=settings.plans,
            hourly=settings.hourly,
        )
        play = Play(
            number, campaign, at, bidder, account, slot, Shading(bidder.market), bidder.multiplier
        )
        if before is not None:
            play.bids, play.wins, play.losses = before.bids, before.wins, before.losses
            if play.looks_like(before):
                play.seen, play.suited = before.seen, before.suited
            self._take_up(before, play)
        if not play.seen:
            self._looks = 0
            self._until_look = 1
        self._seat(play)
        return play

    def _audience(self, name: str, audience: Callable[[], Audience]) -> tuple[int | None, Audience]:
        if name not in self._audiences:
            self._audiences[name] = (None, audience())
        return self._audiences[name]

    def _free_slot(self) -> int:
        if None not in self._by_slot:
            self.board.add_slots(_SLOTS_AT_ONCE)
            self._by_slot += [None] * _SLOTS_AT_ONCE
        return self._by_slot.index(None)

    def _take_up(self, before: Play, play: Play) -> None:
        play.multiplier = self.multiplier(before)
        play.bidder.remember(before.bidder.memory())
        play.shading = Shading(play.bidder.market)
        if before in self._alone:
            self._alone.remove(before)

    def _seat(self, play: Play) -> None:
        self.plays[play.number] = play
        if play.slot is None:
            self._alone.append(play)
            return
        board, slot = self.board, play.slot
        self._by_slot[slot] = play
        board.multipliers[slot] = np.inf  # asleep until somebody looks at the time
        board.forget_rankings()
        board.ends[slot] = play.end
        # a value is limited like the bid it becomes; before shading it must not be
        board.most[slot] = np.inf if play.first_price else play.max_micros / _MICROS
        bidder = play.bidder
        if isinstance(bidder, PaperBidder):
            board.set_paper(slot, bidder.step_size, *bidder.multipliers)
        self._set_worth(play, self._worth(play, 0.0)(None))

    def _worth(self, play: Play, max_left: float) -> Callable[[Plan | None], Worth]:
        bidder = play.bidder
        if isinstance(bidder, PlanningBidder):
            probability, kinds = bidder.kind_probability, bidder.kind_of_group
        else:
            people = self._audiences[play.campaign.audience][1]
            probability, kinds = kind_probabilities(people, play.campaign.largest_cap)
        assert play.slot is not None
        most = int(self.board.max_counted[play.slot])
        count = int(kinds.max(initial=0)) + 1
        return partial(worth_table, count, probability, most, max_left)

    def _set_worth(self, play: Play, worth: Worth) -> None:
        assert play.slot is not None
        assert play.audience is not None
        bidder = play.bidder
        rate = bidder.left_per_time if isinstance(bidder, PlanningBidder) else 0.0
        self.board.set_worth(play.slot, play.audience, worth, rate)

    def multiplier(self, play: Play) -> float:
        """λ of a campaign now."""
        if isinstance(play.bidder, PlanningBidder) or play.slot is None:
            return play.bidder.multiplier
        held = float(self.board.multipliers[play.slot])
        return play.multiplier if play.asleep else held

    def wake(self, now: float) -> None:
        """See who may bid: those outside their flight, paused or without money sleep."""
        self.board.turn_to(now)
        for play in self.plays.values():
            awake = play.awake(now)
            if awake == play.asleep:
                self._turn(play, awake)

    def sleep(self, play: Play) -> None:
        """A campaign turned out to have no money."""
        if not play.asleep:
            self._turn(play, False)

    def _turn(self, play: Play, awake: bool) -> None:
        if play.slot is not None:
            multiplier = self.multiplier(play)
            play.multiplier = multiplier
            self.board.multipliers[play.slot] = multiplier if awake else np.inf
            if awake:  # who sleeps is skipped
                self.board.forget_rankings()
        play.asleep = not awake

    def asked(self, group: int, now: float, request: BidRequest) -> "Asked":
        """Take note of a request; then ask for an offer for each of its places."""
        traffic = self.traffic
        by_group = traffic.by_group
        requests = by_group[group] + 1
        by_group[group] = requests
        traffic.total += 1
        self._until_look -= 1
        if self._until_look <= 0:
            self._look(request)
        share = (requests + 5.0) / (traffic.total + self._prior)
        alone: Sequence[tuple[float, Play]] = ()
        if self._alone:
            alone = [
                (min(play.bidder.wanted(group, now), play.max_micros / _MICROS), play)
                for play in self._alone
                if not play.asleep and any(play.suits(request, imp) for imp in request.imp)
            ]
        if self.board.paper:
            self.board.drift(group, share)
        return Asked(group, requests, share, now, request, alone)

    def offer(
        self, asked: "Asked", imp: Imp, floor: int, seconds: int
    ) -> tuple[Play | None, Claim | None, str]:
        """Who bids for a place, and the money set aside for it; or why nobody does.

        Whoever values the request most bids: what it then bids may be less (a first price asks to
        shade, a budget may run low). A campaign has one place of a request at most.
        """
        reason = "no campaign"
        passed: tuple[Play, ...] = asked.taken
        while True:
            value, play = self._best(asked, imp, passed)
            if play is None:
                return None, None, reason
            if value * _MICROS < floor:
                return None, None, "below floor"
            wanted = int((value if play.slot is None else play.shading(value)) * _MICROS)
            wanted = min(wanted, play.max_micros)
            least = floor if floor > play.min_micros else play.min_micros
            passed = (*passed, play)
            reason = "below floor"
            if wanted >= least:
                number, group, now = play.number, asked.group, asked.now
                claim = self._ledger.take(number, self.number, group, wanted, now, seconds, least)
                if claim is not None:
                    asked.taken = (*asked.taken, play)
                    return play, claim, ""
                reason = "no budget"
                if not play.awake(now):
                    self.sleep(play)

    def _best(
        self, asked: "Asked", imp: Imp, passed: tuple[Play, ...]
    ) -> tuple[float, Play | None]:
        """Who values the request most, of those who may have this place."""
        board, group = self.board, asked.group
        ranks, all_of_them = board.ranks(group, asked.requests, asked.share)
        best, found = 0.0, None
        while True:
            for rank in ranks:
                if rank.most <= best:
                    all_of_them = True
                    break
                play = self._by_slot[rank.slot]
                if play is None or play.asleep or play in passed:
                    continue
                value = board.exact(rank, group)
                if value > best and _fits(play, asked.now, asked.request, imp):
                    best, found = value, play
            if all_of_them:
                break
            ranks, all_of_them = board.all_ranks(group, asked.share), True
        for value, play in asked.alone:
            if value > best and play not in passed and _fits(play, asked.now, asked.request, imp):
                best, found = value, play
        return best, found

    def plan_task(self, play: Play, now: float) -> PlanTask | None:
        """What is to be planned for a campaign, if it is time; or its table needs more columns."""
        bidder, slot = play.bidder, play.slot
        narrow = slot is not None and self.board.max_counted[slot] >= self.board.columns[slot] - 1
        due = isinstance(bidder, PlanningBidder) and bidder.plan_due(now)
        if slot is not None:
            self.board.shares[slot] = play.share
        if not (narrow or due) or now >= play.end:
            return None
        if not isinstance(bidder, PlanningBidder):
            return PlanTask(None, self._worth(play, 0.0))
        bidder.arrivals.share = play.share
        solve = bidder.plan_job(now)
        by_group = np.frombuffer(self.traffic.by_group, dtype=np.uint32)
        step = max(1, len(by_group) // 20_000)
        busiest = float(by_group[::step].max(initial=0)) + 5.0
        max_left = bidder.left_per_time * max(bidder.purse.end - now, 0.0) * busiest
        max_left /= self.traffic.total + self._prior
        return PlanTask(solve, None if slot is None else self._worth(play, max_left))

    def _look(self, request: BidRequest) -> None:
        """Let campaigns see whether a request suits them. Nothing of it is kept."""
        for play in self.plays.values():
            play.look_at(request)
        self._looks += 1
        often = self._looks < _FIRST_LOOKS
        self._until_look = 1 if often else _LOOK_EVERY * len(self.plays)

    def adopt(self, play: Play, plan: Plan | None, worth: Worth | None) -> None:
        """Bid by what was planned; a campaign that was changed meanwhile plans anew."""
        if self.plays.get(play.number) is not play:
            return
        if plan is not None and isinstance(play.bidder, PlanningBidder):
            play.bidder.adopt(plan)
            play.shading = Shading(play.bidder.market)
        if worth is not None and play.slot is not None:
            self._set_worth(play, worth)
            if plan is not None and not play.asleep:
                self.board.multipliers[play.slot] = play.bidder.multiplier
                self.board.forget_rankings()

    def load(self, number: int, groups: IntArray, impressions: IntArray) -> None:
        """Impressions of a folded log."""
        play = self.plays[number]
        if play.slot is not None:
            self.board.load(play.slot, groups, impressions)
            self._set_worth(play, self._worth(play, 0.0)(None))
            return
        for group, count in zip(groups.tolist(), impressions.tolist(), strict=True):
            for _ in range(count):
                play.bidder.valuation.record(group, 0.0)

    def count(
        self, number: int, groups: IntArray, impressions: IntArray, moments: IntArray | None
    ) -> None:
        """Impressions that other bidders had; with their moments (in µs) where these matter."""
        play = self.plays[number]
        if play.slot is not None:
            self.board.load(play.slot, groups, impressions)
            return
        record = play.bidder.valuation.record
        if moments is not None:
            for group, moment in zip(groups.tolist(), moments.tolist(), strict=True):
                record(group, moment / _MICROS)
            return
        for group, count in zip(groups.tolist(), impressions.tolist(), strict=True):
            for _ in range(count):
                record(group, 0.0)

    def learn(self, play: Play, micros: int, price: int, *, won: bool) -> None:
        """What a bid's outcome teaches."""
        if won:
            play.wins += 1
            if play.slot is not None and isinstance(play.bidder, PaperBidder):
                self._spend(play, price)
        else:
            play.losses += 1
        if micros > 0:
            play.bidder.learn(micros / _MICROS, price / _MICROS, won=won)

    def _spend(self, play: Play, price: int) -> None:
        """The other half of the paper's rule: λ rises with what was spent."""
        bidder = play.bidder
        assert isinstance(bidder, PaperBidder)
        step = bidder.step_size * price / _MICROS / bidder.per_request
        if play.asleep or play.slot is None:
            play.multiplier = min(play.multiplier + step, bidder.multipliers[1])
        else:
            self.board.rise(play.slot, step)


def _fits(play: Play, now: float, request: BidRequest, imp: Imp) -> bool:
    """Whether this campaign may have this place."""
    return play.start <= now < play.end and play.suits(request, imp)
