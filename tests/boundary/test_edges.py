"""The ends of what may be asked: nothing at all, and very much of everything."""

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import kreach as kr

NO_CAP = 2**53
EMPTY = {
    "no group": kr.Audience.disjoint([]),
    "no group, dispersed": kr.Audience.disjoint([], [], 0.5),
    "no group, profiled": kr.Audience.profiled([]),
    "no group, overlapping": kr.Audience.overlapping([], []),
    "no class": kr.Audience.overlapping([3, 2], []),
    "nobody targeted": kr.Audience.disjoint([3, 2], [0, 0]),
    "nobody targeted, dispersed": kr.Audience.disjoint([3, 2], 0, 0.5),
    "baseline A": kr.baselines.every_impression(0),
    "baseline B": kr.baselines.every_group(0),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("cap", [1, 3, NO_CAP])
def test_an_audience_without_people(name: str, cap: int) -> None:
    audience = EMPTY[name]
    n = [4] * audience.group_count
    report = kr.measure(audience, n, cap)
    assert report.reach == report.variance == report.std == report.over_exposed == 0.0
    assert report.average_frequency == 0.0
    assert report.bounds == (0, 0)
    assert report.bounds_attained == (True, True)
    assert report.frequency(3).tolist() == [0.0] * 4
    assert report.at_least(3).tolist() == [0.0] * 3
    assert report.distribution().support.tolist() == [0]
    assert report.distribution().pmf.tolist() == [1.0]
    for method in ("exact", "normal", "chebyshev"):
        assert report.interval(0.9, method) == (0.0, 0.0)
    assert audience.targeted_user_count == 0


@pytest.mark.parametrize("name", EMPTY)
def test_chances_in_an_audience_without_people(name: str) -> None:
    audience = EMPTY[name]
    n = [4] * audience.group_count
    assert kr.reach_probability(audience, n, 2).tolist() == [0.0] * audience.group_count
    assert kr.sample_reach(audience, n, 2, 3, seed=0).tolist() == [0, 0, 0]
    meter = kr.ReachMeter(audience, [1, 2])
    meter.record_many(np.arange(audience.group_count))
    assert meter.reach == {1: 0.0, 2: 0.0}
    for group in range(audience.group_count):
        assert meter.reach_probability(group, 1) == 0.0
        meter.revert(group)


def audiences_of(k: int) -> dict[str, kr.Audience]:
    return {
        "uniform": kr.Audience.disjoint([k]),
        "dispersed": kr.Audience.disjoint([k], dispersion=0.5),
        "profiled": kr.Audience.profiled([np.full(k, 1.0 / k)]),
        "overlapping": kr.Audience.overlapping([k], [((0,), k)]),
    }


@pytest.mark.parametrize("kind", ["uniform", "dispersed", "profiled", "overlapping"])
@pytest.mark.parametrize("n", [0, 1, 50])
def test_a_cap_far_above_the_impressions(kind: str, n: int) -> None:
    """ "No cap" is written as the largest number that is accepted."""
    audience = audiences_of(4)[kind]
    report = kr.measure(audience, [n], NO_CAP)
    assert report.reach == pytest.approx(n)
    assert report.variance == pytest.approx(0.0, abs=1e-9)
    assert report.bounds == (n, n)
    assert report.over_exposed == 0.0
    assert report.interval(0.9) == (n, n)
    assert kr.reach_probability(audience, [n], NO_CAP).tolist() == pytest.approx([1.0])
    assert kr.sample_reach(audience, [n], NO_CAP, 3, seed=0).tolist() == [n] * 3


def test_bounds_of_a_large_profile_without_a_cap() -> None:
    """cap × members is beyond 64 bits; the most reach is still what was shown."""
    report = kr.measure(audiences_of(4096)["profiled"], [10], NO_CAP)
    assert report.bounds == (10, 10)


@pytest.mark.parametrize("kind", ["uniform", "dispersed", "profiled", "overlapping"])
def test_many_impressions_without_a_cap(kind: str) -> None:
    """A billion impressions are no reason for a table with a billion columns."""
    audience, n = audiences_of(2)[kind], 10**12
    report = kr.measure(audience, [n], NO_CAP)
    assert report.reach == pytest.approx(n, rel=1e-12)
    assert report.over_exposed == 0.0
    assert report.bounds == (n, n)
    assert kr.reach_probability(audience, [0], NO_CAP).tolist() == pytest.approx([1.0])


@pytest.mark.parametrize("kind", ["uniform", "dispersed", "profiled"])
def test_variance_of_many_impressions_without_a_cap(kind: str) -> None:
    report = kr.measure(audiences_of(2)[kind], [3 * 10**6], NO_CAP)
    assert report.variance == pytest.approx(0.0, abs=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own memory the Linux way")
def test_variance_of_overlap_without_a_cap_needs_no_table_of_pairs() -> None:
    """With nobody over the cap, reach is the impressions on targeted people: nothing to pair."""
    script = """
        import resource
        import kreach as kr
        import numpy, scipy.special  # loaded before memory gets short
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        audience = kr.Audience.overlapping([4, 5], [((0, 1), 2), ((0,), 1), ((1,), 1)])
        report = kr.measure(audience, [9_000, 8_000], 2**53)
        wanted = 9_000 * 3 / 4 * 1 / 4 + 8_000 * 3 / 5 * 2 / 5
        assert abs(report.variance - wanted) < 1e-6 * wanted, report.variance
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_the_largest_numbers_that_are_accepted() -> None:
    most = 2**53
    audience = kr.Audience.disjoint([most, most], [most, 1])
    report = kr.measure(audience, [most, 3], 1)
    assert np.isfinite([report.reach, report.variance, report.average_frequency]).all()
    assert report.reach == pytest.approx(most * (1.0 - np.exp(-1.0)), rel=1e-9)
    assert report.variance >= 0.0
    low, high = report.interval(0.9, "normal")
    assert low <= report.reach <= high


@pytest.mark.parametrize("dispersion", [1e-300, 1e-12, 1e-6, 1e6, 1e12, 1e300])
def test_extreme_dispersion(dispersion: float) -> None:
    """One person per group at one end, uniform at the other, and nothing undefined between."""
    audience = kr.Audience.disjoint([5], dispersion=dispersion)
    report = kr.measure(audience, [20], 1)
    uniform = kr.measure(kr.Audience.disjoint([5]), [20], 1)
    assert np.isfinite([report.reach, report.variance, report.over_exposed]).all()
    limit = 1.0 if dispersion < 1.0 else uniform.reach
    assert report.reach == pytest.approx(limit, rel=1e-3)
    assert report.variance >= 0.0
    chance = float(kr.reach_probability(audience, [20], 1)[0])
    assert 0.0 <= chance <= 1.0


@pytest.mark.parametrize("tiny", [5e-324, 1e-300, 1e-30])
def test_shares_next_to_0_and_1(tiny: float) -> None:
    report = kr.measure(kr.Audience.profiled([[tiny, 1.0]]), [10], 2)
    assert report.reach == pytest.approx(2.0)
    assert report.variance == pytest.approx(0.0, abs=1e-12)
    assert report.bounds == (2, 4)
    assert report.interval(0.9) == (2.0, 2.0)


@pytest.mark.parametrize("kind", ["uniform", "dispersed", "profiled", "overlapping"])
def test_one_impression_is_one_person(kind: str) -> None:
    for cap in (1, 2, 100):
        report = kr.measure(audiences_of(7)[kind], [1], cap)
        assert report.reach == pytest.approx(1.0, rel=1e-13)
        assert report.variance == pytest.approx(0.0, abs=1e-13)
        assert report.bounds == (1, 1)
        assert report.average_frequency == pytest.approx(1.0)


def test_reach_of_many_kinds_of_groups() -> None:
    """Every group different: as many kinds as groups."""
    sizes = np.arange(1, 301)
    audience = kr.Audience.disjoint(sizes, sizes, np.linspace(0.1, 9.0, 300))
    n = (7 * sizes) % 31
    alone = [
        kr.measure(kr.Audience.disjoint([k], dispersion=a), [m], 2)
        for k, a, m in zip(sizes, np.linspace(0.1, 9.0, 300), n, strict=True)
    ]
    report = kr.measure(audience, n, 2)
    assert report.reach == pytest.approx(sum(one.reach for one in alone), rel=1e-12)
    assert report.variance == pytest.approx(sum(one.variance for one in alone), rel=1e-10)


@pytest.mark.parametrize("classes", [[((0, 1), 1)] * 3, [((0, 1), 3)]])
def test_the_same_class_may_be_listed_more_than_once(classes: Any) -> None:
    report = kr.measure(kr.Audience.overlapping([4, 3], classes), [5, 2], 2)
    once = kr.measure(kr.Audience.overlapping([4, 3], [((0, 1), 3)]), [5, 2], 2)
    assert report.reach == pytest.approx(once.reach, rel=1e-13)
    assert report.variance == pytest.approx(once.variance, rel=1e-11)
    assert report.bounds == once.bounds
