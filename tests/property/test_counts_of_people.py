"""What `frequency` and `at_least` sum to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from tests.strategies import Campaign, campaigns, caps, large_campaigns

any_size = st.one_of(campaigns(), large_campaigns())


@given(any_size, st.integers(1, 40))
def test_frequency_sums_to_the_targeted_people(campaign: Campaign, top: int) -> None:
    frequency = kr.measure(campaign.audience, campaign.impressions, 1).frequency(top)
    assert frequency.shape == (top + 1,)
    assert (frequency >= 0.0).all()
    assert frequency.sum() == pytest.approx(campaign.audience.targeted_user_count, rel=1e-11)


@given(any_size, st.integers(1, 8), st.integers(0, 5))
def test_reach_is_the_sum_of_what_at_least_says(campaign: Campaign, cap: int, more: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    at_least = report.at_least(cap + more)
    assert at_least.shape == (cap + more,)
    assert (np.diff(at_least) <= 1e-12 * campaign.audience.targeted_user_count).all()
    assert at_least[:cap].sum() == pytest.approx(report.reach, rel=1e-10, abs=1e-11)
    if more > 0:
        assert at_least[cap] == pytest.approx(report.over_exposed, rel=1e-9, abs=1e-11)


@given(any_size, caps)
def test_unique_reach_times_average_frequency_is_targeted_impressions(
    campaign: Campaign, cap: int
) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    unique = kr.measure(campaign.audience, campaign.impressions, 1).reach
    everything = report.exposure.targeted_impressions
    assert report.average_frequency * unique == pytest.approx(everything, rel=1e-10, abs=1e-11)
    if unique > 0.0:
        assert report.average_frequency >= 1.0 - 1e-11
    else:
        assert report.average_frequency == 0.0


@given(campaigns(), st.integers(1, 6))
def test_frequency_does_not_depend_on_the_cap(campaign: Campaign, top: int) -> None:
    one = kr.measure(campaign.audience, campaign.impressions, 1).frequency(top)
    other = kr.measure(campaign.audience, campaign.impressions, 4).frequency(top)
    assert one.tolist() == other.tolist()


@given(campaigns(), st.integers(1, 6))
def test_a_longer_frequency_only_splits_the_last_entry(campaign: Campaign, top: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, 1)
    short, long = report.frequency(top), report.frequency(top + 3)
    assert long[:top].tolist() == pytest.approx(short[:top].tolist(), rel=1e-12, abs=1e-13)
    assert long[top:].sum() == pytest.approx(short[top], rel=1e-11, abs=1e-12)
