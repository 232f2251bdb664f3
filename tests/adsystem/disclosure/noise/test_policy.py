"""Reporting with noise on real stores: what advertisers see, and what never depends on the log."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.campaigns.store import CampaignStore, UnknownCampaign
from kreach.adsystem.disclosure.chapters.policy import ChapterPolicy
from kreach.adsystem.disclosure.noise.ledger import FILE, MARKER, PrivacyLedger
from kreach.adsystem.disclosure.noise.policy import NoisePolicy, check_noise
from kreach.adsystem.log.snapshot import LogUnavailable
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import (
    AdSystemSettings,
    GuardSettings,
    NoiseSettings,
)
from kreach.boundary.discrete_noise import Draw, Part
from kreach.boundary.times import Window
from tests.adsystem.api.live_stores import (
    GROUPS,
    KINDS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
)
from tests.adsystem.disclosure.noise.test_consistency import seeded
from tests.adsystem.report_services import PlainReports, noisy_reports, report_context

Ask = Callable[[], Any]
DAY = timedelta(days=1)
LONG_AFTER = START + 60 * DAY
_AT, _TO = "2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"
_LEDGER = shutil.ignore_patterns("noise.*")
question = partial(ReachQuestion, level=0.9)


def without_noise(part: Part, values: Sequence[int]) -> list[int]:
    """Nothing is added: what is shown can be compared with the library."""
    del part
    return list(values)


def blind(part: Part, values: Sequence[int]) -> list[int]:
    """As noise without end: nothing is left of the values."""
    return [round(part.scale * (3.0 - at / 7)) for at in range(len(values))]


@contextmanager
def noisy(
    shared: AdSystemSettings, now: datetime, draw: Draw | None = without_noise, **changed: Any
) -> Iterator[PlainReports]:
    """Reporting with noise on a store, at a time."""
    chosen = NoiseSettings(enabled=True, **changed)
    with noisy_reports(shared, chosen, now.timestamp, draw) as service:
        yield service


def window(first: float, last: float) -> Window:
    return Window(START + first * DAY, START + last * DAY)


async def _sell(live: LiveStore, days: int) -> None:
    generator = np.random.default_rng(7)
    async with live.open():
        for day in range(days):
            live.now = (START + day * DAY + timedelta(hours=6)).timestamp()
            assert await live.sell(generator.integers(0, GROUPS, 30).tolist()) == 30
            if day == 1:
                assert live.compact() > 0


def stocked(folder: Path, kind: str = "disjoint", days: int = 4, **campaign: Any) -> LiveStore:
    """A store with 30 impressions a day, some of them in files."""
    live = LiveStore(folder, make_catalogue(kind))
    live.add(make_campaign("spring", **campaign))
    asyncio.run(_sell(live, days))
    return live


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveStore:
    """One store for tests that bring a ledger of their own."""
    return stocked(tmp_path_factory.mktemp("noisy"))


@pytest.fixture
def shared(live: LiveStore, tmp_path: Path) -> AdSystemSettings:
    """A copy of the store that a test can do with as it likes."""
    shutil.copytree(live.shared.store, tmp_path / "store", ignore=_LEDGER)
    return msgspec.structs.replace(live.shared, store=tmp_path / "store")


def answers_of(reporting: PlainReports) -> int:
    """How many answers the ledger holds."""
    policy = reporting.service.policy
    assert isinstance(policy, NoisePolicy)
    return len(policy.ledger)


def spend(live: LiveStore, first: float, last: float) -> int:
    low, high = ((START + edge * DAY).timestamp() for edge in (first, last))
    return sum(row[4] for row in live.sold if low <= row[3] < high)


def check_numbers(answer: dict[str, Any], report: "kr.ReachReport") -> None:
    """A capped report without noise is the library's, to thousandths of a person."""
    assert answer["impressions"] == report.impressions
    assert answer["reach"] == pytest.approx(report.reach, abs=0.01)
    assert answer["over_exposed"] == pytest.approx(report.over_exposed, abs=0.001)
    assert answer["at_least"] == pytest.approx(report.at_least(10).tolist(), abs=0.001)
    assert answer["frequency"] == pytest.approx(report.frequency(10).tolist(), abs=0.002)
    assert answer["average_frequency"] == pytest.approx(report.average_frequency, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_but_for_noise_numbers_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    live = stocked(tmp_path, kind)
    catalogue = live.catalogues[0]

    def expected(cap: int, first: float, last: float) -> "kr.ReachReport":
        edges = ((START + edge * DAY).timestamp() for edge in (first, last))
        return live.measured("spring", catalogue, cap, *edges)

    with noisy(live.shared, START + 4.5 * DAY) as reporting:
        so_far = reporting.reach("spring", question(caps=(1, 3)))
        assert (so_far["start"], so_far["end"]) == ("2026-11-01T00:00:00Z", "2026-11-05T00:00:00Z")
        for answer in so_far["reports"]:
            check_numbers(answer, expected(answer["cap"], 0, 4))
        assert so_far["spend_micros"] == spend(live, 0, 4)
        part = reporting.reach("spring", ReachQuestion(window(1, 3), (2,)))
        check_numbers(part["reports"][0], expected(2, 1, 3))
        assert part["spend_micros"] == spend(live, 1, 3)
        series = reporting.series("spring", "day", ReachQuestion(caps=(2,)))
        assert len(series["series"]) == 4
        for day, row in enumerate(series["series"]):
            check_numbers(row["period"][0], expected(2, day, day + 1))
            check_numbers(row["cumulative"][0], expected(2, 0, day + 1))
        status = reporting.status("spring", 0.95)["status"]
        assert (status["impressions"], status["spend_micros"]) == (120, spend(live, 0, 4))
        assert [answer["cap"] for answer in status["reach"]] == [1, 2]
        assert status["as_of"] == "2026-11-05T00:00:00Z"
        listed = reporting.listing(None, 10)["campaigns"][0]["status"]
        assert listed["unique_reach"] == pytest.approx(expected(1, 0, 4).reach, abs=0.001)
        pacing = reporting.pacing("spring", Window(), 100)["pacing"]
        assert [row["impressions"] for row in pacing] == [30, 60, 90, 120]
        assert [row["spent_micros"] for row in pacing] == [spend(live, 0, d) for d in (1, 2, 3, 4)]
        assert pacing[0]["bids"] is None


def everything(reporting: PlainReports) -> list[Any]:
    """All that an advertiser can ask for, refusals in their words."""
    answer: list[Any] = [reporting.listing(None, 10), reporting.status("spring", 0.9)]
    answer.append(reporting.pacing("spring", Window(), 3))
    windows = [Window(), window(0, 2), window(1, 3), window(1.5, 3), window(2, 40), window(2, 3)]
    asks: list[Ask] = []
    for one in windows:
        asks.append(partial(reporting.reach, "spring", question(one, (1, 2))))
        asks.append(partial(reporting.series, "spring", "day", question(one)))
        asks.append(partial(reporting.series, "spring", "week", question(one, catalogue="v1")))
    for ask in asks:
        try:
            answer.append(ask())
        except Withheld as error:
            answer.append((str(error), error.reason, error.allowed))
    return answer


async def _bidder_starts(live: LiveStore) -> None:
    async with live.open():
        pass


def test_nothing_depends_on_the_log_but_through_the_draw(live: LiveStore, tmp_path: Path) -> None:
    """With a draw that keeps nothing of the values, a full log and an empty one answer alike."""
    empty = LiveStore(tmp_path, make_catalogue("disjoint"))
    empty.add(make_campaign("spring"))
    asyncio.run(_bidder_starts(empty))  # and bids by the campaign, as the other one's does
    full = tmp_path / "full"
    shutil.copytree(live.shared.store, full, ignore=_LEDGER)
    stores = [empty.shared, msgspec.structs.replace(live.shared, store=full)]
    answer = []
    for store in stores:
        with noisy(store, START + 4.5 * DAY, blind, max_questions=1) as reporting:
            answer.append(everything(reporting))
    assert answer[0] == answer[1]
    assert any("privacy budget exhausted" in repr(one) for one in answer[0])


def test_documents_are_what_the_api_says(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY, None) as reporting:
        reporting.listing(None, 10)
        reporting.status("spring", 0.9)
        reporting.pacing("spring", Window(), 10)
        reporting.reach("spring", question())
        reporting.series("spring", "day", question())
        with pytest.raises(Withheld):
            reporting.reach("spring", question(window(0.5, 1)))
        assert reporting.suppressed_by_reason() == {"window not of whole cells": 1}
        assert len(reporting.suppressions()["suppressions"]) == 1
    with noisy(shared, START + 0.5 * DAY, None) as reporting:
        (shared.store / FILE).stat()
        reporting.status("spring", 0.9)


def test_a_curve_is_the_numbers_so_far_and_costs_nothing_more(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY, None) as reporting:
        whole = reporting.reach("spring", question(caps=(2,)))
        recorded = answers_of(reporting)
        curve = reporting.curve("spring", "hour", question(caps=(2,)))
        assert answers_of(reporting) == recorded
        assert [point["ts"] for point in curve["points"]] == [
            f"2026-11-0{day}T00:00:00Z" for day in (2, 3, 4, 5)
        ]
        last = curve["points"][-1]
        assert last["impressions"] == whole["impressions"]
        (answer,), (report,) = last["reports"], whole["reports"]
        assert answer == {name: report[name] for name in answer}


def test_before_the_first_point_there_is_nothing_but_a_reason(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("disjoint"))
    live.add(make_campaign("spring"))
    for now in (START - 90 * DAY, START + 0.9 * DAY, START + DAY + timedelta(seconds=299)):
        with noisy(live.shared, now, None) as reporting:
            for answer in (
                reporting.status("spring", 0.9)["status"],
                reporting.reach("spring", question()),
                reporting.series("spring", "day", question()),
            ):
                assert answer["impressions"] is answer["spend_micros"] is None
                assert answer["suppressed"][0]["reason"] == "not over yet"
                assert "2026-11-02T00:05:00Z" in answer["suppressed"][0]["why"]
            assert reporting.pacing("spring", Window(), 10)["pacing"] == []
            assert len(PrivacyLedger(live.shared.store)) == 0
    with noisy(live.shared, START + DAY + timedelta(seconds=300), None) as reporting:
        assert reporting.status("spring", 0.9)["status"]["impressions"] is not None


def test_the_same_question_has_one_answer_for_ever(shared: AdSystemSettings) -> None:
    """OpenDP draws; levels, caps and restarts change nothing, nor do later settings."""

    def answer(reporting: PlainReports) -> list[Any]:
        facts = reporting.reach("spring", question(window(1, 3), (1, 3)))
        series = reporting.series("spring", "day", ReachQuestion(window(0, 3), (3,)))
        status = reporting.status("spring", 0.95)["status"]
        return [facts, series, {**status, "as_of": None}]

    now = START + 4.5 * DAY
    with noisy(shared, now, None) as reporting:
        first = answer(reporting)
        assert answer(reporting) == first
        half = ReachQuestion(window(1, 3), (2,), level=0.5)
        other = reporting.reach("spring", half)["reports"][0]
        assert other["unique_reach"] == first[0]["reports"][0]["unique_reach"]
        assert other["at_least"] == first[0]["reports"][0]["at_least"]
        recorded = answers_of(reporting)
        assert recorded == 4 + 1 + 2  # points, a window, two days; the first one is a point
    with noisy(shared, now, None) as reporting:
        assert answer(reporting) == first
    with noisy(shared, now, None, rho=0.9, max_questions=7) as reporting:
        assert answer(reporting) == first
        assert answers_of(reporting) == recorded


def test_numbers_so_far_never_fall_from_day_to_day(shared: AdSystemSettings) -> None:
    before: dict[str, Any] | None = None
    for day in range(1, 8):
        with noisy(shared, START + (day + 0.1) * DAY, seeded(day)) as reporting:
            answer = reporting.reach("spring", question(caps=(1, 4, 9)))
            series = reporting.series("spring", "day", question(caps=(1, 4, 9)))["series"]
        assert series[-1]["cumulative"] == answer["reports"]
        for earlier, later in pairwise(series):
            check_grown(earlier["cumulative"], later["cumulative"])
        if before is not None:
            check_grown(before["reports"], answer["reports"])
            assert answer["spend_micros"] >= before["spend_micros"]
        before = answer


def check_grown(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    for less, more in zip(before, after, strict=True):
        for name in ("impressions", "reach", "unique_reach", "over_exposed"):
            assert more[name] >= less[name]


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    day=st.integers(1, 12),
    windows=st.lists(st.tuples(st.integers(-2, 12), st.integers(1, 12)), min_size=1, max_size=5),
    rho=st.sampled_from([0.01, 0.25, 50.0]),
)
def test_rules_hold_whatever_is_asked_and_drawn(
    opened: ReportContext, seed: int, day: int, windows: list[tuple[int, int]], rho: float
) -> None:
    for name in (FILE, MARKER, f"{FILE}-wal", f"{FILE}-shm"):
        (opened.settings.store / name).unlink(missing_ok=True)
    now = START + (day + 0.1) * DAY
    chosen = NoiseSettings(rho=rho, max_questions=3)
    policy = NoisePolicy(opened, chosen, now.timestamp, None, seeded(seed))
    guarded = PlainReports(ReportService(opened, policy, now.timestamp))
    for first, length in windows:
        answer, again = (answer_or_reason(guarded, window(first, first + length)) for _ in range(2))
        assert answer == again
        if isinstance(answer, str):
            assert answer in ("privacy budget exhausted", "not over yet")
        else:
            check_answer(answer["reports"], answer["people"])
    for by in ("day", "week"):
        series = guarded.series("spring", by, question(caps=(1, 3, 9)))
        for row in series["series"]:
            check_answer(row["period"] or [], series["people"])
            check_answer(row["cumulative"] or [], series["people"])
    check_ledger_sums(policy.ledger, chosen)
    guarded.close()


@pytest.fixture(scope="module")
def opened(live: LiveStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportContext]:
    """A copy of the store, for many ledgers in turn."""
    folder = tmp_path_factory.mktemp("opened") / "store"
    shutil.copytree(live.shared.store, folder, ignore=_LEDGER)
    shared = msgspec.structs.replace(live.shared, store=folder)
    with closing(report_context(shared)) as store:
        yield store


def answer_or_reason(reporting: PlainReports, windows: Window) -> dict[str, Any] | str:
    try:
        return reporting.reach("spring", question(windows, (1, 3, 9)))
    except Withheld as error:
        return error.reason


def check_answer(reports: list[dict[str, Any]], people: int) -> None:
    for answer in reports:
        assert answer["unique_reach"] <= answer["reach"] + 1e-9
        assert answer["reach"] <= answer["impressions"] + 1e-9
        assert answer["at_least"] == sorted(answer["at_least"], reverse=True)
        assert sum(answer["frequency"]) == pytest.approx(people)
        assert answer["interval"][0] <= answer["reach"] <= answer["interval"][1]
    for less, more in pairwise(reports):
        assert less["reach"] <= more["reach"]
        assert less["over_exposed"] >= more["over_exposed"]


def check_ledger_sums(spending: PrivacyLedger, limits: NoiseSettings) -> None:
    """By hand: no second of the flight is charged more than ρ."""
    rows = spending._connection.execute("SELECT start, end, rho_nanos FROM answers").fetchall()
    for second in {start for start, _, _ in rows}:
        assert sum(rho for start, end, rho in rows if start <= second < end) <= limits.rho * 1e9


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "reason", "said"),
    [
        (0.5, 2, "window not of whole cells", "start must lie at whole 86400 seconds"),
        (0, 2.25, "window not of whole cells", "2026-11-03T00:00:00Z or 2026-11-04T00:00:00Z"),
        (2, 5, "not over yet", "2026-11-01T00:00:00Z to 2026-11-05T00:00:00Z"),
        (-9, 0, "not over yet", "window must lie within what is over of the flight"),
        (31, 40, "not over yet", "window must lie within what is over of the flight"),
    ],
)
def test_windows_that_cannot_be_told(
    shared: AdSystemSettings, first: float, last: float, reason: str, said: str
) -> None:
    with noisy(shared, START + 4.5 * DAY) as reporting:
        windows = window(first, last)
        asks: list[Ask] = [
            lambda: reporting.reach("spring", question(windows)),
            lambda: reporting.series("spring", "day", question(windows)),
        ]
        for ask in asks:
            with pytest.raises(Withheld, match=said) as refused:
                ask()
            assert refused.value.reason == reason
        assert answers_of(reporting) == 4  # the points, and no question


