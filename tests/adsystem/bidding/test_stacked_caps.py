"""Rolling and stacked caps against enumeration: everybody who could have been behind each win."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr

HOUR, DAY, WEEK = 3_600.0, 86_400.0, 7 * 86_400.0

Urn = Callable[[int, Sequence[int]], Fraction]
"""(member, who was drawn before) → the chance that the next request is from the member."""


def uniform(size: int) -> Urn:
    return lambda member, before: Fraction(1, size)


def dispersed(size: int, a: Fraction) -> Urn:
    """Dirichlet(a) shares: Pólya's urn."""
    return lambda member, before: (a + before.count(member)) / (size * a + len(before))


def profiled(shares: Sequence[Fraction]) -> Urn:
    return lambda member, before: shares[member]


def enumerate_people(
    urn: Urn,
    size: int,
    targeted: int,
    rules: Sequence[kr.CapRule],
    shown: Sequence[float],
    now: float,
) -> Fraction:
    """P(a request now is from a targeted member under every cap), over all size^n histories."""
    total = Fraction(0)
    for history in product(range(size), repeat=len(shown)):
        chance = Fraction(1)
        for turn, member in enumerate(history):
            chance *= urn(member, history[:turn])
        for member in range(targeted):
            seen = [at for at, who in zip(shown, history, strict=True) if who == member]
            if all(
                sum(rule.span_seconds is None or at > now - rule.span_seconds for at in seen)
                < rule.limit
                for rule in rules
            ):
                total += chance * urn(member, history)
    return total


RULES = {
    "1 a day": [kr.CapRule(1, DAY)],
    "2 a week": [kr.CapRule(2, WEEK)],
    "3 in all": [kr.CapRule(3)],
    "1 a day, 2 a week": [kr.CapRule(1, DAY), kr.CapRule(2, WEEK)],
    "1 a day, 3 in all": [kr.CapRule(1, DAY), kr.CapRule(3)],
    "2 a day, 3 a week, listed the other way": [kr.CapRule(3, WEEK), kr.CapRule(2, DAY)],
    "1 an hour, 2 a day, 4 in all": [kr.CapRule(1, HOUR), kr.CapRule(2, DAY), kr.CapRule(4)],
    "1 a day, 2 a week, 3 in all": [kr.CapRule(1, DAY), kr.CapRule(2, WEEK), kr.CapRule(3)],
}
NOW = 20 * DAY
SHOWN = {
    "nothing": [],
    "today": [NOW - 1.0, NOW],
    "long ago": [0.0, DAY],
    "spread": [NOW - 9 * DAY, NOW - 5 * DAY, NOW - 2 * DAY, NOW - 2 * HOUR, NOW - 10.0],
    "often": [NOW - 8 * DAY, NOW - 3 * DAY, NOW - 3 * DAY, NOW - 9 * HOUR, NOW - 60.0, NOW - 60.0],
}
THIRDS = [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]
AUDIENCES: dict[str, tuple[kr.Audience, Urn, int, int]] = {
    "uniform": (kr.Audience.disjoint([3]), uniform(3), 3, 3),
    "2 of 3 targeted": (kr.Audience.disjoint([3], [2]), uniform(3), 3, 2),
    "one person": (kr.Audience.disjoint([1]), uniform(1), 1, 1),
    "dispersed": (
        kr.Audience.disjoint([3], dispersion=0.5),
        dispersed(3, Fraction(1, 2)),
        3,
        3,
    ),
    "dispersed, 1 of 2 targeted": (
        kr.Audience.disjoint([2], [1], dispersion=2.0),
        dispersed(2, Fraction(2)),
        2,
        1,
    ),
    "profiled": (kr.Audience.profiled([[float(q) for q in THIRDS]]), profiled(THIRDS), 3, 3),
}


