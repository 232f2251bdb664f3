"""The bidders' shared state in Redis: one object per bidder, used by one thread at a time."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_clocks import ClockLead, ClockSample
from kreach.adsystem.sharing.redis_client import Connect, RedisErrors, connect_redis
from kreach.adsystem.sharing.redis_scripts import ADD_ROWS, SYNC
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "BudgetStatus",
    "FeedBatch",
    "LeaseGrant",
    "LogRows",
    "RedisPool",
    "RedisRestarted",
    "SharedCounts",
    "SharedPlace",
    "SyncReply",
]

MAX_MICROS = 2**53  # Lua numbers are floats: beyond this a micro could get lost
_AT_ONCE = 500
_ROW = np.dtype([("row", "<i8"), ("campaign", "<i4"), ("group", "<i4"), ("bid_micros", "<i8")])

SharedPlace = tuple[int, str]
"""A campaign's number and a catalogue's version: bidders number campaigns alike, not catalogues."""


class RedisRestarted(RuntimeError):
    """Redis was restarted: bidders must join the new run with all that their logs hold."""


class BudgetStatus(NamedTuple):
    """A campaign's money at one bidder: what it spent, and up to what it wants to spend.

    That of a family has its key (`ledger.family_key`) in place of the campaign's number.
    """

    campaign: int
    budget: int
    spent: int
    wanted: int
    day: int = -1  # -1: days have no budget
    daily: int = 0
    day_spent: int = 0
    day_wanted: int = 0


class LeaseGrant(NamedTuple):
    """A campaign's lease: what may be spent in all, the most that could be, what others spent."""

    granted: int
    allowed: int
    spent_elsewhere: int
    day_granted: int
    day_allowed: int
    day_spent_elsewhere: int


@dataclass(frozen=True)
class SyncReply:
    """The answer to a sync. Leases are granted only while no bidder is missing."""

    leasing: bool
    missing: tuple[str, ...]
    leases: tuple[LeaseGrant, ...]


class LogRows(NamedTuple):
    """Rows of a bidder's log, in their order."""

    row: IntArray
    campaign: IntArray
    catalogue: "np.ndarray[Any, Any]"  # versions
    group: IntArray
    bid_micros: IntArray

    def first(self, rows: int) -> "LogRows":
        """The first few."""
        return LogRows(*(column[:rows] for column in self))


class SharedCounts(NamedTuple):
    """Impressions by group, and the last row of each bidder that is in them."""

    impressions: IntArray
    rows: Mapping[str, int]


@dataclass
class FeedBatch:
    """New entries of the feed; `missed` if some were trimmed before they were read."""

    position: bytes
    missed: bool = False
    rows: list[tuple[str, int, int, str, "np.ndarray[Any, Any]"]] = field(default_factory=list)
    """Bidder, the row before these, the last of them, catalogue's version, packed rows."""


