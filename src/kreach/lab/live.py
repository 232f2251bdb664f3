"""A simulated publisher and exchange that send traffic to running services and record the truth.

For each visit the gateway names the group, the bidder bids, an auction is held, and notices go out
(some duplicated, late or lost). The publisher may ask the gateway to enforce a hard cap. Only this
module knows who saw what, so the reports of the services can be scored against it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any, Self

import numpy as np

from kreach.errors import KreachError
from kreach.lab.exchange import Client, Placement, Prices, Reply, bid_request, lognormal_prices
from kreach.lab.trials import generator_for
from kreach.lab.visitors import IndependentVisitors, Schedule, Visitors
from kreach.numeric.types import IntArray
from kreach.service.clock import Clock

__all__ = ["ExposureCounts", "LiveRun", "NoticeFaults", "Truth"]

_MAX_ATTEMPTS = 9  # an exchange repeats a notice that was not acknowledged
_GATEWAY_SECONDS = 20.0  # that a gateway may be away
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class NoticeFaults:
    """The probability that a notice is duplicated, `late_seconds` late, or lost."""

    duplicate: float = 0.0
    late: float = 0.0
    late_seconds: float = 1.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        for name in ("duplicate", "late", "lost"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise KreachError.rule(name, "be a probability", getattr(self, name))


class ExposureCounts:
    """Impressions of each campaign on each person."""

    def __init__(self, people: int) -> None:
        self._people = people
        self._by_campaign: dict[str, IntArray] = {}

    def add(self, campaign: str, person: int) -> None:
        """Count one impression."""
        self.of(campaign)[person] += 1

    def of(self, campaign: str) -> IntArray:
        """Impressions by person."""
        if campaign not in self._by_campaign:
            self._by_campaign[campaign] = np.zeros(self._people, dtype=np.int64)
        return self._by_campaign[campaign]

    @property
    def campaigns(self) -> tuple[str, ...]:
        """The campaigns with an impression."""
        return tuple(self._by_campaign)

    def impressions(self, campaign: str) -> int:
        """Impressions of a campaign."""
        return int(self.of(campaign).sum())

    def reach(self, campaign: str, cap: int) -> int:
        """Σ min(X_i, cap)."""
        return int(np.minimum(self.of(campaign), cap).sum())

    def over_exposed(self, campaign: str, cap: int) -> int:
        """People with more than `cap`."""
        return int((self.of(campaign) > cap).sum())


class Truth:
    """What really happened.

    `seen` counts all impressions, `billed` those whose billing notice was acknowledged. The ad
    system knows only the latter; they differ where billing notices were lost or late.
    """

    def __init__(self, people: int) -> None:
        self.seen, self.billed = ExposureCounts(people), ExposureCounts(people)
        self.spend_micros: Counter[str] = Counter()  # by campaign, acknowledged
        self.groups: Counter[tuple[str, str, str]] = Counter()  # campaign, catalogue, group: billed
        self.visits = 0
        self.no_bids: Counter[str] = Counter()  # by reason
        self.lost: Counter[str] = Counter()  # bids below the market, by campaign
        self.dropped: Counter[str] = Counter()  # by the publisher's hard cap, by campaign
        self.answers: Counter[str] = Counter()  # to notices: kind and status

    def reach(self, campaign: str, cap: int) -> int:
        """Capped reach of what was seen."""
        return self.seen.reach(campaign, cap)

    def over_exposed(self, campaign: str, cap: int) -> int:
        """People who saw it more than `cap` times."""
        return self.seen.over_exposed(campaign, cap)


@dataclass(frozen=True)
class _Visit:
    """One visit, with all of its random draws."""

    number: int
    person: int
    placement: Placement
    price: float  # the highest competing bid, per thousand
    luck: tuple[float, ...]  # uniform draws for the notices: win, billing, loss


@dataclass
class LiveRun:
    """Visits to a publisher that offers its placements to a bidder over HTTP.

    The gateway is asked before a `hard_capped` campaign is shown, and told when one was; with
    `tell_all` it is told of every showing, as for a panel. `run` may be called again; the random
    draws continue.
    """

    population: Visitors
    gateway: str
    bidder: str
    prices: Prices = field(default_factory=lambda: lognormal_prices(0.0, 1.0))
    placements: tuple[Placement, ...] = (Placement(),)
    notice_faults: NoticeFaults = field(default_factory=NoticeFaults)
    hard_capped: frozenset[str] = frozenset()
    seed: int = 0
    watch: Callable[[dict[str, Any]], None] | None = None  # called with each visit
    tell_all: bool = False

    def __post_init__(self) -> None:
        self.truth = Truth(len(self.population.user_ids))
        self._generator = generator_for(self.seed, 2)
        self._gateway, self._bidder = Client(self.gateway), Client(self.bidder)
        self._pending: set[asyncio.Task[None]] = set()
        self.visits_started = 0
        self.late_seconds = 0.0  # of all scheduled visits together, by the schedule's clock

    async def run(
        self, visits: int, concurrency: int = 16, *, per_second: float | None = None
    ) -> Truth:
        """Send independent visits, at most `concurrency` at once, and settle every notice."""
        if visits < 0 or concurrency < 1:
            raise KreachError.rule("visits", "be ≥ 0, with concurrency ≥ 1", (visits, concurrency))
        if not isinstance(self.population, IndependentVisitors):
            raise KreachError.rule("population", "visit independently, or follow a schedule", "")
        people = self.population.visitors(visits, self._generator)
        begun = time.monotonic()

        async def due(index: int) -> None:
            if per_second is not None:
                await asyncio.sleep(max(begun + index / per_second - time.monotonic(), 0.0))

        await self._send(self._draw(people), due, concurrency)
        return self.truth

    async def follow(
        self,
        schedule: Schedule,
        clock: Clock,
        speed: float,
        concurrency: int = 16,
        *,
        skip: int = 0,
    ) -> Truth:
        """Send each visit when its time comes, but the first `skip`, which an earlier run sent.

        `clock` runs `speed` times as fast as real time. A person's visits never overtake each
        other. A machine that cannot keep up sends visits late, in their order and as fast as it
        can: no visit is left out, and gaps change only as fast as the delay does. `late_seconds`
        sums the delays.
        """
        times = schedule.at_seconds.tolist()

        async def due(index: int) -> None:
            early = times[skip + index] - clock()
            if early > 0.0:
                await asyncio.sleep(early / speed)
            else:
                self.late_seconds -= early

        visits = self._draw(schedule.person)
        for _ in range(min(skip, len(times))):
            next(visits)
        await self._send(visits, due, concurrency)
        return self.truth

    async def _send(
        self,
        visits: "Iterator[_Visit]",
        due: Callable[[int], Awaitable[None]],
        concurrency: int,
    ) -> None:
        """Send visits when they are due, those of one person one after the other."""
        queue = enumerate(visits)
        latest: dict[int, asyncio.Event] = {}  # the end of each person's latest visit

        async def worker() -> None:
            for index, visit in queue:
                before, done = latest.get(visit.person), asyncio.Event()
                latest[visit.person] = done
                await due(index)
                if before is not None:
                    await before.wait()
                await self._visit(visit)
                done.set()
                if latest[visit.person] is done:
                    del latest[visit.person]

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
        await self.settle()

    async def settle(self) -> None:
        """Wait for late notices."""
        while self._pending:
            await asyncio.gather(*self._pending)

    async def close(self) -> None:
        """Settle and close all connections."""
        await self.settle()
        await self._gateway.close()
        await self._bidder.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _draw(self, person: IntArray) -> "Iterator[_Visit]":
        """Make all random draws up front, so that they do not depend on timing."""
        generator, first, visits = self._generator, self.truth.visits, len(person)
        self.truth.visits += visits
        prices = self.prices(generator, visits).tolist()
        places = generator.integers(len(self.placements), size=visits).tolist()
        luck = generator.random((visits, 3)).tolist()
        return (
            _Visit(first + at, who, self.placements[place], price, tuple(draws))
            for at, (who, place, price, draws) in enumerate(
                zip(person.tolist(), places, prices, luck, strict=True)
            )
        )

    async def _visit(self, visit: _Visit) -> None:
        user_id = self.population.user_ids[visit.person]
        self.visits_started += 1
        user = (await self._ask_gateway("/v1/identify", {"user_id": user_id})).document
        if self.watch is not None:
            self.watch({"user_id": user_id, "user": user, "visit": visit.number})
        request = bid_request(visit.number, user_id, user, [visit.placement])
        try:
            answer = await self._bidder.ask("POST", "/openrtb2/bid", request)
        except OSError:  # the impression goes to another buyer
            self.truth.no_bids["no answer"] += 1
            return
        if answer.status == 204:
            self.truth.no_bids[answer.headers.get("x-no-bid", "no bid")] += 1
            return
        for seat in _ok(answer).document["seatbid"]:
            for bid in seat["bid"]:
                await self._auction(visit, user_id, user, bid)

    async def _auction(
        self, visit: _Visit, user_id: str, user: dict[str, Any], bid: dict[str, Any]
    ) -> None:
        """Sell the impression to this bid, or to another buyer."""
        campaign, offer = bid["cid"], float(bid["price"])
        clearing_price = max(visit.price, visit.placement.floor)
        if offer < clearing_price:
            self.truth.lost[campaign] += 1
            await self._notice("loss", bid.get("lurl"), visit.luck[2])
        elif not await self._may_show(user_id, campaign):
            self.truth.dropped[campaign] += 1  # the bidder sees a lost auction
            await self._notice("loss", bid.get("lurl"), visit.luck[2])
        else:
            price = offer if visit.placement.first_price else clearing_price
            await self._show(visit, user_id, user, bid, price)

    async def _may_show(self, user_id: str, campaign: str) -> bool:
        if campaign not in self.hard_capped:
            return True
        question = {"user_id": user_id, "campaigns": [campaign], "hold": True}
        answer = await self._ask_gateway("/v1/allow", question)
        return campaign in answer.document["allowed"]

    async def _show(
        self, visit: _Visit, user_id: str, user: dict[str, Any], bid: dict[str, Any], price: float
    ) -> None:
        campaign = bid["cid"]
        await self._notice("win", bid.get("nurl"), visit.luck[0])
        self.truth.seen.add(campaign, visit.person)
        if self.tell_all or campaign in self.hard_capped:
            showing = {"user_id": user_id, "campaign": campaign, "impression_id": bid["id"]}
            await self._ask_gateway("/v1/shown", showing)
        text = _price_text(price, float(bid["price"]))
        address = bid["burl"].replace("${AUCTION_PRICE}", text)
        sale = _Sale(campaign, visit.person, _group(user), _micros(text))
        await self._notice("billing", address, visit.luck[1], sale)

    async def _ask_gateway(self, path: str, document: dict[str, Any]) -> Reply:
        """Ask until it answers: a publisher's server repeats what was not acknowledged."""
        deadline = time.monotonic() + _GATEWAY_SECONDS
        while True:
            try:
                answer = await self._gateway.ask("POST", path, document)
                if answer.status != 503 or time.monotonic() > deadline:
                    return _ok(answer)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _notice(
        self, kind: str, address: str | None, luck: float, sale: "_Sale | None" = None
    ) -> None:
        """Send a notice once, twice, late or not at all, as drawn."""
        if address is None:
            return
        faults = self.notice_faults
        if luck < faults.lost:
            self.truth.answers[f"{kind} never sent"] += 1
        elif luck < faults.lost + faults.late:
            self._later(self._deliver(kind, address, sale, faults.late_seconds))
        elif luck < faults.lost + faults.late + faults.duplicate:
            await asyncio.gather(*(self._deliver(kind, address, sale) for _ in range(2)))
        else:
            await self._deliver(kind, address, sale)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _deliver(
        self, kind: str, address: str, sale: "_Sale | None", wait_seconds: float = 0.0
    ) -> None:
        await asyncio.sleep(wait_seconds)
        for attempt in range(_MAX_ATTEMPTS):
            try:
                answer = await self._bidder.ask("GET", address)
            except OSError:
                self.truth.answers[f"{kind} unanswered"] += 1
                await asyncio.sleep(0.05 * 2**attempt)
                continue
            status = answer.document.get("status") if answer.status == 200 else None
            self.truth.answers[f"{kind} {answer.status} {status or ''}".rstrip()] += 1
            if sale is not None and answer.status == 200 and not sale.booked:
                sale.booked = True  # a duplicated notice is acknowledged twice
                self._book(sale)
            if answer.status != 503:
                return
            await asyncio.sleep(0.05 * 2**attempt)

    def _book(self, sale: "_Sale") -> None:
        self.truth.billed.add(sale.campaign, sale.person)
        self.truth.spend_micros[sale.campaign] += sale.micros
        self.truth.groups[sale.campaign, *sale.group] += 1


@dataclass
class _Sale:
    """An impression that the bidder has to pay for."""

    campaign: str
    person: int
    group: tuple[str, str]  # catalogue and group
    micros: int
    booked: bool = False


def _ok(answer: Reply) -> Reply:
    if answer.status != 200:
        raise RuntimeError(f"a service answered {answer.status}: {answer.body[:200]!r}")
    return answer


def _group(user: dict[str, Any]) -> tuple[str, str]:
    data = user["data"][0]
    return data["ext"]["catalogue"], data["segment"][0]["id"]


def _price_text(price: float, bid: float) -> str:
    """A price per thousand as exchanges write it, not above the bid."""
    return f"{min(round(price, 6), bid):.6f}"


def _micros(text: str) -> int:
    """The price of one impression in micros, rounded up, from a price per thousand."""
    return int((Decimal(text) * 1_000).to_integral_value(ROUND_CEILING))
