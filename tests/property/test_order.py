"""What is more, what is less, and what makes no difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience
from tests.strategies import (
    Campaign,
    campaigns,
    caps,
    disjoint,
    large_campaigns,
    profiled,
    uniform_disjoint,
)

CLOSE = 1e-11
any_size = st.one_of(campaigns(), large_campaigns())


def rises(low: float, high: float) -> bool:
    return high >= low * (1.0 - 1e-12) - 1e-12


@given(any_size, caps)
def test_reach_rises_with_the_cap(campaign: Campaign, cap: int) -> None:
    lower = kr.measure(campaign.audience, campaign.impressions, cap)
    higher = kr.measure(campaign.audience, campaign.impressions, cap + 1)
    assert rises(lower.reach, higher.reach)
    assert rises(higher.over_exposed, lower.over_exposed)
    assert lower.bounds.least <= higher.bounds.least
    assert lower.bounds.most <= higher.bounds.most
    one = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    other = kr.reach_probability(campaign.audience, campaign.impressions, cap + 1)
    assert all(map(rises, one, other))


@given(any_size, caps, st.data())
def test_reach_rises_with_impressions(campaign: Campaign, cap: int, data: st.DataObject) -> None:
    more = list(campaign.impressions)
    more[data.draw(st.integers(0, len(more) - 1))] += 1
    before = kr.measure(campaign.audience, campaign.impressions, cap)
    after = kr.measure(campaign.audience, more, cap)
    assert rises(before.reach, after.reach)
    assert rises(before.over_exposed, after.over_exposed)
    assert before.bounds.least <= after.bounds.least
    assert before.bounds.most <= after.bounds.most
    # one more impression reaches at most one more person, and each is worth less than the last
    assert rises(after.reach, before.reach + 1.0)
    one = kr.reach_probability(campaign.audience, more, cap)
    other = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    assert all(map(rises, one, other))


@given(campaigns(profiled()), caps)
def test_uniform_shares_maximise_reach(campaign: Campaign, cap: int) -> None:
    uneven = kr.measure(campaign.audience, campaign.impressions, cap).reach
    uniform = kr.Audience.disjoint(campaign.audience.group_sizes)
    assert rises(uneven, kr.measure(uniform, campaign.impressions, cap).reach)


@given(campaigns(uniform_disjoint()), caps, st.floats(0.01, 100.0), st.floats(1.01, 10.0))
def test_reach_rises_with_evenness(
    campaign: Campaign, cap: int, spread: float, factor: float
) -> None:
    audience = campaign.audience
    assert isinstance(audience, DisjointAudience)
    sizes, targeted = audience.group_sizes, audience.targeted_counts
    reach = [
        kr.measure(kr.Audience.disjoint(sizes, targeted, a), campaign.impressions, cap).reach
        for a in (spread, spread * factor, None)
    ]
    assert rises(reach[0], reach[1])
    assert rises(reach[1], reach[2])


def permuted(audience: kr.Audience, order: list[int]) -> kr.Audience:
    """The same groups, the one at place order[j] now standing at place j."""
    if isinstance(audience, DisjointAudience):
        spread = None if audience.dispersion is None else audience.dispersion[order]
        return kr.Audience.disjoint(
            audience.group_sizes[order], audience.targeted_counts[order], spread
        )
    if isinstance(audience, ProfiledAudience):
        return kr.Audience.profiled([audience.shares_of(j) for j in order])
    assert isinstance(audience, OverlappingAudience)
    place = {group: j for j, group in enumerate(order)}
    rows = [[place[g] for g in row if g >= 0] for row in audience.classes.tolist()]
    classes = list(zip(rows, audience.headcounts.tolist(), strict=True))
    return kr.Audience.overlapping(audience.group_sizes[order], classes[::-1])


@given(any_size, caps, st.data())
def test_permuting_groups_changes_nothing(
    campaign: Campaign, cap: int, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(campaign.audience.group_count)))
    moved = permuted(campaign.audience, order)
    impressions = [campaign.impressions[j] for j in order]
    one = kr.measure(campaign.audience, campaign.impressions, cap)
    other = kr.measure(moved, impressions, cap)
    assert other.reach == pytest.approx(one.reach, rel=CLOSE, abs=CLOSE)
    assert other.variance == pytest.approx(one.variance, rel=1e-9, abs=CLOSE)
    assert other.over_exposed == pytest.approx(one.over_exposed, rel=CLOSE, abs=CLOSE)
    assert other.bounds == one.bounds
    assert other.frequency(4).tolist() == pytest.approx(
        one.frequency(4).tolist(), rel=CLOSE, abs=CLOSE
    )
    chances = kr.reach_probability(campaign.audience, campaign.impressions, cap)
    assert kr.reach_probability(moved, impressions, cap).tolist() == pytest.approx(
        chances[order].tolist(), rel=CLOSE, abs=CLOSE
    )


@given(campaigns(profiled()), caps, st.data())
def test_the_order_of_shares_changes_nothing(
    campaign: Campaign, cap: int, data: st.DataObject
) -> None:
    audience = campaign.audience
    assert isinstance(audience, ProfiledAudience)
    shares = [audience.shares_of(j).tolist() for j in range(audience.group_count)]
    mixed = kr.Audience.profiled([data.draw(st.permutations(row)) for row in shares])
    one = kr.measure(audience, campaign.impressions, cap)
    other = kr.measure(mixed, campaign.impressions, cap)
    assert other.reach == pytest.approx(one.reach, rel=CLOSE)
    assert other.variance == pytest.approx(one.variance, rel=CLOSE, abs=CLOSE)


@given(campaigns(uniform_disjoint()), caps)
def test_overlap_of_single_groups_is_no_overlap(campaign: Campaign, cap: int) -> None:
    """Classes of one group each say the same as disjoint groups, sizes mixed or not."""
    audience = campaign.audience
    assert isinstance(audience, DisjointAudience)
    classes = [((j,), u) for j, u in enumerate(audience.targeted_counts.tolist()) if u > 0]
    same = kr.Audience.overlapping(audience.group_sizes, classes)
    one = kr.measure(audience, campaign.impressions, cap)
    other = kr.measure(same, campaign.impressions, cap)
    assert other.reach == pytest.approx(one.reach, rel=CLOSE, abs=CLOSE)
    assert other.variance == pytest.approx(one.variance, rel=1e-10, abs=CLOSE)
    assert other.over_exposed == pytest.approx(one.over_exposed, rel=CLOSE, abs=CLOSE)
    assert other.average_frequency == pytest.approx(one.average_frequency, rel=CLOSE)
    assert other.bounds == one.bounds
    actual = kr.reach_probability(same, campaign.impressions, cap)
    wanted = kr.reach_probability(audience, campaign.impressions, cap)
    assert actual.tolist() == pytest.approx(wanted.tolist(), rel=CLOSE, abs=CLOSE)


@given(campaigns(uniform_disjoint(everybody=True)), caps)
def test_equal_shares_are_uniform_visits(campaign: Campaign, cap: int) -> None:
    equal = [np.full(k, 1.0 / k) for k in campaign.audience.group_sizes.tolist()]
    one = kr.measure(campaign.audience, campaign.impressions, cap)
    other = kr.measure(kr.Audience.profiled(equal), campaign.impressions, cap)
    assert other.reach == pytest.approx(one.reach, rel=CLOSE, abs=CLOSE)
    assert other.variance == pytest.approx(one.variance, rel=1e-10, abs=CLOSE)
    assert other.bounds == one.bounds


@given(campaigns(disjoint()), campaigns(disjoint()), caps)
def test_disjoint_groups_add_up(first: Campaign, second: Campaign, cap: int) -> None:
    """Reach and variance of two sets of groups are the sums over both."""
    parts = [first.audience, second.audience]
    assert all(isinstance(part, DisjointAudience) for part in parts)
    spread = [
        np.full(part.group_count, np.inf) if part.dispersion is None else part.dispersion
        for part in parts
        if isinstance(part, DisjointAudience)
    ]
    targeted = [part.targeted_counts for part in parts if isinstance(part, DisjointAudience)]
    both = kr.Audience.disjoint(
        np.concatenate([part.group_sizes for part in parts]),
        np.concatenate(targeted),
        np.concatenate(spread),
    )
    whole = kr.measure(both, first.impressions + second.impressions, cap)
    one = kr.measure(first.audience, first.impressions, cap)
    other = kr.measure(second.audience, second.impressions, cap)
    assert whole.reach == pytest.approx(one.reach + other.reach, rel=CLOSE, abs=CLOSE)
    assert whole.variance == pytest.approx(one.variance + other.variance, rel=1e-10, abs=CLOSE)
    assert whole.bounds == tuple(np.add(one.bounds, other.bounds))


@given(campaigns(disjoint(everybody=True)), caps)
def test_uniform_lies_between_the_yardsticks(campaign: Campaign, cap: int) -> None:
    """A ≥ C ≥ B when everybody is targeted."""
    count = campaign.audience.group_count
    n = campaign.impressions
    every_impression = kr.measure(kr.baselines.every_impression(count), n, cap).reach
    every_group = kr.measure(kr.baselines.every_group(count), n, cap).reach
    ours = kr.measure(campaign.audience, n, cap).reach
    assert every_impression == sum(n)
    assert every_group == pytest.approx(sum(min(k, cap) for k in n))
    assert rises(ours, every_impression)
    assert rises(every_group, ours)
