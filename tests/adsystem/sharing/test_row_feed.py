"""LogRows of logs become counts, each once; others hear of them, or look at the counts."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import redis
from simulations.fleet import RedisServer

from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing import own_rows, row_feed
from kreach.adsystem.sharing.own_rows import last_row, own_counts, rows_after
from kreach.adsystem.sharing.row_feed import RowFeed
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.sharing.counting_bidders import (
    EVERY,
    FLIGHT,
    GROUPS,
    ROLLING,
    CountingBidder,
    SampleLog,
    moments_of_others,
    of_others,
)
from tests.adsystem.sharing.faulty_members import pool_of, settings_for

TWO = ("b1", "b2")
NAMES = np.array([f"g{j}" for j in range(GROUPS)], dtype=object)


def pair(url: str, folder: Path) -> tuple[CountingBidder, CountingBidder, dict[str, SampleLog]]:
    """Two bidders with empty logs, who have told so."""
    logs = {name: SampleLog(folder / name) for name in TWO}
    settings = settings_for(url, TWO)
    first, second = (CountingBidder(settings, name, logs[name]) for name in TWO)
    assert first.exchange()
    assert second.exchange()
    return first, second, logs


def counted(bidder: CountingBidder, campaign: int, version: str) -> list[int]:
    found: list[int] = bidder.pool.counts((campaign, version)).impressions.tolist()
    return found + [0] * (GROUPS - len(found))


def some_rows(seed: int, count: int) -> list[tuple[int, str, int]]:
    generator = np.random.default_rng(seed)
    picked = zip(
        generator.integers(1, 3, count).tolist(),
        generator.integers(1, 3, count).tolist(),
        generator.integers(0, GROUPS, count).tolist(),
        strict=True,
    )
    return [(campaign, f"v{version}", group) for campaign, version, group in picked]


def into_files(log: SampleLog, upto: int | None = None) -> int:
    """Move expired rows into Parquet files, as a bidder does now and then."""
    journal = Journal(log.folder, Log("test", lambda line: None))
    try:
        groups = {number: (version, NAMES) for version, number in log.numbers.items()}
        return compact(journal, log.folder, {1: "one", 2: "two"}, groups, 1e9)
    finally:
        journal.close()


def test_counts_are_those_of_the_rows(url: str, tmp_path: Path) -> None:
    first, second, logs = pair(url, tmp_path)
    logs["b1"].add(some_rows(1, 700))
    logs["b2"].add(some_rows(2, 300))
    assert first.exchange()
    assert second.exchange()
    total = logs["b1"].shown + logs["b2"].shown
    for campaign in (FLIGHT, ROLLING):
        for version in ("v1", "v2"):
            expected = [total[campaign, version, group] for group in range(GROUPS)]
            assert counted(first, campaign, version) == expected
    assert first.pool.counts((1, "v1")).rows == {"b1": 700, "b2": 300}
    assert second.heard == of_others(logs, "b2")


def test_rows_that_are_told_twice_count_once(url: str, tmp_path: Path) -> None:
    first, _, logs = pair(url, tmp_path)
    logs["b1"].add([(FLIGHT, "v1", 2)] * 3)
    rows = rows_after(logs["b1"].folder, 0)
    assert first.pool.add_rows(0, rows.first(2), EVERY, silent=False) == 2
    assert (
        first.pool.add_rows(0, rows, EVERY, silent=False) == 2
    )  # an answer was lost: nothing is done
    assert first.pool.add_rows(1, rows, EVERY, silent=False) == 2
    assert counted(first, FLIGHT, "v1")[2] == 2
    assert first.exchange()
    assert counted(first, FLIGHT, "v1")[2] == 3


def test_counts_go_on_beyond_what_is_read_at_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_rows.rows_after, "__defaults__", (7,))
    monkeypatch.setattr(row_feed, "_BATCHES", 3)
    first, second, logs = pair(url, tmp_path)
    logs["b1"].add(some_rows(3, 50))
    feed = RowFeed(first.pool, logs["b1"].folder)
    feed.start()
    for fed in (21, 42):
        assert feed.push(EVERY)
        assert (feed.counted_row, feed.rows_behind) == (fed, 50 - fed)
    assert not feed.push(EVERY)
    assert (feed.counted_row, feed.rows_behind) == (50, 0)
    second.exchange()
    assert second.heard == of_others(logs, "b2")


def test_a_wiped_redis_is_told_again_without_a_word_of_each_row(
    server: RedisServer, url: str, tmp_path: Path
) -> None:
    first, second, logs = pair(url, tmp_path)
    logs["b1"].add(some_rows(4, 200))
    logs["b2"].add(some_rows(5, 100))
    for bidder in (first, second, first):
        assert bidder.exchange()
    assert first.heard == of_others(logs, "b1")
    server.kill()
    assert not first.exchange()
    server.start()
    logs["b1"].add(some_rows(6, 20))  # nobody has heard of these
    for _ in range(2):
        first.exchange()
        second.exchange()
    with redis.Redis.from_url(url) as client:
        entries = client.xrange(f"{{kreach}}:{first.pool.run_id}:feed")
    told = [(fields[b"from"], fields[b"after"], fields[b"last"]) for _, fields in entries]
    assert told == [(b"b1", b"220", b"220"), (b"b2", b"100", b"100")]
    for bidder in (first, second):
        bidder.impatient()
        bidder.exchange()
        assert bidder.heard == of_others(logs, bidder.name)
    total = logs["b1"].shown + logs["b2"].shown
    assert counted(first, FLIGHT, "v1") == [total[FLIGHT, "v1", g] for g in range(GROUPS)]
    logs["b1"].add([(FLIGHT, "v1", 0)])  # and from then on word by word again
    assert first.exchange()
    assert second.exchange()
    assert second.heard == of_others(logs, "b2")


def test_rows_in_files_are_told_like_others(url: str, tmp_path: Path) -> None:
    first, second, logs = pair(url, tmp_path)
    log = logs["b1"]
    log.add(some_rows(7, 60))
    assert first.exchange()
    assert into_files(log) == 60
    log.add(some_rows(8, 30))
    assert into_files(log) == 30
    log.add(some_rows(9, 10))
    assert last_row(log.folder) == 100
    assert [rows_after(log.folder, at, 25).row[0] for at in (0, 59, 60, 90)] == [1, 60, 61, 91]
    assert rows_after(log.folder, 100).row.tolist() == []
    for _ in range(3):
        assert first.exchange()
    mine = own_counts(log.folder, {(FLIGHT, "v1")}, 75)[FLIGHT, "v1"]
    by_group = np.bincount(mine[0], weights=mine[1], minlength=GROUPS)
    first_75 = Counter((some_rows(7, 60) + some_rows(8, 30))[:75])
    assert by_group.tolist() == [first_75[FLIGHT, "v1", group] for group in range(GROUPS)]
    assert second.exchange()
    assert second.heard == of_others(logs, "b2")
    late = CountingBidder(settings_for(url, TWO), "b2", logs["b2"], epoch=2)  # it starts anew
    assert late.exchange()
    assert late.heard == of_others(logs, "b2")


def test_a_log_that_lost_rows_is_refused_until_redis_starts_anew(url: str, tmp_path: Path) -> None:
    """A restored backup: rows with numbers that Redis has counted would never count again."""
    first, _, logs = pair(url, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(logs["b1"].folder, copy)
    logs["b1"].add(some_rows(20, 9))
    assert first.exchange()
    pool = pool_of(url, "b1", TWO, epoch=5)
    restored = RowFeed(pool, copy)
    with pytest.raises(KreachError, match=r"the log has 0 rows but Redis counted 9 of this bidder"):
        restored.start()
    with redis.Redis.from_url(url) as client:
        client.flushall()
    restored.start()
    assert restored.counted_row == 0


def test_rolling_caps_hear_of_moments_and_forget_old_ones(url: str, tmp_path: Path) -> None:
    first, second, logs = pair(url, tmp_path)
    for at in range(1, 11):
        logs["b1"].add([(ROLLING, "v1", at % 3)], bid_micros=at * 1_000_000)
    assert first.exchange()
    assert second.exchange()
    assert second.moments == moments_of_others(logs, "b2")
    assert len(first.pool.impression_times((ROLLING, "v1"), 0)) == 10
    assert (
        len(second.pool.impression_times((ROLLING, "v1"), 4_000_000)) == 7
    )  # (since, now] is at 4 s
    logs["b1"].add([(ROLLING, "v1", 0)], bid_micros=11_000_000)
    rows = rows_after(logs["b1"].folder, 10)
    assert first.pool.add_rows(10, rows, {ROLLING: 9_000_000}, silent=False) == 11
    left = first.pool.impression_times((ROLLING, "v1"), 0)
    assert sorted(moment for *_, moment in left) == [9_000_000, 10_000_000, 11_000_000]
    assert second.exchange()
    assert second.moments == moments_of_others(logs, "b2")


def test_a_campaign_that_is_taken_up_late_knows_all(url: str, tmp_path: Path) -> None:
    first, second, logs = pair(url, tmp_path)
    second.places = frozenset({(FLIGHT, "v1")})
    for at in range(4):
        logs["b1"].add(some_rows(10 + at, 30))
        first.exchange()
        second.exchange()
    others = of_others(logs, "b2")
    assert second.heard == {key: n for key, n in others.items() if key[:2] == (FLIGHT, "v1")}
    second.places = first.places
    second.exchange()
    assert second.heard == others


def silent_then_trimmed(settings: RedisSettings, folder: Path) -> tuple[CountingBidder, SampleLog]:
    """One is told of nothing while a second speaks once and a third pushes that out of the feed."""
    three = settings.bidders
    logs = {name: SampleLog(folder / name) for name in three}
    reader, silent, talker = (CountingBidder(settings, name, logs[name]) for name in three)
    for bidder in (reader, silent, talker):
        logs[bidder.name].add([(FLIGHT, "v1", 0)])
        assert bidder.exchange()
    assert reader.exchange()
    logs["b2"].add([(FLIGHT, "v1", 5)] * 2)
    assert silent.exchange()
    for _ in range(3):
        logs["b3"].add([(FLIGHT, "v1", 1)])
        assert talker.exchange()
    return reader, logs["b2"]


def test_what_fell_out_of_the_feed_is_noticed_though_its_bidder_is_silent(
    url: str, tmp_path: Path
) -> None:
    settings = settings_for(url, ("b1", "b2", "b3"))
    reader, log = silent_then_trimmed(settings, tmp_path)
    with redis.Redis.from_url(url) as client:
        client.xtrim(f"{{kreach}}:{reader.pool.run_id}:feed", maxlen=3, approximate=False)
    assert reader.exchange()
    assert reader.heard[FLIGHT, "v1", 5] == log.shown[FLIGHT, "v1", 5] == 2
    assert reader.heard[FLIGHT, "v1", 1] == 3


def test_the_feed_keeps_so_many_entries_only(url: str) -> None:
    pool = pool_of(url, "b1", ("b1",))
    pool.sync([], joining=True)
    empty = rows_after(Path("/nonexistent"), 0)
    with redis.Redis.from_url(url) as client:
        key = f"{{kreach}}:{pool.run_id}:feed"
        with client.pipeline(transaction=False) as pipe:
            for _ in range(20_200):
                pipe.xadd(key, {"from": "b2", "after": 0, "last": 0})
            pipe.execute()
        pool.add_rows(0, empty, {}, silent=False)
        assert 20_000 <= client.xlen(key) <= 20_100


def test_traffic_of_others_is_heard_once_and_not_ones_own(url: str) -> None:
    first, second = pool_of(url, "b1", TWO), pool_of(url, "b2", TWO)
    first.publish_traffic("v1", np.array([0]), np.array([9]))  # before anybody listens
    here, there = first.read_traffic(None)[0], second.read_traffic(None)[0]
    first.publish_traffic("v1", np.array([1, 3]), np.array([5, 7]))
    second.publish_traffic("v2", np.array([2]), np.array([4]))
    here, heard = first.read_traffic(here)
    assert [(v, g.tolist(), n.tolist()) for v, g, n in heard] == [("v2", [2], [4])]
    there, heard = second.read_traffic(there)
    assert [(v, g.tolist(), n.tolist()) for v, g, n in heard] == [("v1", [1, 3], [5, 7])]
    assert first.read_traffic(here)[1] == second.read_traffic(there)[1] == []
