"""What must hold after every step, whatever happened: the auditor of a schedule."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kreach.adsystem.campaigns.store import StoredCampaign
from simulations.money.bidder import FAMILY, SimulatedBidder

__all__ = ["Books"]

_DAY = 86_400.0
_SLACK_SECONDS = 10.0  # of a day's beginning: what a clock may gain at once,
_DRIFT = 0.0011  # and by and by

Told = Mapping[tuple[str, int], tuple[int | None, bool]]
"""What the exchange was told of each bid: the price that is booked, whether it is lost."""


class Books:
    """Limits of campaigns and of their family, compared with logs and ledgers."""

    def __init__(
        self, campaigns: Sequence[StoredCampaign], family: int | None, start: float
    ) -> None:
        self._limits = {one.number: round(one.campaign.budget * 1e6) for one in campaigns}
        self._daily = {
            one.number: round(one.campaign.daily_budget * 1e6)
            for one in campaigns
            if one.campaign.daily_budget is not None
        }
        self._bounds = dict(self._limits)  # of what is spent, and
        self._held_bounds = dict(self._limits)  # of what bidders hold: the largest limit so far
        self._family, self._start = family, start
        self._spent: Counter[int] = Counter()
        self.repaired = False  # rows have moved to another day

    def set_limit(self, number: int, limit: int, out: int, in_force: bool) -> None:
        """A budget is now this; `out` is what open bids may cost, `in_force`: all bidders know it.

        Nothing is bid beyond a lowered budget once it is in force. What was out by then may be
        billed. What was granted before may stay in logs, or come there late: it is not used.
        """
        if limit == self._limits[number] and not (in_force and self._bounds[number] > limit):
            return
        self._limits[number] = limit
        if in_force:
            self._bounds[number] = max(limit, min(self._bounds[number], self._spent[number] + out))
        else:
            self._bounds[number] = max(self._bounds[number], limit)
        self._held_bounds[number] = max(self._held_bounds[number], limit)

    def spent(self, number: int) -> int:
        """What a campaign has spent, by all logs."""
        return self._spent[number]

    def left(self) -> dict[int, int]:
        """What of each budget could be bid with."""
        left = {number: limit - self._spent[number] for number, limit in self._limits.items()}
        if self._family is not None:
            shared = self._family - sum(self._spent.values())
            left = {number: min(micros, shared) for number, micros in left.items()}
        return left

    def several_limits(self, number: int) -> bool:
        """Whether bids of a campaign need money of more than one kind."""
        return number in self._daily or self._family is not None

    def check(
        self, bidders: Iterable[SimulatedBidder], told: Told, busy: set[str], real: float
    ) -> None:
        """All that must hold at any instant."""
        bidders = list(bidders)
        self._spent = Counter()
        by_day: Counter[tuple[int, int]] = Counter()
        held: Counter[int] = Counter()
        for bidder in bidders:
            rows = bidder.journal.durable().rows
            self._check_rows(bidder.name, rows, told)
            mine: Counter[int] = Counter()
            for _, number, micros, bid_ts in rows:
                mine[number] += micros
                by_day[number, bidder.ledger.accounts[number].day_of(bid_ts)] += micros
            self._spent += mine
            held += self._held(bidder)
            if bidder.alive:
                self._check_accounts(bidder, real)
                if bidder.name not in busy:
                    for number in self._limits:
                        spent = bidder.ledger.accounts[number].spent
                        assert spent == mine[number], f"{bidder.name}: log and ledger differ"
        self._check_limits(by_day, held)

    def _check_rows(self, name: str, rows: Sequence[tuple[int, int, int, int]], told: Told) -> None:
        booked = {impression: micros for impression, _, micros, _ in rows}
        assert len(booked) == len(rows), "an impression is there twice"
        for (owner, impression), (price, lost) in told.items():
            if owner != name:
                continue
            if price is not None:
                assert booked.get(impression) == price, "acknowledged, and not in the log"
            assert not (lost and impression in booked), "lost, acknowledged, and billed"

    def _held(self, bidder: SimulatedBidder) -> Counter[int]:
        """What a bidder could bid with in all, now or after a crash."""
        held = Counter(bidder.journal.durable().grants)
        if bidder.alive:
            for number, account in bidder.ledger.accounts.items():
                held[number] = max(held[number], account.granted)
        return held

    def _check_accounts(self, bidder: SimulatedBidder, real: float) -> None:
        passed = (real - self._start) * (1.0 + _DRIFT) + _SLACK_SECONDS
        for number, account in bidder.ledger.accounts.items():
            assert account.reserved >= 0
            assert account.carried >= 0
            assert account.used() <= account.granted, f"{bidder.name}: bids beyond the grant"
            if number in self._daily and not self.repaired:
                day = account.day_at(bidder.clock())
                assert day <= passed // _DAY, f"{bidder.name}: a day begins early"

    def _check_limits(self, by_day: Counter[tuple[int, int]], held: Counter[int]) -> None:
        for number, bound in self._bounds.items():
            assert self._spent[number] <= bound, f"campaign {number} is overspent"
            most = self._held_bounds[number]
            assert held[number] <= most, f"more of campaign {number} is out than there is"
        if self._family is not None:
            assert sum(self._spent.values()) <= self._family, "the family is overspent"
            assert held[FAMILY] <= self._family, "more of the family is out than there is"
        for (number, day), micros in by_day.items():
            if number in self._daily and not self.repaired:
                assert micros <= self._daily[number], f"day {day} of {number} is overspent"

    def check_rest(self, bidders: Iterable[SimulatedBidder]) -> None:
        """When all bids have expired, nothing is held for them."""
        for bidder in bidders:
            assert bidder.ledger.bids_out == bidder.ledger.wins_out == 0
            for account in bidder.ledger.accounts.values():
                assert account.reserved == account.carried == 0, f"{bidder.name}: money is stuck"
