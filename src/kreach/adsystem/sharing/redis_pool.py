"""The Redis side of sharing: one object per bidder, used by one thread at a time."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.redis_scripts import FEED, TELL
from kreach.errors import KreachError
from kreach.extras import require_extra
from kreach.numeric.types import IntArray

__all__ = ["Away", "Counted", "Given", "Heard", "OtherRun", "Pool", "Rows", "Standing", "Told"]

MAX_MICROS = 2**53  # Redis reckons in floating point: beyond this a micro could get lost
_AT_ONCE = 500
_ROW = np.dtype([("row", "<i8"), ("campaign", "<i4"), ("group", "<i4"), ("bid_micros", "<i8")])

Place = tuple[int, str]
"""A campaign's number and a catalogue's version."""


class Away(RuntimeError):
    """Redis cannot be reached, or does not do what it should."""


class OtherRun(RuntimeError):
    """Redis was started anew: whatever was told to it must be told again."""


class Standing(NamedTuple):
    """A campaign's money at one bidder: what it spent, and up to what it would like to spend."""

    campaign: int
    budget: int
    spent: int
    wanted: int
    day: int = -1  # -1: days have no budget
    daily: int = 0
    day_spent: int = 0
    day_wanted: int = 0


class Given(NamedTuple):
    """What a bidder may spend in all, what it could be given, and what others have spent."""

    granted: int
    allowed: int
    elsewhere: int
    day_granted: int
    day_allowed: int
    day_elsewhere: int


@dataclass(frozen=True)
class Told:
    """The answer to a telling: is money given out, who keeps it from being, and the money."""

    open: bool
    missing: tuple[str, ...]
    given: tuple[Given, ...]


class Rows(NamedTuple):
    """Rows of a bidder's log, in their order."""

    row: IntArray
    campaign: IntArray
    catalogue: "np.ndarray[Any, Any]"  # versions
    group: IntArray
    bid_micros: IntArray

    def first(self, rows: int) -> "Rows":
        """The first few."""
        return Rows(*(column[:rows] for column in self))


class Counted(NamedTuple):
    """Impressions by group of a campaign on a catalogue, and up to which row of each bidder."""

    impressions: IntArray
    rows: Mapping[str, int]


@dataclass
class Heard:
    """What other bidders said since the last time; `missed` if some of it was gone already."""

    position: bytes
    missed: bool = False
    rows: list[tuple[str, int, int, str, "np.ndarray[Any, Any]"]] = field(default_factory=list)
    """Bidder, the row after which these come, the last, catalogue's version, packed rows."""


