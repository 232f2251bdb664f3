"""Reports corrected by a panel: right on average, honest about their error, and in order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from math import inf, sqrt

import numpy as np
import pytest
from benchmarks.study_panel import LEVELS, Campaign, fast_draw, panel_cells
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.reports.corrected import CorrectedWindow, corrected
from kreach.adsystem.reports.measure import cap_reports
from kreach.adsystem.reports.panel_error import (
    ModelFigures,
    PanelError,
    Prior,
    pooled_prior,
    priors_of,
)
from kreach.adsystem.reports.report import CapReport
from kreach.boundary.correction import Correction, PanelRelease
from kreach.publisher.panel.ledger import Terms
from kreach.publisher.panel.release import correction_of, next_release
from kreach.publisher.panel.sample import choose_panel
from tests.publisher.panel.panel_worlds import shown_campaign

TOP = 4
START = datetime(2026, 1, 1, tzinfo=UTC)
PANELS = 300
MAX_SIGMAS = 4.5
STATED = (0.03, 0.05)
Window = tuple[tuple[CapReport, ...], ModelFigures]


@cache
def window(impressions: int, level: float = 0.95) -> Window:
    """Uniform visits in 60 groups of ten, all with as many impressions."""
    audience = kr.Audience.disjoint([10] * 60)
    reports = tuple(kr.measure(audience, [impressions] * 60, cap) for cap in (1, 3))
    first = reports[0]
    figures = ModelFigures.of(first.exposure, first.impressions, first.targeted_user_count, TOP)
    return cap_reports(reports, level), replace(figures, error=STATED)


def release_of(
    differences: tuple[float, ...], *, day: int = 1, noise: float = 0.0, spread: float = 1.15
) -> PanelRelease:
    spreads, std = (spread,) * TOP, (0.1,) * TOP
    return PanelRelease(START + timedelta(days=day), differences, noise, spreads, std)


def correction_with(*releases: PanelRelease, panel_groups: int = 12) -> Correction:
    return Correction("c", "v", "uniform", None, 60, panel_groups, None, releases)


def shown(
    release: PanelRelease, correction: Correction, prior: Prior, level: float = 0.95
) -> CorrectedWindow:
    reports, figures = window(5, level)
    return corrected([(reports, figures, figures, release)], correction, [prior] * TOP)[0]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.floats(-2_000, 2_000), min_size=TOP, max_size=TOP),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.0, 10.0, 1_000.0]),
    st.sampled_from([0.01, 0.1, inf]),
)
@settings(max_examples=60, deadline=None)
def test_numbers_never_fall_with_time_or_rise_with_frequency(
    days: list[tuple[int, list[float]]], noise: float, stated: float
) -> None:
    """However large the noise is."""
    counts = np.cumsum([more for more, _ in days]) + 1
    releases = [
        release_of(tuple(values), day=day + 1, noise=noise) for day, (_, values) in enumerate(days)
    ]
    windows = []
    for count, release in zip(counts, releases, strict=True):
        reports, figures = window(int(count))
        windows.append((reports, figures, figures, release))
    found = corrected(windows, correction_with(*releases), [Prior(0.0, stated, 1)] * TOP)
    for each in found:
        for report in each.reports:
            assert all(a >= b >= 0.0 for a, b in pairwise(report.at_least))
            assert sum(report.frequency) == pytest.approx(600)
            assert min(report.frequency) >= -1e-9
            assert report.interval[0] <= report.reach <= report.interval[1]
            assert report.bounds is not None
            assert report.bounds[0] <= report.reach <= report.bounds[1]
            assert report.unique_reach_interval == each.reports[0].interval
            assert 0.0 <= report.unique_reach <= 600
        assert each.reports[0].reach <= each.reports[1].reach + 1e-9
    for before, after in pairwise(found):
        for one, two in zip(before.reports, after.reports, strict=True):
            assert one.reach <= two.reach + 1e-9
            assert one.unique_reach <= two.unique_reach + 1e-9
            early, late = np.array(one.at_least[:TOP]), np.array(two.at_least[:TOP])
            assert (early <= late + 1e-9).all()


def test_panel_of_all_groups_without_noise_is_the_truth() -> None:
    _, figures = window(5)
    truth = np.array([200.0, 60.0, 20.0, 10.0])
    model = np.diff(figures.reach, prepend=0.0)
    release = release_of(tuple(truth - model), spread=0.0)
    for level in LEVELS:
        prior = Prior(0.0, STATED[0], 1)
        found = shown(release, correction_with(release, panel_groups=60), prior, level)
        assert found.info.weight == 1.0
        unique, capped = found.reports
        assert unique.unique_reach == pytest.approx(200.0)
        assert unique.interval == pytest.approx((200.0, 200.0))
        assert capped.reach == pytest.approx(280.0)
        assert capped.interval == pytest.approx((280.0, 280.0))
        assert unique.at_least[:TOP] == pytest.approx(tuple(truth))


@given(st.floats(-100, 100), st.floats(0, 500), st.floats(0.001, 0.5), st.floats(-0.1, 0.1))
@settings(max_examples=60, deadline=None)
def test_what_is_shown_lies_between_panel_and_prior(
    off: float, noise: float, std: float, mean: float
) -> None:
    release = release_of((off, 0.0, 0.0, 0.0), noise=noise)
    info = shown(release, correction_with(release), Prior(mean, std, 2)).info
    assert 0.0 < info.weight < 1.0
    assert info.panel_unique_reach == pytest.approx(info.model_unique_reach + off)


def test_limits_of_the_weight() -> None:
    release = release_of((-20.0, 0.0, 0.0, 0.0))
    correction = correction_with(release)
    model = shown(release, correction, Prior(0.0, 1e-6, 1))
    assert model.info.weight < 1e-6
    assert model.reports[0].reach == pytest.approx(model.info.model_unique_reach, rel=1e-6)
    for std in (1e6, inf):  # a model that says nothing of its error is not leaned on
        panel = shown(release, correction, Prior(0.0, std, 1))
        assert panel.info.weight == pytest.approx(1.0)
        assert panel.reports[0].reach == pytest.approx(panel.info.panel_unique_reach)
    noisy = release_of((-20.0, 0.0, 0.0, 0.0), noise=1e6)
    assert shown(noisy, correction_with(noisy), Prior(0.0, 0.03, 1)).info.weight < 1e-6


@given(
    st.floats(0.001, 0.3),
    st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(1e-6, 0.1)), max_size=8),
)
@settings(max_examples=100, deadline=None)
def test_prior_of_a_site(stated: float, errors: list[tuple[float, float]]) -> None:
    panels = [PanelError(error, variance, 10.0) for error, variance in errors]
    prior = pooled_prior(stated, panels)
    values = [0.0, *(error for error, _ in errors)]
    assert min(values) - 1e-12 <= prior.mean <= max(values) + 1e-12
    assert prior.std >= stated / 2.0
    assert prior.campaigns == len(errors)
    if len(errors) < 2:
        assert prior.mean == 0.0
        assert prior.std >= stated
    assert pooled_prior(inf, panels).std == inf


@pytest.mark.parametrize("impressions", [1, 2, 30])
def test_model_is_corrected_before_it_is_cut_off(impressions: int) -> None:
    """The law may exceed what two impressions allow; a panel compares it group by group."""
    site = shown_campaign(40, 20)
    catalogue = replace(site.catalogue, model=kr.VisitModel.flat(group_size=20))
    first = np.searchsorted(site.won.group, np.arange(40))
    place = np.arange(len(site.won)) - first[site.won.group]
    here = Campaign(catalogue, site.past_visits, site.won.where(place < impressions))
    sums = np.cumsum(here.model.people.sum(axis=0))
    assert here.figures.reach == pytest.approx(sums, rel=1e-9)
    for report in here.reports:
        assert report.reach <= report.bounds.most


def test_higher_caps_are_no_surer_than_the_first() -> None:
    figures = window(5)[1]
    for error in ((0.15, 0.05), (0.03, 0.05)):
        stated = [replace(figures, error=error).stated_error(cap) for cap in (1, 2, 3)]
        assert stated == [error[0], max(error), max(error)]
    assert replace(figures, error=None).stated_error(1) == inf


@cache
def test_people_are_the_same_at_caps_that_a_panel_does_not_know() -> None:
    """Reach at a higher cap stays the model's; who was reached at all is one number."""
    reports, figures = window(5)
    release = PanelRelease(release_of((0.0,) * TOP).end, (-40.0,), 1.0, (1.0,), (0.1,))
    found = corrected(
        [(reports, figures, figures, release)], correction_with(release), [Prior(0.0, inf, 1)]
    )[0]
    known, beyond = found.reports[0], found.reports[-1]
    assert beyond.cap > 1
    assert (beyond.reach, beyond.interval) == (reports[-1].reach, reports[-1].interval)
    for name in ("unique_reach", "unique_reach_interval", "average_frequency", "at_least"):
        assert getattr(beyond, name) == getattr(known, name), name
    assert known.unique_reach < reports[-1].unique_reach


