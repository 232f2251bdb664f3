"""A bidder that died is spoken for by one beside it: its log tells what it spent."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from simulations.fleet import RedisServer

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing import recovery
from kreach.adsystem.sharing.recovery import DeadBidders, recover_bidder, recovery_lock
from kreach.adsystem.sharing.redis_client import RedisUnavailable
from kreach.adsystem.sharing.redis_pool import BudgetStatus, LeaseGrant, RedisPool
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import journal, wait
from tests.adsystem.sharing.faulty_members import START, a_campaign, pool_of, settings_for

TWO = ("b1", "b2")
NOW = START.timestamp() + 100.0
QUIET = Log("test", lambda line: None)


def dead(
    store: Path, campaign: Campaign, spent: int, granted: int, name: str = "b1", days: float = 0.0
) -> Path:
    """The folder of a bidder that was killed: impressions, and a grant that is not used up."""
    folder = store / name
    kept = CampaignStore(folder)
    kept.add(campaign)
    kept.close()
    with journal(folder) as log:
        number = log.catalogue_number("v1")
        at = int((START.timestamp() + 1.0 + days * 86_400) * 1e6)
        for row in range(spent):
            impression = (1 << 40 | row, 1, number, row % 3, at, at, at // 1_000_000 + 60, 10)
            log.submit("impression", impression)
        log.submit("grant", (1, granted))
        wait(log)
    return folder


def epoch_of(folder: Path) -> int:
    with journal(folder) as log:
        return log.epoch


def alive(url: str, budget: int) -> RedisPool:
    """The other bidder, which has told that it holds nothing."""
    pool = pool_of(url, "b2", TWO)
    pool.sync([BudgetStatus(1, budget, 0, 0)], joining=True)
    return pool


def test_first_all_that_may_be_out_is_set_aside_then_it_is_free(url: str, tmp_path: Path) -> None:
    folder = dead(tmp_path, a_campaign(1.0), spent=5, granted=400_000)
    second = alive(url, 1_000_000)
    settings = settings_for(url, TWO)
    recover_bidder("b1", folder, settings, NOW, QUIET, settled=False)
    told = second.sync([BudgetStatus(1, 1_000_000, 0, 1_000_000)], joining=False)
    assert told.leasing
    assert told.leases[0] == LeaseGrant(600_000, 600_000, 50, 0, 0, 0)
    assert second.counts((1, "v1")).impressions.tolist() == [2, 2, 1]
    recover_bidder("b1", folder, settings, NOW, QUIET, settled=True)
    told = second.sync([BudgetStatus(1, 1_000_000, 0, 1_000_000)], joining=False)
    assert told.leases[0] == LeaseGrant(999_950, 999_950, 50, 0, 0, 0)
    assert second.counts((1, "v1")).impressions.tolist() == [2, 2, 1]  # once
    with journal(folder) as log:
        assert list(log.read("SELECT * FROM grants")) == [(1, 50)]


def test_days_are_told_as_well(url: str, tmp_path: Path) -> None:
    folder = dead(tmp_path, a_campaign(1.0, 0.2), spent=7, granted=90_070, days=1.0)
    second = alive(url, 1_000_000)
    today = NOW + 86_400
    for settled, left in ((False, 200_000 - 90_070), (True, 200_000 - 70)):
        recover_bidder("b1", folder, settings_for(url, TWO), today, QUIET, settled=settled)
        asked = BudgetStatus(1, 1_000_000, 0, 0, 1, 200_000, 0, 200_000)
        assert second.sync([asked], joining=False).leases[0][3:] == (left, left, 70)


def test_rows_that_it_had_not_told_are_told(url: str, tmp_path: Path) -> None:
    """And rows that it had told are not told twice."""
    folder = dead(tmp_path, a_campaign(1.0), spent=5, granted=50)
    second = alive(url, 1_000_000)
    recover_bidder("b1", folder, settings_for(url, TWO), NOW, QUIET, settled=False)
    with journal(folder) as log:
        for row in range(5, 8):
            at = int(START.timestamp() * 1e6)
            number = log.catalogue_number("v1")
            log.submit("impression", (2 << 40 | row, 1, number, 0, at, at, 0, 10))
        wait(log)
    recover_bidder("b1", folder, settings_for(url, TWO), NOW, QUIET, settled=True)
    assert second.counts((1, "v1")).impressions.tolist() == [5, 2, 1]


def test_the_log_says_what_is_free_before_redis_does(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a speaker that dies in between would leave money that two may use."""
    folder = dead(tmp_path, a_campaign(1.0), spent=5, granted=400_000)
    found: list[list[tuple[int, int]]] = []

    def tell(self: RedisPool, budgets: list[BudgetStatus], *, joining: bool) -> None:
        with journal(folder) as log:  # not held any more: the bidder could start
            found.append([(n, m) for n, m in log.read("SELECT * FROM grants")])
        raise RedisUnavailable("cut")

    monkeypatch.setattr(RedisPool, "sync", tell)
    with pytest.raises(RedisUnavailable):
        recover_bidder("b1", folder, settings_for(url, TWO), NOW, QUIET, settled=True)
    assert found == [[(1, 50)]]


def test_while_redis_is_away_the_log_is_left_alone(
    server: RedisServer, url: str, tmp_path: Path
) -> None:
    folder = dead(tmp_path, a_campaign(1.0), spent=1, granted=100)
    before = epoch_of(folder)
    server.kill()
    with pytest.raises(RedisUnavailable):
        recover_bidder("b1", folder, settings_for(url, TWO), NOW, QUIET, settled=True)
    server.start()
    assert epoch_of(folder) == before + 1  # by this look at it