def test_windows_are_cut_off_at_the_flight(shared: AdSystemSettings) -> None:
    """So that a question about the flight and days around it is not another one."""
    with noisy(shared, LONG_AFTER) as reporting:
        whole = reporting.reach("spring", question(caps=(1,)))
        wide = reporting.reach("spring", question(window(-7.3, 55.1), (1,)))
        assert wide == whole
        assert whole["end"] == "2026-12-02T00:00:00Z"  # a day more, for notices that come late
        assert reporting.reach("spring", question(Window(None, START + 2 * DAY), (1,))) == (
            reporting.reach("spring", question(window(-1, 2), (1,)))
        )


def test_other_things_that_are_refused(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY) as reporting:
        with pytest.raises(kr.KreachError, match="cap must be at most 9 with noise, got 10"):
            reporting.reach("spring", question(caps=(1, 10)))
        with pytest.raises(kr.KreachError, match="by must be one of day, week: with noise"):
            reporting.series("spring", "hour", question())
        with pytest.raises(kr.KreachError, match="catalogue must be one of v1, got 'v9'"):
            reporting.reach("spring", question(catalogue="v9"))
        with pytest.raises(UnknownCampaign):
            reporting.reach("winter", question())
        with pytest.raises(UnknownCampaign):
            reporting.status("winter", 0.9)


