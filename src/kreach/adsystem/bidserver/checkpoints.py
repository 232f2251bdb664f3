"""Checkpoints of pacing and learned state, written at intervals and read at the next start."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.adsystem.bidserver.catalogue_bidder import CatalogueBidder
from kreach.adsystem.ledger.plan_rows import cost_limit_row, shortfall_row
from kreach.adsystem.ledger.request_rows import request_row
from kreach.boundary.times import DAY_SECONDS, MICROS

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["CheckpointStore"]

_MEMORY_SECONDS = 60.0
_TALLIES = ("bids", "wins", "losses")
_SAMPLES = ("sampled_requests", "eligible_requests")


class CheckpointStore:
    """Optional state: a bidder without a checkpoint starts from the beliefs in its settings."""

    def __init__(self, state: "BidderState") -> None:
        self._state = state
        self._plan_rows: dict[str, bytes] = {}  # as written

    async def run(self) -> None:
        """Write pacing at short intervals, then what was learned."""
        seconds = self._state.settings.pacing_seconds
        for _ in range(max(int(_MEMORY_SECONDS / seconds), 1)):
            await asyncio.sleep(seconds)
            self.write_pacing()
        for _ in self.write_memory():
            await asyncio.sleep(0)

    def write_pacing(self) -> None:
        """Write multiplier, spend and tallies of each campaign."""
        state = self._state
        stamp = int(state.clock() * MICROS)
        state.journal.submit("moment", (stamp,))
        state.clock_watch.write_mark()
        for number in state.stored_campaigns:
            account = state.accounts[number]
            if state.stored_campaigns[number].campaign.state == "ended" and not account.reserved:
                continue
            requests = bids = wins = losses = 0
            multiplier = None
            reasons, limits = [], []
            for bidder in state.catalogue_bidders.values():
                runtime = bidder.runtimes.get(number)
                if runtime is not None:
                    requests += bidder.traffic.total
                    bids, wins = bids + runtime.bids, wins + runtime.wins
                    losses += runtime.losses
                    multiplier = bidder.multiplier(runtime)
                    reasons.append(runtime.shortfall)
                    limits.append(runtime.bidder.max_cost_per_reach)
            reason = reasons[0] if reasons and all(reasons) else None
            self._write_plan(shortfall_row(number, reason, stamp))
            limit = max((most for most in limits if most is not None), default=None)
            self._write_plan(cost_limit_row(number, limit, stamp))
            row = (number, stamp, multiplier, account.spent, account.reserved, account.carried)
            state.journal.submit("pacing", (*row, requests, bids, wins, losses))
        oldest = stamp - int(state.settings.pacing_days * DAY_SECONDS * MICROS)
        state.journal.submit("forget_pacing", (oldest,))
        state.journal.submit("forget_losses", (stamp // MICROS,))

    def _write_plan(self, row: tuple[str, int, bytes]) -> None:
        """Write what a plan comes to, if it has changed."""
        name, _, value = row
        if self._plan_rows.get(name) != value:
            self._plan_rows[name] = value
            self._state.journal.submit("memory", row)

    def write_memory(self) -> Iterator[None]:
        """Write what was learned, piece by piece: requests can be answered in between."""
        state = self._state
        stamp = int(state.clock() * MICROS)
        learned = json.dumps(state.exchanges.memory()).encode()
        state.journal.submit("memory", ("exchanges", stamp, learned))
        hours = json.dumps(state.exchanges.hours.memory()).encode()
        state.journal.submit("memory", ("hours", stamp, hours))
        for version, bidder in list(state.catalogue_bidders.items()):
            head = np.array([bidder.traffic.since], dtype=np.float64).tobytes()
            value = head + bytes(bidder.traffic.by_group)
            state.journal.submit("memory", (f"traffic:{version}", stamp, value))
            for number, runtime in list(bidder.runtimes.items()):
                yield
                memory = runtime.bidder.memory() | {"multiplier": bidder.multiplier(runtime)}
                memory |= {name: getattr(runtime, name) for name in _TALLIES + _SAMPLES}
                value = json.dumps(memory).encode()
                state.journal.submit("memory", (f"campaign:{version}:{number}", stamp, value))

    def write_request_hours(self) -> None:
        """Write the requests of hours that are over, a row per catalogue."""
        state = self._state
        now = state.clock()
        for version, bidder in state.catalogue_bidders.items():
            for hour, requests in bidder.request_hours.advance(now, bidder.own_requests):
                row = request_row(version, hour, requests, int(now * MICROS))
                state.journal.submit("memory", row)

    def read(self, reader: sqlite3.Connection) -> None:
        """Restore what an earlier run learned; skip what cannot be read."""
        for name, value in reader.execute("SELECT name, value FROM memory"):
            kind, _, rest = str(name).partition(":")
            try:
                if kind == "traffic":
                    self._read_traffic(rest, value)
                elif kind == "exchanges":
                    self._state.exchanges.remember(json.loads(value))
                elif kind == "hours":
                    self._state.exchanges.hours.remember(json.loads(value))
                elif kind == "campaign":
                    version, _, number = rest.rpartition(":")
                    bidder = self._state.catalogue_bidders[version]
                    _read_campaign(bidder, int(number), json.loads(value))
            except (KeyError, ValueError, TypeError, IndexError):
                self._state.log.warning("checkpoint not used", kind=kind)

    def _read_traffic(self, version: str, value: bytes) -> None:
        traffic = self._state.catalogue_bidders[version].traffic
        since = float(np.frombuffer(value[:8], dtype=np.float64)[0])
        counts = np.frombuffer(value[8:], dtype=np.uint32)
        if len(counts) == len(traffic.by_group) and since <= traffic.since:
            np.frombuffer(traffic.by_group, dtype=np.uint32)[:] = counts
            traffic.total, traffic.since = int(counts.sum()), since


def _read_campaign(bidder: CatalogueBidder, number: int, memory: dict[str, Any]) -> None:
    runtime = bidder.runtimes[number]
    for name in _TALLIES:
        setattr(runtime, name, int(memory[name]))
    for name in _SAMPLES:
        setattr(runtime, name, float(memory.get(name, 0.0)))
    runtime.bidder.remember(memory)
    runtime.forget_shading()
    runtime.multiplier = float(memory["multiplier"])
