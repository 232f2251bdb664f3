"""The visit model: what it accepts, and what a released document must be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.boundary.visit_model import FILE, ModelError

ERRORS = (
    ModelError(24.0, 0.01, 0.02, 0.03, 0.04),
    ModelError(np.inf, -0.01, 0.05, 0.0, 0.06),
)


def model() -> kr.VisitModel:
    generator = np.random.default_rng(0)
    return kr.VisitModel(
        group_size=20.0,
        gap_edges_seconds=(30.0, 600.0, 3600.0),
        continuation_odds=generator.exponential(2.0, (2, 3)),
        hourly_traffic=generator.uniform(0.5, 1.5, 24),
        requests_per_session=np.array([0.5, 0.3, 0.2]),
        meetings=generator.uniform(0.05, 0.2, (12, 12, 9)),
        regulars=0.15,
        lasting=0.4,
        meeting_scale=1.03,
        requests_per_person_day=1.5,
        errors=ERRORS,
        counted_errors=ERRORS[1:],
        people=1000,
        history_days=28.0,
    )


def test_a_model_survives_its_document(tmp_path: Path) -> None:
    first = model()
    first.save(tmp_path)
    for again in (
        kr.VisitModel.from_json(json.loads(json.dumps(first.to_json()))),
        kr.VisitModel.load(tmp_path),
        kr.VisitModel.load(str(tmp_path / FILE)),
    ):
        assert again.to_json() == first.to_json()
        assert again.errors == ERRORS
        assert again.counted_errors == ERRORS[1:]
        assert again.continuation_odds.tolist() == first.continuation_odds.tolist()
        assert not again.meetings.flags.writeable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group_size", 0.5),
        ("group_size", "20"),
        ("gap_edges_seconds", (600.0, 30.0, 3600.0)),
        ("gap_edges_seconds", (0.0, 30.0, 3600.0)),
        ("gap_edges_seconds", (30.0, 30.0, 3600.0)),
        ("continuation_odds", np.ones((2, 2))),
        ("continuation_odds", np.ones((17, 3))),
        ("continuation_odds", np.zeros((0, 3))),
        ("continuation_odds", np.full((2, 3), -1.0)),
        ("continuation_odds", np.full((2, 3), np.nan)),
        ("continuation_odds", "odds"),
        ("hourly_traffic", np.ones(23)),
        ("hourly_traffic", np.zeros(24)),
        ("requests_per_session", np.array([0.5, 0.4])),
        ("requests_per_session", np.array([1.5, -0.5])),
        ("requests_per_session", np.zeros(0)),
        ("meetings", np.full((12, 12, 9), 1.5)),
        ("meetings", np.full((12, 12, 8), 0.1)),
        ("regulars", 0.0),
        ("regulars", 1.0),
        ("lasting", 1.5),
        ("lasting", float("nan")),
        ("meeting_scale", 0.0),
        ("requests_per_person_day", -1.0),
    ],
)
def test_a_wrong_number_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(kr.KreachError, match=name) as caught:
        replace(model(), **{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"gap_edges_seconds": None},
        {"gap_edges_seconds": ["a"]},
        {"errors": [{"max_hours": 1.0}]},
        {"errors": 5},
        {"meetings": "none"},
        {"regulars": "half"},
    ],
)
def test_a_broken_document_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(kr.KreachError):
        kr.VisitModel.from_json({**model().to_json(), **change})


@pytest.mark.parametrize("missing", ["format", "group_size", "gap_edges_seconds", "meetings"])
def test_a_document_without_a_field_is_refused(missing: str) -> None:
    document = model().to_json()
    del document[missing]
    with pytest.raises(kr.KreachError, match=missing):
        kr.VisitModel.from_json(document)


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert kr.VisitModel.from_json({**model().to_json(), "later": 1}).people == 1000


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(kr.KreachError, match=FILE):
        kr.VisitModel.load(tmp_path)
    (tmp_path / FILE).write_text("{")
    with pytest.raises(kr.KreachError, match=r"^model must be a JSON document"):
        kr.VisitModel.load(tmp_path)
    (tmp_path / FILE).write_text("[1]")
    with pytest.raises(kr.KreachError, match=r"^model must be a JSON object"):
        kr.VisitModel.load(tmp_path)


def test_errors_by_length_of_the_window() -> None:
    assert model().error(1.0) == model().error(24.0) == ERRORS[0]
    assert model().error(24.5) == ERRORS[1]
    assert kr.VisitModel.flat(20).error(1.0) is None


@pytest.mark.parametrize(("dispersion", "wanted"), [(None, 1 / 20), (0.6, 1.6 / 13)])
def test_a_flat_model_is_one_dispersion_in_groups_of_every_size(
    dispersion: float | None, wanted: float
) -> None:
    flat = kr.VisitModel.flat(20, dispersion)
    assert flat.meeting_probability(np.ones((3, 12))) == pytest.approx(wanted, rel=1e-14)
    sizes = np.array([2.0, 5.0, 20.0, 300.0])
    kinds = flat.kinds(wanted, sizes)
    assert kinds.share == pytest.approx(1.0 / sizes, rel=1e-12)
    total = np.inf if dispersion is None else dispersion * sizes
    assert kinds.concentration == pytest.approx(np.broadcast_to(total, 4), rel=1e-11)


def test_more_traffic_means_fewer_meetings_and_more_draws() -> None:
    days = np.ones((2, 12))
    assert model().meeting_probability(days, 2.0) < model().meeting_probability(days, 1.0)
    group, at_us = np.zeros(3, dtype=np.int64), np.array([0, 10_000_000, 70_000_000])
    assert model().draw_shares(group, at_us, 2.0).sum() > model().draw_shares(group, at_us).sum()


def test_errors_between_two_lengths_are_interpolated() -> None:
    """By whole hours: the error must not tell when the first and last impression were."""
    short, long = kr.VisitModel.flat(20), ModelError(30.0, 0.1, 0.3, 0.0, 0.2)
    both = replace(short, errors=(ModelError(10.0, 0.0, 0.1, 0.0, 0.1), long))
    middle = both.error(20.0)
    assert middle is not None
    assert middle.bias == pytest.approx(0.05)
    assert middle.spread == pytest.approx(0.2)
    assert both.error(19.001) == middle
    assert both.error(99.0) == long


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ((1.0, -1.0, 0.1, 0.0, 0.1), "bias"),
        ((1.0, float("nan"), 0.1, 0.0, 0.1), "bias"),
        ((1.0, 0.0, -0.1, 0.0, 0.1), "spread"),
        ((1.0, 0.0, 0.1, 0.0, float("inf")), "higher_spread"),
        ((0.0, 0.0, 0.1, 0.0, 0.1), "max_hours"),
    ],
)
def test_impossible_errors_are_refused(numbers: tuple[float, ...], field: str) -> None:
    with pytest.raises(kr.KreachError, match=f"^errors: {field} must be"):
        ModelError(*numbers)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"people": "x"}, "people"),
        ({"people": -1}, "people"),
        ({"history_days": float("nan")}, "history_days"),
        ({"group_size": float("inf")}, "group_size"),
        ({"group_size": True}, "group_size"),
        ({"gap_edges_seconds": ()}, "gap_edges_seconds"),
        ({"gap_edges_seconds": (1e300,)}, "gap_edges_seconds"),
        ({"errors": (ModelError(2.0, 0, 0, 0, 0), ModelError(1.0, 0, 0, 0, 0))}, "errors"),
    ],
)
def test_more_impossible_models_are_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(kr.KreachError, match=f"^{field} must"):
        replace(kr.VisitModel.flat(20), **change)


def test_traffic_of_the_model_is_traffic_of_the_report() -> None:
    """A model at a traffic gives the figures of that traffic, proven traffic included."""
    busy = replace(kr.VisitModel.flat(20, 0.6), requests_per_person_day=0.01)
    audience = kr.Audience.disjoint([20] * 5)
    groups, times = list(range(5)) * 40, [3_600.0 * at for at in range(200)]
    given = kr.measure_times(audience, groups, times, [1], model=busy, traffic=2.0)
    moved = kr.measure_times(audience, groups, times, [1], model=busy.at_traffic(2.0))
    assert given[1].reach == pytest.approx(moved[1].reach, rel=1e-12)
