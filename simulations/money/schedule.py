"""A schedule: what happens to bidders, exchange, disks and Redis, drawn from a seed.

Every step has a seed of its own, so that a schedule that fails can be cut down: what is left of it
does what it did before.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.ledger.clock_repair import repair_clock
from kreach.adsystem.ledger.tokens import Claim
from kreach.adsystem.settings import RedisSettings
from kreach.service.logs import Log
from simulations.money.bidder import EXPIRY_SECONDS, Machine, SimulatedBidder
from simulations.money.books import Books
from simulations.money.disk import SteppedJournal, copy_journal
from simulations.money.redis import SimulatedRedis

__all__ = ["Op", "Schedule", "draw_ops"]

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = 86_400.0
_MONTH = 31 * DAY

Op = tuple[str, int]
"""What happens, and the seed of its details."""

_WEIGHTS = {
    "bid": 30,
    "notice": 22,
    "deliver": 22,
    "disk": 18,
    "tick": 8,
    "time": 8,
    "sync": 14,
    "crash": 3,
    "stop": 1,
    "recover": 1,
    "budget": 3,
    "poll": 4,
    "compact": 2,
    "disk_fails": 2,
    "clock": 2,
    "redis_restarts": 1,
}
_JUMPS = (3.0, 60.0, 3_600.0, 4 * 3_600.0, DAY, 3 * DAY, 3_650 * DAY)
_PAUSES = (0.05, 0.5, 1.0, 5.0, 20.0, 61.0, 700.0, 3_600.0, 9_000.0, DAY / 2, DAY)


def draw_ops(seed: int, steps: int = 90) -> list[Op]:
    """The steps of a schedule."""
    chance = random.Random(seed)
    names = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=steps)
    return [(name, chance.getrandbits(32)) for name in names]


@dataclass
class Bid:
    """A bid as the exchange knows it, and what it was told."""

    claim: Claim
    token: str
    bidder: SimulatedBidder
    price: int | None = None  # acknowledged as booked
    lost: bool = False  # acknowledged as lost
    loss_sent: bool = False  # whether or not it was acknowledged


@dataclass
class _Waiting:
    """A notice whose answer has not come."""

    kind: str
    bid: Bid
    price: int
    task: "asyncio.Task[Any]"


class Schedule:
    """A world of bidders, made and run by a seed; AssertionError when the books are wrong."""

    def __init__(self, seed: int, folder: Path, template: Path) -> None:
        self.seed = seed
        chance = random.Random(seed ^ 0x5EED)
        self.real = START.timestamp() + 1.0
        self.loop = asyncio.new_event_loop()
        self.redis = SimulatedRedis()
        names = ["a", "b", "c"][: chance.choice([1, 1, 2, 3])]
        self.campaigns = _campaigns(chance)
        total = sum(round(each.campaign.budget * 1e6) for each in self.campaigns)
        family = int(total * chance.uniform(0.3, 1.0)) if chance.random() < 0.4 else None
        shared = None
        if len(names) > 1:
            settings = RedisSettings(url="redis://simulated", bidders=tuple(names))
            shared = (self.redis, settings)
        self.bidders = []
        for name in names:
            copy_journal(template, folder / name)
            machine = Machine(lambda: self.real, booted=self.real - 100.0)
            self.bidders.append(
                SimulatedBidder(
                    name, folder / name, machine, self._stored, family, shared, self.loop
                )
            )
        self.bids: list[Bid] = []
        self.network: list[tuple[str, Bid, int]] = []
        self.waiting: list[_Waiting] = []
        self.trace: list[str] = []
        self.family = family
        self.books = Books(self.campaigns, family, START.timestamp())

    def _stored(self) -> dict[int, StoredCampaign]:
        """Campaigns as the operator has them now."""
        return {stored.number: stored for stored in self.campaigns}

    def close(self) -> None:
        """End what is left."""
        for bidder in self.bidders:
            if bidder.alive:
                bidder.journal.close()
        for one in self.waiting:
            one.task.cancel()
        self._settle()
        self.loop.close()

    def run(self, ops: Sequence[Op]) -> None:
        """All steps, then the end: faults are over, and everybody comes to rest."""
        for name, seed in ops:
            self.trace.append(name)
            getattr(self, f"_{name}")(random.Random(seed))
            self._answers()
            self._check()
        self._end()

    # -- what may happen ----------------------------------------------------------------------

    def _note(self, text: str) -> None:
        self.trace[-1] += " " + text

    def _living(self, chance: random.Random) -> SimulatedBidder | None:
        bidder = chance.choice(self.bidders)
        if not bidder.alive:
            bidder.start()
            self._note(f"{bidder.name} starts")
            return None
        return bidder

    def _bid(self, chance: random.Random) -> None:
        bidder = self._living(chance)
        if bidder is None:
            return
        stored = chance.choice(self.campaigns)
        micros = int(stored.campaign.budget * 1e6 * chance.choice([0.001, 0.02, 0.1, 0.5, 1.0]))
        made = bidder.bid(stored.number, max(micros, 1), chance.choice([5, EXPIRY_SECONDS]))
        if made is not None:
            self.bids.append(Bid(*made, bidder))
            self._note(f"{bidder.name} {len(self.bids) - 1}: {made[0].micros}")

    def _notice(self, chance: random.Random) -> None:
        """The exchange sends something about a bid, maybe twice, maybe in contradiction."""
        if not self.bids:
            return
        bid = self.bids[-1 - int(chance.random() ** 2 * min(len(self.bids), 25))]
        kind = chance.choice(["billing", "billing", "win", "loss"])
        price = chance.choice([bid.claim.micros, bid.claim.micros // 2, 0, bid.claim.micros + 1])
        for _ in range(chance.choice([1, 1, 1, 2])):
            self.network.append((kind, bid, price))

    def _deliver(self, chance: random.Random) -> None:
        """A notice arrives, in any order; some never do."""
        if not self.network:
            return
        kind, bid, price = self.network.pop(chance.randrange(len(self.network)))
        if not bid.bidder.alive or chance.random() < 0.1:
            self._note(f"{kind} gets lost")
            return
        self._note(f"{kind} {self.bids.index(bid)}: {price}")
        bid.loss_sent |= kind == "loss"
        task = bid.bidder.notice(kind, bid.token, price)
        self.waiting.append(_Waiting(kind, bid, price, task))

    def _disk(self, chance: random.Random) -> None:
        for bidder in self.bidders:
            if bidder.alive:
                bidder.journal.step()

    def _disk_fails(self, chance: random.Random) -> None:
        bidder = self._living(chance)
        if bidder is not None:
            bidder.journal.step(fails=True)

    def _tick(self, chance: random.Random) -> None:
        for bidder in self.bidders:
            if bidder.alive:
                bidder.tick()

    def _time(self, chance: random.Random) -> None:
        seconds = _PAUSES[int(chance.random() ** 2 * len(_PAUSES))]
        self._note(f"{seconds:g} s")
        self.real += seconds
        self._tick(chance)

    def _sync(self, chance: random.Random) -> None:
        bidder = self._living(chance)
        if bidder is None or bidder.fleet is None:
            return
        mode = chance.choice(["ok"] * 6 + ["down", "lost", "late"])
        self._note(f"{bidder.name} {mode}")
        if bidder.wire.late and chance.random() < 0.5:
            bidder.wire.deliver(chance.randrange(len(bidder.wire.late)))
        bidder.sync(mode)

    def _redis_restarts(self, chance: random.Random) -> None:
        self.redis.restart()

    def _clock(self, chance: random.Random) -> None:
        bidder = chance.choice(self.bidders)
        machine = bidder.machine
        if not bidder.alive:
            return  # after a reboot nobody could know
        if machine.wrong:
            machine.wrong = 0.0
        else:
            machine.wrong = chance.choice(_JUMPS) * chance.choice([1, 1, -1])
        self._note(f"{machine.wrong:g}")

    def _crash(self, chance: random.Random) -> None:
        bidder = chance.choice(self.bidders)
        if not bidder.alive:
            return
        self._kill(bidder, chance)
        if chance.random() < 0.3:
            machine = bidder.machine
            if 0.0 < machine.wrong <= _MONTH + DAY:
                machine.wrong = 0.0
            machine.reboot()
            self._note("and the machine reboots")

    def _kill(self, bidder: SimulatedBidder, chance: random.Random) -> None:
        for one in self.waiting:
            if one.bid.bidder is bidder:
                one.task.cancel()
        self.waiting = [one for one in self.waiting if one.bid.bidder is not bidder]
        bidder.alive, bidder.died = False, self.real
        bidder.journal.crash(chance)
        self._note(bidder.name)

    def _stop(self, chance: random.Random) -> None:
        """A bidder is stopped in order, when it has answered."""
        bidder = self._living(chance)
        if bidder is None:
            return
        for _ in range(3):
            bidder.journal.step()
            self._answers()
        bidder.stop()
        self._note(bidder.name)

    def _recover(self, chance: random.Random) -> None:
        """A bidder dies, and another one beside it recovers its log, soon or late."""
        if len(self.bidders) == 1 or self.family is not None:
            return
        if all(one.alive for one in self.bidders):
            self._kill(chance.choice(self.bidders), chance)
        self.real += chance.choice([4.0, 4.0, 70.0])
        self._tick(chance)
        dead = [one for one in self.bidders if not one.alive]
        others = [one for one in self.bidders if one.alive and one.clock.doubt is None]
        if not others:
            return
        bidder = chance.choice(dead)
        if bidder.recover(chance.choice(others).clock()):
            self._note("is recovered")
        if chance.random() < 0.7:  # it comes back, and what it had out is billed
            bidder.start()
            open_bids = [bid for bid in self.bids if bid.bidder is bidder and bid.price is None]
            for bid in open_bids[-3:]:
                task = bidder.notice("billing", bid.token, bid.claim.micros)
                self.waiting.append(_Waiting("billing", bid, bid.claim.micros, task))

    def _budget(self, chance: random.Random) -> None:
        """An operator changes a budget; bidders learn of it one after the other."""
        at = chance.randrange(len(self.campaigns))
        before = self.campaigns[at]
        budget = round(before.campaign.budget * chance.choice([0.5, 0.9, 1.5, 3.0]), 6)
        if chance.random() < 0.5:  # to little more than was spent
            budget = round(self.books.spent(before.number) * 1.02 / 1e6, 6)
        budget = max(budget, 0.001, before.campaign.daily_budget or 0.0)
        campaign = msgspec.structs.replace(before.campaign, budget=budget)
        self.campaigns[at] = StoredCampaign(before.number, campaign, before.revision + 1)
        self._note(f"{before.number}: {campaign.budget:g}")
        if chance.random() < 0.5:
            for bidder in self.bidders:
                if bidder.alive:
                    bidder.poll()
        self._check_in_force()

    def _poll(self, chance: random.Random) -> None:
        bidder = self._living(chance)
        if bidder is not None:
            bidder.poll()
            self._check_in_force()

    def _check_in_force(self) -> None:
        """A limit holds from when all bidders have it, but for what is out by then."""
        for stored in self.campaigns:
            number = stored.number
            in_force = all(
                one.alive and one.campaigns[number].revision == stored.revision
                for one in self.bidders
            )
            out = sum(
                bid.claim.micros
                for bid in self.bids
                if bid.claim.campaign == number and bid.price is None and not bid.lost
            )
            self.books.set_limit(number, round(stored.campaign.budget * 1e6), out, in_force)

    def _compact(self, chance: random.Random) -> None:
        bidder = self._living(chance)
        if bidder is None:
            return
        for bid in [one for one in self.bids if one.bidder is bidder and one.price is None][-3:]:
            price = bid.claim.micros
            task = bidder.notice("billing", bid.token, price)
            self.waiting.append(_Waiting("billing", bid, price, task))
            self._answers()
        bidder.journal.step()
        if chance.random() < 0.6:
            self.real += EXPIRY_SECONDS + 2.0
            self._tick(chance)
        bidder.journal.step()
        self._answers()
        fails = chance.random() < 0.3
        moved = bidder.compact(fails=fails)
        self._note(f"{bidder.name} {'fails' if fails else moved}")
        if chance.random() < 0.5:  # a start counts files and rows, and a notice is repeated
            self._check()
            self._kill(bidder, chance)
            bidder.start()
            billed = [bid for bid in self.bids if bid.bidder is bidder and bid.price is not None]
            self.network += [("billing", bid, bid.price or 0) for bid in billed[-2:]]

    # -- what comes of it ---------------------------------------------------------------------

    def _settle(self) -> None:
        async def turns() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def _answers(self) -> None:
        if not self.waiting:
            return
        self._settle()
        done = [one for one in self.waiting if one.task.done()]
        self.waiting = [one for one in self.waiting if not one.task.done()]
        for one in done:
            answer = one.task.result()
            status = json.loads(answer.body).get("status") if answer.status == 200 else None
            if one.kind == "billing" and status == "done":
                assert one.bid.price is None, "booked twice"
                assert not one.bid.lost, "billed after a loss that was acknowledged"
                one.bid.price = one.price
            elif one.kind == "billing" and answer.status == 404:
                assert one.bid.loss_sent or self.books.repaired, "a bid that is open is refused"
            elif one.kind == "loss" and status == "done":
                assert one.bid.price is None, "lost after it was billed"
                one.bid.lost = True

    def _check(self) -> None:
        told = {(bid.bidder.name, bid.claim.impression): (bid.price, bid.lost) for bid in self.bids}
        busy = {one.bid.bidder.name for one in self.waiting}
        self.books.check(self.bidders, told, busy, self.real)

    def _end(self) -> None:
        """All faults are over: everything comes to rest, and bids are made again."""
        self.trace.append("end")
        chance = random.Random(self.seed)
        for bidder in self.bidders:
            bidder.machine.wrong = 0.0
            if not bidder.alive:
                bidder.start()
            bidder.poll()
        self._check_in_force()
        for pause in (1.0, 1.0, 62.0, 62.0, 3_700.0, 3_700.0, 3_700.0, 1.0, 1.0):
            self.real += pause
            self._rest(chance)
        for bidder in self.bidders:
            if bidder.clock.doubt is not None:  # a wrong clock was believed for long
                self._repair(bidder, chance)
        self.real += 25 * 3_600.0  # whenever a day begins, one has
        for _ in range(4):
            self.real += 62.0
            self._rest(chance)
        self._check()
        self.books.check_rest(self.bidders)
        for number, micros in self.books.left().items():
            if len(self.bidders) > 1 and self.books.several_limits(number):
                continue  # of a few bids' worth, one bidder may hold the day's and another the rest
            assert micros <= 0 or any(
                bidder.bid(number, 1, EXPIRY_SECONDS) is not None for bidder in self.bidders
            ), f"campaign {number} has {micros} left and nobody bids"

    def _rest(self, chance: random.Random) -> None:
        for _ in range(2):
            self._tick(chance)
            for bidder in self.bidders:
                if bidder.fleet is not None:
                    bidder.sync()
            self._disk(chance)
            self._answers()
        self._check()

    def _repair(self, bidder: SimulatedBidder, chance: random.Random) -> None:
        self._note(f"{bidder.name} is repaired")
        self._kill(bidder, chance)
        machine = bidder.machine
        log = Log("repair", lambda _: None)
        with_this = (machine.boot, machine.uptime())
        repair_clock(bidder.folder, machine.wall(), log, with_this, SteppedJournal)
        bidder.start()
        self.books.repaired = True


def _campaigns(chance: random.Random) -> list[StoredCampaign]:
    found = []
    for number in range(1, chance.choice([2, 3])):
        budget = chance.choice([0.02, 0.3, 2.0, 9.0])
        daily = budget * chance.choice([0.1, 0.4]) if chance.random() < 0.6 else None
        campaign = Campaign(
            id=f"c{number}",
            budget=budget,
            daily_budget=None if daily is None else round(daily, 6),
            start=START,
            end=START + timedelta(days=400),
            caps=(Cap(limit=1),),
            max_cpm=10_000.0,
        )
        found.append(StoredCampaign(number, campaign, 1))
    return found