def test_caps_of_the_campaign_that_are_not_counted_are_left_out_and_named(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("disjoint"))
    live.add(make_campaign("spring", caps=(Cap(limit=30),)))
    with noisy(live.shared, START + 2.5 * DAY) as reporting:
        reach = reporting.reach("spring", question())
        status = reporting.status("spring", 0.9)["status"]
        for answer, reports in ((reach, reach["reports"]), (status, status["reach"])):
            assert [one["cap"] for one in reports] == [1]
            assert "reach at caps above 9" in [note["what"] for note in answer["suppressed"]]


def test_a_budget_that_is_spent_is_told_and_what_is_free(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY, None, max_questions=2) as reporting:
        first = reporting.reach("spring", question(window(1, 3), (1,)))
        reporting.reach("spring", question(window(2, 4), (1,)))
        with pytest.raises(Withheld) as refused:
            reporting.reach("spring", question(window(2, 3), (1,)))
        assert "at 2026-11-03T00:00:00Z 0 of 0.125 is left" in str(refused.value)
        assert refused.value.reason == "privacy budget exhausted"
        assert refused.value.allowed is not None
        free = list(zip(refused.value.allowed.start, refused.value.allowed.end, strict=True))
        assert free[:2] == [
            ("2026-11-03T00:00:00Z", "2026-11-05T00:00:00Z"),
            ("2026-11-02T00:00:00Z", "2026-11-04T00:00:00Z"),
        ]
        assert reporting.reach("spring", question(window(1, 3), (1,))) == first
        assert reporting.reach("spring", question(window(3, 4), (1,)))["impressions"] is not None
        series = reporting.series("spring", "day", question(caps=(1,)))
        answer = [row["period"] is not None for row in series["series"]]
        assert answer == [True, True, False, True]
        note = series["suppressed"][-1]
        assert note["what"] == "periods from 2026-11-03T00:00:00Z"
        assert note["reason"] == "privacy budget exhausted"


