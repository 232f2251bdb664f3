"""The log while it is written: nothing lost or counted twice, whoever starts, stops or dies."""

import asyncio
import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import httpx
import ibis
import numpy as np
import pytest

from kreach.adsystem.log.running_counts import RunningCounts
from kreach.adsystem.log.snapshot import LiveLog, LogUnavailable
from tests.adsystem.api.live_stores import (
    GROUPS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
    reporting,
)


async def impressions_of(client: httpx.AsyncClient, path: str = "spring/reach?cap=1") -> int:
    answer = await client.get(f"/v1/campaigns/{path}")
    assert answer.status_code == 200, answer.text
    return int(answer.json()["impressions"])


def test_readers_see_every_row_once_while_the_bidder_writes_and_compacts(tmp_path: Path) -> None:
    asyncio.run(_beside_the_bidder(tmp_path))


async def _beside_the_bidder(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    over = False
    answers = 0

    async def read(client: httpx.AsyncClient, path: str) -> None:
        """Answers never fall behind what was sold before they were asked for."""
        nonlocal answers
        last = 0
        while not over:
            before = len(live.sold)
            now = await impressions_of(client, path)
            assert max(last, before) <= now <= len(live.sold) + 1  # one may be written, not told
            last = now
            answers += 1
            await asyncio.sleep(0)

    async with reporting(live) as client, live.open():
        paths = ("spring/reach?cap=1", "spring/reach?cap=2&start=2026-10-01", "spring/series")
        readers = [asyncio.create_task(read(client, path)) for path in paths]
        generator = np.random.default_rng(3)
        for _ in range(12):
            for group in generator.integers(0, GROUPS, 20).tolist():
                await live.sell([group])
                await asyncio.sleep(0.001)
            await asyncio.to_thread(live.compact)
            live.now += 3_000.0
        over = True
        await asyncio.gather(*readers)
        assert answers > 30
        for path in paths:
            assert await impressions_of(client, path) == len(live.sold) == 240
        answer = (await client.get("/v1/campaigns/spring/reach?cap=2")).json()
        assert answer["reports"][0]["reach"] == live.measured("spring", catalogue, 2).reach
        assert answer["spend_micros"] == sum(row[-1] for row in live.sold)


def test_reporting_and_bidder_start_and_stop_in_any_order(tmp_path: Path) -> None:
    asyncio.run(_any_order(tmp_path))


async def _any_order(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("dispersed"))
    async with reporting(live) as client:  # before any bidder was there
        assert (await client.get("/healthz")).json()["status"] == "ok"
        body = {
            "id": "spring",
            "budget": 100,
            "max_cpm": 100.0,
            "start": START.isoformat(),
            "market_mu": 0.0,
            "creative": {"markup": "ad", "width": 300, "height": 250},
        }
        body |= {"end": (START + timedelta(days=9)).isoformat(), "market_sigma": 1.0}
        assert (await client.post("/v1/campaigns", json=body)).status_code == 201
        assert await impressions_of(client) == 0
        async with live.open():
            await live.sell([1, 2, 3])
            assert await impressions_of(client) == 3
        assert await impressions_of(client) == 3  # the bidder is down
        async with live.open():
            live.compact()
            await live.sell([4])
            assert await impressions_of(client) == 4
    async with reporting(live) as client:  # started again, the bidder is down
        assert await impressions_of(client) == 4
        async with live.open():
            await live.sell([5, 6])
            live.compact()  # moved before reporting saw them
            assert await impressions_of(client) == 6
            pacing = (await client.get("/v1/campaigns/spring/pacing")).json()["pacing"]
        status = (await client.get("/v1/campaigns/spring")).json()["status"]
        assert status["pace"]["wins"] == 6
        assert status["pace"]["spent_micros"] == status["spend_micros"]
        assert [row["ts"] for row in pacing] == sorted({row["ts"] for row in pacing})


def test_a_campaign_that_reporting_makes_is_played_and_paused(tmp_path: Path) -> None:
    asyncio.run(_played(tmp_path))


async def _played(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    async with reporting(live) as client, live.open():
        body = {
            "id": "new",
            "budget": 5.0,
            "max_cpm": 100.0,
            "start": START.isoformat(),
            "market_mu": 0.0,
            "creative": {"markup": "ad", "width": 300, "height": 250},
        }
        body |= {"end": (START + timedelta(days=9)).isoformat(), "market_sigma": 1.0}
        assert (await client.post("/v1/campaigns", json=body)).status_code == 201
        await live.caught_up()
        assert await live.sell([0, 1]) == 2
        assert await impressions_of(client, "new/reach") == 2
        changed = await client.patch("/v1/campaigns/new", json={"state": "paused"})
        assert changed.status_code == 200
        await live.caught_up()
        assert await live.sell([0, 1]) == 0


def test_counts_that_were_let_go_are_counted_again(tmp_path: Path) -> None:
    asyncio.run(_let_go(tmp_path))


async def _let_go(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("a"), make_campaign("b", start=START + timedelta(hours=1)))
    log = LiveLog(live.shared.store, "200MB")
    small = RunningCounts(max_counts=GROUPS)  # room for one
    async with live.open():
        await live.sell([0, 0, 1])
        live.now += 4_000.0
        live.state.catalogue_bidders["v1"].update_active(live.now)  # type: ignore[union-attr]
        for _ in range(3):
            await live.sell([2, 3, 4, 4])
            live.compact()
            with log.snapshot() as now:
                for campaign, name in ((1, "a"), (2, "b"), (1, "a")):
                    counted = small.counts(now, now.place(campaign, "v1"), GROUPS)
                    assert counted.tolist() == live.counts(name, catalogue).tolist()
                places = [now.place(1, "v1"), now.place(2, "v1")]
                both = dict(small.counts_of(now, places, GROUPS))
                assert both[places[1]].tolist() == live.counts("b", catalogue).tolist()
                totals = small.totals(now)
                assert sum(total.rows for total in totals.values()) == len(live.sold)
    log.close()


def test_another_store_under_the_same_name_is_another_log(tmp_path: Path) -> None:
    asyncio.run(_another(tmp_path))


async def _another(folder: Path) -> None:
    first = LiveStore(folder / "one", make_catalogue("disjoint"))
    first.add(make_campaign("spring"))
    async with first.open():
        await first.sell([0, 0, 1])
    async with reporting(first) as client:
        assert await impressions_of(client) == 3
        other = LiveStore(folder / "two", make_catalogue("disjoint"))
        other.add(make_campaign("spring"))
        async with other.open():
            await other.sell([4])
        for suffix in ("", "-wal", "-shm"):
            (first.shared.store / f"live.sqlite3{suffix}").unlink(missing_ok=True)
        assert await impressions_of(client) == 0
        os.link(other.shared.store / "live.sqlite3", first.shared.store / "live.sqlite3")
        assert await impressions_of(client) == 1


def test_a_log_that_cannot_be_read_is_the_services_fault(tmp_path: Path) -> None:
    asyncio.run(_unreadable(tmp_path))


async def _unreadable(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    async with live.open():
        await live.sell([0, 1])
        live.compact()
    async with reporting(live) as client:
        moved = next((live.shared.store / "log").rglob("*.parquet"))
        whole = moved.read_bytes()
        moved.write_bytes(whole[: len(whole) // 2])
        answer = await client.get("/v1/campaigns/spring/reach")
        assert answer.status_code == 503
        assert list(answer.json()) == ["error"]
        moved.write_bytes(whole)
        assert await impressions_of(client) == 2
        (live.shared.store / "live.sqlite3").rename(live.shared.store / "aside")
        (live.shared.store / "live.sqlite3").write_bytes(b"no database" * 1_000)
        assert (await client.get("/v1/campaigns/spring/reach")).status_code == 503
        assert (await client.get("/healthz")).status_code == 503
        assert (await client.get("/metrics")).status_code == 200
        (live.shared.store / "live.sqlite3").unlink()
        (live.shared.store / "aside").rename(live.shared.store / "live.sqlite3")
        assert await impressions_of(client) == 2
        assert (await client.get("/healthz")).json()["status"] == "ok"


def test_a_journal_without_tables_is_empty(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "live.sqlite3").close()
    live = LiveLog(tmp_path, "200MB")
    with live.snapshot() as now:
        assert RunningCounts().totals(now) == {}
        with pytest.raises(LogUnavailable):
            now.columns(ibis.table({"a": "int64"}, name="nothing"))
    live.close()


def test_metrics_name_no_campaign_and_no_path_that_a_client_made_up(tmp_path: Path) -> None:
    asyncio.run(_metrics(tmp_path))


async def _metrics(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    async with reporting(live) as client:
        await impressions_of(client)
        for path in ("/v1/campaigns/canary-1", "/canary-2", "/v1/campaigns/spring/reach?cap=x"):
            await client.get(path)
        await client.request("CANARY3", "/v1/campaigns")
        shown = (await client.get("/metrics")).text
    assert 'request="GET /v1/campaigns/{campaign}/reach 200"} 1.0' in shown
    assert 'request="GET /v1/campaigns/{campaign}/reach 422"} 1.0' in shown
    assert 'request="GET /v1/campaigns/{campaign} 404"} 1.0' in shown
    for word in ("canary", "CANARY", "spring"):
        assert word not in shown
    for name in ("latency_seconds_count", "live_rows", 'reports_total{kind="so far"}'):
        assert f"kreach_reporting_{name}" in shown
