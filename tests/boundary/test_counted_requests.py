"""Traffic from counted requests: hours of the day, how much of a change counts, errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.visit_model import ModelError
from kreach.numeric.draws import HOUR_US

DAY_US = 24 * HOUR_US


def model(**more: Any) -> kr.VisitModel:
    flat = replace(kr.VisitModel.flat(group_size=20, dispersion=0.5), requests_per_person_day=0.5)
    return replace(flat, **more)


def test_the_usual_requests_are_traffic_one_in_any_window() -> None:
    hourly = np.where(np.arange(24) < 12, 0.5, 1.5)
    site = model(hourly_traffic=hourly)
    for start, hours in ((0.0, 6.0), (6.5, 11.0), (23.0, 49.5), (100.25, 0.5)):
        moments = np.arange(start, start + hours, 1e-3)
        usual = 1_000 * 0.5 / 24.0 * hourly[(moments % 24).astype(int)].sum() * 1e-3
        counted = CountedRequests.between(usual, 1_000, start * HOUR_US, (start + hours) * HOUR_US)
        assert counted.ratio(site) == pytest.approx(1.0, rel=1e-3)
        assert counted.traffic(site) == 1.0
        assert counted.days == pytest.approx(hours / 24.0)


def test_whole_hours_are_the_same_as_their_window() -> None:
    hours = np.arange(100, 131)
    site = model(hourly_traffic=np.linspace(0.5, 1.5, 24))
    listed = CountedRequests.in_hours(700.0, 1_000, hours)
    window = CountedRequests.between(700.0, 1_000, 100 * HOUR_US, 131 * HOUR_US)
    np.testing.assert_allclose(listed.hours, window.hours, atol=1e-9)
    assert listed.traffic(site) == window.traffic(site)


def test_hours_that_were_not_counted_are_not_low_traffic() -> None:
    """As many requests an hour in half of the hours: the same ratio, and less weight."""
    busy = np.arange(14 * 24)
    half = busy[busy % 24 < 12]
    whole, part = (
        CountedRequests.in_hours(2 * 1_000 * 0.5 / 24 * len(h), 1_000, h) for h in (busy, half)
    )
    assert whole.ratio(model()) == pytest.approx(part.ratio(model())) == pytest.approx(2.0)
    assert 1.0 < part.traffic(model()) < whole.traffic(model()) < 2.0


def test_the_longer_requests_are_counted_the_more_of_a_change_is_traffic() -> None:
    found = [
        CountedRequests.between(2 * 500 * days, 1_000, 0, days * DAY_US).traffic(model())
        for days in (1 / 24, 1.0, 7.0, 30.0, 3_000.0)
    ]
    assert found == sorted(found)
    assert found[0] == 1.0
    assert found[2] == pytest.approx(2**0.5, abs=0.005)
    assert found[-1] == pytest.approx(2.0, abs=0.01)


def test_no_requests_and_no_history_are_harmless() -> None:
    year = (0, 365 * DAY_US)
    assert CountedRequests.between(0, 1_000, *year).traffic(model()) >= 0.01
    assert CountedRequests.between(1e9, 1, *year).traffic(model()) <= 100.0
    unknown = model(requests_per_person_day=0.0)
    assert CountedRequests.between(50, 1_000, *year).traffic(unknown) == 1.0
    with pytest.raises(kr.KreachError, match="end_us must come after the start"):
        CountedRequests.between(1, 1, 5, 5)


def test_the_model_has_the_errors_of_replays_that_counted() -> None:
    errors, counted = (ModelError(np.inf, 0.0, s, 0.0, s) for s in (0.1, 0.05))
    week = CountedRequests.between(7_000, 1_000, 0, 7 * DAY_US)
    both = week.applied_to(model(errors=(errors,), counted_errors=(counted,)))
    assert both.errors == (counted,)
    assert both.requests_per_person_day == pytest.approx(0.5 * week.traffic(model()))
    older = week.applied_to(model(errors=(errors,)))  # a release that has none
    assert older.errors == (errors,)


def test_a_busier_site_has_more_reach() -> None:
    audience, site = kr.Audience.disjoint([20] * 10), model()
    groups, times = np.repeat(np.arange(10), 8), np.tile(np.arange(8) * 86_400.0, 10)
    week = CountedRequests.between(2 * 200 * 0.5 * 8, 200, 0, 8 * DAY_US)
    usual, busy = (
        kr.measure_times(audience, groups, times, [1], model=m)[1].reach
        for m in (site, week.applied_to(site))
    )
    assert busy > 1.02 * usual