def test_a_flight_that_is_made_longer_stops_when_its_points_are_spent(
    shared: AdSystemSettings,
) -> None:
    with noisy(shared, START + 40.5 * DAY, max_points=31) as reporting:
        assert len(reporting.pacing("spring", Window(), 1_000)["pacing"]) == 31
        reporting.change("spring", {"end": (START + 50 * DAY).isoformat()})
        answer = reporting.reach("spring", question(caps=(1,)))
        assert answer["end"] == "2026-12-02T00:00:00Z"
        note = answer["suppressed"][-1]
        assert note["what"] == "figures so far after 2026-12-02T00:00:00Z"
        assert (note["reason"], "at most 31" in note["why"]) == ("privacy budget exhausted", True)
        assert reporting.status("spring", 0.9)["status"]["suppressed"][0] == note
        later = reporting.reach("spring", question(window(31, 40), (1,)))  # windows are told still
        assert later["impressions"] == 0
        series = reporting.series("spring", "week", question(caps=(1,)))
        assert series["series"][-1]["cumulative"] is None


def test_a_long_flight_has_fewer_points(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("disjoint"))
    live.add(make_campaign("spring", end=START + 299 * DAY))
    with noisy(live.shared, START + 20.5 * DAY) as reporting:
        pacing = reporting.pacing("spring", Window(), 1_000)["pacing"]
        assert [row["ts"][:10] for row in pacing] == [
            "2026-11-06",
            "2026-11-11",
            "2026-11-16",
            "2026-11-21",
        ]
        series = reporting.series("spring", "day", question(caps=(1,)))
        assert [row["cumulative"] is not None for row in series["series"]] == (
            [False] * 4 + [True]
        ) * 4
    with noisy(live.shared, START + 400 * DAY) as reporting:
        rows = reporting.pacing("spring", Window(), 1_000)["pacing"]
        assert len(rows) == 60
        assert rows[-1]["ts"] == "2027-08-28T00:00:00Z"
        assert len(reporting.pacing("spring", Window(), 7)["pacing"]) == 7
        between = Window(START + 10 * DAY, START + 20 * DAY)
        assert [row["ts"][:10] for row in reporting.pacing("spring", between, 9)["pacing"]] == [
            "2026-11-11",
            "2026-11-16",
        ]