def valuation_of(
    audience: kr.Audience, rules: Sequence[kr.CapRule], shown: Sequence[float]
) -> kr.StackedValuation:
    valuation = kr.StackedValuation(audience, rules)
    for at in shown:
        valuation.record(0, at)
    return valuation


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("kind", AUDIENCES)
def test_against_enumeration(kind: str, shown: list[float], rules: list[kr.CapRule]) -> None:
    audience, urn, size, targeted = AUDIENCES[kind]
    longest = max(rule.span_seconds or float("inf") for rule in rules)
    # with visits that depend on each other, impressions that no window holds still tell something
    # about who visits; the model forgets them
    remembered = [at for at in shown if at > NOW - longest]
    expected = enumerate_people(urn, size, targeted, rules, remembered, NOW)
    found = valuation_of(audience, rules, shown).probability(0, NOW)
    assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-13)


@settings(max_examples=40)
@given(
    gaps=st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=0, max_size=6),
    spans=st.lists(st.sampled_from([1.0, 3.0, 6.0, None]), min_size=2, max_size=3, unique=True),
    steps=st.lists(st.integers(1, 2), min_size=3, max_size=3),
)
def test_any_history_and_rules(
    gaps: list[float], spans: list[float | None], steps: list[int]
) -> None:
    ordered = sorted(spans, key=lambda span: float("inf") if span is None else span)
    limits = [sum(steps[: at + 1]) for at in range(len(ordered))]
    rules = [kr.CapRule(limit, span) for limit, span in zip(limits, ordered, strict=True)]
    shown = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    now = sum(gaps)
    expected = enumerate_people(uniform(2), 2, 2, rules, shown, now)
    found = valuation_of(kr.Audience.disjoint([2]), rules, shown).probability(0, now)
    assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-13)


def test_a_window_is_open_on_the_left() -> None:
    """It covers (now − span, now]: exactly a day later an impression has left the window."""
    valuation = valuation_of(kr.Audience.disjoint([1]), [kr.CapRule(1, DAY)], [0.0])
    assert valuation.probability(0, 0.0) == 0.0
    assert valuation.probability(0, DAY - 1e-6) == 0.0
    assert valuation.probability(0, DAY) == 1.0


def test_windows_slide_one_by_one() -> None:
    """1 a day and 2 in 3 days, one person, wins at 0 and at 1 day."""
    rules = [kr.CapRule(1, DAY), kr.CapRule(2, 3 * DAY)]
    valuation = valuation_of(kr.Audience.disjoint([1]), rules, [0.0, DAY])
    found = [valuation.probability(0, day * DAY) for day in (1.5, 2.0, 2.5, 3.0, 3.5)]
    assert found == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_groups_have_windows_of_their_own() -> None:
    valuation = kr.StackedValuation(kr.Audience.disjoint([1, 1, 4]), [kr.CapRule(1, DAY)])
    valuation.record(1, 0.0)
    assert [valuation.probability(j, 1.0) for j in range(3)] == [1.0, 0.0, 1.0]
    assert [valuation.count(j) for j in range(3)] == valuation.counts().tolist() == [0, 1, 0]


def test_one_rule_for_the_flight_is_a_plain_cap() -> None:
    for audience in (
        kr.Audience.disjoint([20], dispersion=0.6),
        kr.Audience.disjoint([20], [13]),
        kr.Audience.profiled([[0.05, 0.15, 0.8]]),
    ):
        stacked = kr.StackedValuation(audience, [kr.CapRule(3)])
        plain = kr.CapValuation(audience, 3)
        for now in range(40):
            expected = plain.probability(0, float(now))
            assert stacked.probability(0, float(now)) == pytest.approx(expected, rel=1e-11)
            stacked.record(0, float(now))
            plain.record(0, float(now))


def test_a_high_cap_is_a_plain_cap_too() -> None:
    """200 in all, five people, 900 impressions: most are still under the cap."""
    audience = kr.Audience.disjoint([5])
    stacked, plain = (
        kr.StackedValuation(audience, [kr.CapRule(200)]),
        kr.CapValuation(audience, 200),
    )
    for now in range(900):
        stacked.record(0, float(now))
        plain.record(0, float(now))
    assert stacked.probability(0, 900.0) == pytest.approx(plain.probability(0, 900.0), rel=1e-9)


