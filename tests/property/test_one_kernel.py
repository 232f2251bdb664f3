"""One kernel: winning a request raises expected reach by exactly its reach probability."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from tests.strategies import Campaign, campaigns, caps, large_campaigns

CLOSE = 1e-11


@given(campaigns(most=6), caps, st.data())
def test_winning_reach_probabilities_add_up_to_reach(
    campaign: Campaign, cap: int, data: st.DataObject
) -> None:
    stream = data.draw(st.permutations(campaign.groups()))
    so_far = [0] * campaign.audience.group_count
    total = 0.0
    for group in stream:
        total += float(kr.reach_probability(campaign.audience, so_far, cap)[group])
        so_far[group] += 1
        reach = kr.measure(campaign.audience, so_far, cap).reach
        assert total == pytest.approx(reach, rel=CLOSE, abs=CLOSE)


@given(campaigns(), st.sets(caps, min_size=1, max_size=3).map(sorted), st.data())
def test_batch_is_streaming(campaign: Campaign, several: list[int], data: st.DataObject) -> None:
    stream = data.draw(st.permutations(campaign.groups()))
    one_by_one = kr.ReachMeter(campaign.audience, several)
    for group in stream:
        one_by_one.record(group)
    cut = data.draw(st.integers(0, len(stream)))
    in_two_parts = kr.ReachMeter(campaign.audience, several)
    in_two_parts.record_many(stream[:cut])
    in_two_parts.record_many(stream[cut:])
    for cap in several:
        reach = kr.measure(campaign.audience, campaign.impressions, cap).reach
        assert one_by_one.reach[cap] == pytest.approx(reach, rel=CLOSE, abs=CLOSE)
        assert in_two_parts.reach[cap] == pytest.approx(reach, rel=CLOSE, abs=CLOSE)
    for cap in several:
        wanted = kr.reach_probability(campaign.audience, campaign.impressions, cap)
        for meter in (one_by_one, in_two_parts):
            actual = [meter.reach_probability(j, cap) for j in range(len(wanted))]
            assert actual == pytest.approx(wanted.tolist(), rel=CLOSE, abs=CLOSE)


@given(large_campaigns(), caps)
def test_batch_is_streaming_in_large_groups(campaign: Campaign, cap: int) -> None:
    meter = kr.ReachMeter(campaign.audience, [cap])
    meter.record_many(campaign.groups())
    reach = kr.measure(campaign.audience, campaign.impressions, cap).reach
    assert meter.reach[cap] == pytest.approx(reach, rel=1e-10, abs=1e-12)


@given(campaigns(most=6), st.sets(caps, min_size=1, max_size=3).map(sorted), st.data())
def test_record_then_revert_is_identity(
    campaign: Campaign, several: list[int], data: st.DataObject
) -> None:
    meter = kr.ReachMeter(campaign.audience, several)
    meter.record_many(campaign.groups())
    before = meter.reach
    groups = range(campaign.audience.group_count)
    chances = [meter.reach_probability(j, cap) for j in groups for cap in several]
    extra = data.draw(st.lists(st.sampled_from(groups), min_size=1, max_size=8))
    for group in extra:
        meter.record(group)
    for group in data.draw(st.permutations(extra)):
        meter.revert(group)
    assert meter.impressions_by_group.tolist() == list(campaign.impressions)
    assert list(meter.reach.values()) == pytest.approx(list(before.values()), rel=1e-12, abs=1e-12)
    again = [meter.reach_probability(j, cap) for j in groups for cap in several]
    assert again == pytest.approx(chances, rel=1e-12, abs=1e-12)


@given(campaigns(most=5), caps, st.data())
def test_any_mixture_of_recording_and_reverting_is_the_batch_of_what_is_left(
    campaign: Campaign, cap: int, data: st.DataObject
) -> None:
    meter = kr.ReachMeter(campaign.audience, [cap])
    counts = [0] * campaign.audience.group_count
    for group in data.draw(st.permutations(campaign.groups())):
        step = data.draw(st.sampled_from(["record", "record", "record_many", "revert"]))
        if step == "record":
            meter.record(group)
            counts[group] += 1
        elif step == "record_many":
            meter.record_many([group, group])
            counts[group] += 2
        elif counts[group] > 0:
            meter.revert(group)
            counts[group] -= 1
        reach = kr.measure(campaign.audience, counts, cap).reach
        assert meter.reach[cap] == pytest.approx(reach, rel=CLOSE, abs=CLOSE)
        assert meter.impressions_by_group.tolist() == counts


@given(campaigns(), caps)
def test_reverting_everything_leaves_nothing(campaign: Campaign, cap: int) -> None:
    meter = kr.ReachMeter(campaign.audience, [cap])
    for group in campaign.groups():
        meter.record(group)
    for group in campaign.groups():
        meter.revert(group)
    assert 0.0 <= meter.reach[cap] <= 1e-12
    assert meter.impressions_by_group.sum() == 0
