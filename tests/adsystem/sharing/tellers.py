"""Bidders' counting: real logs, a real Redis, and the real `Feeder` and `Reader` between them."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.peer_counts import Reader, Seen
from kreach.adsystem.sharing.redis_pool import Away, OtherRun, Pool, connect
from kreach.adsystem.sharing.redis_scripts import FEED, TELL
from kreach.adsystem.sharing.row_feed import Feeder
from kreach.service.logs import Log

GROUPS = 6
FLIGHT, ROLLING = 1, 2  # campaigns: one cap for the flight, rolling caps
PLACES = frozenset((campaign, version) for campaign in (1, 2) for version in ("v1", "v2"))
EVERY: Mapping[int, int] = {ROLLING: 0}  # since ever

Shown = Counter[tuple[int, str, int]]
"""Impressions by campaign, version and group."""


class Written:
    """A bidder's log to which impressions are added without waiting for a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        journal = Journal(folder, Log("test", lambda line: None))
        self.id = journal.id
        self.numbers = {version: journal.catalogue_number(version) for version in ("v1", "v2")}
        journal.close()
        self.shown: Shown = Counter()
        self.moments: Counter[tuple[int, str, int, int]] = Counter()
        self._next = 1

    def add(self, rows: Sequence[tuple[int, str, int]], bid_micros: int = 0) -> None:
        """Impressions of a campaign on a catalogue: in one commit, as bidders write them."""
        with closing(sqlite3.connect(self.folder / "live.sqlite3")) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            with connection:
                for campaign, version, group in rows:
                    at = bid_micros or self._next * 1_000
                    values = (self._next, campaign, self.numbers[version], group, at, at, 0, 100)
                    connection.execute(
                        """INSERT INTO impressions (impression, campaign, catalogue, grp, ts,
                        bid_ts, expires, micros) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                        values,
                    )
                    self._next += 1
                    self.shown[campaign, version, group] += 1
                    self.moments[campaign, version, group, at] += 1


class Faulty:
    """In place of the watch on each command: one of them fails, before or after it is done.

    Or, with `meanwhile`, none fails and others do something before it.
    """

    def __init__(
        self, commands: int, *, done: bool = False, meanwhile: Callable[[], object] | None = None
    ) -> None:
        self._left, self._done, self._meanwhile = commands, done, meanwhile

    def __enter__(self) -> None:
        self._left -= 1
        if self._left == -1 and self._meanwhile is not None:
            self._meanwhile()
        elif self._left < 0 and not self._done and self._meanwhile is None:
            raise Away("cut")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._left < 0 and error is None and self._meanwhile is None:
            raise Away("answer lost")


class Teller:
    """One run of a bidder: what it heard of others starts with nothing."""

    def __init__(self, settings: RedisSettings, name: str, log: Written, epoch: int = 1) -> None:
        self.settings, self.name, self.log, self.epoch = settings, name, log, epoch
        self.places = PLACES
        self.pool = Pool(settings, name, log.id, epoch)
        self.feeder = Feeder(self.pool, log.folder)
        self.reader = Reader(self.pool, log.folder)
        self.heard: Shown = Counter()
        self.moments: Counter[tuple[int, str, int, int]] = Counter()
        self._joined = False

    def move(self, settings: RedisSettings) -> None:
        """The address of Redis leads to another one from now on."""
        self.settings = settings
        pool: Any = self.pool
        pool._client.close()
        pool._client = connect(settings)
        pool._tell, pool._feed = (pool._client.register_script(text) for text in (TELL, FEED))

    def exchange(self, fault: Faulty | None = None) -> bool:
        """Tell and hear, as `Partner` does; False if Redis had to be told anew or failed."""
        pool: Any = self.pool
        if fault is not None:
            pool._watched = lambda: fault
        try:
            self._exchange()
        except OtherRun:
            self._joined = False
            return False
        except Away:
            return False
        finally:
            pool.__dict__.pop("_watched", None)
            for seen in self.reader.take():
                self._hear(seen)
        return True

    def _exchange(self) -> None:
        anew = not self._joined
        if anew:
            self.pool.find_run()
            self.feeder.begin()
        self.pool.tell([], anew=anew)
        if anew:
            self.reader.begin()
            self._joined = True
        self.feeder.feed(EVERY)
        self.reader.read(self.places, {"v1": GROUPS, "v2": GROUPS}, EVERY, self.feeder.fed)

    def impatient(self) -> None:
        """Look at counts again without waiting."""
        self.reader._again_at = 0.0

    def _hear(self, seen: Seen) -> None:
        for at, (group, count) in enumerate(
            zip(seen.groups.tolist(), seen.impressions.tolist(), strict=True)
        ):
            self.heard[seen.campaign, seen.version, group] += count
            if seen.moments is not None:
                moment = int(seen.moments[at])
                self.moments[seen.campaign, seen.version, group, moment] += count

    def close(self) -> None:
        self.pool.close()


def of_others(logs: Mapping[str, Written], name: str) -> Shown:
    """What all but one have shown."""
    total: Shown = Counter()
    for who, log in logs.items():
        if who != name:
            total.update(log.shown)
    return total


def moments_of_others(logs: Mapping[str, Written], name: str) -> Counter[tuple[int, str, int, int]]:
    """When others showed what, of the campaign with rolling caps."""
    total: Counter[tuple[int, str, int, int]] = Counter()
    for who, log in logs.items():
        if who != name:
            total.update({key: n for key, n in log.moments.items() if key[0] == ROLLING})
    return total


def check_never_more(teller: Teller, logs: Mapping[str, Written]) -> None:
    """What was heard of others is part of what they have shown."""
    assert teller.heard <= of_others(logs, teller.name)
    assert teller.moments <= moments_of_others(logs, teller.name)
