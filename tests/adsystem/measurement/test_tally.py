"""Impressions with draws: what a report depends on, and what it describes."""

from dataclasses import replace

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.measurement.times import group_draws
from kreach.adsystem.reports.measure import ReportCache, described, measure_caps
from kreach.errors import KreachError
from tests.adsystem.visit_models import sample_model

MODEL = sample_model()
AUDIENCE = kr.Audience.disjoint([6, 6, 5, 7], [6, 3, 5, 0])
GROUP = np.array([0, 0, 0, 1, 2])
AT = np.array([0, 30, 5_000, 40, 90_000]) * 1_000_000
TALLY = GroupTally(np.bincount(GROUP, minlength=4), group_draws(4, GROUP, AT, MODEL))


def test_frequencies_count_everybody_also_in_groups_without_impressions() -> None:
    reports = kr.measure_times(AUDIENCE, GROUP, AT / 1e6, [1, 3], model=MODEL)
    assert sum(reports[1].frequency(10)) == pytest.approx(AUDIENCE.targeted_user_count, rel=1e-12)
    nobody = kr.measure_times(AUDIENCE, [], [], [1], model=MODEL)[1]
    assert (nobody.reach, nobody.frequency(3)[0]) == (0.0, AUDIENCE.targeted_user_count)


def test_a_tally_measures_as_the_library_does() -> None:
    wanted = kr.measure_times(AUDIENCE, GROUP, AT / 1e6, [1, 3], model=MODEL)
    for report in measure_caps(AUDIENCE, TALLY, (1, 3)):
        assert report.reach == pytest.approx(wanted[report.cap].reach, rel=1e-12)
        assert report.interval() == wanted[report.cap].interval()


def test_other_kinds_of_groups_know_no_times() -> None:
    shares = kr.Audience.profiled([[0.2, 0.8], [0.5, 0.5], [1.0], [0.3, 0.7]])
    (report,) = measure_caps(shares, TALLY, (1,))
    assert report.reach == kr.measure(shares, TALLY.by_group, 1).reach
    assert described(shares, TALLY)[1].name == "visit shares"


def test_reports_are_cached_by_all_that_they_depend_on() -> None:
    assert TALLY.draws is not None
    draws = TALLY.draws
    days = draws.days.copy()
    days[0, 0] += 1.0
    others = (
        GroupTally(TALLY.by_group),
        replace(TALLY, draws=replace(draws, draws=draws.draws * 0.9)),
        replace(TALLY, draws=replace(draws, doubt=draws.doubt + 0.1)),
        replace(TALLY, draws=replace(draws, days=days)),
        replace(TALLY, draws=replace(draws, hours=2.0)),
        replace(TALLY, draws=replace(draws, model=sample_model(lags=1))),
    )
    assert len({one.digest() for one in (TALLY, *others)}) == 1 + len(others)
    cache = ReportCache()
    first = cache.full(AUDIENCE, TALLY, (1,), 0.95)
    assert cache.full(AUDIENCE, replace(TALLY), (1,), 0.95) is first
    assert all(cache.full(AUDIENCE, other, (1,), 0.95) is not first for other in others)


def test_a_report_describes_its_model() -> None:
    basis, model = described(AUDIENCE, TALLY)
    assert basis.startswith("visit model of the site")
    assert (model.name, model.fitted_people, model.error) == ("visit model", 12_345, 0.03)
    assert described(AUDIENCE, GroupTally(TALLY.by_group))[1].name == "uniform"


def test_traffic_is_a_model_of_its_own() -> None:
    busy = kr.measure_times(AUDIENCE, GROUP, AT / 1e6, [1], model=MODEL, traffic=4.0)[1]
    scaled = kr.measure_times(AUDIENCE, GROUP, AT / 1e6, [1], model=MODEL.at_traffic(4.0))[1]
    assert scaled.reach == pytest.approx(busy.reach, rel=1e-12)
    assert MODEL.at_traffic(1.0) is MODEL
    for wrong in (0.0, -1.0, float("nan"), True):
        with pytest.raises(KreachError, match="traffic must be a positive number"):
            MODEL.at_traffic(wrong)