def campaign(uniform: bool) -> Campaign:
    site = shown_campaign(400, 10, uniform=uniform)
    return Campaign(site.catalogue, site.past_visits, site.won)


def test_broken_model_is_repaired_without_bias() -> None:
    """Uniform visits on a site of sessions and heavy users: far off, and still right on average.

    Intervals may be wider than they need be: how groups vary is scaled from what the model says.
    """
    generator = np.random.default_rng(1)
    model = float(campaign(False).figures.reach[0]) / campaign(False).truth[:, 0].sum()
    assert model > 1.2
    cells = panel_cells(campaign(False), Terms(0.2, TOP, 1, 0.5), PANELS, generator, own=False)
    for cell in cells:
        errors = cell[1]
        assert abs(errors.mean()) < MAX_SIGMAS * errors.std() / sqrt(PANELS)
        assert abs(errors.mean()) < 0.01
        for held, shown_held in zip(cell[3].T, cell[4].T, strict=True):
            assert held.tolist() == shown_held.tolist()  # without a stated error nothing is shrunk
        for level, share in zip(LEVELS, cell[3].mean(axis=0), strict=True):
            chance = MAX_SIGMAS * sqrt(level * (1.0 - level) / PANELS)
            assert share > level - 0.02 - chance, (cell[0], level, share)


@pytest.mark.parametrize("uniform", [True, False])
def test_alarm_is_for_wrong_models(uniform: bool) -> None:
    """The model states an error of 3 %: true where visits are uniform, false elsewhere."""
    generator = np.random.default_rng(2)
    here, panels, terms = campaign(uniform), 100, Terms(0.2, TOP, 1, 0.5)
    figures, alarms = replace(here.figures, error=STATED), 0
    for _ in range(panels):
        panel = choose_panel(here.catalogue, here.past_visits, 0.2, generator.bytes(32), "c")
        differences = here.differences(panel, own=False)
        stored = next_release([], differences, 0, terms, panel, fast_draw(generator))
        correction = correction_of("c", here.catalogue, panel, terms, [stored])
        release = correction.releases[0]
        priors = priors_of(figures, (correction, release), [])
        done = corrected([(here.shown[2], figures, figures, release)], correction, priors)[0]
        alarms += done.info.alarm is not None
        assert done.info.alarm is None or "ask the publisher to fit it anew" in done.info.alarm
    assert alarms <= 10 if uniform else alarms >= 95
