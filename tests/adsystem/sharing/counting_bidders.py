"""Bidders that share counts: real logs, a real Redis, the real `RowFeed` and `PeerCounts`."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.peer_counts import PeerCounts, PeerImpressions
from kreach.adsystem.sharing.redis_client import RedisUnavailable
from kreach.adsystem.sharing.redis_pool import RedisPool, RedisRestarted
from kreach.adsystem.sharing.row_feed import RowFeed
from kreach.service.logs import Log
from tests.adsystem.sharing.faulty_redis import CommandFault, FaultyRedis

GROUPS = 6
FLIGHT, ROLLING = 1, 2  # campaigns: one cap for the flight, rolling caps
PLACES = frozenset((campaign, version) for campaign in (1, 2) for version in ("v1", "v2"))
EVERY: Mapping[int, int] = {ROLLING: 0}  # since ever

Shown = Counter[tuple[int, str, int]]
"""Impressions by campaign, version and group."""


class SampleLog:
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


class CountingBidder:
    """One run of a bidder: what it heard of others starts with nothing."""

    def __init__(self, settings: RedisSettings, name: str, log: SampleLog, epoch: int = 1) -> None:
        self.settings, self.name, self.log, self.epoch = settings, name, log, epoch
        self.places = PLACES
        self.pool = RedisPool(settings, name, log.id, epoch, self._connect)
        self.feed = RowFeed(self.pool, log.folder)
        self.peers = PeerCounts(self.pool, log.folder)
        self.heard: Shown = Counter()
        self.moments: Counter[tuple[int, str, int, int]] = Counter()
        self.feed_moments: Counter[tuple[int, str, int, int]] = Counter()  # without rolling caps
        self._joined = False

    def _connect(self, settings: RedisSettings) -> FaultyRedis:
        self._redis = FaultyRedis(settings)
        return self._redis

    def move(self, settings: RedisSettings) -> None:
        """The address of Redis leads to another one from now on."""
        self.settings = settings
        self._redis.switch(settings)

    def exchange(self, fault: CommandFault | None = None) -> bool:
        """Sync, as `FleetMember` does; False if Redis was restarted or failed."""
        self._redis.fault = fault
        try:
            self._exchange()
        except RedisRestarted:
            self._joined = False
            return False
        except RedisUnavailable:
            return False
        finally:
            self._redis.fault = None
            for new in self.peers.take():
                self._count(new)
        return True

    def _exchange(self) -> None:
        joining = not self._joined
        if joining:
            self.pool.find_run()
            self.feed.start()
        self.pool.sync([], joining=joining)
        if joining:
            self.peers.start()
            self._joined = True
        self.feed.push(EVERY)
        self.peers.read(self.places, {"v1": GROUPS, "v2": GROUPS}, EVERY, self.feed.counted_row)

    def impatient(self) -> None:
        """Read counts again without waiting."""
        self.peers.retry_now()

    def _count(self, new: PeerImpressions) -> None:
        for at, (group, count) in enumerate(
            zip(new.groups.tolist(), new.impressions.tolist(), strict=True)
        ):
            self.heard[new.campaign, new.version, group] += count
            if new.times is not None:
                moments = self.moments if new.campaign == ROLLING else self.feed_moments
                moments[new.campaign, new.version, group, int(new.times[at])] += count

    def close(self) -> None:
        self.pool.close()


def of_others(logs: Mapping[str, SampleLog], name: str) -> Shown:
    """What all but one have shown."""
    total: Shown = Counter()
    for who, log in logs.items():
        if who != name:
            total.update(log.shown)
    return total


def moments_of_others(
    logs: Mapping[str, SampleLog], name: str
) -> Counter[tuple[int, str, int, int]]:
    """When others showed what, of the campaign with rolling caps."""
    total = all_moments_of_others(logs, name)
    return Counter({key: n for key, n in total.items() if key[0] == ROLLING})


def all_moments_of_others(
    logs: Mapping[str, SampleLog], name: str
) -> Counter[tuple[int, str, int, int]]:
    """When others showed what."""
    total: Counter[tuple[int, str, int, int]] = Counter()
    for who, log in logs.items():
        if who != name:
            total.update(log.moments)
    return total


def check_never_more(bidder: CountingBidder, logs: Mapping[str, SampleLog]) -> None:
    """What was heard of others is part of what they have shown."""
    assert bidder.heard <= of_others(logs, bidder.name)
    assert bidder.moments <= moments_of_others(logs, bidder.name)
    assert bidder.feed_moments <= all_moments_of_others(logs, bidder.name)