def test_a_series_costs_one_question_and_the_whole_of_it_another(
    shared: AdSystemSettings,
) -> None:
    with noisy(shared, START + 4.5 * DAY, max_questions=2) as reporting:
        series = reporting.series("spring", "day", question(window(1, 4), (1,)))
        assert [row["impressions"] for row in series["series"]] == [30, 30, 30]
        assert [row["cumulative"] for row in series["series"]] == [None] * 3
        assert (series["impressions"], series["reports"]) == (None, [])
        assert series["suppressed"][0]["reason"] == "not asked for"
        whole = reporting.reach("spring", question(window(1, 4), (1,)))
        again = reporting.series("spring", "day", question(window(1, 4), (1,)))
        assert again["reports"] == whole["reports"]
        assert again["series"] == series["series"]
        with pytest.raises(Withheld, match=r"0 of 0\.125"):
            reporting.reach("spring", question(window(1, 3), (1,)))


def test_a_week_is_told_when_it_is_over(shared: AdSystemSettings) -> None:
    """START is a Sunday: the first week has one day."""
    with noisy(shared, START + 10.5 * DAY) as reporting:
        rows = reporting.series("spring", "week", question(caps=(1,)))["series"]
        assert [(row["start"][8:10], row["end"][8:10]) for row in rows] == [
            ("01", "02"),
            ("02", "09"),
        ]
        rows = reporting.series("spring", "week", question(window(0, 10), (1,)))["series"]
        assert [row["end"][8:10] for row in rows] == ["02", "09", "11"]