def test_more_caps_are_worth_less() -> None:
    audience = kr.Audience.disjoint([4])
    shown = [0.0, HOUR, 2 * HOUR, 30 * HOUR]
    now = 31 * HOUR
    alone = [
        valuation_of(audience, [rule], shown).probability(0, now)
        for rule in (kr.CapRule(1, DAY), kr.CapRule(2))
    ]
    both = valuation_of(audience, [kr.CapRule(1, DAY), kr.CapRule(2)], shown).probability(0, now)
    assert both < min(alone)


def test_revert_takes_back_the_one_that_was_not_shown() -> None:
    audience = kr.Audience.disjoint([2])
    rules = [kr.CapRule(1, DAY), kr.CapRule(2, WEEK)]
    valuation = valuation_of(audience, rules, [0.0, 2 * DAY, 2 * DAY, 3 * DAY])
    valuation.revert(0, 2 * DAY)
    expected = valuation_of(audience, rules, [0.0, 2 * DAY, 3 * DAY])
    now = 3.5 * DAY
    assert valuation.probability(0, now) == expected.probability(0, now)
    assert valuation.count(0) == 3


def test_reverting_what_was_not_recorded_is_refused() -> None:
    valuation = valuation_of(kr.Audience.disjoint([2]), [kr.CapRule(1, DAY)], [5.0])
    message = r"^won_at must be the moment of a recorded impression, got 6.0"
    with pytest.raises(kr.KreachError, match=message):
        valuation.revert(0, 6.0)
    assert valuation.count(0) == 1


def test_notices_out_of_order_count_as_if_they_had_come_in_order() -> None:
    rules = [kr.CapRule(1, DAY), kr.CapRule(3, WEEK)]
    audience = kr.Audience.disjoint([4])
    late = valuation_of(audience, rules, [2 * DAY, 0.0, 1.5 * DAY])
    in_order = valuation_of(audience, rules, [0.0, 1.5 * DAY, 2 * DAY])
    for now in (2.2 * DAY, 2.8 * DAY, 7.1 * DAY, 9 * DAY):
        assert late.probability(0, now) == in_order.probability(0, now)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], r"^rules must hold at least one cap, got 'none'"),
        ([kr.CapRule(1, DAY), kr.CapRule(2, DAY)], r"^rules must have different spans, got "),
        ([kr.CapRule(1), kr.CapRule(2)], r"^rules must have different spans, got "),
        (
            [kr.CapRule(3, DAY), kr.CapRule(3, WEEK)],
            r"^rules must allow more in a longer span, got ",
        ),
        ([kr.CapRule(3, DAY), kr.CapRule(2)], r"^rules must allow more in a longer span, got "),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: list[kr.CapRule], message: str) -> None:
    with pytest.raises(kr.KreachError, match=message) as refused:
        kr.StackedValuation(kr.Audience.disjoint([2]), rules)
    assert not rules or "CapRule(limit=" in str(refused.value)


@pytest.mark.parametrize("limit", [0, -1, 1.5])
def test_an_impossible_limit_is_refused(limit: int) -> None:
    with pytest.raises(kr.KreachError, match=r"^limit must be a whole number from 1 "):
        kr.CapRule(limit)


@pytest.mark.parametrize("span", [0.0, -DAY, float("nan"), float("inf")])
def test_an_impossible_span_is_refused(span: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^span_seconds must be a number > 0, or None, got"):
        kr.CapRule(1, span)


@pytest.mark.parametrize("group", [-1, 2])
def test_a_group_that_the_audience_does_not_hold_is_refused(group: int) -> None:
    valuation = kr.StackedValuation(kr.Audience.disjoint([2, 2]), [kr.CapRule(1)])
    for ask in (valuation.probability, valuation.record, valuation.revert):
        with pytest.raises(kr.KreachError, match=rf"^group must be from 0 to 1, got {group}"):
            ask(group, 0.0)


def test_overlapping_audiences_are_refused() -> None:
    audience = kr.Audience.overlapping([2, 2], [((0, 1), 2)])
    with pytest.raises(kr.KreachError, match=r"^audience must have disjoint groups, got"):
        kr.StackedValuation(audience, [kr.CapRule(1)])
