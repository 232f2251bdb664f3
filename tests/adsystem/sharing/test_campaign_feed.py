"""Campaigns reach bidders that cannot see the store they are kept in."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from simulations.fleet import RedisServer

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.sharing.campaign_feed import CampaignFeed
from kreach.service.logs import Log
from tests.adsystem.sharing.faulty_members import START, pool_of, settings_for

ONE = ("b1",)


def campaign(name: str, **more: object) -> Campaign:
    flight = {"start": START, "end": START + timedelta(days=3), "caps": (Cap(limit=2),)}
    return Campaign(id=name, budget=5.0, max_cpm=9.0, **(flight | more))  # type: ignore[arg-type]


@pytest.fixture
def lines() -> list[str]:
    return []


def test_new_and_changed_campaigns_are_taken_over(
    url: str, tmp_path: Path, lines: list[str]
) -> None:
    source, copy = CampaignStore(tmp_path / "here"), CampaignStore(tmp_path / "there")
    publisher = CampaignFeed(tmp_path / "here", settings_for(url, ONE), Log("r", lines.append))
    pool = pool_of(url, "b1", ONE)
    assert pool.campaigns_after(0) == {}
    rolling = (Cap(limit=1, span_seconds=3_600), Cap(limit=3, span_seconds=86_400))
    for one in (campaign("one"), campaign("two", caps=rolling, daily_budget=0.25)):
        source.add(one)
    publisher.publish()
    copy.replicate(pool.campaigns_after(0))
    assert copy.all() == source.all()
    assert pool.campaigns_after(2) == {}
    source.change("one", {"budget": 7.5})
    source.add(campaign("three"))
    publisher.publish()
    newer = pool.campaigns_after(2)
    assert sorted(newer) == [1, 3]
    copy.replicate(newer)
    copy.replicate(newer)  # as often as one likes
    assert copy.all() == source.all()
    for store in (source, copy):
        store.close()
    pool.close()
    publisher.close()


def test_a_redis_that_was_wiped_is_told_all_of_them(
    server: RedisServer, url: str, tmp_path: Path, lines: list[str]
) -> None:
    source = CampaignStore(tmp_path)
    for at in range(5):
        source.add(campaign(f"c{at}"))
    publisher = CampaignFeed(tmp_path, settings_for(url, ONE), Log("r", lines.append))
    publisher.publish()
    server.kill()
    server.start()
    publisher.publish()
    pool = pool_of(url, "b1", ONE)
    told = {n: json.loads(text)["id"] for n, (_, text) in pool.campaigns_after(0).items()}
    assert told == {at + 1: f"c{at}" for at in range(5)}
    source.close()
    pool.close()
    publisher.close()


def test_reporting_tells_while_it_runs_and_says_once_that_it_cannot(
    server: RedisServer, url: str, tmp_path: Path, lines: list[str]
) -> None:
    source = CampaignStore(tmp_path)
    server.kill()
    publisher = CampaignFeed(tmp_path, settings_for(url, ONE), Log("r", lines.append))
    publisher.start()
    try:
        _wait(lambda: lines)
        server.start()
        kept = source.add(campaign("late"))
        pool = pool_of(url, "b1", ONE)
        _wait(lambda: pool.campaigns_after(0))
        _wait(lambda: len(lines) > 1)
        assert _as_kept(pool.campaigns_after(0)[1], kept) == kept
    finally:
        publisher.close()
        source.close()
        pool.close()
    events = [json.loads(line)["event"] for line in lines]
    assert events == ["campaigns not published to bidders", "campaigns published to bidders"]


def _as_kept(told: tuple[int, str], like: StoredCampaign) -> StoredCampaign:
    document = json.loads(told[1])
    assert document == json.loads(json.dumps(like.campaign.document()))
    return StoredCampaign(like.number, like.campaign, told[0])


def _wait(true: Callable[[], object]) -> None:
    end = time.monotonic() + 180.0
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
