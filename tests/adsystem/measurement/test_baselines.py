"""The paper's two yardsticks behave as audiences everywhere."""

import pytest

import kreach as kr

N = [0, 1, 4, 2]


@pytest.mark.parametrize("cap", [1, 2, 10])
def test_every_impression(cap: int) -> None:
    audience = kr.baselines.every_impression(4)
    report = kr.measure(audience, N, cap)
    assert report.reach == 7.0
    assert report.variance == report.over_exposed == 0.0
    assert report.bounds == (7, 7)
    assert report.bounds_attained == (True, True)
    assert report.average_frequency == 1.0
    assert report.frequency(3).tolist() == [0.0, 7.0, 0.0, 0.0]
    assert report.distribution().exact
    assert report.distribution().support.tolist() == [7]
    assert report.interval(0.9) == (7.0, 7.0)
    assert kr.reach_probability(audience, N, cap).tolist() == [1.0] * 4
    assert kr.sample_reach(audience, N, cap, 3, seed=0).tolist() == [7] * 3
    assert "baseline A" in report.basis
    meter = kr.ReachMeter(audience, [cap])
    meter.record_many([1, 2, 2, 2, 2, 3, 3])
    assert meter.reach == {cap: 7.0}
    meter.revert(2)
    assert meter.reach == {cap: 6.0}


@pytest.mark.parametrize(("cap", "reach"), [(1, 3), (2, 5), (10, 7)])
def test_every_group(cap: int, reach: int) -> None:
    audience = kr.baselines.every_group(4)
    report = kr.measure(audience, N, cap)
    assert report.reach == reach
    assert report.variance == 0.0
    assert report.bounds == (reach, reach)
    assert report.over_exposed == sum(n > cap for n in N)
    assert kr.reach_probability(audience, N, cap).tolist() == [float(n < cap) for n in N]
    meter = kr.ReachMeter(audience, [cap])
    meter.record_many([1, 2, 2, 2, 2, 3, 3])
    assert meter.reach == {cap: reach}


def test_without_groups_or_impressions() -> None:
    for audience in (kr.baselines.every_impression(0), kr.baselines.every_group(0)):
        report = kr.measure(audience, [], 1)
        assert report.reach == report.average_frequency == 0.0
        assert report.interval(0.9) == (0.0, 0.0)
    idle = kr.measure(kr.baselines.every_impression(2), [0, 0], 1)
    assert idle.reach == idle.average_frequency == 0.0
    assert idle.frequency(2).tolist() == [0.0, 0.0, 0.0]
    assert idle.distribution().support.tolist() == [0]


def test_names() -> None:
    assert repr(kr.baselines.every_impression(3)) == "EveryImpression(groups=3)"
    assert kr.baselines.every_group(3).targeted_user_count == 3
