"""One suite over every disclosure policy: same questions, same types, same consistency rules.

A store with a week of impressions is shown as it is, in chapters, and as answers whose noise is
zero. What one policy shows and another withholds must be a field that the report types mark.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any, get_type_hints

import msgspec
import numpy as np
import pytest

from kreach.adsystem.reports import report as types
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.reports.report import CapReport, ReachDocument, SeriesDocument
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import GuardSettings, NoiseSettings
from kreach.boundary.times import Window
from tests.adsystem.api.live_stores import GROUPS, START, LiveStore, make_campaign, make_catalogue
from tests.adsystem.report_services import (
    PlainReports,
    chapter_reports,
    noisy_reports,
    open_reports,
)

DAYS = 5
NOW = START + timedelta(days=DAYS, hours=6)
GUARD = GuardSettings(min_impressions=20, min_people=30, min_audience=60, min_difference=10)
NOISE = NoiseSettings(enabled=True)
DAY = Window.between("2026-11-02", "2026-11-04")
POLICIES = ("open", "chapters", "noise")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveStore:
    """A campaign with 60 impressions a day, some of them in files, and one without any."""
    live = LiveStore(tmp_path_factory.mktemp("policies"), make_catalogue("dispersed"))
    later = START + timedelta(days=20)
    live.add(
        make_campaign("spring", expected_requests=1_000),
        make_campaign("empty", start=later, expected_requests=1_000),
    )

    async def sell() -> None:
        chance = np.random.default_rng(4)
        async with live.open():
            for day in range(DAYS):
                for hour in (3, 23):
                    live.now = (START + timedelta(days=day, hours=hour)).timestamp()
                    await live.sell(chance.integers(0, GROUPS, 30).tolist())
                if day == 2:
                    live.compact()

    asyncio.run(sell())
    return live


@contextmanager
def _service(live: LiveStore, policy: str) -> Iterator[ReportService]:
    opened: Any = {
        "open": lambda: open_reports(live.shared, NOW.timestamp),
        "chapters": lambda: chapter_reports(live.shared, GUARD, NOW.timestamp),
        "noise": lambda: noisy_reports(
            live.shared, NOISE, NOW.timestamp, lambda part, values: list(values)
        ),
    }[policy]()
    with opened as reports:
        assert isinstance(reports, PlainReports)
        yield reports.service


@pytest.fixture(params=POLICIES)
def service(live: LiveStore, request: pytest.FixtureRequest) -> Iterator[ReportService]:
    """The store under each policy."""
    with _service(live, request.param) as opened:
        yield opened


QUESTIONS: dict[str, Callable[[ReportService, str], msgspec.Struct]] = {
    "list": lambda service, name: service.listing(None, 10),
    "status": lambda service, name: service.status(name, 0.9),
    "reach so far": lambda service, name: service.reach(name, ReachQuestion(caps=(1, 2))),
    "reach of two days": lambda service, name: service.reach(name, ReachQuestion(DAY, (1, 2))),
    "series": lambda service, name: service.series(name, "day", ReachQuestion(caps=(1, 2))),
    "curve": lambda service, name: service.curve(name, "day", ReachQuestion(caps=(1, 2))),
    "pacing": lambda service, name: service.pacing(name, Window(), 100),
    "plan": lambda service, name: service.plan(name, PlanQuestion(requests=40, budgets=(0.01,))),
    "catalogues": lambda service, name: service.catalogues(),
}


def _may_withhold(kind: type) -> set[str]:
    hints = get_type_hints(kind, include_extras=True)
    marked = "x-may-withhold"
    return {name for name, hint in hints.items() if marked in repr(hint)}


def _nulls(shown: Any, whole: Any, where: str) -> Iterator[str]:
    """Fields that are null in the one and not in the other."""
    if isinstance(whole, msgspec.Struct) and isinstance(shown, msgspec.Struct):
        for name in whole.__struct_fields__:
            mine, theirs = getattr(shown, name), getattr(whole, name)
            if mine is None and theirs is not None:
                yield f"{type(whole).__name__}.{name}"
            yield from _nulls(mine, theirs, f"{where}.{name}")
    elif isinstance(whole, tuple) and isinstance(shown, tuple):
        for at, (one, other) in enumerate(zip(shown, whole, strict=False)):
            yield from _nulls(one, other, f"{where}.{at}")


@pytest.mark.parametrize("campaign", ["spring", "empty"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("policy", POLICIES[1:])
def test_the_same_question_has_an_answer_of_the_same_type(
    live: LiveStore, policy: str, question: str, campaign: str
) -> None:
    with _service(live, "open") as everything, _service(live, policy) as service:
        whole = QUESTIONS[question](everything, campaign)
        try:
            shown = QUESTIONS[question](service, campaign)
        except Withheld:  # an answer too, with a reason (test_policy of each policy)
            return
    assert type(shown) is type(whole)
    for field in set(_nulls(shown, whole, question)):
        kind, name = field.split(".")
        assert name in _may_withhold(getattr(types, kind)), field
    if hasattr(shown, "suppressed") and list(_nulls(shown, whole, question)):
        assert shown.suppressed  # and says why


def _check_reports(reports: tuple[CapReport, ...], people: int) -> None:
    for report in reports:
        assert 0.0 <= report.unique_reach <= report.reach + 1e-9
        assert report.reach <= report.impressions + 1e-6
        assert report.unique_reach <= people + 1e-9
        assert report.interval[0] <= report.reach <= report.interval[1]
        assert report.over_exposed <= report.unique_reach + 1e-9
        assert math.isclose(sum(report.frequency), people, rel_tol=1e-6, abs_tol=0.01)
        assert all(more >= less - 1e-9 for more, less in pairwise(report.at_least))
        assert math.isclose(report.at_least[0], report.unique_reach, abs_tol=1e-9)
    for low, high in pairwise(sorted(reports, key=lambda report: report.cap)):
        assert low.reach <= high.reach + 1e-9
        assert low.over_exposed >= high.over_exposed - 1e-9


def _check_document(document: ReachDocument) -> None:
    assert document.impressions is not None
    assert isinstance(document.spend, float)
    assert isinstance(document.spend_micros, int)
    assert document.spend == document.spend_micros / 1_000_000
    assert document.basis
    assert [report.cap for report in document.reports] == [1, 2]
    _check_reports(document.reports, document.people)


def test_reports_are_consistent(service: ReportService) -> None:
    for question in (ReachQuestion(caps=(1, 2)), ReachQuestion(DAY, (1, 2))):
        _check_document(service.reach("spring", question))


def test_series_grow_and_end_where_reach_so_far_is(service: ReportService) -> None:
    series = service.series("spring", "day", ReachQuestion(caps=(1, 2)))
    assert isinstance(series, SeriesDocument)
    assert len(series.series) >= DAYS - 1
    _check_document(series)
    so_far = [row.cumulative for row in series.series if row.cumulative is not None]
    for reports in so_far:
        _check_reports(reports, series.people)
    for less, more in pairwise(so_far):
        assert all(a.reach <= b.reach for a, b in zip(less, more, strict=True))
    reach = service.reach("spring", ReachQuestion(caps=(1, 2)))
    assert so_far[-1] == reach.reports == series.reports
    for before, after in pairwise(series.series):
        assert before.end == after.start
    curve = service.curve("spring", "day", ReachQuestion(caps=(1, 2)))
    assert [point.reports[0].reach for point in curve.points] == [one[0].reach for one in so_far]
    assert curve.points[-1].impressions == reach.impressions


def test_delivery_is_the_same_wherever_it_is_shown(service: ReportService) -> None:
    status = service.status("spring", 0.95).status
    listed = service.listing(None, 10).campaigns[0].status
    assert status.impressions == listed.impressions
    assert status.unique_reach == listed.unique_reach
    assert status.spend_micros == listed.spend_micros
    assert status.as_of == listed.as_of
    assert isinstance(status.spend_micros, int)
    assert isinstance(status.budget_left_micros, int)
    budget = round(service.listing(None, 10).campaigns[0].budget * 1_000_000)
    assert status.spend_micros + status.budget_left_micros == budget
    reach = service.reach("spring", ReachQuestion())
    assert reach.impressions == status.impressions
    assert reach.reports[0].unique_reach == status.unique_reach
    assert status.pace is not None
    assert status.pace.spent_micros == status.spend_micros
    pacing = service.pacing("spring", Window(), 100).pacing
    assert pacing[-1] == status.pace


def test_policies_agree_where_they_show_the_same_window(live: LiveStore) -> None:
    """Chapters end at midnight here, and the noise is zero."""
    documents = {}
    for policy in POLICIES:
        with _service(live, policy) as service:
            documents[policy] = service.reach("spring", ReachQuestion(DAY, (1, 2)))
    whole = documents["open"]
    for document in documents.values():
        assert document.impressions == whole.impressions == 120
        assert document.spend_micros == whole.spend_micros
        assert document.people == whole.people
        for mine, theirs in zip(document.reports, whole.reports, strict=True):
            assert mine.reach == pytest.approx(theirs.reach, abs=0.01)
            assert mine.over_exposed == pytest.approx(theirs.over_exposed, abs=0.01)
            assert mine.frequency == pytest.approx(theirs.frequency, abs=0.01)


def test_a_campaign_without_impressions(service: ReportService) -> None:
    status = service.status("empty", 0.95).status
    assert not status.impressions
    assert not status.spend_micros
    reach = service.reach("empty", ReachQuestion())
    assert not reach.impressions
    assert all(report.reach == 0.0 for report in reach.reports)
    assert service.series("empty", "day", ReachQuestion()).series == ()
    assert service.curve("empty", "day", ReachQuestion()).points == ()


def test_what_does_not_exist_is_refused_alike(service: ReportService) -> None:
    with pytest.raises(ValueError, match="catalogue must be one of v1"):
        service.reach("spring", ReachQuestion(catalogue="v9"))
    with pytest.raises(ValueError, match="no campaign 'autumn'"):
        service.status("autumn", 0.95)
