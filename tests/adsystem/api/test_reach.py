"""Reports over HTTP are the library's numbers on what was really shown, to the last digit."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.reports.measure import interval_method
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_groups
from kreach.boundary.times import Window
from tests.adsystem.api.live_stores import (
    GROUPS,
    KINDS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
    reporting,
)
from tests.adsystem.report_services import plain, plain_caps

NOON = START + timedelta(days=2, hours=12)


async def get(client: httpx.AsyncClient, path: str, **parameters: Any) -> Any:
    answer = await client.get(f"/v1/campaigns/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def sell_for_days(live: LiveStore) -> None:
    """Three days of impressions: the first compacted, the second in both, the third live."""
    generator = np.random.default_rng(7)
    for day in range(3):
        live.now = (START + timedelta(days=day, hours=6)).timestamp()
        assert await live.sell(generator.integers(0, GROUPS, 25).tolist()) == 25
        if day < 2:
            assert live.compact() > 0
        live.now = (START + timedelta(days=day, hours=18)).timestamp()
        assert await live.sell(generator.integers(0, GROUPS // 3, 15).tolist()) == 15


@pytest.mark.parametrize("kind", KINDS)
def test_reports_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    asyncio.run(_reports(kind, tmp_path))


async def _reports(kind: str, folder: Path) -> None:
    catalogue = make_catalogue(kind)
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    async with reporting(live) as client, live.open():
        assert (await get(client, "spring/reach"))["impressions"] == 0
        await sell_for_days(live)
        so_far = await get(client, "spring/reach", cap=[1, 3], level=0.9)
        expected = tuple(live.measured("spring", catalogue, cap) for cap in (1, 3))
        assert so_far["reports"] == plain_caps(expected, 0.9)
        assert so_far["impressions"] == expected[0].impressions == 120
        assert so_far["spend_micros"] == sum(row[-1] for row in live.sold)
        assert set(so_far["rejected"].values()) == {0}
        window = {"start": (START + timedelta(hours=12)).isoformat(), "end": NOON.isoformat()}
        part = await get(client, "spring/reach", cap=[2], **window)
        edges = ((START + timedelta(hours=12)).timestamp(), NOON.timestamp())
        alone = live.measured("spring", catalogue, 2, *edges)
        assert part["impressions"] == alone.impressions == 80
        assert part["reports"] == plain_caps((alone,), 0.95)
        assert part["reports"][0]["reach"] == alone.reach
        status = await get(client, "spring")
        told = {report["cap"]: report for report in status["status"]["reach"]}
        for cap in (1, 2):
            report = live.measured("spring", catalogue, cap)
            assert told[cap]["reach"] == report.reach
            assert told[cap]["interval"] == list(report.interval(0.95, interval_method(report)))
        listed = await client.get("/v1/campaigns")
        summary = listed.json()["campaigns"][0]["status"]
        assert summary["unique_reach"] == expected[0].reach
        assert summary["impressions"] == 120
        await _check_series(client, live, catalogue)


async def _check_series(client: httpx.AsyncClient, live: LiveStore, catalogue: Catalogue) -> None:
    series = await get(client, "spring/series", by="day", cap=[1])
    assert len(series["series"]) == 3
    for day, period in enumerate(series["series"]):
        start, end = ((START + timedelta(days=d)).timestamp() for d in (day, day + 1))
        alone = live.measured("spring", catalogue, 1, start, end)
        running = live.measured("spring", catalogue, 1, 0.0, end)
        assert period["impressions"] == 40
        assert period["period"] == plain_caps((alone,), 0.95)
        assert period["cumulative"] == plain_caps((running,), 0.95)


@pytest.mark.parametrize(
    ("by", "start", "end"),
    [
        ("hour", START + timedelta(hours=5, minutes=30), START + timedelta(hours=19)),
        ("day", None, None),
        ("week", None, NOON),
        ("day", START + timedelta(days=1), None),
    ],
)
def test_a_series_is_that_of_the_library(
    by: str, start: datetime | None, end: datetime | None, tmp_path: Path
) -> None:
    asyncio.run(_series(by, start, end, tmp_path))


async def _series(by: str, start: datetime | None, end: datetime | None, folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    async with reporting(live) as client, live.open():
        await sell_for_days(live)
        given = {"start": start, "end": end}
        asked = {name: moment.isoformat() for name, moment in given.items() if moment}
        found = await get(client, "spring/series", by=by, cap=[1, 2], **asked)
    with kr.EmbeddedEngine() as engine:
        log = kr.ImpressionLog.open(
            engine,
            {
                "campaign": [row[0] for row in live.sold],
                "catalogue": [row[1] for row in live.sold],
                "group": [catalogue.groups[row[2]] for row in live.sold],
                "ts": [datetime.fromtimestamp(row[3], UTC).isoformat() for row in live.sold],
            },
        )
        groups = kr.open_groups(engine, folder / "v1")
        series = kr.measure_series(
            log, groups, [1, 2], by=by, campaign="spring", start=start, end=end
        )
        expected = plain(series.document())
    for name in ("start", "end", "impressions", "rejected", "people", "reports", "by", "series"):
        assert found[name] == expected[name], name


def test_each_catalogue_has_its_report(tmp_path: Path) -> None:
    asyncio.run(_two_catalogues(tmp_path))


async def _two_catalogues(folder: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("dispersed", "v2", groups=20)
    live = LiveStore(folder, old, new)
    live.add(make_campaign("spring"))
    async with reporting(live) as client, live.open():
        assert await live.sell([0, 1, 1, 2], old) == 4
        first = await get(client, "spring/reach", cap=[1])
        assert (first["catalogue"], first["impressions"]) == ("v1", 4)
        assert await live.sell([5, 5, 19], new) == 3
        live.compact()
        assert await live.sell([7], old) == 1
        for query in ({}, {"start": "2026-11-01"}):
            newest = await get(client, "spring/reach", cap=[1], **query)
            assert (newest["catalogue"], newest["impressions"]) == ("v2", 3)
            assert newest["rejected"]["other_catalogue"] == 5
            assert newest["reports"][0]["reach"] == live.measured("spring", new, 1).reach
            older = await get(client, "spring/reach", cap=[1], catalogue="v1", **query)
            assert (older["impressions"], older["rejected"]["other_catalogue"]) == (5, 3)
            assert older["reports"][0]["reach"] == live.measured("spring", old, 1).reach
        status = (await get(client, "spring"))["status"]
        assert (status["impressions"], status["catalogue"]) == (8, "v2")
        assert status["spend_micros"] == sum(row[-1] for row in live.sold)
        refused = await client.get("/v1/campaigns/spring/reach", params={"catalogue": "v9"})
        assert refused.status_code == 422
        assert refused.json()["error"]["fields"] == [
            {
                "field": "catalogue",
                "code": "invalid",
                "message": "catalogue must be one of v1, v2, got 'v9'",
            }
        ]


def test_an_audience_of_some_people_is_measured(tmp_path: Path) -> None:
    asyncio.run(_some_people(tmp_path))


async def _some_people(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    targeted = np.arange(GROUPS) % (catalogue.sizes + 1)
    write_groups(catalogue, folder / "sporty.parquet", targeted)
    live.shared = type(live.shared)(
        store=live.shared.store,
        catalogues=live.shared.catalogues,
        audiences={"sporty": folder / "sporty.parquet"},
    )
    live.add(make_campaign("spring", audience="sporty"))
    async with reporting(live) as client, live.open():
        await live.sell(list(range(GROUPS)) * 2)
        found = await get(client, "spring/reach", cap=[2])
        audience = catalogue.audience(targeted)
        report = kr.measure(audience, live.counts("spring", catalogue), 2)
        assert found["impressions"] == report.impressions > 0
        assert found["people"] == int(targeted.sum())
        assert found["reports"] == plain_caps((report,), 0.95)


def test_a_window_reads_the_files_of_its_days_only() -> None:
    from kreach.adsystem.log.snapshot import _of_days

    files = tuple(Path(f"log/day=2026-11-0{day}/part.parquet") for day in range(1, 6))
    assert _of_days(files, Window()) == files
    assert _of_days(files, Window.between("2026-11-02T10:00Z", "2026-11-03T00:00Z")) == files[1:3]
    assert _of_days(files, Window.between("2026-11-04")) == files[3:]
