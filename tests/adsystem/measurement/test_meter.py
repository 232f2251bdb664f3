"""The streaming meter: bookkeeping, several caps, all or nothing."""

import copy
import pickle
from collections.abc import Callable
from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.measurement import meter as module
from kreach.boundary.audience import DisjointAudience
from tests.adsystem.measurement.sample_campaigns import SAMPLE_CAMPAIGNS
from tests.strategies import Campaign, campaigns

every_world = pytest.mark.parametrize("world", SAMPLE_CAMPAIGNS)
CAPS = [3, 1, 5]


def assert_measures(meter: kr.ReachMeter, counts: list[int], rel: float = 1e-11) -> None:
    """The meter says what a report on the same counts says."""
    audience = meter.audience
    assert meter.impressions_by_group.tolist() == counts
    for cap in meter.caps:
        report = kr.measure(audience, counts, cap)
        assert meter.reach[cap] == pytest.approx(report.reach, rel=rel, abs=rel)
        chances = kr.reach_probability(audience, counts, cap)
        actual = [meter.reach_probability(j, cap) for j in range(len(counts))]
        assert actual == pytest.approx(chances.tolist(), rel=rel, abs=rel)


@every_world
def test_a_new_meter_has_nothing(world: str) -> None:
    audience = SAMPLE_CAMPAIGNS[world].audience
    meter = kr.ReachMeter(audience, CAPS)
    assert meter.caps == (3, 1, 5)
    assert meter.reach == {3: 0.0, 1: 0.0, 5: 0.0}
    assert meter.audience is audience
    assert_measures(meter, [0] * audience.group_count)


@every_world
def test_several_caps_are_several_meters(world: str) -> None:
    campaign = SAMPLE_CAMPAIGNS[world]
    stream = np.random.default_rng(1).permutation(campaign.groups()).tolist()
    together = kr.ReachMeter(campaign.audience, CAPS)
    alone = {cap: kr.ReachMeter(campaign.audience, [cap]) for cap in CAPS}
    for group in stream:
        together.record(group)
        for meter in alone.values():
            meter.record(group)
    for cap, meter in alone.items():
        assert together.reach[cap] == pytest.approx(meter.reach[cap], rel=1e-12)
    assert list(together.reach) == CAPS


