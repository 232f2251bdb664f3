"""A publisher and an exchange that drive the running services, and keep the truth.

Visitors come, the gateway names their group, the bidder bids, an auction is held, notices go out
(some twice, late or never), and the publisher may ask for the hard cap. Who saw what is known
here and nowhere else, so what the services report can be scored against it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from kreach.errors import KreachError
from kreach.lab.exchange import Client, Place, Prices, Reply, bid_request, lognormal_prices
from kreach.lab.trials import generator_for
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["LiveRun", "LiveWorld", "Mishaps", "Tally", "Truth"]

_TRIES = 9  # an exchange repeats a billing notice that was not acknowledged


@dataclass(frozen=True, eq=False)
class LiveWorld:
    """People, and how often each visits."""

    user_ids: tuple[str, ...]
    shares: FloatArray  # of all visits

    @classmethod
    def drawn(cls, people: int, dispersion: float, seed: int) -> "LiveWorld":
        """Rates from a Gamma law: in any group formed blindly, shares are Dirichlet(dispersion)."""
        if people < 1 or not dispersion > 0.0:
            raise KreachError.rule(
                "world", "have people and a dispersion > 0", (people, dispersion)
            )
        generator = generator_for(seed, 0)
        rates = np.ones(people)
        if np.isfinite(dispersion):
            rates = generator.standard_gamma(dispersion, people)
        names = tuple(f"reader-{seed:03}-{person:07}" for person in range(people))
        return cls(names, rates / rates.sum())

    def visitors(self, visits: int, generator: np.random.Generator) -> IntArray:
        """Who makes each of so many visits."""
        return generator.choice(len(self.shares), visits, p=self.shares)

    def write_users(self, path: Path) -> Path:
        """A users file (CSV): those who never came are people too."""
        path.write_text("\n".join(["user_id", *self.user_ids]) + "\n")
        return path

    def write_history(self, path: Path, visits: int, end: datetime, seed: int) -> Path:
        """A visits file (CSV) of the 30 days before `end`."""
        generator = generator_for(seed, 1)
        days = 30.0 * np.sort(generator.random(visits))
        lines = ["user_id,ts"]
        for person, day in zip(self.visitors(visits, generator), days.tolist(), strict=True):
            moment = end + timedelta(days=day - 30.0)
            lines.append(f"{self.user_ids[person]},{moment.isoformat()}")
        path.write_text("\n".join(lines) + "\n")
        return path


@dataclass(frozen=True)
class Mishaps:
    """The chance that a notice goes out twice, `late_seconds` late, or not at all."""

    twice: float = 0.0
    late: float = 0.0
    late_seconds: float = 1.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        for name in ("twice", "late", "lost"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise KreachError.rule(name, "be a probability", getattr(self, name))


class Tally:
    """Impressions of each campaign on each person."""

    def __init__(self, people: int) -> None:
        self._people = people
        self._by_campaign: dict[str, IntArray] = {}

    def add(self, campaign: str, person: int) -> None:
        """One more."""
        self.of(campaign)[person] += 1

    def of(self, campaign: str) -> IntArray:
        """Impressions by person."""
        nobody = np.zeros(0, dtype=np.int64)
        found = self._by_campaign.get(campaign, nobody)
        if not len(found):
            found = self._by_campaign[campaign] = np.zeros(self._people, dtype=np.int64)
        return found

    @property
    def campaigns(self) -> tuple[str, ...]:
        """Those that were seen."""
        return tuple(self._by_campaign)

    def impressions(self, campaign: str) -> int:
        """All of a campaign's."""
        return int(self.of(campaign).sum())

    def reach(self, campaign: str, cap: int) -> int:
        """Σ min(X_i, cap)."""
        return int(np.minimum(self.of(campaign), cap).sum())

    def over_exposed(self, campaign: str, cap: int) -> int:
        """People with more than `cap`."""
        return int((self.of(campaign) > cap).sum())


