"""What must come out at the ends: one person per group, no cap to speak of, no unevenness."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.boundary.audience import DisjointAudience
from tests.reference import people
from tests.strategies import (
    Campaign,
    campaigns,
    caps,
    large_campaigns,
    overlapping,
    uniform_disjoint,
)

CLOSE = 1e-11


@st.composite
def singletons(draw: st.DrawFn) -> kr.Audience:
    """Groups of one person, said in every way."""
    count = draw(st.integers(1, 6))
    ways: dict[str, Callable[[], kr.Audience]] = {
        "disjoint": lambda: kr.Audience.disjoint([1] * count),
        "dispersed": lambda: kr.Audience.disjoint([1] * count, dispersion=0.3),
        "profiled": lambda: kr.Audience.profiled([[1.0]] * count),
        "one active member": lambda: kr.Audience.profiled([[0.0, 1.0, 0.0]] * count),
        "overlapping": lambda: kr.Audience.overlapping(
            [1] * count, [((j,), 1) for j in range(count)]
        ),
    }
    return ways[draw(st.sampled_from(sorted(ways)))]()


@given(campaigns(singletons()), caps)
def test_one_person_per_group_is_exact(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    exact = sum(min(n, cap) for n in campaign.impressions)
    assert report.reach == pytest.approx(exact, rel=1e-14)
    assert report.variance == 0.0
    assert report.std == 0.0
    assert report.bounds == (exact, exact)
    assert report.over_exposed == sum(n > cap for n in campaign.impressions)
    assert report.distribution().support.tolist() == [exact]
    for method in ("exact", "normal", "chebyshev"):
        assert report.interval(0.9, method) == pytest.approx((exact, exact))
    chances = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    assert chances.tolist() == [float(n < cap) for n in campaign.impressions]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), caps)
def test_one_person_in_several_groups_of_one_is_exact(impressions: list[int], cap: int) -> None:
    everywhere = tuple(range(len(impressions)))
    audience = kr.Audience.overlapping([1] * len(impressions), [(everywhere, 1)])
    report = kr.measure(audience, impressions, cap)
    assert report.reach == pytest.approx(min(sum(impressions), cap), rel=1e-14)
    assert report.variance == 0.0
    assert report.bounds == (min(sum(impressions), cap),) * 2


@given(campaigns(), st.sampled_from([60, 1000, 10**6, 2**53]))
def test_a_huge_cap_gives_the_expected_targeted_impressions(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    expected = sum(
        campaign.impressions[group] * chance
        for person in people(campaign.audience)
        for group, chance in zip(person.groups, person.chances, strict=True)
    )
    assert report.reach == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    assert report.exposure.targeted_impressions == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    assert report.over_exposed == 0.0
    assert report.bounds.least <= report.reach + 1e-9
    assert report.reach <= report.bounds.most + 1e-9
    if not (campaign.audience.targeted_user_count < campaign.audience.group_sizes.sum()):
        assert report.variance == pytest.approx(0.0, abs=1e-10)


@given(campaigns(), st.sampled_from([60, 2**53]))
def test_a_huge_cap_makes_every_targeted_visit_count(campaign: Campaign, cap: int) -> None:
    sizes = campaign.audience.group_sizes
    wanted = np.zeros(len(sizes))
    for person in people(campaign.audience):
        for group, chance in zip(person.groups, person.chances, strict=True):
            wanted[group] += chance
    actual = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    assert actual.tolist() == pytest.approx(wanted.tolist(), rel=CLOSE, abs=CLOSE)


@given(campaigns(uniform_disjoint()), caps)
def test_growing_dispersion_tends_to_uniform(campaign: Campaign, cap: int) -> None:
    audience = campaign.audience
    assert isinstance(audience, DisjointAudience)
    uniform = kr.measure(audience, campaign.impressions, cap)
    before = np.inf
    for spread in (1e2, 1e4, 1e6, 1e8):
        nearly = kr.measure(
            kr.Audience.disjoint(audience.group_sizes, audience.targeted_counts, spread),
            campaign.impressions,
            cap,
        )
        distance = abs(nearly.reach - uniform.reach)
        assert distance <= before / 50.0 + 1e-9  # a hundredfold spread, a hundredth of it
        before = distance
        assert abs(nearly.variance - uniform.variance) <= 2e3 / spread
    assert before <= 1e-5


@given(campaigns(uniform_disjoint()), caps)
def test_infinite_dispersion_is_uniform(campaign: Campaign, cap: int) -> None:
    audience = campaign.audience
    assert isinstance(audience, DisjointAudience)
    said = kr.Audience.disjoint(audience.group_sizes, audience.targeted_counts, float("inf"))
    assert said.dispersion is None
    one = kr.measure(audience, campaign.impressions, cap)
    other = kr.measure(said, campaign.impressions, cap)
    assert one.reach == other.reach
    assert one.variance == other.variance


@given(campaigns(), caps)
def test_no_impressions_reach_nobody(campaign: Campaign, cap: int) -> None:
    audience = campaign.audience
    report = kr.measure(audience, [0] * audience.group_count, cap)
    assert report.reach == report.variance == report.over_exposed == report.average_frequency == 0.0
    assert report.bounds == (0, 0)
    assert report.frequency(3).tolist() == [audience.targeted_user_count, 0.0, 0.0, 0.0]
    assert report.interval(0.9) == report.interval(0.9, "chebyshev") == (0.0, 0.0)


@given(campaigns(overlapping(full=True)), st.integers(50, 60))
def test_nothing_is_lost_where_everybody_is_targeted(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    members = np.zeros(campaign.audience.group_count)
    for person in people(campaign.audience):
        members[list(person.groups)] += 1
    full = members == campaign.audience.group_sizes
    if full.all():
        assert report.reach == pytest.approx(sum(campaign.impressions), rel=CLOSE)
        assert report.variance == pytest.approx(0.0, abs=1e-9)


@given(large_campaigns(), st.sampled_from([1, 3, 50]))
def test_nothing_is_negative_or_undefined_in_large_groups(campaign: Campaign, cap: int) -> None:
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    numbers = [
        report.reach,
        report.variance,
        report.over_exposed,
        report.average_frequency,
        *report.frequency(6),
        *kr.reach_probability(campaign.audience, campaign.impressions, cap),
    ]
    assert np.isfinite(numbers).all()
    assert min(numbers) >= 0.0
    slack = 1e-9 * (1.0 + report.bounds.most)
    assert report.bounds.least - slack <= report.reach <= report.bounds.most + slack