@every_world
@pytest.mark.parametrize(("few", "pending"), [(0, 1), (0, 7), (10**9, 10**9), (3, 5), (48, 4096)])
def test_noting_and_settling_do_not_matter(
    world: str, few: int, pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one or in bulk, now or later: the same counts, sums and probabilities."""
    monkeypatch.setattr(module, "_FEW", few)
    monkeypatch.setattr(module, "_MAX_PENDING", pending)
    campaign = SAMPLE_CAMPAIGNS[world]
    stream = np.random.default_rng(2).permutation(campaign.groups()).tolist()
    meter = kr.ReachMeter(campaign.audience, [1, 3])
    counts = [0] * campaign.audience.group_count
    for step, group in enumerate(stream):
        meter.record(group)
        counts[group] += 1
        if step % 17 == 5:
            meter.revert(group)
            counts[group] -= 1
        if step % 29 == 3:
            meter.record_many([group, 0])
            counts[group] += 1
            counts[0] += 1
    assert_measures(meter, counts)


def test_more_impressions_than_the_queue_holds() -> None:
    meter = kr.ReachMeter(kr.Audience.disjoint([50, 7]), [1, 4])
    for step in range(10_001):
        meter.record(step % 2)
    assert_measures(meter, [5_001, 5_000], rel=1e-10)


@every_world
def test_record_many_is_all_or_nothing(world: str) -> None:
    audience = SAMPLE_CAMPAIGNS[world].audience
    meter = kr.ReachMeter(audience, [2])
    meter.record_many([0, 1, 1])
    before = meter.reach, meter.impressions_by_group.tolist()
    count = audience.group_count
    bad_ones: list[Any] = [
        [0, 1, count],
        [0, -1],
        [0, 0.5],
        [0, np.nan],
        [[0, 1]],
        ["0"],
        [0, None],
        3,
    ]
    for bad in bad_ones:
        with pytest.raises(kr.KreachError, match="groups"):
            meter.record_many(bad)
    assert (meter.reach, meter.impressions_by_group.tolist()) == before


def test_record_many_takes_what_numpy_gives() -> None:
    audience = kr.Audience.disjoint([3, 4, 5])
    stream = [0, 2, 2, 1, 2]
    for form in (
        stream,
        tuple(stream),
        np.array(stream, dtype=np.int8),
        np.array(stream, dtype=np.uint8),
        np.array(stream, dtype=np.float64),
        np.array(stream * 2)[::2][:0],
        [],
    ):
        meter = kr.ReachMeter(audience, [1])
        meter.record_many(form)
        wanted = np.bincount(np.asarray(form, dtype=int), minlength=3)
        assert meter.impressions_by_group.tolist() == wanted.tolist()


def test_record_takes_whole_numbers_of_every_kind() -> None:
    meter = kr.ReachMeter(kr.Audience.disjoint([3, 4]), [1])
    for group in (1, np.int64(1), np.int8(1), np.uint16(1)):
        meter.record(group)  # type: ignore[arg-type]
    assert meter.impressions_by_group.tolist() == [0, 4]
    meter.revert(np.int32(1))  # type: ignore[arg-type]
    assert meter.impressions_by_group.tolist() == [0, 3]


@every_world
def test_revert_without_record_is_refused_and_changes_nothing(world: str) -> None:
    audience = SAMPLE_CAMPAIGNS[world].audience
    meter = kr.ReachMeter(audience, [1])
    meter.record(1)
    before = meter.reach
    with pytest.raises(kr.KreachError, match="group must have an impression to revert, got 0"):
        meter.revert(0)
    meter.revert(1)
    with pytest.raises(kr.KreachError, match="got 1"):
        meter.revert(1)
    meter.record(1)
    assert meter.reach == pytest.approx(before)


def test_an_impression_touches_the_classes_of_its_group_only() -> None:
    """Chances in groups that share nobody with the recorded one stay as they were, to the bit."""
    audience = kr.Audience.overlapping(
        [4, 4, 5, 3], [((0,), 2), ((0, 1), 2), ((1,), 2), ((2,), 4), ((2, 3), 1), ((3,), 2)]
    )
    meter = kr.ReachMeter(audience, [1, 2])
    meter.record_many([2, 3, 3])
    far = [meter.reach_probability(j, cap) for j in (2, 3) for cap in (1, 2)]
    near = [meter.reach_probability(j, 1) for j in (0, 1)]
    meter.record(0)
    assert [meter.reach_probability(j, cap) for j in (2, 3) for cap in (1, 2)] == far
    assert all(
        meter.reach_probability(j, 1) < before for j, before in zip((0, 1), near, strict=True)
    )


def test_answers_are_copies() -> None:
    meter = kr.ReachMeter(kr.Audience.disjoint([3, 3]), [1])
    meter.record(0)
    counts, reach = meter.impressions_by_group, meter.reach
    with pytest.raises(ValueError, match="read-only"):
        counts[0] = 9
    reach[1] = 99.0
    meter.record(1)
    assert counts.tolist() == [1, 0]
    assert meter.reach[1] == pytest.approx(2.0)


@every_world
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda meter: pickle.loads(pickle.dumps(meter))])
def test_a_copy_goes_its_own_way(
    world: str, copied: Callable[[kr.ReachMeter], kr.ReachMeter]
) -> None:
    """A copy, in this process or another, is a whole meter: what either records counts once."""
    campaign = SAMPLE_CAMPAIGNS[world]
    original = kr.ReachMeter(campaign.audience, [1, 2])
    original.record_many([0, 1])
    original.record(1)
    twin = copied(original)
    twin.record(2)
    twin.record_many([1, 2])
    twin.record(1)
    rest = [0] * (campaign.audience.group_count - 3)
    assert_measures(twin, [1, 4, 2, *rest])
    assert_measures(original, [1, 2, 0, *rest])


@given(campaigns(most=8), st.integers(1, 4))
def test_batches_of_any_size_agree(campaign: Campaign, cap: int) -> None:
    whole, single = (kr.ReachMeter(campaign.audience, [cap]) for _ in range(2))
    whole.record_many(campaign.groups())
    for group in campaign.groups():
        single.record_many([group])
    assert whole.reach[cap] == pytest.approx(single.reach[cap], rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("impressions", [1, 10, 3_000])
def test_large_classes_keep_their_digits(impressions: int) -> None:
    """A class of a thousand million: what each impression adds is not lost in its head-count."""
    k = 10**9
    audience = kr.Audience.overlapping([k, k], [((0, 1), k)])
    bulk, single = (kr.ReachMeter(audience, [1, 2]) for _ in range(2))
    stream = [0, 1] * impressions
    bulk.record_many(stream)
    for group in stream:
        single.record(group)
    for cap in (1, 2):
        exact = kr.measure(audience, [impressions] * 2, cap).reach
        assert single.reach[cap] == pytest.approx(exact, rel=1e-11)
        assert bulk.reach[cap] == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize(
    "audience",
    [
        kr.Audience.disjoint([3]),
        kr.Audience.disjoint([3], dispersion=0.5),
        kr.Audience.profiled([[0.2, 0.8]]),
        kr.Audience.overlapping([3], [((0,), 3)]),
    ],
    ids=repr,
)
def test_a_cap_that_is_never_met(audience: kr.Audience) -> None:
    """No cap to speak of is written as a huge one; it costs no more than a small one."""
    meter = kr.ReachMeter(audience, [1, 2**53])
    meter.record_many([0] * 5)
    meter.record(0)
    assert meter.reach[2**53] == pytest.approx(6.0)
    assert meter.reach_probability(0, 2**53) == pytest.approx(1.0)
    meter.revert(0)
    assert meter.reach[2**53] == pytest.approx(5.0)


def test_a_long_stream_does_not_drift() -> None:
    """200,000 steps back and forth leave the sums where they belong."""
    audience = kr.Audience.disjoint([1_000] * 3, dispersion=0.3)
    meter = kr.ReachMeter(audience, [2])
    generator = np.random.default_rng(0)
    for group in generator.integers(0, 3, 20_000).tolist():
        meter.record(group)
    for _ in range(4):
        for group in (0, 1, 2) * 2_000:
            meter.revert(group)
        for group in (2, 1, 0) * 2_000:
            meter.record(group)
    counts = meter.impressions_by_group
    assert meter.reach[2] == pytest.approx(kr.measure(audience, counts, 2).reach, rel=1e-11)


@pytest.mark.parametrize(
    "audience",
    [kr.Audience.disjoint([1_000], dispersion=0.3), kr.Audience.overlapping([900], [((0,), 800)])],
    ids=repr,
)
def test_the_sum_rounds_once_not_at_every_step(audience: kr.Audience) -> None:
    """Against the correctly rounded sum of the same 5,000 numbers, up and down again."""
    meter = kr.ReachMeter(audience, [2])
    steps = []
    for _ in range(5_000):
        steps.append(meter.reach_probability(0, 2))
        meter.record(0)
    assert meter.reach[2] == pytest.approx(fsum(steps), rel=5e-16)
    if not isinstance(audience, DisjointAudience):
        return  # going back, classes are computed afresh and so differ in the last digit
    for step in reversed(steps[1_000:]):
        meter.revert(0)
        assert meter.reach_probability(0, 2) == step
    assert meter.reach[2] == pytest.approx(fsum(steps[:1_000]), rel=5e-16)
