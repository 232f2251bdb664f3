"""What advertisers are shown: the library's numbers on whole chapters, and reasons for the rest."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kreach.adsystem.campaigns.store import UnknownCampaign
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.times import Window
from kreach.errors import KreachError
from tests.adsystem.api.live_stores import (
    END,
    GROUPS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
)
from tests.adsystem.report_services import (
    PlainReports,
    chapter_reports,
    open_reports,
    plain_caps,
)

FLOORS = GuardSettings(min_impressions=8, min_people=30, min_audience=100, min_difference=10)
EVER = Window()


@contextmanager
def guarded(live: LiveStore, floors: GuardSettings = FLOORS) -> Iterator[PlainReports]:
    """The service for advertisers, on the live store's clock."""
    with chapter_reports(live.shared, floors, lambda: live.now) as service:
        yield service


def at(hours: float) -> float:
    return (START + timedelta(hours=hours)).timestamp()


def settled(live: LiveStore, hours: float) -> None:
    """Let the cells up to an hour be over."""
    live.now = at(hours) + FLOORS.settle_seconds


async def sell_hours(live: LiveStore, first: int, last: int, each: int = 10, **where: Any) -> None:
    """Impressions in each hour, seeded by it."""
    for hour in range(first, last):
        live.now = at(hour + 0.5)
        groups = np.random.default_rng(hour).integers(0, where.pop("groups", GROUPS), each)
        assert await live.sell(groups.tolist(), **where) == each


def status_of(service: PlainReports, name: str = "spring") -> dict[str, Any]:
    document = service.status(name, 0.95)
    figures: dict[str, Any] = document["status"]
    return figures


def reach_of(
    service: PlainReports, window: Window = EVER, catalogue: str | None = None
) -> dict[str, Any]:
    document = service.reach("spring", ReachQuestion(window, (1, 2), catalogue=catalogue))
    return document


@pytest.mark.parametrize("kind", ["disjoint", "profiled", "overlapping"])
def test_numbers_are_the_librarys_on_whole_chapters(kind: str, tmp_path: Path) -> None:
    asyncio.run(_numbers(kind, tmp_path))


async def _numbers(kind: str, folder: Path) -> None:
    catalogue = make_catalogue(kind)
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 2)
            live.compact()
            await sell_hours(live, 2, 5)
            settled(live, 5)
            end = at(4)  # the fifth chapter is withheld
            figures = reach_of(service)
            expected = tuple(live.measured("spring", catalogue, cap, 0, end) for cap in (1, 2))
            assert (figures["start"], figures["end"]) == (
                "2026-11-01T00:00:00Z",
                "2026-11-01T04:00:00Z",
            )
            assert figures["reports"] == plain_caps(expected, 0.95)
            assert figures["spend_micros"] == sum(row[-1] for row in live.sold if row[3] < end)
            assert figures["rejected"]["other_catalogue"] is None
            assert figures["suppressed"][0]["what"] == "rejected, warnings"
            part = reach_of(service, Window.between("2026-11-01T01:00Z", "2026-11-01T03:00Z"))
            alone = tuple(live.measured("spring", catalogue, c, at(1), at(3)) for c in (1, 2))
            assert part["reports"] == plain_caps(alone, 0.95)
            assert part["impressions"] == 20
            status = status_of(service)
            assert status["impressions"] == 40 == expected[0].impressions
            assert status["as_of"] == "2026-11-01T04:00:00Z"
            assert status["reach"] == plain_caps(expected, 0.95)
            assert status["people"] == expected[0].targeted_user_count
            assert (
                status["pace"]["spent_micros"] == status["spend_micros"] == figures["spend_micros"]
            )
            assert status["pace"]["wins"] is None
            listed = service.listing(None, 10)
            summary = listed["campaigns"][0]["status"]
            assert summary["unique_reach"] == expected[0].reach
            assert summary["impressions"] == 40
            left = make_campaign("spring").budget * 1_000_000 - figures["spend_micros"]
            assert summary["budget_left_micros"] == left


def test_a_series_is_of_whole_chapters(tmp_path: Path) -> None:
    asyncio.run(_series(tmp_path))


