"""What a report says about itself, and that it says it only when asked."""

import dataclasses
from math import sqrt

import numpy as np
import pytest

import kreach as kr
from tests.adsystem.measurement.sample_campaigns import SAMPLE_CAMPAIGNS

every_world = pytest.mark.parametrize("world", SAMPLE_CAMPAIGNS)


def test_the_paper_s_setting() -> None:
    """120 people in 20 groups of 6, cap 3 (Section 5.1), twelve impressions each."""
    report = kr.measure(kr.Audience.disjoint([6] * 20), [12] * 20, cap=3)
    # by hand: 20·6·Σ_{l=1..3} P(Binomial(12, 1/6) ≥ l)
    below = [(5 / 6) ** 12]
    below.append(below[0] + 12 * (1 / 6) * (5 / 6) ** 11)
    below.append(below[1] + 66 * (1 / 6) ** 2 * (5 / 6) ** 10)
    assert report.reach == pytest.approx(120 * sum(1.0 - b for b in below), rel=1e-13)
    assert report.bounds == (60, 240)
    assert report.bounds_attained == (True, True)
    assert repr(report) == "ReachReport(cap=3, reach=219.49, std=4.28)"


@every_world
def test_fields(world: str) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    assert report.targeted_user_count == campaign.audience.targeted_user_count
    assert report.cap == 2
    assert report.impressions == sum(campaign.impressions)
    assert report.std == sqrt(report.variance)
    assert isinstance(report.reach, float)
    assert isinstance(report.variance, float)
    assert isinstance(report.over_exposed, float)
    assert isinstance(report.average_frequency, float)
    assert all(type(bound) is int for bound in report.bounds)
    assert report.bounds.least <= report.reach <= report.bounds.most
    assert all(type(end) is float for end in report.interval())
    assert repr(report) == f"ReachReport(cap=2, reach={report.reach:.2f}, std={report.std:.2f})"


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("uniform", ["Theorem 1", "disjoint", "uniform"]),
        ("partly targeted", ["Theorem 1", "disjoint", "uniform"]),
        ("dispersed", ["beta-binomial", "Theorem 1", "Dirichlet"]),
        ("profiled", ["Theorem 5", "visit shares"]),
        ("overlapping", ["Theorem 1", "overlapping", "classes"]),
    ],
)
def test_basis_names_theorem_and_assumptions(world: str, words: list[str]) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    basis = kr.measure(campaign.audience, campaign.impressions, 1).basis
    assert all(word in basis for word in words)
    assert "independent" in basis


def test_a_report_cannot_be_changed() -> None:
    report = kr.measure(kr.Audience.disjoint([3]), [2], 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.cap = 2  # type: ignore[misc]


@every_world
def test_later_changes_of_the_caller_s_array_do_not_reach_a_report(world: str) -> None:
    """A report computes when asked; by then the caller may have counted on."""
    campaign = SAMPLE_CAMPAIGNS[world]
    wanted = kr.measure(campaign.audience, campaign.impressions, 2)
    counts = np.array(campaign.impressions, dtype=np.int64)
    report = kr.measure(campaign.audience, counts, 2)
    counts += 5
    assert report.impressions == wanted.impressions
    assert report.reach == wanted.reach
    assert report.variance == wanted.variance
    assert report.bounds == wanted.bounds


def test_asking_twice_gives_the_same_answer() -> None:
    campaign = SAMPLE_CAMPAIGNS["overlapping"]
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    assert report.distribution() is report.distribution()
    assert report.interval(0.8) == report.interval(0.8)
    first = report.frequency(4)
    first[:] = -1.0
    assert (report.frequency(4) >= 0.0).all()


def test_interval_defaults() -> None:
    campaign = SAMPLE_CAMPAIGNS["uniform"]
    report = kr.measure(campaign.audience, campaign.impressions, 2)
    assert report.interval() == report.interval(0.95) == report.interval(0.95, "exact")
    low, high = report.interval(0.95, "normal")
    assert high - low == pytest.approx(2 * 1.959964 * report.std, rel=1e-6)
    low, high = report.interval(0.95, "chebyshev")
    assert high - low == pytest.approx(2 * report.std / sqrt(0.05), rel=1e-12)


def test_intervals_stop_at_what_is_possible() -> None:
    report = kr.measure(kr.Audience.disjoint([2]), [3], 1)  # 1 or 2, never 0 or 3
    assert report.interval(0.999, "chebyshev") == (1.0, 2.0)
    assert report.interval(0.999, "normal") == (1.0, 2.0)
    assert report.interval(0.999) == (1.0, 2.0)


def test_the_level_next_to_one() -> None:
    report = kr.measure(kr.Audience.disjoint([50] * 40), [50] * 40, 1)
    low, high = report.interval(1.0 - 2.0**-53, "normal")
    assert high - low == pytest.approx(2 * 8.292361 * report.std, rel=1e-6)
    low, high = report.at_least_interval(1, 1.0 - 2.0**-53)
    assert 0.0 < low < report.reach < high


@every_world
def test_a_million_frequencies(world: str) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    frequency = kr.measure(campaign.audience, campaign.impressions, 2).frequency(10**6)
    assert frequency.shape == (10**6 + 1,)
    assert frequency.sum() == pytest.approx(campaign.audience.targeted_user_count, rel=1e-11)
    assert frequency[sum(campaign.impressions) + 1 :].sum() == 0.0


def test_at_least_counts_down() -> None:
    report = kr.measure(kr.Audience.disjoint([2]), [3], 1)
    assert report.frequency(3).tolist() == pytest.approx([0.25, 0.75, 0.75, 0.25])
    assert report.at_least(3).tolist() == pytest.approx([1.75, 1.0, 0.25])
    assert report.average_frequency == pytest.approx(3 / 1.75)


def test_histograms_of_huge_counts_are_those_of_small_ones() -> None:
    """Counting groups by impressions takes another way where counts are spread wide."""
    audience = kr.Audience.disjoint([2, 3, 2, 3, 5] * 10, dispersion=[0.5, np.inf] * 25)
    spread = [10**7, 4, 10**6, 4, 10**7] * 10
    report = kr.measure(audience, spread, 3)
    groups = [
        (kr.Audience.disjoint([k], dispersion=[a]), [n])
        for k, a, n in zip([2, 3, 2, 3, 5] * 10, [0.5, np.inf] * 25, spread, strict=True)
    ]
    alone = [kr.measure(group, n, 3) for group, n in groups]
    assert report.reach == pytest.approx(sum(one.reach for one in alone), rel=1e-12)
    assert report.variance == pytest.approx(sum(one.variance for one in alone), rel=1e-9)
    chances = kr.reach_probability(audience, spread, 3)
    assert chances.tolist() == pytest.approx(
        [float(kr.reach_probability(group, n, 3)[0]) for group, n in groups],
        rel=1e-12,
    )
