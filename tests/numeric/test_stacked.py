"""Several caps at once: which of l impressions fell into which window is pure chance."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.numeric.stacked import open_share
from tests.reference import F, f


def enumerate_open(segments: Sequence[int], caps: Sequence[int], seen: int) -> Fraction:
    """The share of all choices of `seen` impressions that break no cap."""
    window_of = [w for w, count in enumerate(segments) for _ in range(count)]
    allowed = total = 0
    for chosen in combinations(window_of, seen):
        total += 1
        allowed += all(sum(v <= w for v in chosen) < cap for w, cap in enumerate(caps))
    return Fraction(allowed, total)


@settings(max_examples=60)
@given(
    segments=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    steps=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_against_every_choice(segments: list[int], steps: list[int]) -> None:
    caps = np.cumsum(steps)[: len(segments)].tolist()
    actual = open_share(segments, caps)
    assert len(actual) == caps[-1]
    for seen in range(min(caps[-1], sum(segments) + 1)):
        expected = float(enumerate_open(segments, caps, seen))
        assert actual[seen] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize(("today", "before"), [(0, 0), (3, 0), (0, 4), (3, 5), (7, 9)])
@pytest.mark.parametrize(("daily", "weekly"), [(1, 2), (1, 3), (2, 5)])
def test_one_a_day_and_three_a_week(
    size: int, today: int, before: int, daily: int, weekly: int
) -> None:
    """Σ_{l<c₁} f(l; n_day) F(c₂ − 1 − l; n_rest), in exact fractions."""
    p = Fraction(1, size)
    expected = sum(f(l1, today, p) * F(weekly - 1 - l1, before, p) for l1 in range(daily))
    law = np.array([float(f(seen, today + before, p)) for seen in range(weekly)])
    actual = float(law @ open_share((today, before), (daily, weekly)))
    assert actual == pytest.approx(float(expected), abs=1e-13)


def test_one_cap_closes_only_at_the_cap() -> None:
    assert open_share((5,), (3,)).tolist() == [1.0, 1.0, 1.0]
    assert open_share((0,), (2,)).tolist() == [1.0, 0.0]  # nobody can have seen one of none


def test_what_is_older_than_a_short_window_is_free_of_its_cap() -> None:
    assert open_share((0, 6), (1, 4)).tolist() == pytest.approx([1.0] * 4)
    assert open_share((6, 0), (1, 4)).tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0])


def test_many_impressions() -> None:
    """Binomials of thousands, in whole numbers beside."""
    segments, caps = (2_000, 30_000), (2, 6)
    actual = open_share(segments, caps)
    for seen in range(6):
        allowed = sum(
            comb(2_000, day) * comb(30_000, seen - day) for day in range(min(2, seen + 1))
        )
        expected = Fraction(allowed, comb(32_000, seen))
        assert actual[seen] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("cap", [100, 165, 200, 400])
def test_high_caps(cap: int) -> None:
    """With one window every number below the cap leaves it open."""
    assert open_share((900,), (cap,)) == pytest.approx(np.ones(cap), rel=1e-9)