async def _series(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 21, 23)
            await sell_hours(live, 23, 25, each=5)  # a chapter across midnight
            await sell_hours(live, 25, 27)
            settled(live, 30)
            document = service.series("spring", "day", ReachQuestion(caps=(1,)))
            edges = [(p["start"], p["end"], p["impressions"]) for p in document["series"]]
            assert edges == [
                ("2026-11-01T00:00:00Z", "2026-11-02T01:00:00Z", 30),
                ("2026-11-02T01:00:00Z", "2026-11-02T02:00:00Z", 10),
            ]
            for period, (low, high) in zip(document["series"], [(0, 25), (25, 26)], strict=True):
                alone = live.measured("spring", catalogue, 1, at(low), at(high))
                running = live.measured("spring", catalogue, 1, 0.0, at(high))
                assert period["period"] == plain_caps((alone,), 0.95)
                assert period["cumulative"] == plain_caps((running,), 0.95)
            assert (document["start"], document["end"]) == (edges[0][0], edges[1][1])
            curve = service.curve("spring", "day", ReachQuestion(caps=(1,)))
            assert curve["suppressed"] == []  # it counts no rows
            assert [(p["ts"], p["impressions"]) for p in curve["points"]] == [
                (edges[0][1], 30),
                (edges[1][1], 40),
            ]
            for point, period in zip(curve["points"], document["series"], strict=True):
                (point_report,), (report,) = point["reports"], period["cumulative"]
                assert point_report == {name: report[name] for name in point_report}
            by_hour = service.series("spring", "hour", ReachQuestion(caps=(1,)))["series"]
            assert [p["impressions"] for p in by_hour] == [10, 10, 10, 10]
            with pytest.raises(Withheld):
                service.series("spring", "day", ReachQuestion(Window.between("2026-11-02"), (1,)))


def test_other_windows_are_refused_with_what_would_be_allowed(tmp_path: Path) -> None:
    asyncio.run(_refused(tmp_path))


async def _refused(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 6, each=5)  # chapters of two hours
            settled(live, 6)
            wanted = Window.between("2026-11-01T01:00Z", "2026-11-01T03:30Z")
            with pytest.raises(Withheld) as refused:
                reach_of(service, wanted)
            assert refused.value.allowed is not None
            point_report = {
                "error": str(refused.value),
                "reason": refused.value.reason,
                "allowed": msgspec.to_builtins(refused.value.allowed),
            }
            assert point_report == {
                "error": "start must be where a chapter begins (2026-11-01T00:00:00Z or "
                "2026-11-01T02:00:00Z), got 2026-11-01T01:00:00Z; end must be where a chapter "
                "ends (2026-11-01T02:00:00Z or 2026-11-01T04:00:00Z), got 2026-11-01T03:30:00Z",
                "reason": "window not of whole chapters",
                "allowed": {
                    "start": ("2026-11-01T00:00:00Z", "2026-11-01T02:00:00Z"),
                    "end": ("2026-11-01T02:00:00Z", "2026-11-01T04:00:00Z"),
                },
            }
            for edge in refused.value.allowed.end:
                assert reach_of(service, Window.between("2026-10-01", edge))["end"] == edge
            with pytest.raises(Withheld, match="end must be") as refused:
                reach_of(service, Window.between(None, "2026-11-01T06:00Z"))  # withheld
            assert refused.value.allowed is not None
            assert refused.value.allowed.end == ("2026-11-01T04:00:00Z",)
            listed = service.suppressions()["suppressions"]
            assert [entry["asked"] for entry in listed] == [
                "reach from the start to 2026-11-01T06:00:00Z",
                "reach from 2026-11-01T01:00:00Z to 2026-11-01T03:30:00Z",
            ]
            assert service.suppressed_by_reason() == {"window not of whole chapters": 2}


def test_few_impressions_look_like_none(tmp_path: Path) -> None:
    asyncio.run(_few(tmp_path))


async def _few(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    later = {"start": START + timedelta(days=10)}
    live.add(make_campaign("spring"), make_campaign("empty", **later))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 1, each=7)  # one less than the floor
            settled(live, 5)
            listed = service.listing(None, 10)
            some, none = (dict(one["status"]) for one in listed["campaigns"])
            # what follows from the flights, which advertisers set
            assert (some.pop("delivery"), none.pop("delivery")) == ("running", "scheduled")
            assert some == none
            assert some["impressions"] is some["spend_micros"] is some["unique_reach"] is None
            assert "at least 8 impressions" in some["suppressed"][0]["why"]
            empty = status_of(service, "empty")
            assert status_of(service) == empty | {"delivery": "running"}
            figures = reach_of(service)
            assert (figures["impressions"], figures["reports"], figures["spend"]) == (
                None,
                [],
                None,
            )
            assert figures["suppressed"][0]["reason"] == "too few so far"
            series = service.series("spring", "day", ReachQuestion(caps=(1,)))
            assert (series["series"], series["impressions"]) == ([], None)
            pacing = service.pacing("spring", EVER, 100)
            assert pacing["pacing"] == []
            with pytest.raises(Withheld, match="not enough data yet"):
                reach_of(service, Window.between("2026-11-01", "2026-11-02"))
            await sell_hours(live, 6, 7, each=9)  # one chapter: withheld, so nothing yet
            settled(live, 8)
            assert status_of(service)["impressions"] is None


