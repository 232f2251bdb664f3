"""How campaigns stand and what was learned, written down now and then and taken up again."""

import json
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.adsystem.bidserver.catalogue_bidder import Desk

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["Diary"]


class Diary:
    """Useful, never needed: a bidder without it starts from what its settings believe."""

    def __init__(self, state: "BidderState") -> None:
        self._state = state

    def write_pacing(self) -> None:
        """Where each campaign stands."""
        state = self._state
        stamp = int(state.clock() * 1e6)
        state.journal.submit("moment", (stamp,))
        for number, account in state.ledger.accounts.items():
            if state.kept[number].campaign.state == "ended" and not account.reserved:
                continue
            requests = bids = wins = losses = 0
            multiplier = None
            for desk in state.desks.values():
                play = desk.plays.get(number)
                if play is not None:
                    requests += desk.traffic.total
                    bids, wins, losses = bids + play.bids, wins + play.wins, losses + play.losses
                    multiplier = desk.multiplier(play)
            row = (number, stamp, multiplier, account.spent, account.reserved, account.carried)
            state.journal.submit("pacing", (*row, requests, bids, wins, losses))
        oldest = stamp - int(state.settings.pacing_days * 86_400e6)
        state.journal.submit("forget_pacing", (oldest,))

    def write_memory(self) -> Iterator[None]:
        """What was learned, piece by piece: requests can be answered in between."""
        state = self._state
        stamp = int(state.clock() * 1e6)
        for version, desk in list(state.desks.items()):
            head = np.array([desk.traffic.since], dtype=np.float64).tobytes()
            value = head + bytes(desk.traffic.by_group)
            state.journal.submit("memory", (f"traffic:{version}", stamp, value))
            for number, play in list(desk.plays.items()):
                yield
                tallies: dict[str, float] = {
                    "bids": play.bids,
                    "wins": play.wins,
                    "losses": play.losses,
                }
                tallies |= {"seen": play.seen, "suited": play.suited}
                memory = play.bidder.memory() | {"multiplier": desk.multiplier(play)}
                value = json.dumps(memory | tallies).encode()
                state.journal.submit("memory", (f"campaign:{version}:{number}", stamp, value))

    def read(self, reader: sqlite3.Connection) -> None:
        """Take up what an earlier run learned; what cannot be read is done without."""
        for name, value in reader.execute("SELECT name, value FROM memory"):
            kind, _, rest = str(name).partition(":")
            try:
                if kind == "traffic":
                    self._read_traffic(rest, value)
                elif kind == "campaign":
                    version, _, number = rest.rpartition(":")
                    _read_play(self._state.desks[version], int(number), json.loads(value))
            except (KeyError, ValueError, TypeError, IndexError):
                self._state.log.warning("memory not used", kind=kind)

    def _read_traffic(self, version: str, value: bytes) -> None:
        traffic = self._state.desks[version].traffic
        since = float(np.frombuffer(value[:8], dtype=np.float64)[0])
        counts = np.frombuffer(value[8:], dtype=np.uint32)
        if len(counts) == len(traffic.by_group) and since <= traffic.since:
            np.frombuffer(traffic.by_group, dtype=np.uint32)[:] = counts
            traffic.total, traffic.since = int(counts.sum()), since


def _read_play(desk: Desk, number: int, memory: dict[str, Any]) -> None:
    play = desk.plays[number]
    play.bids, play.wins, play.losses = (int(memory[n]) for n in ("bids", "wins", "losses"))
    play.seen, play.suited = (float(memory.get(n, 0.0)) for n in ("seen", "suited"))
    play.bidder.remember(memory)
    play.multiplier = float(memory["multiplier"])
