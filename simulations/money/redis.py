"""A Redis in this process, as far as money goes: `redis_scripts.SYNC` in Python.

`tests/simulations/test_money.py` compares it with the script on a real Redis.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import redis

from kreach.adsystem.sharing.redis_scripts import SYNC

__all__ = ["SimulatedRedis", "Wire"]


class SimulatedRedis:
    """The server: what bidders hold and spent, and a run id that a restart changes."""

    def __init__(self) -> None:
        self.run_number = 0
        self.restart()

    def restart(self) -> None:
        """Lose everything. A copy of old data is the same: keys of another run are not read."""
        self.run_number += 1
        self.members: dict[str, tuple[str, str]] = {}
        self.turns: dict[str, int] = {}
        self.money: dict[str, dict[str, tuple[int, int]]] = {}  # key: bidder: granted, spent

    @property
    def run_id(self) -> str:
        """As `INFO server` has it."""
        return f"{self.run_number:040x}"

    def sync(self, arguments: Sequence[Any]) -> list[Any]:
        """The script, statement by statement."""
        run, me, log_id, digest, names, joining, budgets, turn = arguments
        if run != self.run_id:
            return [b"other run", self.run_id]
        known = self.members.get(me)
        if known is not None and known[1] != log_id:
            return [b"another log"]
        if known is None and not joining:
            return [b"not joined"]
        if turn <= self.turns.get(me, 0):
            return [b"late"]
        self.turns[me], self.members[me] = turn, (digest, log_id)
        listed = json.loads(names)
        missing = [name for name in listed if self.members.get(name, ("",))[0] != digest]
        answer: list[int] = []
        for number, budget, spent, wanted, day, daily, day_spent, day_wanted in json.loads(budgets):
            terms = bool(joining), not missing
            answer += self._lease(f"{number}", me, budget, spent, wanted, *terms)
            if day >= 0:
                key = f"{number}:{day}"
                answer += self._lease(key, me, daily, day_spent, day_wanted, *terms)
            else:
                answer += [0, 0, 0]
        return [b"ok", b"0" if missing else b"1", " ".join(missing).encode(), answer]

    def _lease(
        self,
        key: str,
        me: str,
        limit: int,
        spent: int,
        wanted: int,
        joining: bool,
        leasing: bool,
    ) -> list[int]:
        all_of_them = self.money.setdefault(key, {})
        others = [value for name, value in all_of_them.items() if name != me]
        granted = all_of_them.get(me, (0, 0))[0]
        allowed = max(limit - sum(held for held, _ in others), 0)
        given = wanted
        if not joining and wanted > granted:
            given = max(granted, min(wanted, allowed)) if leasing else granted
        given = max(given, spent)
        all_of_them[me] = given, spent
        return [given, allowed, sum(used for _, used in others)]


class Wire:
    """One bidder's client: calls may get lost, lose their answers, or arrive late."""

    def __init__(self, server: SimulatedRedis) -> None:
        self._server = server
        self.mode = "ok"
        self.late: list[Sequence[Any]] = []

    def info(self, section: str) -> dict[str, Any]:
        """The server's facts."""
        if self.mode == "down":
            raise redis.ConnectionError("no answer")
        return {"run_id": self._server.run_id} if section == "server" else {}

    def register_script(self, text: str) -> Callable[..., Any]:
        """The money script; rows are counted by nobody, and all at once."""
        return self._sync if text == SYNC else _count_rows

    def hget(self, key: str, field: str) -> None:
        """Rows of a log that are counted: none."""

    def _sync(self, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        if self.mode == "late":
            self.late.append(args)
        if self.mode in ("down", "late"):
            raise redis.ConnectionError("no answer")
        answer = self._server.sync(args)
        if self.mode == "lost":
            raise redis.ConnectionError("no answer")
        return answer

    def deliver(self, at: int) -> None:
        """A late call arrives; nobody waits for its answer."""
        self._server.sync(self.late.pop(at))

    def close(self) -> None:
        """Nothing is open."""


def _count_rows(*, keys: Sequence[Any], args: Sequence[Any]) -> Any:
    """As if they were counted up to the last."""
    return [b"ok", args[3]]