def test_an_ended_campaign_is_shown_to_its_last_impression(tmp_path: Path) -> None:
    asyncio.run(_ended(tmp_path))


async def _ended(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 3)
            await sell_hours(live, 3, 4, each=2)
            live.now = at(3.75)
            assert service.change("spring", {"state": "ended"})["state"] == "ended"
            settled(live, 4)
            assert status_of(service)["impressions"] == 20
            live.now = at(5) + FLOORS.settle_seconds - 1e-3
            assert status_of(service)["impressions"] == 20
            settled(live, 5)  # the first point after the closing time
            status = status_of(service)
            assert (status["impressions"], status["as_of"]) == (32, "2026-11-01T05:00:00Z")
            assert status["spend_micros"] == sum(row[-1] for row in live.sold)
            assert status["unique_reach"] == live.measured("spring", catalogue, 1).reach
            live.now = at(500)
            assert status_of(service) == status


def test_a_flight_that_ends_by_itself_and_goes_on(tmp_path: Path) -> None:
    asyncio.run(_goes_on(tmp_path))


async def _goes_on(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring", end=START + timedelta(hours=3)))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 2)
            await sell_hours(live, 2, 3, each=3)
            settled(live, 4)
            assert status_of(service)["impressions"] == 23
            service.change("spring", {"end": (START + timedelta(hours=9)).isoformat()})
            await live.caught_up()
            await sell_hours(live, 5, 6, each=3)
            settled(live, 20)  # over again, and three impressions alone are not shown
            assert status_of(service)["impressions"] == 23
            assert len(live.sold) == 26


def test_an_end_in_the_past_leaves_time_for_notices(tmp_path: Path) -> None:
    asyncio.run(_moved(tmp_path))


async def _moved(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 3)
            assert status_of(service)["impressions"] == 10
            service.change("spring", {"end": (START + timedelta(hours=1)).isoformat()})
            assert status_of(service)["impressions"] == 10  # and not 20, as of 2:00
            settled(live, 3)  # 2:30 and half an hour are 3:00
            status = status_of(service)
            assert (status["impressions"], status["as_of"]) == (30, "2026-11-01T03:00:00Z")


def test_catalogues_change_in_mid_flight(tmp_path: Path) -> None:
    asyncio.run(_rollover(tmp_path))


async def _rollover(folder: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("dispersed", "v2", groups=25)
    live = LiveStore(folder, old, new)
    live.add(make_campaign("spring"))
    with guarded(live) as service:
        async with live.open():
            await sell_hours(live, 0, 3, catalogue=old)
            assert await live.sell([5, 6, 7], new) == 3  # few on the new one
            settled(live, 4)
            figures = reach_of(service)
            assert (figures["catalogue"], figures["impressions"]) == ("v1", 20)
            assert status_of(service)["impressions"] == 20
            nothing = reach_of(service, catalogue="v2")
            assert (nothing["catalogue"], nothing["impressions"]) == ("v2", None)
            for hour in range(4, 7):
                await sell_hours(live, hour, hour + 1, catalogue=new, groups=25)
            assert await live.sell([1], old) == 1
            settled(live, 8)
            figures = reach_of(service)
            assert (figures["catalogue"], figures["impressions"]) == ("v2", 23)
            expected = live.measured("spring", new, 1, 0, at(6))
            assert figures["reports"][0]["reach"] == expected.reach
            assert figures["warnings"] == {}
            status = status_of(service)
            assert (status["impressions"], status["catalogue"]) == (43, "v2")
            rows = service.pacing("spring", EVER, 100)["pacing"]
            assert [row["impressions"] for row in rows] == [10, 20, 33, 43]
            assert [r["impressions"] for r in service.pacing("spring", EVER, 2)["pacing"]] == [
                20,
                43,
            ]
            window = Window.between("2026-11-01T02:00Z", "2026-11-01T06:00Z")
            inside = service.pacing("spring", window, 100)["pacing"]
            assert [row["ts"][11:13] for row in inside] == ["02", "05"]
            live.now = END.timestamp() + 2 * 3_600
            status = status_of(service)
            assert status["impressions"] == len(live.sold) == 64
            assert status["spend_micros"] == sum(row[-1] for row in live.sold)
            assert reach_of(service, catalogue="v1")["impressions"] == 31
            with pytest.raises(KreachError, match="catalogue must be one of v1, v2"):
                reach_of(service, catalogue="v9")


def new_campaign(name: str, audience: str) -> dict[str, Any]:
    times = {"start": START.isoformat(), "end": END.isoformat()}
    return {"id": name, "budget": 10.0, "max_cpm": 5.0, "audience": audience} | times


def test_without_the_guard_everything_is_shown(tmp_path: Path) -> None:
    asyncio.run(_unguarded(tmp_path))


async def _unguarded(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring", expected_requests=1_000))
    with open_reports(live.shared) as service:
        async with live.open():
            await sell_hours(live, 0, 1, each=3)
            assert status_of(service)["impressions"] == 3
            window = Window.between("2026-11-01T00:10Z", "2026-11-01T00:40Z")
            assert reach_of(service, window)["impressions"] == 3
            one = ReachQuestion(caps=(1,))
            assert service.series("spring", "day", one)["series"][0]["impressions"] == 3
            assert service.curve("spring", "hour", one)["points"][-1]["impressions"] == 3
            assert service.listing(None, 5)["campaigns"][0]["status"]["impressions"] == 3
            assert service.pacing("spring", EVER, 10)["budget_micros"] > 0
            plan = service.plan("spring", PlanQuestion(None, 1, (5.0,), None, 0.9))
            assert plan["people"] == 188
            service.create(new_campaign("small", "everyone"))
            assert service.change("small", {"state": "paused"})["state"] == "paused"
            assert service.suppressions() == {"by_reason": {}, "suppressions": []}


def test_an_advertisers_own_campaigns(tmp_path: Path) -> None:
    asyncio.run(_own(tmp_path))


async def _own(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("acme.spring"), make_campaign("other.spring"))
    with guarded(live) as service:
        own = service.own("acme")
        async with live.open():
            for hour in range(8):
                live.now = at(hour + 0.5)
                await live.sell(list(range(GROUPS)))
            settled(live, 8)
            listed = own.listing(None, 1)
            assert [one["id"] for one in listed["campaigns"]] == ["spring"]
            assert listed["next"] is None
            assert reach_of(own)["campaign"] == "spring"
            with pytest.raises(Withheld) as refused:
                reach_of(own, Window.between("2026-11-01T00:30Z"))
            assert "acme" not in str(refused.value)
            with pytest.raises(UnknownCampaign):
                own.reach("winter", ReachQuestion(caps=(1,)))


def test_a_second_process_and_a_restart_show_the_same(tmp_path: Path) -> None:
    asyncio.run(_again(tmp_path))


async def _again(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    other = msgspec.structs.replace(FLOORS, min_impressions=3, grid_seconds=900)
    async with live.open():
        with guarded(live) as first, guarded(live, other) as second:
            await sell_hours(live, 0, 4, each=5)
            settled(live, 4)
            shown = reach_of(first)
            assert shown["impressions"] == 10
            assert reach_of(second, Window.between(None, "2026-11-01T02:00Z")) == shown
        with guarded(live, other) as third:
            edge = Window.between("2026-11-01", "2026-11-01T02:00Z")
            assert reach_of(third, edge) == shown
            with pytest.raises(Withheld):
                reach_of(third, Window.between(None, "2026-11-01T01:00Z"))


def test_a_log_that_lost_rows_is_told_of(tmp_path: Path) -> None:
    asyncio.run(_lost(tmp_path))


async def _lost(folder: Path) -> None:
    live = LiveStore(folder, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    async with live.open():
        await sell_hours(live, 0, 3)
        settled(live, 3)
        with guarded(live) as service:
            shown = status_of(service)
            assert shown["impressions"] == 20
    with closing(sqlite3.connect(live.shared.store / "live.sqlite3")) as journal:
        journal.execute("DELETE FROM impressions WHERE row > 5")
        journal.commit()
    settled(live, 9)
    with guarded(live) as service:
        status = status_of(service)
        assert status["suppressed"][0]["reason"] == "log lacks rows"
        assert status | {"suppressed": shown["suppressed"]} == shown
        assert service.suppressed_by_reason() == {"log lacks rows": 1}