# -- catalogues -----------------------------------------------------------------------------------


def test_totals_are_of_all_catalogues_and_reach_of_the_newest_that_has_impressions(
    tmp_path: Path,
) -> None:
    old = make_catalogue("disjoint")
    new = replace(make_catalogue("disjoint", "v2"), created=START + 2 * DAY)
    live = LiveStore(tmp_path, old, new)
    live.add(make_campaign("spring"))

    async def sell() -> None:
        async with live.open():
            for day, catalogue in ((0, old), (1, old), (3, new)):
                live.now = (START + day * DAY + timedelta(hours=6)).timestamp()
                assert await live.sell(list(range(GROUPS)), catalogue) == GROUPS

    asyncio.run(sell())
    fine: dict[str, Any] = {"rho": 100.0, "max_per_person": 1}
    with noisy(live.shared, START + 2.5 * DAY, **fine) as reporting:
        status = reporting.status("spring", 0.9)["status"]
        assert (status["catalogue"], status["impressions"]) == ("v1", 2 * GROUPS)
    with noisy(live.shared, START + 4.5 * DAY, **fine) as reporting:
        status = reporting.status("spring", 0.9)["status"]
        assert (status["catalogue"], status["impressions"]) == ("v2", 3 * GROUPS)
        assert reporting.reach("spring", question(caps=(1,)))["catalogue"] == "v2"
        assert reporting.reach("spring", question(catalogue="v1"))["impressions"] == 2 * GROUPS
        assert reporting.listing(None, 5)["campaigns"][0]["status"]["catalogue"] == "v2"
    without_old = msgspec.structs.replace(live.shared, catalogues=live.shared.catalogues[1:])
    with noisy(without_old, START + 5.5 * DAY, **fine) as reporting:
        status = reporting.status("spring", 0.9)["status"]
        assert (status["catalogue"], status["impressions"]) == ("v2", 3 * GROUPS)


