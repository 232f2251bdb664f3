"""Reach from impressions with their times."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from tests.boundary.test_visit_model import model

seeds = st.integers(0, 2**32 - 1)
caps = st.integers(1, 4)


def rows(seed: int, groups: int, count: int, span: float = 7200.0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    return generator.integers(groups, size=count), generator.uniform(0.0, span, count).round(3)


@settings(max_examples=40, deadline=None)
@given(
    seeds,
    st.integers(0, 60),
    caps,
    st.sampled_from([None, 0.3, 2.0]),
    st.sampled_from([1, 2, 5]),
)
def test_a_flat_model_is_measure(
    seed: int, count: int, cap: int, dispersion: float | None, targeted: int
) -> None:
    sizes = [5, 8, 5, 20, 6]
    group, seconds = rows(seed, len(sizes), count)
    audience = kr.Audience.disjoint(sizes, [targeted] * len(sizes), dispersion)
    flat = kr.VisitModel.flat(20, dispersion)
    ours = kr.measure_times(audience, group, seconds, [cap], model=flat)[cap]
    paper = kr.measure(audience, np.bincount(group, minlength=len(sizes)), cap)
    for name in ("reach", "over_exposed", "average_frequency"):
        wanted = getattr(paper, name)
        assert getattr(ours, name) == pytest.approx(wanted, rel=1e-11, abs=1e-12)
    assert ours.variance == pytest.approx(paper.variance, rel=1e-10, abs=1e-12)
    assert ours.frequency(5) == pytest.approx(paper.frequency(5), rel=1e-11, abs=1e-11)
    assert ours.bounds == paper.bounds
    assert ours.impressions == paper.impressions


@given(seeds, st.integers(1, 40))
def test_the_order_of_rows_does_not_matter(seed: int, count: int) -> None:
    group, seconds = rows(seed, 3, count)
    seconds = (seconds // 600) * 600  # many equal times
    audience = kr.Audience.disjoint([20, 20, 5])
    shuffle = np.random.default_rng(seed).permutation(count)
    one = kr.measure_times(audience, group, seconds, [1, 3], model=model())
    two = kr.measure_times(audience, group[shuffle], seconds[shuffle], [1, 3], model=model())
    for cap in (1, 3):
        assert two[cap].reach == pytest.approx(one[cap].reach, rel=1e-12)
        assert two[cap].variance == pytest.approx(one[cap].variance, rel=1e-10)


@given(seeds, st.integers(1, 40))
def test_reach_rises_with_cap_and_impressions(seed: int, count: int) -> None:
    group, seconds = rows(seed, 2, count, 86_400.0)
    group, seconds = group[np.argsort(seconds)], np.sort(seconds)
    audience = kr.Audience.disjoint([20, 4], [20, 3])
    flat = kr.VisitModel.flat(20, 0.6)  # the mean meeting does not move with the impressions
    steady = kr.VisitModel(
        20.0, (60.0, 3600.0), np.array([[9.0, 1.0], [1.0, 0.5]]), np.ones(24), np.ones(1),
        flat.meetings, 0.2, 0.5,
    )  # fmt: skip
    reports = kr.measure_times(audience, group, seconds, [1, 2, 3, 50], model=steady)
    reach = [reports[cap].reach for cap in (1, 2, 3, 50)]
    assert all(a <= b + 1e-9 for a, b in pairwise(reach))
    fewer = kr.measure_times(audience, group[:-1], seconds[:-1], [1], model=steady)
    assert fewer[1].reach <= reports[1].reach + 1e-9
    targeted = np.array([1.0, 0.75])[group].sum()
    assert reports[50].reach == pytest.approx(targeted)


def test_the_first_row_in_a_window_counts_whole() -> None:
    audience = kr.Audience.disjoint([20])
    alone = kr.measure_times(audience, [0], [50_000.0], [1], model=model())[1]
    assert alone.reach == pytest.approx(1.0)
    both = kr.measure_times(audience, [0, 0], [49_990.0, 50_000.0], [1], model=model())[1]
    assert 1.0 < both.reach < 1.9  # ten seconds later: mostly the same person


def test_a_group_of_one_is_exact() -> None:
    audience = kr.Audience.disjoint([1, 1])
    reports = kr.measure_times(audience, [0] * 5 + [1], list(range(6)), [1, 3, 9], model=model())
    assert {cap: report.reach for cap, report in reports.items()} == {1: 2.0, 3: 4.0, 9: 6.0}
    assert reports[3].variance == 0.0
    assert reports[3].over_exposed == 1.0
    assert reports[1].frequency(6).tolist() == [0, 1, 0, 0, 0, 1, 0]


def test_fractional_draws_lie_between_their_neighbors() -> None:
    """Two rows of one group: the share of the second moves reach linearly from one draw to two."""
    audience = kr.Audience.disjoint([20])
    flat = kr.VisitModel.flat(20, 0.6)
    one, two = (
        kr.measure(kr.Audience.disjoint([20], dispersion=0.6), [n], 1).reach for n in (1, 2)
    )
    for odds in (0.0, 0.25, 1.0, 99.0):
        sessions = kr.VisitModel(
            20.0, (60.0,), np.array([[odds]]), np.ones(24), np.ones(1), flat.meetings, 0.5, 0.0
        )
        reach = kr.measure_times(audience, [0, 0], [0, 30], [1], model=sessions)[1].reach
        assert reach == pytest.approx(one + (two - one) / (1.0 + odds), rel=1e-12)


@given(seeds, st.integers(1, 60))
def test_frequency_sums_to_everybody(seed: int, count: int) -> None:
    group, seconds = rows(seed, 4, count)
    audience = kr.Audience.disjoint([20, 7, 1, 20], [20, 5, 1, 0])
    report = kr.measure_times(audience, group, seconds, [2], model=model())[2]
    frequency = report.frequency(4)
    assert frequency.sum() == pytest.approx(audience.targeted_user_count)
    assert (frequency >= -1e-12).all()
    assert report.at_least(1)[0] == pytest.approx(
        kr.measure_times(audience, group, seconds, [1], model=model())[1].reach, rel=1e-9
    )


def test_times_may_be_datetimes_of_any_kind() -> None:
    audience = kr.Audience.disjoint([20])
    start = datetime(2026, 11, 1, 10, tzinfo=UTC)
    zoned = [start, start + timedelta(seconds=90)]
    paris = timezone(timedelta(hours=1))
    wanted = kr.measure_times(audience, [0, 0], [m.timestamp() for m in zoned], [1], model=model())[
        1
    ].reach
    naive = [moment.replace(tzinfo=None) for moment in zoned]
    for times in (
        zoned,
        naive,
        [moment.astimezone(paris) for moment in zoned],
        np.array(naive, dtype="datetime64[ms]"),
    ):
        report = kr.measure_times(audience, [0, 0], times, [1], model=model())[1]
        assert report.reach == pytest.approx(wanted, rel=1e-12)


def test_nothing_was_won() -> None:
    report = kr.measure_times(kr.Audience.disjoint([20]), [], [], [1], model=model())[1]
    assert (report.reach, report.variance, report.bounds) == (0.0, 0.0, (0, 0))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"audience": kr.Audience.profiled([[0.5, 0.5]])}, "audience"),
        ({"audience": [20]}, "audience"),
        ({"groups": [1]}, "groups"),
        ({"groups": [-1]}, r"groups"),
        ({"groups": [0, 0]}, "times"),
        ({"times": ["now"]}, "times"),
        ({"times": [float("nan")]}, "times"),
        ({"times": [float("inf")]}, "times"),
        ({"times": [1e300]}, "times"),
        ({"times": np.array(["NaT"], dtype="datetime64[s]")}, "times"),
        ({"times": [None]}, "times"),
        ({"caps": [0]}, "caps"),
        ({"caps": 3}, "caps"),
        ({"model": None}, "model"),
        ({"traffic": 0.0}, "traffic"),
        ({"traffic": float("nan")}, "traffic"),
        ({"traffic": "busy"}, "traffic"),
    ],
)
def test_bad_input(change: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {
        "audience": kr.Audience.disjoint([20]),
        "groups": [0],
        "times": [0.0],
        "caps": [1],
        "model": model(),
        **change,
    }
    with pytest.raises(kr.KreachError, match=field):
        kr.measure_times(**arguments)