class RedisPool:
    """What bidders share. Methods raise `RedisUnavailable` or `RedisRestarted`.

    `epoch` rises whenever a process opens the log. So the process that opened it last has the
    higher turn, whether it is the bidder itself or another one that recovers its log.
    """

    def __init__(
        self,
        settings: RedisSettings,
        name: str,
        log_id: str = "none",
        epoch: int = 0,
        connect: Connect | None = None,
    ) -> None:
        self.name, self.log_id, self.epoch = name, log_id, epoch
        self._settings = settings
        self._syncs = 0
        self._names = json.dumps(sorted(settings.bidders))
        self._digest = hashlib.blake2b(self._names.encode(), digest_size=8).hexdigest()
        self._client = (connect or connect_redis)(settings)
        self._errors = RedisErrors()
        self._sync, self._add_rows = (self._client.register_script(s) for s in (SYNC, ADD_ROWS))
        self.run_id = ""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _key(self, name: str) -> str:
        return f"{{{self._settings.prefix}}}:{self.run_id}:{name}"

    def find_run(self) -> bool:
        """Look up the run id of Redis; True if it changed."""
        with self._errors:
            run = str(self._client.info("server")["run_id"])
        changed = run != self.run_id
        if changed:
            self._check_memory()
        self.run_id = run
        return changed

    def _check_memory(self) -> None:
        """Refuse a Redis that evicts keys: it would lease the money in them twice."""
        with self._errors:
            facts = self._client.info("memory")
        policy = str(facts.get("maxmemory_policy", "noeviction"))
        if facts.get("maxmemory", 0) and policy != "noeviction":
            raise KreachError.rule("maxmemory-policy of Redis", "be noeviction", policy)

    def _run(self, script: Any, *arguments: Any) -> list[Any]:
        with self._errors:
            answer: list[Any] = script(keys=[self._key("")], args=[self.run_id, *arguments])
        kind = answer[0].decode()
        if kind in ("other run", "not joined"):
            self.run_id = ""
            raise RedisRestarted("Redis was restarted")
        if kind == "another log":
            raise KreachError(
                f"Redis knows bidder {self.name} by another log: give a bidder with a new log a "
                "new name"
            )
        if kind == "late":
            raise KreachError(
                f"two processes claim bidder {self.name}: stop one of them, or, if its log was "
                "restored from a backup, restart Redis empty"
            )
        return answer

    def sync(self, budgets: Sequence[BudgetStatus], *, joining: bool) -> SyncReply:
        """Report what was spent, ask for leases. `joining`: record all that is held, as it is."""
        self._syncs += 1
        turn = self.epoch << 32 | self._syncs
        answer = self._run(
            self._sync,
            self.name,
            self.log_id,
            self._digest,
            self._names,
            int(joining),
            json.dumps([list(budget) for budget in budgets]),
            turn,
        )
        numbers = [int(value) for value in answer[3]]
        leases = tuple(LeaseGrant(*numbers[at : at + 6]) for at in range(0, len(numbers), 6))
        return SyncReply(answer[1] == b"1", tuple(answer[2].decode().split()), leases)

    def granted(self, keys: Sequence[int]) -> dict[int, int]:
        """What this Redis has set aside for the bidder, by campaign or family, if it knows."""
        with self._errors:
            pipe = self._client.pipeline(transaction=True)
            for key in keys:
                pipe.hget(self._key(f"money:{key}"), f"g:{self.name}")
            found = pipe.execute()
        pairs = zip(keys, found, strict=True)
        return {key: int(value) for key, value in pairs if value is not None}

    def counted_row(self) -> int:
        """The last row of this bidder that is counted."""
        with self._errors:
            row = self._client.hget(self._key("rows"), self.name)
        return int(row or 0)

    def add_rows(
        self, after: int, rows: LogRows, rolling: Mapping[int, int], *, silent: bool
    ) -> int:
        """Count rows, each once; returns the last row that is counted now.

        `rolling`: campaigns with rolling caps, and since when impressions matter, in µs.
        `silent`: leave the rows out of the feed. The next entry tells the others that they missed
        some, and they read the counts.
        """
        last = int(rows.row[-1]) if len(rows.row) else after
        packed: list[Any] = []
        for version in np.unique(rows.catalogue).tolist() if not silent else ():
            here = rows.catalogue == version
            table = np.empty(int(here.sum()), dtype=_ROW)
            for name in ("row", "campaign", "group", "bid_micros"):
                table[name] = getattr(rows, name)[here]
            packed += [f"v:{version}", table.tobytes()]
        counts, times = _summed(rows, rolling, self.name)
        values = (json.dumps(counts), json.dumps(times), int(not silent), *packed)
        answer = self._run(self._add_rows, self.name, after, last, *values)
        return int(answer[1])

    def feed_position(self) -> tuple[bytes, dict[str, int]]:
        """The end of the feed now, and the rows counted by then."""
        with self._errors:
            pipe = self._client.pipeline(transaction=True)
            pipe.xrevrange(self._key("feed"), count=1)
            pipe.hgetall(self._key("rows"))
            newest, rows = pipe.execute()
        return newest[0][0] if newest else b"0", _numbers(rows)

    def read_feed(self, position: bytes) -> FeedBatch:
        """Entries of other bidders after a position of the feed."""
        batch = FeedBatch(position)
        while True:
            with self._errors:
                entries = self._client.xrange(self._key("feed"), min=batch.position, count=_AT_ONCE)
            # the entry read last must still be there, or entries after it may be trimmed as well
            batch.missed |= bool(entries) and entries[0][0] != batch.position
            for at, fields in entries:
                if at == batch.position:
                    continue
                batch.position = at
                name = fields[b"from"].decode()
                if name == self.name:
                    continue
                after, last = int(fields[b"after"]), int(fields[b"last"])
                tables = [(k[2:].decode(), v) for k, v in fields.items() if k[:2] == b"v:"]
                for version, value in tables or [("", b"")]:
                    table = np.frombuffer(value, dtype=_ROW)
                    batch.rows.append((name, after, last, version, table))
            if len(entries) < _AT_ONCE:
                return batch

    def counts(self, place: SharedPlace) -> SharedCounts:
        """Impressions of a campaign on a catalogue, of all bidders."""
        with self._errors:
            pipe = self._client.pipeline(transaction=True)
            pipe.get(self._key(f"counts:{_place(place)}"))
            pipe.hgetall(self._key("rows"))
            value, rows = pipe.execute()
        counts = np.frombuffer(value or b"", dtype=">u4")
        return SharedCounts(counts.astype(np.int64), _numbers(rows))

    def impression_times(
        self, place: SharedPlace, since_micros: int
    ) -> list[tuple[str, int, int, int]]:
        """Impressions of a campaign with rolling caps: bidder, row, group, moment in µs."""
        key = self._key(f"times:{_place(place)}")
        with self._errors:
            self._client.zremrangebyscore(key, "-inf", f"({since_micros}")
            members = self._client.zrange(key, 0, -1, withscores=True)
        split = [(member.decode().split(":"), int(moment)) for member, moment in members]
        return [(name, int(row), int(group), moment) for (name, row, group), moment in split]

    def publish_traffic(self, version: str, groups: IntArray, requests: IntArray) -> None:
        """Publish how many requests came, by group."""
        fields = {
            "from": self.name,
            "version": version,
            "groups": groups.astype("<u4").tobytes(),
            "requests": requests.astype("<u4").tobytes(),
        }
        with self._errors:
            self._client.xadd(self._key("traffic"), fields, maxlen=1_000)

    def read_traffic(
        self, position: bytes | None
    ) -> tuple[bytes, list[tuple[str, IntArray, IntArray]]]:
        """Requests that other bidders had: version, groups and counts; None starts at the end."""
        if position is None:
            with self._errors:
                newest = self._client.xrevrange(self._key("traffic"), count=1)
            return (newest[0][0] if newest else b"0"), []
        with self._errors:
            entries = self._client.xrange(self._key("traffic"), min=b"(" + position, count=_AT_ONCE)
        traffic = []
        for at, fields in entries:
            position = at
            if fields[b"from"].decode() != self.name:
                groups, requests = (
                    np.frombuffer(fields[k], dtype="<u4").astype(np.int64)
                    for k in (b"groups", b"requests")
                )
                traffic.append((fields[b"version"].decode(), groups, requests))
        return position, traffic

    def compare_clocks(self, own: ClockLead | None) -> ClockSample:
        """Read Redis's clock and what other bidders published about theirs; publish ours."""
        key = self._key("clocks")
        with self._errors:
            sent = time.monotonic()
            seconds, micros = self._client.time()
            received = time.monotonic()
            if own is not None:
                self._client.hset(key, self.name, own.encode())
            published = self._client.hgetall(key)
        leads = {name.decode(): ClockLead.decode(text.decode()) for name, text in published.items()}
        known = {name: lead for name, lead in leads.items() if lead is not None}
        return ClockSample(sent, received, seconds + micros / 1e6, known)

    def publish_campaigns(self, documents: Mapping[int, tuple[int, str]]) -> int:
        """Publish campaigns: number to revision and JSON; returns the newest revision in Redis."""
        return self._publish(self._key("campaigns"), documents)

    def publish_families(self, documents: Mapping[int, tuple[int, str]]) -> int:
        """The same for families: publish them before the campaigns that are in them."""
        return self._publish(self._key("families"), documents)

    def _publish(self, key: str, documents: Mapping[int, tuple[int, str]]) -> int:
        with self._errors:
            if documents:
                newest = max(revision for revision, _ in documents.values())
                fields: dict[str, str] = {
                    str(number): json.dumps([revision, text])
                    for number, (revision, text) in documents.items()
                }
                self._client.hset(key, mapping=fields | {"revision": str(newest)})
            return int(self._client.hget(key, "revision") or 0)

    def campaigns_after(self, revision: int) -> dict[int, tuple[int, str]]:
        """Campaigns that changed after a revision: number to revision and JSON."""
        return self._after(self._key("campaigns"), revision)

    def families_after(self, revision: int) -> dict[int, tuple[int, str]]:
        """The same for families: read them after the campaigns."""
        return self._after(self._key("families"), revision)

    def _after(self, key: str, revision: int) -> dict[int, tuple[int, str]]:
        with self._errors:
            if int(self._client.hget(key, "revision") or 0) <= revision:
                return {}
            fields = self._client.hgetall(key)
        stored = {int(k): json.loads(v) for k, v in fields.items() if k != b"revision"}
        return {n: (int(r), str(text)) for n, (r, text) in stored.items() if r > revision}

    def delete_other_runs(self) -> None:
        """Delete keys of earlier runs, which Redis may have loaded from its disk."""
        mine = self._key("").encode()
        with self._errors:
            for key in self._client.scan_iter(match=f"{{{self._settings.prefix}}}:*", count=1_000):
                if not key.startswith(mine):
                    self._client.unlink(key)


def _place(place: SharedPlace) -> str:
    return f"{place[0]}:{place[1]}"


def _numbers(fields: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in fields.items()}


def _summed(
    rows: LogRows, rolling: Mapping[int, int], name: str
) -> tuple[list[tuple[str, list[int]]], list[tuple[str, int, list[Any]]]]:
    """Rows as counts by place, and one by one for campaigns with rolling caps."""
    counts: list[tuple[str, list[int]]] = []
    times: list[tuple[str, int, list[Any]]] = []
    for version in np.unique(rows.catalogue).tolist():
        there = rows.catalogue == version
        for campaign in np.unique(rows.campaign[there]).tolist():
            here = there & (rows.campaign == campaign)
            groups, n = np.unique(rows.group[here], return_counts=True)
            pairs = np.stack([groups, n], axis=1).ravel().tolist()
            counts.append((_place((campaign, version)), pairs))
            if campaign in rolling:
                values = zip(
                    rows.row[here].tolist(),
                    rows.group[here].tolist(),
                    rows.bid_micros[here].tolist(),
                    strict=True,
                )
                flat = [x for row, group, at in values for x in (f"{name}:{row}:{group}", at)]
                times.append((_place((campaign, version)), rolling[campaign], flat))
    return counts, times