def test_audiences_that_advertisers_may_not_use_are_not_told(shared: AdSystemSettings) -> None:
    store, clock = report_context(shared), LONG_AFTER.timestamp
    guard = ChapterPolicy(store, GuardSettings(min_audience=10_000), clock)
    policy = NoisePolicy(store, NoiseSettings(), clock, guard, without_noise)
    guarded = PlainReports(ReportService(store, policy, clock))
    with pytest.raises(Withheld, match="the audience must have clearly more than 10000 people"):
        guarded.reach("spring", question())
    status = guarded.status("spring", 0.9)["status"]
    assert status["impressions"] is status["unique_reach"] is None
    assert (status["reach"], status["pace"]) == ([], None)
    assert status["suppressed"][0]["reason"] == "audience too small"
    assert guarded.listing(None, 5)["campaigns"][0]["status"]["unique_reach"] is None
    assert guarded.pacing("spring", Window(), 5)["pacing"] == []
    with pytest.raises(Withheld, match="the audience must have clearly more than 10000 people"):
        guarded.create({"id": "other", "budget": 5.0, "max_cpm": 5.0, "start": _AT, "end": _TO})
    answer = guarded.suppressions()
    assert answer["by_reason"] == {"audience too small": 5.0}
    assert {entry["campaign"] for entry in answer["suppressions"]} == {"spring", "other"}
    assert guarded.suppressed_by_reason() == answer["by_reason"]
    for one in (guarded, store):
        one.close()


# -- faults ---------------------------------------------------------------------------------------


def test_without_its_ledger_nothing_is_told(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY, None) as reporting:
        reporting.reach("spring", question(window(1, 3), (1,)))
        (shared.store / FILE).rename(shared.store / "elsewhere")
        asks: list[Ask] = [
            lambda: reporting.reach("spring", question(window(1, 3), (1,))),
            lambda: reporting.reach("spring", question(caps=(1,))),
            lambda: reporting.series("spring", "day", question(caps=(1,))),
            lambda: reporting.status("spring", 0.9),
            lambda: reporting.listing(None, 10),
            lambda: reporting.pacing("spring", Window(), 10),
        ]
        for ask in asks:
            with pytest.raises(LogUnavailable, match="the privacy ledger is gone"):
                ask()
    with (
        pytest.raises(
            kr.KreachError, match="store must hold the privacy ledger that its marker names"
        ),
        noisy(shared, START + 4.5 * DAY, None),
    ):
        pass