class Truth:
    """What really happened.

    `seen` is who saw what. `billed` are those of them whose billing was acknowledged; the ad system
    knows of these only, and the two differ where billing notices were lost or came too late.
    """

    def __init__(self, people: int) -> None:
        self.seen, self.billed = Tally(people), Tally(people)
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
    """One visit, with all of its chance."""

    number: int
    person: int
    place: Place
    price: float  # the highest competing bid, per thousand
    luck: tuple[float, ...]  # of the notices: win, billing or loss


@dataclass
class LiveRun:
    """Visits to a publisher whose places are sold to a bidder, over HTTP.

    `hard_capped` campaigns are put to the gateway before they are shown. A run can be continued:
    chance goes on where it was.
    """

    world: LiveWorld
    gateway: str
    bidder: str
    prices: Prices = field(default_factory=lambda: lognormal_prices(0.0, 1.0))
    places: tuple[Place, ...] = (Place(),)
    mishaps: Mishaps = field(default_factory=Mishaps)
    hard_capped: frozenset[str] = frozenset()
    seed: int = 0
    watch: Callable[[dict[str, Any]], None] | None = None  # is told of each visit

    def __post_init__(self) -> None:
        self.truth = Truth(len(self.world.user_ids))
        self._generator = generator_for(self.seed, 2)
        self._gateway, self._bidder = Client(self.gateway), Client(self.bidder)
        self._under_way: set[asyncio.Task[None]] = set()
        self.came = 0

    async def run(
        self, visits: int, concurrency: int = 16, *, per_second: float | None = None
    ) -> Truth:
        """So many visits, at most `concurrency` at once; returns when every notice is settled."""
        if visits < 0 or concurrency < 1:
            raise KreachError.rule("visits", "be ≥ 0, with concurrency ≥ 1", (visits, concurrency))
        coming = iter(self._drawn(visits))
        begun = time.monotonic()

        async def one_after_the_other() -> None:
            for at, visit in coming:
                if per_second is not None:
                    await asyncio.sleep(max(begun + at / per_second - time.monotonic(), 0.0))
                await self._visit(visit)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, visits)):
                group.create_task(one_after_the_other())
        await self.settle()
        return self.truth

    async def settle(self) -> None:
        """Wait for notices that are late."""
        while self._under_way:
            await asyncio.gather(*self._under_way)

    async def close(self) -> None:
        """Settle, and end all connections."""
        await self.settle()
        await self._gateway.close()
        await self._bidder.close()

    async def __aenter__(self) -> "LiveRun":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _drawn(self, visits: int) -> list[tuple[int, _Visit]]:
        """All chance of the visits at once, so that it does not depend on who is quicker."""
        generator, first = self._generator, self.truth.visits
        self.truth.visits += visits
        people = self.world.visitors(visits, generator).tolist()
        prices = self.prices(generator, visits).tolist()
        places = generator.integers(len(self.places), size=visits).tolist()
        luck = generator.random((visits, 3)).tolist()
        return [
            (
                at,
                _Visit(
                    first + at, people[at], self.places[places[at]], prices[at], tuple(luck[at])
                ),
            )
            for at in range(visits)
        ]

    async def _visit(self, visit: _Visit) -> None:
        user_id = self.world.user_ids[visit.person]
        self.came += 1
        told = await self._gateway.ask("POST", "/v1/identify", {"user_id": user_id})
        user = _good(told).document
        if self.watch is not None:
            self.watch({"user_id": user_id, "user": user, "visit": visit.number})
        request = bid_request(visit.number, user_id, user, [visit.place])
        try:
            answer = await self._bidder.ask("POST", "/openrtb2/bid", request)
        except OSError:  # the place goes to somebody else
            self.truth.no_bids["no answer"] += 1
            return
        if answer.status == 204:
            self.truth.no_bids[answer.headers.get("x-no-bid", "")] += 1
            return
        for seat in _good(answer).document["seatbid"]:
            for bid in seat["bid"]:
                await self._auction(visit, user_id, user, bid)

    async def _auction(
        self, visit: _Visit, user_id: str, user: dict[str, Any], bid: dict[str, Any]
    ) -> None:
        """Sell the place to this bid, or to somebody else."""
        campaign, offer = bid["cid"], float(bid["price"])
        least = max(visit.price, visit.place.floor)
        if offer < least:
            self.truth.lost[campaign] += 1
            await self._notice("loss", bid.get("lurl"), visit.luck[2])
        elif not await self._may_show(user_id, campaign):
            self.truth.dropped[campaign] += 1  # to the bidder, one more lost auction
            await self._notice("loss", bid.get("lurl"), visit.luck[2])
        else:
            await self._show(visit, user_id, user, bid, offer if visit.place.first_price else least)

    async def _may_show(self, user_id: str, campaign: str) -> bool:
        if campaign not in self.hard_capped:
            return True
        asked = {"user_id": user_id, "campaigns": [campaign], "hold": True}
        answer = _good(await self._gateway.ask("POST", "/v1/allow", asked))
        return campaign in answer.document["allowed"]

    async def _show(
        self, visit: _Visit, user_id: str, user: dict[str, Any], bid: dict[str, Any], price: float
    ) -> None:
        campaign = bid["cid"]
        await self._notice("win", bid.get("nurl"), visit.luck[0])
        self.truth.seen.add(campaign, visit.person)
        if campaign in self.hard_capped:
            shown = {"user_id": user_id, "campaign": campaign, "impression_id": bid["id"]}
            _good(await self._gateway.ask("POST", "/v1/shown", shown))
        text = _price_text(price, float(bid["price"]))
        address = bid["burl"].replace("${AUCTION_PRICE}", text)
        sale = _Sale(campaign, visit.person, _group(user), _micros(text))
        await self._notice("billing", address, visit.luck[1], sale)

    async def _notice(
        self, kind: str, address: str | None, luck: float, sale: "_Sale | None" = None
    ) -> None:
        """Send a notice, as its luck has it."""
        if address is None:
            return
        mishaps = self.mishaps
        if luck < mishaps.lost:
            self.truth.answers[f"{kind} never sent"] += 1
        elif luck < mishaps.lost + mishaps.late:
            self._later(self._tell(kind, address, sale, mishaps.late_seconds))
        elif luck < mishaps.lost + mishaps.late + mishaps.twice:
            await asyncio.gather(*(self._tell(kind, address, sale) for _ in range(2)))
        else:
            await self._tell(kind, address, sale)

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _tell(
        self, kind: str, address: str, sale: "_Sale | None", wait_seconds: float = 0.0
    ) -> None:
        await asyncio.sleep(wait_seconds)
        for attempt in range(_TRIES):
            try:
                answer = await self._bidder.ask("GET", address)
            except OSError:
                self.truth.answers[f"{kind} unanswered"] += 1
                await asyncio.sleep(0.05 * 2**attempt)
                continue
            said = answer.document.get("status") if answer.status == 200 else None
            self.truth.answers[f"{kind} {answer.status} {said or ''}".rstrip()] += 1
            if sale is not None and answer.status == 200 and not sale.booked:
                sale.booked = True  # a notice that went out twice is acknowledged twice
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
    """A showing that is to be paid for."""

    campaign: str
    person: int
    group: tuple[str, str]  # catalogue and group
    micros: int
    booked: bool = False


def _good(answer: Reply) -> Reply:
    if answer.status != 200:
        raise RuntimeError(f"a service answered {answer.status}: {answer.body[:200]!r}")
    return answer


def _group(user: dict[str, Any]) -> tuple[str, str]:
    data = user["data"][0]
    return data["ext"]["catalogue"], data["segment"][0]["id"]


def _price_text(price: float, most: float) -> str:
    """A price per thousand as exchanges write it, not above the bid."""
    return f"{min(round(price, 6), most):.6f}"


def _micros(text: str) -> int:
    """What one impression costs at a price per thousand, in whole micros: fractions are due."""
    return int((Decimal(text) * 1_000).to_integral_value(ROUND_CEILING))