class Pool:
    """What bidders share. Raises `Away` when Redis is, `OtherRun` when it has lost its memory.

    `epoch` rises whenever somebody opens the log to speak for it, so what is said later has the
    higher turn, whoever says it.
    """

    def __init__(
        self, settings: RedisSettings, name: str, log_id: str = "none", epoch: int = 0
    ) -> None:
        self.name, self.log_id, self.epoch = name, log_id, epoch
        self._settings = settings
        self._told = 0
        self._names = json.dumps(sorted(settings.bidders))
        self._digest = hashlib.blake2b(self._names.encode(), digest_size=8).hexdigest()
        self._client = connect(settings)
        self._failures = _failures()
        self._tell, self._feed = (self._client.register_script(s) for s in (TELL, FEED))
        self.run = ""

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _key(self, name: str) -> str:
        return f"{{{self._settings.prefix}}}:{self.run}:{name}"

    def find_run(self) -> bool:
        """Learn which run of Redis there is; True if it is another than before."""
        with self._watched():
            run = str(self._client.info("server")["run_id"])
        changed = run != self.run
        if changed:
            self._check_memory()
        self.run = run
        return changed

    def _check_memory(self) -> None:
        """A Redis that forgets single keys would give the money in them out once more."""
        with self._watched():
            facts = self._client.info("memory")
        policy = str(facts.get("maxmemory_policy", "noeviction"))
        if facts.get("maxmemory", 0) and policy != "noeviction":
            raise KreachError.rule("maxmemory-policy of Redis", "be noeviction", policy)

    def _watched(self) -> "_Watch":
        return _Watch(self._failures)

    def _ask(self, script: Any, *arguments: Any) -> list[Any]:
        with self._watched():
            answer: list[Any] = script(keys=[self._key("")], args=[self.run, *arguments])
        kind = answer[0].decode()
        if kind in ("other run", "not told"):
            self.run = ""
            raise OtherRun("Redis was started anew")
        if kind == "another log":
            rule = "have the log that Redis knows it by: a bidder with another takes another name"
            raise KreachError.rule("bidder", rule, self.name)
        if kind == "late":
            rule = "not be spoken for by two; after its log was restored, start Redis anew"
            raise KreachError.rule("bidder", rule, self.name)
        return answer

    def tell(self, standings: Sequence[Standing], *, anew: bool) -> Told:
        """Say how one's money stands and ask for more. `anew`: all of it, whatever it is."""
        said = json.dumps([list(standing) for standing in standings])
        self._told += 1
        turn = self.epoch << 32 | self._told
        answer = self._ask(
            self._tell, self.name, self.log_id, self._digest, self._names, int(anew), said, turn
        )
        numbers = [int(value) for value in answer[3]]
        given = tuple(Given(*numbers[at : at + 6]) for at in range(0, len(numbers), 6))
        return Told(answer[1] == b"1", tuple(answer[2].decode().split()), given)

    def fed_row(self) -> int:
        """The last row of this bidder that is counted."""
        with self._watched():
            found = self._client.hget(self._key("rows"), self.name)
        return int(found or 0)

    def feed(self, after: int, rows: Rows, rolling: Mapping[int, int], *, quietly: bool) -> int:
        """Have rows counted, once; the last row that is counted now.

        `rolling`: campaigns with rolling caps, and since when impressions matter, in µs.
        `quietly`: others are not told of each; they notice by the next telling that they missed
        some, and look at the counts.
        """
        last = int(rows.row[-1]) if len(rows.row) else after
        packed: list[Any] = []
        for version in np.unique(rows.catalogue).tolist() if not quietly else ():
            here = rows.catalogue == version
            table = np.empty(int(here.sum()), dtype=_ROW)
            for name in ("row", "campaign", "group", "bid_micros"):
                table[name] = getattr(rows, name)[here]
            packed += [f"v:{version}", table.tobytes()]
        counts, times = _summed(rows, rolling, self.name)
        told = (json.dumps(counts), json.dumps(times), int(not quietly), *packed)
        answer = self._ask(self._feed, self.name, after, last, *told)
        return int(answer[1])

    def position(self) -> tuple[bytes, dict[str, int]]:
        """Where the feed ends now, and the rows counted by then."""
        with self._watched():
            pipe = self._client.pipeline(transaction=True)
            pipe.xrevrange(self._key("feed"), count=1)
            pipe.hgetall(self._key("rows"))
            newest, rows = pipe.execute()
        return newest[0][0] if newest else b"0", _numbers(rows)

    def hear(self, position: bytes) -> Heard:
        """What was said after a position of the feed, by others."""
        heard = Heard(position)
        while True:
            with self._watched():
                entries = self._client.xrange(self._key("feed"), min=heard.position, count=_AT_ONCE)
            # what was read last must still be there, or what came after it may be gone as well
            heard.missed |= bool(entries) and entries[0][0] != heard.position
            for at, fields in entries:
                if at == heard.position:
                    continue
                heard.position = at
                who = fields[b"from"].decode()
                if who == self.name:
                    continue
                after, last = int(fields[b"after"]), int(fields[b"last"])
                parts = [(k[2:].decode(), v) for k, v in fields.items() if k[:2] == b"v:"]
                for version, value in parts or [("", b"")]:
                    table = np.frombuffer(value, dtype=_ROW)
                    heard.rows.append((who, after, last, version, table))
            if len(entries) < _AT_ONCE:
                return heard

    def counted(self, place: Place) -> Counted:
        """All impressions of a campaign on a catalogue, of all bidders."""
        with self._watched():
            pipe = self._client.pipeline(transaction=True)
            pipe.get(self._key(f"counts:{_place(place)}"))
            pipe.hgetall(self._key("rows"))
            value, rows = pipe.execute()
        counts = np.frombuffer(value or b"", dtype=">u4")
        return Counted(counts.astype(np.int64), _numbers(rows))

    def times(self, place: Place, since_micros: int) -> list[tuple[str, int, int, int]]:
        """Impressions of a campaign with rolling caps: bidder, row, group, moment in µs."""
        key = self._key(f"times:{_place(place)}")
        with self._watched():
            self._client.zremrangebyscore(key, "-inf", f"({since_micros}")
            found = self._client.zrange(key, 0, -1, withscores=True)
        split = [(member.decode().split(":"), int(moment)) for member, moment in found]
        return [(who, int(row), int(group), moment) for (who, row, group), moment in split]

    def tell_traffic(self, version: str, groups: IntArray, requests: IntArray) -> None:
        """Say how many requests came, by group."""
        fields = {
            "from": self.name,
            "version": version,
            "groups": groups.astype("<u4").tobytes(),
            "requests": requests.astype("<u4").tobytes(),
        }
        with self._watched():
            self._client.xadd(self._key("traffic"), fields, maxlen=1_000)

    def hear_traffic(
        self, position: bytes | None
    ) -> tuple[bytes, list[tuple[str, IntArray, IntArray]]]:
        """Requests that came to others: version, groups and how many; from now on at first."""
        if position is None:
            with self._watched():
                newest = self._client.xrevrange(self._key("traffic"), count=1)
            return (newest[0][0] if newest else b"0"), []
        with self._watched():
            entries = self._client.xrange(self._key("traffic"), min=b"(" + position, count=_AT_ONCE)
        heard = []
        for at, fields in entries:
            position = at
            if fields[b"from"].decode() != self.name:
                groups, requests = (
                    np.frombuffer(fields[k], dtype="<u4").astype(np.int64)
                    for k in (b"groups", b"requests")
                )
                heard.append((fields[b"version"].decode(), groups, requests))
        return position, heard

    def publish(self, documents: Mapping[int, tuple[int, str]]) -> int:
        """Make campaigns known, by number: revision and definition; the newest revision there."""
        key = self._key("campaigns")
        with self._watched():
            if documents:
                newest = max(revision for revision, _ in documents.values())
                fields: dict[str, str] = {
                    str(number): json.dumps([revision, text])
                    for number, (revision, text) in documents.items()
                }
                self._client.hset(key, mapping=fields | {"revision": str(newest)})
            return int(self._client.hget(key, "revision") or 0)

    def campaigns(self, revision: int) -> dict[int, tuple[int, str]]:
        """Campaigns that changed after a revision: by number, revision and definition."""
        key = self._key("campaigns")
        with self._watched():
            if int(self._client.hget(key, "revision") or 0) <= revision:
                return {}
            found = self._client.hgetall(key)
        told = {int(k): json.loads(v) for k, v in found.items() if k != b"revision"}
        return {n: (int(r), str(text)) for n, (r, text) in told.items() if r > revision}

    def forget_other_runs(self) -> None:
        """Delete what an earlier run of this Redis left, if it was kept on its disk."""
        mine = self._key("").encode()
        with self._watched():
            for key in self._client.scan_iter(match=f"{{{self._settings.prefix}}}:*", count=1_000):
                if not key.startswith(mine):
                    self._client.unlink(key)