def test_a_bidder_that_started_meanwhile_is_believed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dead(tmp_path, a_campaign(1.0), spent=5, granted=400_000)
    second = alive(url, 1_000_000)
    original = RedisPool.sync

    def first_the_bidder(self: RedisPool, budgets: list[BudgetStatus], *, joining: bool) -> object:
        monkeypatch.setattr(RedisPool, "sync", original)
        with journal(folder) as log:
            pool = RedisPool(settings_for(url, TWO), "b1", log.id, log.epoch)
            pool.find_run()
            pool.sync([BudgetStatus(1, 1_000_000, 50, 700_000)], joining=True)
            pool.close()
        return original(self, budgets, joining=joining)

    monkeypatch.setattr(RedisPool, "sync", first_the_bidder)
    with pytest.raises(KreachError, match="two processes claim bidder b1"):
        recover_bidder("b1", folder, settings_for(url, TWO), NOW, QUIET, settled=True)
    told = second.sync([BudgetStatus(1, 1_000_000, 0, 1_000_000)], joining=False)
    assert told.leases[0].granted == 300_000


class Watcher:
    """A bidder's look at its siblings, with what it says."""

    def __init__(self, store: Path, settings: RedisSettings, name: str) -> None:
        self.lines: list[str] = []
        self.passed = 0.0  # that the test lets pass, beyond real time
        self.dead = DeadBidders(
            store / name,
            settings,
            1,
            lambda: NOW,
            Log(name, self.lines.append),
            lambda: time.monotonic() + self.passed,
        )

    def said(self) -> list[tuple[str, object]]:
        told = [json.loads(line) for line in self.lines]
        return [(line["event"], line.get("settled", line.get("reason"))) for line in told]


def until(true: Callable[[], object], then: Callable[[], object]) -> None:
    end = time.monotonic() + 180.0
    while not true():
        assert time.monotonic() < end
        then()
        time.sleep(0.02)


def _look(watchers: list[Watcher], run: str) -> None:
    for one in watchers:
        one.dead.recover(run)


def test_two_that_look_at_the_same_dead_do_not_keep_each_other_from_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one speaks the log is in use: to the other the dead must not seem to live."""
    monkeypatch.setattr(recovery, "RESTART_SECONDS", 0.0)
    three = ("b1", "b2", "b3")
    settings = settings_for(url, three)
    dead(tmp_path, a_campaign(1.0), spent=2, granted=400_000)
    watchers = [Watcher(tmp_path, settings, name) for name in ("b2", "b3")]
    pool = pool_of(url, "b2", three)
    original, entered = Journal.__init__, threading.Barrier(2, timeout=30)
    looks = threading.Thread(target=watchers[0].dead.recover, args=(pool.run_id,))

    def while_open(self: Journal, folder: Path, log: Log) -> None:
        original(self, folder, log)
        if threading.current_thread() is looks:
            entered.wait()
            entered.wait()

    monkeypatch.setattr(Journal, "__init__", while_open)
    watchers[1].dead.recover("")  # it has seen that b1 is dead
    since = dict(watchers[1].dead.dead_since)
    looks.start()
    entered.wait()
    watchers[1].dead.recover(pool.run_id)  # in the middle of the other's speech
    entered.wait()
    looks.join()
    assert watchers[1].dead.dead_since == since
    assert watchers[0].said() == [("dead bidder recovered", False)]
    assert watchers[1].said() == []
    until(
        lambda: ("dead bidder recovered", True) in watchers[0].said(),
        lambda: _look(watchers, pool.run_id),
    )
    with journal(tmp_path / "b1") as log:
        assert list(log.read("SELECT * FROM grants")) == [(1, 20)]


def test_one_that_lives_is_not_spoken_for_and_one_that_cannot_be_is_said_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "RESTART_SECONDS", 0.0)
    settings = settings_for(url, TWO)
    folder = dead(tmp_path, a_campaign(1.0), spent=2, granted=400_000)
    watcher = Watcher(tmp_path, settings, "b2")
    pool = pool_of(url, "b2", TWO)
    with journal(folder):
        for _ in range(3):
            watcher.dead.recover(pool.run_id)
    assert watcher.said() == []
    (folder / "live.sqlite3").write_bytes(b"no database at all" * 100)
    for _ in range(3):
        watcher.dead.recover(pool.run_id)
    assert [event for event, _ in watcher.said()] == ["dead bidder not recovered"]


def test_whoever_may_be_starting_again_is_given_time(url: str, tmp_path: Path) -> None:
    dead(tmp_path, a_campaign(1.0), spent=2, granted=400_000)
    watcher = Watcher(tmp_path, settings_for(url, TWO), "b2")
    pool = pool_of(url, "b2", TWO)
    watcher.dead.recover(pool.run_id)
    assert watcher.said() == []
    watcher.passed += 2.5
    watcher.dead.recover(pool.run_id)
    assert watcher.said() == []
    watcher.passed += 0.6
    watcher.dead.recover(pool.run_id)
    assert watcher.said() == [("dead bidder recovered", True)]  # it expired meanwhile


def test_who_starts_waits_for_who_speaks(tmp_path: Path) -> None:
    order: list[str] = []
    with recovery_lock(tmp_path / "b1", 0.0) as ours:
        assert ours
        with recovery_lock(tmp_path / "b1", 0.0) as theirs:
            assert not theirs

        def starts() -> None:
            with recovery_lock(tmp_path / "b1", 30.0) as mine:
                order.append("started" if mine else "gave up")

        waiting = threading.Thread(target=starts)
        waiting.start()
        time.sleep(0.1)
        order.append("spoke")
    waiting.join()
    assert order == ["spoke", "started"]
