"""What stands around the routes: bounded work, bounded bodies, failures that tell nothing."""

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kreach.adsystem.api import web
from kreach.adsystem.api.web import RequestGuard
from kreach.adsystem.api.workers import Busy, Workers
from kreach.adsystem.disclosure.counting import CountingView
from kreach.adsystem.reports.service import ReportService
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, reporting


def test_a_queue_that_grows_too_long_is_refused() -> None:
    async def run() -> None:
        workers = Workers("test", 1, 2)
        go = threading.Event()
        waiting = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await workers.run(lambda: 1)
        go.set()
        assert await asyncio.gather(*waiting) == [True] * 3
        assert await workers.run(lambda: 1) == 1
        workers.close()

    asyncio.run(run())


def test_a_series_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountingView, "max_seconds", -1.0)

    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add(make_campaign("spring"))
        async with reporting(live) as client:
            path = "/v1/campaigns/spring/series?start=2026-11-01&end=2026-11-09"
            answer = await client.get(path)
            assert answer.status_code == 422
            assert "ask for fewer periods" in answer.json()["error"]["message"]

    asyncio.run(run())


def test_a_failure_inside_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(ReportService, "status", broken)

    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add(make_campaign("spring"))
        async with reporting(live) as client:
            answer = await client.get("/v1/campaigns/spring")
            assert answer.status_code == 500
            assert answer.json()["error"]["message"] == "internal error"
            shown = (await client.get("/metrics")).text
            assert 'http_failures_total{kind="RuntimeError"} 1.0' in shown

    asyncio.run(run())


async def _through(guard: RequestGuard, receive: Callable[[], Awaitable[Any]]) -> list[Any]:
    told: list[Any] = []

    async def send(message: Any) -> None:
        told.append(message)

    await guard({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    return told


def test_a_body_that_does_not_come_or_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_BODY_SECONDS", 0.05)
    lines: list[str] = []

    async def never(*_: object) -> None:
        raise AssertionError("a route was asked")

    async def run() -> None:
        guard = RequestGuard(never, Log("test", lines.append), Metrics("test"), 1_000)

        async def slow() -> Any:
            await asyncio.sleep(10)

        async def endless() -> Any:
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

        async def gone() -> Any:
            return {"type": "http.disconnect"}

        assert (await _through(guard, slow))[0]["status"] == 408
        refused = await _through(guard, endless)
        assert refused[0]["status"] == 413
        assert list(json.loads(refused[1]["body"])) == ["error"]
        assert await _through(guard, gone) == []

    asyncio.run(run())
    assert lines == []


def test_reporting_needs_catalogues_and_a_store(tmp_path: Path) -> None:
    live = LiveStore(tmp_path)
    with pytest.raises(KreachError, match="catalogues must"):
        asyncio.run(_open(live))
    live = LiveStore(tmp_path, make_catalogue("disjoint"))
    (tmp_path / "store").write_text("in the way")
    with pytest.raises(KreachError, match="store must"):
        asyncio.run(_open(live))
    (tmp_path / "store").unlink()
    with pytest.raises(KreachError, match="memory must"):
        asyncio.run(_open(live, memory="a lot"))


async def _open(live: LiveStore, **settings: Any) -> None:
    async with reporting(live, **settings) as client:
        assert isinstance(client, httpx.AsyncClient)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:8403"}, 403),  # rebound to this machine
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),  # sent across origins without asking first
        ({}, 200),
    ],
)
def test_a_page_of_another_site_cannot_change_a_budget(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add(make_campaign("spring"))
        async with reporting(live) as client:
            before = (await client.get("/v1/campaigns/spring")).json()["budget"]
            sent = {"content-type": "application/json"} | headers
            change = b'{"budget": 77}'
            answer = await client.patch("/v1/campaigns/spring", content=change, headers=sent)
            assert answer.status_code == status
            after = (await client.get("/v1/campaigns/spring")).json()["budget"]
            assert after == (77.0 if status == 200 else before)

    asyncio.run(run())


def test_compressed_bodies(tmp_path: Path) -> None:
    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add(make_campaign("spring"))
        async with reporting(live) as client:
            bomb = gzip.compress(b'{"budget": 77' + b" " * 300_000 + b"}")
            for body, encoding, status in (
                (gzip.compress(b'{"budget": 77}'), "gzip", 200),
                (bomb, "gzip", 413),
                (b'{"budget": 77}', "gzip", 400),
                (b'{"budget": 77}', "br", 415),
            ):
                headers = {"content-type": "application/json", "content-encoding": encoding}
                path = "/v1/campaigns/spring"
                answer = await client.patch(path, content=body, headers=headers)
                assert answer.status_code == status
                assert status == 200 or list(answer.json()) == ["error"]

    asyncio.run(run())