def test_what_was_told_is_told_without_a_log(shared: AdSystemSettings) -> None:
    now = START + 4.5 * DAY
    with noisy(shared, now, None) as reporting:
        known = reporting.reach("spring", question(window(1, 3), (1,)))
        so_far = reporting.status("spring", 0.9)
    (shared.store / "live.sqlite3").write_text("this is no journal " * 400)
    with noisy(shared, now, None) as reporting:
        assert reporting.reach("spring", question(window(1, 3), (1,))) == known
        unknown = {"in_force": None}  # by which revision bidders bid, their logs alone know
        assert reporting.status("spring", 0.9) == so_far | unknown
        recorded = answers_of(reporting)
        with pytest.raises(LogUnavailable):
            reporting.reach("spring", question(window(1, 4), (1,)))
        assert answers_of(reporting) == recorded


def test_many_who_ask_at_once_are_told_the_same(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY, None) as reporting:

        def ask(at: int) -> str:
            series = reporting.series("spring", "day", question(caps=(1, 2)))
            return json.dumps([series, reporting.status("spring", 0.9)])

        with ThreadPoolExecutor(6) as pool:
            answer = set(pool.map(ask, range(12)))
        assert len(answer) == 1
        assert answers_of(reporting) == 4 + 3


def test_prices_above_the_limit_count_as_the_limit(
    shared: AdSystemSettings, live: LiveStore
) -> None:
    """Prices here are up to 0.5 per thousand; counted up to 0.1 they are at most 100 micros."""
    with noisy(shared, START + 4.5 * DAY, max_price_cpm=0.1) as reporting:
        answer = reporting.reach("spring", question(caps=(1,)))
        assert answer["spend_micros"] == sum(min(row[4], 100) for row in live.sold)
        assert answer["spend_micros"] < spend(live, 0, 4)


def test_campaigns_are_managed_and_planned_as_before(shared: AdSystemSettings) -> None:
    with noisy(shared, START + 4.5 * DAY) as reporting:
        more = {"id": "summer", "budget": 5.0, "max_cpm": 5.0, "start": _AT, "end": _TO}
        assert reporting.create(more)["id"] == "summer"
        assert reporting.change("summer", {"state": "paused"})["state"] == "paused"
        assert (
            reporting.plan("summer", PlanQuestion(1_000, 1, (5.0,), None, 0.9))["plans"][0]["reach"]
            > 0
        )
        listed = reporting.listing("spring", 10)
        assert [one["id"] for one in listed["campaigns"]] == ["summer"]
        store = CampaignStore(shared.store)
        store.add(make_campaign("acme.autumn"))
        store.close()
        listed = reporting.own("acme").listing(None, 10)
        assert [one["id"] for one in listed["campaigns"]] == ["autumn"]


def test_settings_can_be_checked_beforehand(
    shared: AdSystemSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    store = shared.store
    assert check_noise(NoiseSettings(), store) == {"noise": "off"}
    facts = check_noise(NoiseSettings(enabled=True), store)["noise"]
    assert (facts["rho"], facts["answers"]) == (0.25, 0)
    assert not (store / FILE).exists()
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(kr.KreachError, match=r"\[noise\] needs the extra 'dp'"):
        check_noise(NoiseSettings(enabled=True), store)
    with (
        pytest.raises(kr.KreachError, match=r"\[noise\] needs the extra 'dp'"),
        noisy(shared, LONG_AFTER, None),
    ):
        pass
    assert not (store / FILE).exists()
    assert check_noise(NoiseSettings(), store) == {"noise": "off"}
