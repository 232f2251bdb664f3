"""All campaigns on one catalogue: who bids for a request, and how much."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kreach.adsystem.bidder.play import Play, make_bidder, own_valuation
from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.bidding.bidder import PaperBidder, PlanningBidder
from kreach.adsystem.bidding.board import Board, BoardValuation, Worth, worth_table
from kreach.adsystem.bidding.planning import Plan, kind_probabilities
from kreach.adsystem.bidding.shading import Shading
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.openrtb import BidRequest, Imp
from kreach.numeric.types import IntArray

__all__ = ["Chosen", "Desk", "PlanJob"]

_SLOTS_AT_ONCE = 16
_MICROS = 1e6


@dataclass(slots=True)
class Chosen:
    """A campaign's offer for one place."""

    play: Play
    micros: int


@dataclass
class PlanJob:
    """Planning outside the event loop: `solve` anywhere, then `Desk.adopt` on the loop."""

    play: Play
    solve: Callable[[], tuple[Plan | None, Worth | None]]


class Desk:
    """The campaigns of one catalogue, side by side. Not for use by several threads."""

    def __init__(
        self, catalogue: Catalogue, number: int, settings: BidderSettings, now: float
    ) -> None:
        self.catalogue, self.number = catalogue, number
        self._settings = settings
        self.traffic = Traffic(len(catalogue), now)
        self.board = Board(len(catalogue))
        self.plays: dict[int, Play] = {}
        self._by_slot: list[Play | None] = []
        self._alone: list[Play] = []
        self._audiences: dict[str, tuple[int | None, Audience]] = {}
        self._prior = 5.0 * len(catalogue)

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
            self._take_up(before, play)
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
        if isinstance(before.bidder, PlanningBidder) and isinstance(play.bidder, PlanningBidder):
            play.bidder.remember(before.bidder.memory())
            play.shading = Shading(play.bidder.market)
        else:
            play.multiplier = self.multiplier(before)
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
        board.ends[slot] = play.end
        board.most[slot] = play.most_micros / _MICROS
        bidder = play.bidder
        if isinstance(bidder, PaperBidder):
            board.set_paper(slot, bidder.step_size, bidder.multipliers[0])
        self._set_worth(play, self._worth(play, None, 0.0)())

    def _worth(self, play: Play, plan: Plan | None, most_left: float) -> Callable[[], Worth]:
        bidder = play.bidder
        if isinstance(bidder, PlanningBidder):
            probability, kinds = bidder.kind_probability, bidder.kind_of_group
        else:
            people = self._audiences[play.campaign.audience][1]
            probability, kinds = kind_probabilities(people, play.campaign.largest_cap)
        assert play.slot is not None
        most = int(self.board.most_counted[play.slot])
        count = int(kinds.max(initial=0)) + 1
        return lambda: worth_table(count, probability, plan, most, most_left)

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
        play.asleep = not awake

    def choose(
        self, group: int, now: float, request: BidRequest, imps: list[Imp], floors: list[int]
    ) -> tuple[list[Chosen | None], str]:
        """The best offer for each place, a campaign at most once; and why there is none.

        Whoever values the request most bids: what it then bids may be less (a first price asks to
        shade, a budget may run low).
        """
        traffic = self.traffic
        traffic.record(group)
        share = (traffic.by_group[group] + 5.0) / (traffic.total + self._prior)
        values = self.board.value(group, share)
        alone = [[play.bidder.wanted(group, now), play] for play in self._alone if not play.asleep]
        reason = "no campaign"
        chosen: list[Chosen | None] = []
        for imp, floor in zip(imps, floors, strict=True):
            found, why = self._best(values, alone, now, request, imp, floor)
            reason = why or reason
            chosen.append(found)
        return chosen, reason

    def _best(
        self,
        values: "np.ndarray[tuple[int], np.dtype[np.float64]]",
        alone: list[list[object]],
        now: float,
        request: BidRequest,
        imp: Imp,
        floor: int,
    ) -> tuple[Chosen | None, str]:
        unfit: list[tuple[int, float]] = []
        reason = ""
        found: Chosen | None = None
        while True:
            slot = int(values.argmax()) if len(values) else -1
            value = float(values[slot]) if slot >= 0 else 0.0
            single = max(alone, key=_wish, default=None) if alone else None
            if single is not None and _wish(single) > value:
                play, wanted = single[1], _wish(single)
                single[0] = 0.0  # asked once
                assert isinstance(play, Play)
                slot = -1
            elif value > 0.0:
                found_play = self._by_slot[slot]
                assert found_play is not None
                play, wanted = found_play, found_play.shading(value)
                values[slot] = 0.0
            else:
                break
            if not _fits(play, now, request, imp):
                if slot >= 0:
                    unfit.append((slot, value))  # for this place; another may suit it
                continue
            account = play.account
            money = account.available(account.day_of(int(now * _MICROS)))
            micros = min(int(wanted * _MICROS), play.most_micros, money)
            if micros >= floor and micros >= play.least_micros:
                found = Chosen(play, micros)
                break
            if money < play.least_micros:
                self.sleep(play)
                reason = "no budget"
            else:
                reason = "below floor"
        for slot, value in unfit:
            values[slot] = value
        return found, reason

    def plan_job(self, play: Play, now: float) -> PlanJob | None:
        """What is to be planned for a campaign, if it is time; or its table needs more columns."""
        bidder, slot = play.bidder, play.slot
        narrow = slot is not None and self.board.most_counted[slot] >= self.board.columns[slot] - 1
        due = isinstance(bidder, PlanningBidder) and bidder.plan_due(now)
        if not (narrow or due) or now >= play.end:
            return None
        if not isinstance(bidder, PlanningBidder):
            worth_of = self._worth(play, None, 0.0)
            return PlanJob(play, lambda: (None, worth_of()))
        solve = bidder.plan_job(now)
        by_group = np.frombuffer(self.traffic.by_group, dtype=np.uint32)
        step = max(1, len(by_group) // 20_000)
        busiest = float(by_group[::step].max(initial=0)) + 5.0
        most_left = bidder.left_per_time * max(bidder.purse.end - now, 0.0) * busiest
        most_left /= self.traffic.total + self._prior

        def run() -> tuple[Plan | None, Worth | None]:
            plan = solve()
            return plan, None if slot is None else self._worth(play, plan, most_left)()

        return PlanJob(play, run)

    def adopt(self, job: PlanJob, plan: Plan | None, worth: Worth | None) -> None:
        """Bid by what was planned; a campaign that was changed meanwhile plans anew."""
        play = job.play
        if self.plays.get(play.number) is not play:
            return
        if plan is not None and isinstance(play.bidder, PlanningBidder):
            play.bidder.adopt(plan)
            play.shading = Shading(play.bidder.market)
        if worth is not None and play.slot is not None:
            self._set_worth(play, worth)
            if plan is not None and not play.asleep:
                self.board.multipliers[play.slot] = play.bidder.multiplier

    def load(self, number: int, groups: IntArray, impressions: IntArray) -> None:
        """Impressions of a folded log."""
        play = self.plays[number]
        if play.slot is not None:
            self.board.load(play.slot, groups, impressions)
            self._set_worth(play, self._worth(play, None, 0.0)())
            return
        for group, count in zip(groups.tolist(), impressions.tolist(), strict=True):
            for _ in range(count):
                play.bidder.valuation.record(group, 0.0)

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
        moved = self.multiplier(play) + bidder.step_size * price / _MICROS / bidder.per_request
        play.multiplier = min(moved, bidder.multipliers[1])
        if not play.asleep and play.slot is not None:
            self.board.multipliers[play.slot] = play.multiplier


def _wish(entry: list[object]) -> float:
    wanted = entry[0]
    assert isinstance(wanted, float)
    return wanted


def _fits(play: Play, now: float, request: BidRequest, imp: Imp) -> bool:
    """Whether this campaign may have this place."""
    if not play.start <= now < play.end:
        return False
    campaign = play.campaign
    if (campaign.auction == "first_price") != (request.at == 1):
        return False
    creative = campaign.creative
    if request.badv and creative.domains and not set(request.badv).isdisjoint(creative.domains):
        return False
    if imp.banner is not None and creative.width is not None and creative.height is not None:
        return imp.banner.fits(creative.width, creative.height)
    return True
