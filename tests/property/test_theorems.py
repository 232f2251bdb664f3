"""The paper's theorems exactly as printed, person by person in fractions, against the library.

The paper has one group size k for all groups, so audiences here have one size.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.boundary.audience import OverlappingAudience, ProfiledAudience
from tests.reference import F, Person, exposure_pmf, f, people
from tests.strategies import Campaign, campaigns, caps, overlapping, profiled

CLOSE = 1e-11


def one_size_disjoint() -> st.SearchStrategy[kr.Audience]:
    def build(k: int, targeted: list[int]) -> kr.Audience:
        return kr.Audience.disjoint([k] * len(targeted), [min(u, k) for u in targeted])

    return st.builds(build, st.integers(1, 6), st.lists(st.integers(0, 6), min_size=1, max_size=4))


one_size = st.one_of(one_size_disjoint(), overlapping(equal_sizes=True))


def unfold(campaign: Campaign) -> tuple[list[Person], Fraction, list[int]]:
    """The targeted people, 1/k, and for each person the impressions of all its groups."""
    everybody = people(campaign.audience)
    k = int(campaign.audience.group_sizes[0])
    trials = [sum(campaign.impressions[j] for j in person.groups) for person in everybody]
    return everybody, Fraction(1, k), trials


def theorem_1(trials: list[int], p: Fraction, c: int) -> Fraction:
    return sum(
        (sum((l * f(l, n, p) for l in range(1, c + 1)), Fraction(0)) + c - c * F(c, n, p))  # noqa: E741
        for n in trials
    ) + Fraction(0)


def alternative_form(trials: list[int], p: Fraction, c: int) -> Fraction:
    return sum(
        (c - sum(((c - l) * f(l, n, p) for l in range(c)), Fraction(0)))  # noqa: E741
        for n in trials
    ) + Fraction(0)


@given(campaigns(one_size), caps)
def test_theorem_1_is_its_alternative_form_is_ours(campaign: Campaign, cap: int) -> None:
    _, p, trials = unfold(campaign)
    printed = theorem_1(trials, p, cap)
    assert printed == alternative_form(trials, p, cap)
    reach = kr.measure(campaign.audience, campaign.impressions, cap).reach
    assert reach == pytest.approx(float(printed), rel=CLOSE, abs=CLOSE)


@given(campaigns(one_size, most=40))
def test_corollary_1_unique_reach(campaign: Campaign) -> None:
    _, p, trials = unfold(campaign)
    printed = sum(1 - (1 - p) ** n for n in trials)
    reach = kr.measure(campaign.audience, campaign.impressions, 1).reach
    assert reach == pytest.approx(float(printed), rel=CLOSE, abs=CLOSE)


@given(campaigns(one_size, most=30))
def test_lemma_1_and_theorem_2_as_printed(campaign: Campaign) -> None:
    everybody, p, trials = unfold(campaign)
    n = campaign.impressions
    variance = sum(((1 - (1 - p) ** t) * (1 - p) ** t for t in trials), Fraction(0))
    for i, one in enumerate(everybody):
        for other in everybody[:i] + everybody[i + 1 :]:
            shared = sum(n[j] for j in set(one.groups) & set(other.groups))
            apart = sum(n[j] for j in set(one.groups) ^ set(other.groups))
            variance += ((1 - 2 * p) ** shared - (1 - p) ** (2 * shared)) * (1 - p) ** apart
    actual = kr.measure(campaign.audience, n, 1).variance
    assert actual == pytest.approx(float(variance), rel=1e-10, abs=1e-12)


@given(campaigns(one_size), caps)
def test_theorem_3_over_exposed(campaign: Campaign, cap: int) -> None:
    _, p, trials = unfold(campaign)
    printed = len(trials) - sum(F(cap, n, p) for n in trials)
    actual = kr.measure(campaign.audience, campaign.impressions, cap).over_exposed
    assert actual == pytest.approx(float(printed), rel=CLOSE, abs=1e-15)


@given(campaigns(one_size), caps)
def test_theorem_4_reach_probability(campaign: Campaign, cap: int) -> None:
    everybody, p, trials = unfold(campaign)
    printed = [
        float(
            p
            * sum(F(cap - 1, n, p) for q, n in zip(everybody, trials, strict=True) if j in q.groups)
        )
        for j in range(campaign.audience.group_count)
    ]
    actual = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    assert actual.tolist() == pytest.approx(printed, rel=CLOSE, abs=1e-15)


@given(campaigns(profiled(), most=8), caps)
def test_theorem_5_and_6_non_uniform(campaign: Campaign, cap: int) -> None:
    audience = campaign.audience
    assert isinstance(audience, ProfiledAudience)
    reach, chances = Fraction(0), []
    for j, n in enumerate(campaign.impressions):
        shares = [Fraction(float(q)) for q in audience.shares_of(j)]
        reach += theorem_1([n], shares[0], cap)
        reach += sum((theorem_1([n], q, cap) for q in shares[1:]), Fraction(0))
        chances.append(float(sum(q * F(cap - 1, n, q) for q in shares)))
    actual = kr.measure(audience, campaign.impressions, cap).reach
    assert actual == pytest.approx(float(reach), rel=CLOSE, abs=CLOSE)
    probabilities = kr.reach_probability(audience, campaign.impressions, cap)
    assert probabilities.tolist() == pytest.approx(chances, rel=CLOSE, abs=CLOSE)


@given(campaigns(), caps)
def test_class_sum_is_user_sum(campaign: Campaign, cap: int) -> None:
    """Sums over classes, kinds and cells are sums over people, for every kind of audience."""
    laws = [exposure_pmf(person, campaign.impressions) for person in people(campaign.audience)]
    report = kr.measure(campaign.audience, campaign.impressions, cap)
    reach = sum(float(law @ np.minimum(np.arange(len(law)), cap)) for law in laws)
    assert report.reach == pytest.approx(reach, rel=1e-10, abs=1e-11)
    over = sum(float(law[cap + 1 :].sum()) for law in laws)
    assert report.over_exposed == pytest.approx(over, rel=1e-10, abs=1e-11)
    seen = np.zeros(5)
    for law in laws:
        seen[:4] += np.pad(law, (0, 4))[:4]
        seen[4] += law[4:].sum()
    assert report.frequency(4).tolist() == pytest.approx(seen.tolist(), rel=1e-10, abs=1e-11)


@given(campaigns(overlapping()), caps)
def test_splitting_a_class_changes_nothing(campaign: Campaign, cap: int) -> None:
    """Five people as one class of five, or as five classes of one."""
    audience = campaign.audience
    assert isinstance(audience, OverlappingAudience)
    single = [(person.groups, 1) for person in people(audience)]
    split = kr.measure(
        kr.Audience.overlapping(audience.group_sizes, single), campaign.impressions, cap
    )
    whole = kr.measure(audience, campaign.impressions, cap)
    assert split.reach == pytest.approx(whole.reach, rel=CLOSE, abs=CLOSE)
    assert split.variance == pytest.approx(whole.variance, rel=1e-10, abs=1e-11)
    assert split.over_exposed == pytest.approx(whole.over_exposed, rel=CLOSE, abs=CLOSE)
    assert split.bounds == whole.bounds
