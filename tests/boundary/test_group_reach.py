"""What the model says of single groups adds up to what reports say of all of them."""

from datetime import UTC, datetime

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.group_reach import group_reach, model_name
from tests.adsystem.visit_models import sample_model

SIZES = np.array([20, 21, 30, 20, 1, 40, 25, 20])
TOP = 6


def catalogue(**knowledge: object) -> Catalogue:
    ids = tuple(f"g{at}" for at in range(len(SIZES)))
    return Catalogue("v1", datetime(2026, 11, 1, tzinfo=UTC), 1, ids, SIZES, **knowledge)  # type: ignore[arg-type]


def impressions(seed: int = 1, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    group = np.sort(generator.integers(0, len(SIZES) - 1, rows))  # the last has none
    at_us = generator.integers(0, 10 * 86_400_000_000, rows)
    order = np.lexsort((at_us, group))
    return group[order], at_us[order]


def test_with_a_visit_model_groups_add_up_to_the_report() -> None:
    model = sample_model(22.0)
    group, at_us = impressions()
    found = group_reach(catalogue(model=model), np.arange(len(SIZES)), group, at_us)
    audience = kr.Audience.disjoint(SIZES)
    assert isinstance(audience, DisjointAudience)
    exposure = DrawnExposure(draws_in_order(audience, group, at_us, model), model)
    people = found.at_least(TOP)
    for cap in range(1, TOP + 1):
        assert people[:, :cap].sum() == pytest.approx(exposure.reach(cap), rel=1e-9)
        assert found.variances(cap).sum() == pytest.approx(exposure.variance(cap), rel=1e-2)
    assert (people[-1] == 0.0).all()
    assert (np.diff(people, axis=1) <= 1e-12).all()
    alone = np.flatnonzero(SIZES == 1)[0]
    assert people[alone].tolist() == [1.0] * TOP


@pytest.mark.parametrize("dispersion", [None, 0.4])
def test_by_the_formulas_of_the_paper_too(dispersion: float | None) -> None:
    group, at_us = impressions()
    found = group_reach(catalogue(dispersion=dispersion), np.arange(len(SIZES)), group, at_us)
    audience = kr.Audience.disjoint(SIZES, dispersion=dispersion)
    counts = np.bincount(group, minlength=len(SIZES))
    for cap in range(1, TOP + 1):
        report = kr.measure(audience, counts, cap)
        assert found.at_least(TOP)[:, :cap].sum() == pytest.approx(report.reach, rel=1e-9)
        assert found.variances(cap).sum() == pytest.approx(report.variance, rel=1e-6)


def test_and_with_visit_shares() -> None:
    generator = np.random.default_rng(3)
    shares = tuple(generator.dirichlet(np.full(size, 0.5)) for size in SIZES)
    group, at_us = impressions()
    found = group_reach(catalogue(visit_shares=shares), np.arange(len(SIZES)), group, at_us)
    counts = np.bincount(group, minlength=len(SIZES))
    for cap in (1, 3):
        report = kr.measure(kr.Audience.profiled(shares), counts, cap)
        assert found.at_least(TOP)[:, :cap].sum() == pytest.approx(report.reach, rel=1e-9)
        assert found.variances(cap).sum() == pytest.approx(report.variance, rel=1e-6)


def test_some_groups_are_as_they_are_alone() -> None:
    """By the paper a group's number does not depend on which others are asked for."""
    group, at_us = impressions()
    everything = group_reach(catalogue(), np.arange(len(SIZES)), group, at_us).at_least(3)
    chosen = np.array([5, 2])
    place = np.full(len(SIZES), -1)
    place[chosen] = [0, 1]
    inside = place[group] >= 0
    order = np.lexsort((at_us[inside], place[group][inside]))
    some = group_reach(
        catalogue(), chosen, place[group][inside][order], at_us[inside][order]
    ).at_least(3)
    np.testing.assert_allclose(some, everything[chosen], rtol=1e-12)


def test_models_have_the_names_that_reports_use() -> None:
    assert model_name(catalogue()) == "uniform"
    assert model_name(catalogue(dispersion=1.0)) == "dispersion"
    assert model_name(catalogue(model=sample_model(22.0))) == "visit model"
