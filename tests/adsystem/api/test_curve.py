"""A curve says what the series says, in short; neither makes anew what is over."""

import asyncio
from pathlib import Path

import pytest

import kreach as kr
from kreach.adsystem.reports.measure import cap_reports
from kreach.adsystem.reports.report import CapReport
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, reporting


@pytest.mark.parametrize("kind", ["dispersed", "profiled", "overlapping"])
def test_a_curve_is_the_series_in_short(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue(kind))
        live.add(make_campaign("spring"))
        async with live.open(), reporting(live) as client:
            ask = "/v1/campaigns/spring/curve"
            assert (await client.get(ask)).json()["points"] == []
            for group in (1, 2, 2):
                live.now += 5_400.0
                await live.sell([group, group, 7])
            curve = (await client.get(f"{ask}?cap=1&cap=2&level=0.9")).json()
            asked = "by=hour&cap=1&cap=2&level=0.9"
            series = (await client.get(f"/v1/campaigns/spring/series?{asked}")).json()
            assert curve["by"] == "hour"
            assert (curve["catalogue"], curve["people"]) == ("v1", series["people"])
            assert [point["ts"] for point in curve["points"]] == [
                period["end"] for period in series["series"]
            ]
            so_far = 0
            for point, period in zip(curve["points"], series["series"], strict=True):
                so_far += period["impressions"]
                assert point["impressions"] == so_far
                for short, report in zip(point["reports"], period["cumulative"], strict=True):
                    assert (short["cap"], short["level"]) == (report["cap"], 0.9)
                    assert (short["reach"], short["std"]) == (report["reach"], report["std"])
                    low, high = short["interval"]
                    assert low <= short["reach"] <= high
                    assert high - low <= 2 * 1.645 * short["std"] + 1e-9
            assert (await client.get(f"{ask}?by=minute")).status_code == 422
            assert (await client.get(f"{ask}?catalogue=v9")).status_code == 422

    asyncio.run(run())


def test_a_series_that_is_asked_again_is_the_same_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(reports: tuple[kr.ReachReport, ...], level: float) -> tuple[CapReport, ...]:
        made.append(reports)
        return cap_reports(reports, level)

    monkeypatch.setattr("kreach.adsystem.reports.measure.cap_reports", counted)

    async def run() -> None:
        live = LiveStore(tmp_path, make_catalogue("dispersed"))
        live.add(make_campaign("spring"))
        async with live.open(), reporting(live) as client:
            for group in (1, 2):
                live.now += 3_600.0
                await live.sell([group, group, 7])
            ask = "/v1/campaigns/spring/series?by=hour&cap=1&cap=2"
            first = (await client.get(ask)).json()
            before = len(made)
            assert before == 4 - 1  # of the first hour alone and so far, the impressions are one
            assert (await client.get(ask)).json() == first
            assert len(made) == before
            live.now += 3_600.0
            await live.sell([3])
            more = (await client.get(ask)).json()
            assert more["series"][:-1] == first["series"]
            assert len(made) == before + 2

    asyncio.run(run())
