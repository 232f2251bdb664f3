"""The distribution object: quantiles at the edges, and the three ways to obtain one."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.measurement import report as report_module
from tests.adsystem.measurement.sample_campaigns import SAMPLE_CAMPAIGNS
from tests.reference import simulate

every_world = pytest.mark.parametrize("world", SAMPLE_CAMPAIGNS)


def law(values: list[int], chances: list[float], method: str = "exact") -> kr.ReachDistribution:
    return kr.ReachDistribution(np.array(values), np.array(chances), method)


def test_quantiles_of_three_values() -> None:
    three = law([4, 5, 7], [0.25, 0.5, 0.25])
    wanted = {0.0: 4, 1e-9: 4, 0.25: 4, 0.2501: 5, 0.5: 5, 0.75: 5, 0.7501: 7, 0.99: 7, 1.0: 7}
    assert {p: three.quantile(p) for p in wanted} == wanted
    assert three.mean == 5.25
    assert three.exact


def test_quantiles_of_one_value() -> None:
    assert {law([9], [1.0]).quantile(p) for p in (0.0, 0.5, 1.0)} == {9}


def test_quantile_does_not_stumble_over_rounding() -> None:
    """Ten tenths sum to a little less than one."""
    tenths = law(list(range(10)), [0.1] * 10)
    assert [tenths.quantile(p / 10) for p in range(1, 11)] == list(range(10))


def test_the_last_quantile_is_the_end_of_the_support() -> None:
    """P(reach ≤ r) ≥ 1 needs the largest reach that can occur, however rare it is."""
    rare = kr.measure(kr.Audience.profiled([[1e-14, 1.0 - 1e-14]]), [2], 1)
    assert rare.bounds == (1, 2)
    assert rare.distribution().quantile(1.0) == 2


@pytest.mark.parametrize("p", [-1e-9, 1.0 + 1e-9, float("nan"), float("inf")])
def test_quantile_of_no_probability(p: float) -> None:
    with pytest.raises(kr.KreachError, match=r"p must lie between 0 and 1, got"):
        law([1], [1.0]).quantile(p)


def test_quantile_of_no_number() -> None:
    with pytest.raises(kr.KreachError, match=r"p must lie between 0 and 1, got"):
        law([1], [1.0]).quantile("0.5")  # type: ignore[arg-type]


def test_of_samples() -> None:
    sampled = kr.ReachDistribution.of_samples(np.array([3, 1, 3, 3]))
    assert sampled.support.tolist() == [1, 3]
    assert sampled.pmf.tolist() == [0.25, 0.75]
    assert sampled.method == "sampled"
    assert not sampled.exact


@pytest.mark.parametrize(("mean", "std"), [(1000.0, 30.0), (5.0, 3.0), (1e9, 1e5), (0.2, 0.4)])
def test_normal_law_on_whole_numbers(mean: float, std: float) -> None:
    most = int(mean + 20 * std)
    normal = kr.ReachDistribution.normal(mean, std, 0, most)
    assert normal.method == "normal"
    assert not normal.exact
    assert normal.pmf.sum() == pytest.approx(1.0)
    assert (normal.pmf >= 0.0).all()
    assert (np.diff(normal.support) > 0).all()
    assert normal.support[0] >= 0
    assert normal.support[-1] <= most
    if mean > 5 * std:
        assert normal.mean == pytest.approx(mean, rel=1e-3)
        assert normal.quantile(0.5) == pytest.approx(mean, abs=0.02 * std + 1)
        assert normal.quantile(0.975) == pytest.approx(mean + 1.96 * std, abs=0.02 * std + 1)


def test_normal_law_without_spread() -> None:
    settled = kr.ReachDistribution.normal(7.0, 0.0, 0, 10)
    assert settled.support.tolist() == [7]
    assert settled.pmf.tolist() == [1.0]


@every_world
def test_method_follows_the_kind(world: str) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    actual = kr.measure(campaign.audience, campaign.impressions, 2).distribution()
    wanted = "sampled" if world.startswith("overlapping") else "exact"
    assert actual.method == wanted
    assert actual.exact == (wanted == "exact")


def test_too_costly_for_exact_is_sampled_then_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same report by all three methods: what differs is small against the spread."""
    campaign = SAMPLE_CAMPAIGNS["uniform"]
    laws = {}
    limits = {"exact": (1e9, 4e8), "sampled": (0.0, 4e8), "normal": (0.0, 0.0)}
    for method, (steps, draws) in limits.items():
        monkeypatch.setattr(report_module, "_MAX_EXACT_STEPS", steps)
        monkeypatch.setattr(report_module, "_MAX_DRAWS", draws)
        report = kr.measure(campaign.audience, campaign.impressions, 2)
        laws[method] = report.distribution()
        assert laws[method].method == method
        assert laws[method].mean == pytest.approx(report.reach, abs=0.1 * report.std)
        low, high = report.interval(0.9)
        assert low == pytest.approx(report.reach - 1.645 * report.std, abs=1.5)
        assert high == pytest.approx(report.reach + 1.645 * report.std, abs=1.5)
        assert report.bounds.least <= laws[method].support[0]
        assert laws[method].support[-1] <= report.bounds.most


def test_normal_law_of_overlapping_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_MAX_DRAWS", 0.0)
    campaign = SAMPLE_CAMPAIGNS["overlapping"]
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    assert report.distribution().method == "normal"
    assert report.distribution().mean == pytest.approx(report.reach, abs=0.02)


def test_sampled_distribution_is_the_same_every_time() -> None:
    campaign = SAMPLE_CAMPAIGNS["overlapping"]
    one, other = (
        kr.measure(campaign.audience, campaign.impressions, 2).distribution() for _ in range(2)
    )
    assert one.support.tolist() == other.support.tolist()
    assert one.pmf.tolist() == other.pmf.tolist()


@every_world
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_of_simulated_truth(world: str, level: float) -> None:
    """Explicit people, 4,000 worlds. Exact and Chebyshev hold their level; normal nearly does.

    Allowed: 4.5 standard errors of the simulation, once more where the interval comes from a
    sample itself.
    """
    campaign = SAMPLE_CAMPAIGNS[world]
    trials = 500 if world.startswith("large") else 4_000
    truth = simulate(campaign.audience, campaign.impressions, 2, trials, np.random.default_rng(9))
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    error = 4.5 * np.sqrt(level * (1.0 - level) / trials)
    if not report.distribution().exact:
        error += 4.5 * np.sqrt(level * (1.0 - level) / 20_000)

    def coverage(method: str) -> float:
        low, high = report.interval(level, method)
        return float(((truth >= low) & (truth <= high)).mean())

    assert coverage("exact") >= level - error
    assert coverage("chebyshev") >= level - error
    slack = 0.5 / max(report.std, 0.5)  # a whole number more or less at either end
    assert coverage("normal") == pytest.approx(level, abs=error + slack)