def connect(settings: RedisSettings) -> Any:
    """A client that gives up in time."""
    require_extra("[redis]", "redis")
    import redis  # noqa: PLC0415 - an extra
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    try:
        return redis.Redis.from_url(
            settings.url or "",
            socket_timeout=settings.timeout_seconds,
            socket_connect_timeout=settings.timeout_seconds,
            retry=Retry(NoBackoff(), 0),  # who asks decides whether to ask again
            decode_responses=False,
        )
    except ValueError:
        raise KreachError.rule("url", "be the address of a Redis", "another") from None


def _failures() -> tuple[type[Exception], ...]:
    import redis  # noqa: PLC0415 - an extra

    return (redis.RedisError, OSError)


class _Watch:
    """Whatever goes wrong with Redis comes out as `Away`, without its address."""

    def __init__(self, failures: tuple[type[Exception], ...]) -> None:
        self._failures = failures

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self._failures):
            raise Away(type(error).__name__) from None


def _place(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}


def _summed(
    rows: Rows, rolling: Mapping[int, int], name: str
) -> tuple[list[tuple[str, list[int]]], list[tuple[str, int, list[Any]]]]:
    """Rows as counts by place, and one by one for campaigns with rolling caps."""
    counts: list[tuple[str, list[int]]] = []
    times: list[tuple[str, int, list[Any]]] = []
    for version in np.unique(rows.catalogue).tolist():
        there = rows.catalogue == version
        for campaign in np.unique(rows.campaign[there]).tolist():
            here = there & (rows.campaign == campaign)
            groups, n = np.unique(rows.group[here], return_counts=True)
            flat = np.stack([groups, n], axis=1).ravel().tolist()
            counts.append((_place((campaign, version)), flat))
            if campaign in rolling:
                values = zip(
                    rows.row[here].tolist(),
                    rows.group[here].tolist(),
                    rows.bid_micros[here].tolist(),
                    strict=True,
                )
                told = [x for row, group, at in values for x in (f"{name}:{row}:{group}", at)]
                times.append((_place((campaign, version)), rolling[campaign], told))
    return counts, times
