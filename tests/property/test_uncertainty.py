"""Distribution, intervals, variance and bounds must tell one story."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from tests.strategies import Campaign, campaigns, caps, independent, overlapping

levels = st.floats(0.01, 0.999)


@given(campaigns(independent()), caps)
def test_exact_distribution_has_our_mean_and_variance(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    law = report.distribution()
    assert law.exact
    assert law.pmf.sum() == pytest.approx(1.0, rel=1e-13)
    assert (law.pmf >= 0.0).all()
    assert (np.diff(law.support) == 1).all()
    assert law.mean == pytest.approx(report.reach, rel=1e-11, abs=1e-11)
    spread = float(law.pmf @ (law.support - law.mean) ** 2)
    assert spread == pytest.approx(report.variance, rel=1e-9, abs=1e-10)


@given(campaigns(independent()), caps)
def test_bounds_are_the_ends_of_the_support(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    law = report.distribution()
    least, most = report.bounds
    assert least <= report.reach + 1e-9
    assert report.reach <= most + 1e-9
    possible = law.support[law.pmf > 1e-13]
    assert least <= possible.min()
    assert possible.max() <= most


@given(campaigns(overlapping(), most=6), caps)
def test_bounds_contain_every_simulated_reach(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    least, most = report.bounds
    reaches = kr.sample_reach(campaign.audience, campaign.impressions, cap, trials=200, seed=7)
    assert least <= reaches.min()
    assert reaches.max() <= most
    assert 0 <= least <= most <= min(sum(campaign.impressions), report.bounds.most)


@given(campaigns(most=6), caps, levels, levels)
def test_a_higher_level_contains_a_lower_one(
    campaign: Campaign, cap: int, one: float, other: float
) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    low, high = sorted((one, other))
    for method in ("exact", "normal", "chebyshev"):
        inner, outer = report.interval(low, method), report.interval(high, method)
        assert outer[0] <= inner[0] <= inner[1] + 1e-12
        assert inner[1] <= outer[1]


@given(campaigns(most=6), caps, levels)
def test_chebyshev_contains_normal_and_all_stay_possible(
    campaign: Campaign, cap: int, level: float
) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    wide, narrow = report.interval(level, "chebyshev"), report.interval(level, "normal")
    assert wide[0] <= narrow[0] + 1e-12
    assert narrow[1] <= wide[1] + 1e-12
    for low, high in (wide, narrow):
        assert low <= report.reach + 1e-9
        assert report.reach <= high + 1e-9
        assert low >= 0.0
        assert high <= sum(campaign.impressions) + 1e-9
    low, high = report.interval(level)
    assert report.bounds.least <= low <= high <= report.bounds.most


@given(campaigns(independent()), caps, levels)
def test_intervals_hold_what_they_promise(campaign: Campaign, cap: int, level: float) -> None:
    """Under the exact law: equal tails hold at least the level, Chebyshev does too."""
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    law = report.distribution()
    for method in ("exact", "chebyshev"):
        low, high = report.interval(level, method)
        inside = (law.support >= low - 1e-9) & (law.support <= high + 1e-9)
        assert law.pmf[inside].sum() >= level - 1e-9
    low, high = report.interval(level)
    assert law.pmf[law.support < low].sum() <= (1.0 - level) / 2.0 + 1e-9
    assert law.pmf[law.support > high].sum() <= (1.0 - level) / 2.0 + 1e-9


@given(campaigns(independent()), caps, st.floats(0.0, 1.0))
def test_quantile_is_the_inverse_of_the_distribution(
    campaign: Campaign, cap: int, p: float
) -> None:
    law = kr.measure(campaign.audience, campaign.impressions, cap).distribution()
    value = law.quantile(p)
    cumulative = dict(zip(law.support.tolist(), np.cumsum(law.pmf).tolist(), strict=True))
    assert cumulative[value] >= p - 1e-9
    assert cumulative.get(value - 1, 0.0) <= p + 1e-9


@given(campaigns(most=6), caps)
def test_variance_is_bounded_by_what_the_bounds_allow(campaign: Campaign, cap: int) -> None:
    """Bhatia and Davis: Var ≤ (most − mean)(mean − least)."""
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    least, most = report.bounds
    limit = max(0.0, most - report.reach) * max(0.0, report.reach - least)
    assert report.variance <= limit * (1.0 + 1e-9) + 1e-9
