"""The traffic of a report: counted where bidders counted, else that of history, and it says so."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.disclosure.open import OpenPolicy
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.ledger.request_rows import request_row
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.reports.report import ModelInfo
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.reports.traffic import TrafficModels, WindowTraffic
from kreach.adsystem.settings import AdSystemSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window
from kreach.service.logs import Log
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    ManualClock,
    bidding,
    sample_campaign,
    sample_catalogue,
)
from tests.adsystem.report_services import PlainReports
from tests.adsystem.visit_models import sample_model

FIRST = int(NOW.timestamp() // 3_600)
WEEK = 7 * 24
MODEL = replace(sample_model(20.0), requests_per_person_day=0.8)
PEOPLE = 6 * 20
USUAL = 0.8 * PEOPLE / 24.0  # requests in an average hour


def catalogue() -> Catalogue:
    return sample_catalogue(model=MODEL)


def campaign() -> Campaign:
    return sample_campaign(start=NOW, end=NOW + timedelta(days=14))


def requests_at(ratio: float, hours: range) -> dict[int, int]:
    """Requests by hour of a site that is so busy relative to history."""
    hourly = MODEL.hourly_traffic
    return {hour: round(ratio * USUAL * hourly[hour % 24]) for hour in hours}


def count(store: Path, rows: dict[int, int]) -> None:
    with closing(Journal(store, Log("bidder", lambda _: None))) as journal:
        for hour, requests in rows.items():
            journal.submit("memory", request_row("v1", hour, requests, 0))


def traffic_of(store: Path, window: Window | None = None) -> WindowTraffic:
    models = TrafficModels(RequestCounts(store, max_age_seconds=0.0))
    return models.of(campaign(), catalogue(), MODEL, window or Window())


def test_without_counts_traffic_is_that_of_history(tmp_path: Path) -> None:
    unset = TrafficModels(None).of(campaign(), catalogue(), MODEL, Window())
    assert (unset.model, unset.traffic, unset.source, unset.note) == (MODEL, 1.0, "history", None)
    nothing = traffic_of(tmp_path)
    assert (nothing.model, nothing.source) == (MODEL, "history")
    assert nothing.note is not None
    assert "0 of 0 whole hours: too few" in nothing.note


def test_a_busy_week_is_traffic(tmp_path: Path) -> None:
    count(tmp_path, requests_at(2.0, range(FIRST - 50, FIRST + WEEK)))
    found = traffic_of(tmp_path)
    assert found.source == "counted"
    assert found.traffic == pytest.approx(2**0.5, abs=0.02)
    assert found.note == "requests counted in 168 of 168 whole hours"
    assert found.model is not None
    assert found.model.requests_per_person_day == pytest.approx(0.8 * found.traffic)


def test_missing_hours_are_not_low_traffic(tmp_path: Path) -> None:
    """A bidder that was down for two days: the same ratio from the hours that are left."""
    rows = requests_at(2.0, range(FIRST, FIRST + WEEK))
    count(tmp_path, {hour: n for hour, n in rows.items() if not 60 <= hour - FIRST < 108})
    found = traffic_of(tmp_path)
    assert found.source == "counted"
    assert 1.25 < found.traffic < 2**0.5
    assert found.note == "requests counted in 120 of 168 whole hours"


def test_too_many_missing_hours_are_said(tmp_path: Path) -> None:
    rows = requests_at(2.0, range(FIRST, FIRST + WEEK))
    count(tmp_path, {hour: n for hour, n in rows.items() if hour - FIRST >= 90})
    found = traffic_of(tmp_path)
    assert (found.traffic, found.source, found.model) == (1.0, "history", MODEL)
    assert found.note == (
        "requests counted in 78 of 168 whole hours: too few, so traffic is that of history"
    )


def test_only_the_hours_of_the_window_in_the_flight_count(tmp_path: Path) -> None:
    before = requests_at(9.0, range(FIRST - 100, FIRST))
    quiet, busy = range(FIRST, FIRST + 72), range(FIRST + 72, FIRST + 144)
    count(tmp_path, before | requests_at(0.5, quiet) | requests_at(2.0, busy))
    low = traffic_of(tmp_path, Window(None, NOW + timedelta(hours=72)))
    high = traffic_of(tmp_path, Window(NOW + timedelta(hours=72), None))
    assert low.traffic < 0.9
    assert high.traffic > 1.1
    part = traffic_of(tmp_path, Window(NOW + timedelta(minutes=5), NOW + timedelta(minutes=50)))
    assert part.source == "history"


def test_the_same_traffic_is_the_same_model(tmp_path: Path) -> None:
    """Reports are cached by model, so it must not be made anew for each."""
    count(tmp_path, requests_at(2.0, range(FIRST, FIRST + WEEK)))
    models = TrafficModels(RequestCounts(tmp_path))
    found = [models.of(campaign(), catalogue(), MODEL, Window()).model for _ in range(2)]
    assert found[0] is found[1] is not MODEL


def test_reports_without_a_visit_model_have_no_traffic() -> None:
    uniform = ModelInfo(name="uniform")
    assert WindowTraffic(None).described(uniform) is uniform


@contextmanager
def reports(folder: Path, traffic: str) -> Iterator[PlainReports]:
    shared = AdSystemSettings(store=folder / "store", catalogues=(folder / "v1",))
    requests = None
    if ReportingSettings(traffic=traffic).traffic == "counted":
        requests = RequestCounts(shared.store, max_age_seconds=0.0)
    with closing(ReportContext(shared, "200MB", Log("r", lambda _: None), requests)) as store:
        service = ReportService(store, OpenPolicy(store), lambda: 0.0)
        yield PlainReports(service)
        service.close()


def test_a_live_report_uses_what_the_bidders_counted(tmp_path: Path) -> None:
    """A busier site means more people behind the same impressions."""
    clock = ManualClock()
    with bidding(tmp_path, [campaign()], catalogues=[catalogue()], clock=clock) as exchange:
        for at in range(24):
            exchange.win(f"g{at % 6}")
            clock.now += 6 * 3_600.0
            exchange.rest(0.01)
    count(tmp_path / "store", requests_at(3.0, range(FIRST, FIRST + WEEK)))
    question = ReachQuestion(window=Window(), caps=(1, 2), level=0.95, catalogue=None)
    answers: dict[str, dict[str, Any]] = {}
    for name in ("history", "counted"):
        with reports(tmp_path, name) as service:
            answers[name] = service.reach("spring", question)
            series = service.series("spring", "day", question)
            last = series["series"][-1]["cumulative"][0]["reach"]
            assert last == pytest.approx(series["reports"][0]["reach"])
            unique = service.listing(None, 10)["campaigns"][0]["status"]["unique_reach"]
            assert unique == pytest.approx(answers[name]["reports"][0]["reach"])
    history, counted = (answers[name]["model"] for name in ("history", "counted"))
    assert (history["traffic"], history["traffic_source"]) == (1.0, "history")
    assert history["traffic_note"] is None
    assert counted["traffic_source"] == "counted"
    assert counted["traffic"] > 1.3
    usual, busy = (answers[name]["reports"][0]["reach"] for name in ("history", "counted"))
    assert usual < busy <= 24
    assert np.isfinite(busy)


def test_the_setting_is_checked() -> None:
    assert ReportingSettings().traffic == "history"
    with pytest.raises(kr.KreachError, match="traffic must be history or counted"):
        ReportingSettings(traffic="guess")
