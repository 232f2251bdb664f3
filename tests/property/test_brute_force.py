"""Random small settings, every quantity against a list of all that can happen (golden/generate)."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from tests.golden.generate import Measures, Setting, all_outcomes, build_world, measure

CLOSE = 1e-11
counts_of_1_to_3 = st.integers(1, 3)


def truth(setting: Setting, cap: int) -> Measures:
    world = build_world(setting)
    return measure(world, all_outcomes(world), cap)


def check(audience: kr.Audience, impressions: Sequence[int], cap: int, exact: Measures) -> None:
    report = kr.measure(audience, impressions, cap)
    actual = [
        report.reach,
        report.variance,
        report.over_exposed,
        report.average_frequency,
        *report.frequency(5),
        *kr.reach_probability(audience, impressions, cap),
    ]
    wanted = [
        exact.reach,
        exact.variance,
        exact.over_exposed,
        exact.average_frequency,
        *exact.frequency,
        *exact.reach_probability,
    ]
    assert actual == pytest.approx([float(v) for v in wanted], rel=CLOSE, abs=CLOSE)
    assert report.bounds == exact.bounds
    assert report.bounds_attained == (True, True)
    law = report.distribution()
    if law.exact:
        given_by_us = dict(zip(law.support.tolist(), law.pmf.tolist(), strict=True))
        for value in given_by_us.keys() | exact.distribution.keys():
            chance = float(exact.distribution.get(value, 0))
            assert given_by_us.get(value, 0.0) == pytest.approx(chance, rel=1e-10, abs=1e-13)


@st.composite
def disjoint_settings(draw: st.DrawFn) -> Setting:
    sizes = draw(st.lists(counts_of_1_to_3, min_size=1, max_size=3))
    spread = draw(st.sampled_from([None, Fraction(1, 10), Fraction(3, 5), Fraction(7)]))
    return Setting(
        name="random",
        kind="disjoint" if spread is None else "dispersed",
        group_sizes=tuple(sizes),
        impressions=tuple(draw(st.integers(0, 4)) for _ in sizes),
        targeted_counts=tuple(draw(st.integers(0, k)) for k in sizes),
        dispersion=spread,
    )


@settings(max_examples=60)
@given(disjoint_settings(), st.integers(1, 5))
def test_disjoint(setting: Setting, cap: int) -> None:
    spread = None if setting.dispersion is None else float(setting.dispersion)
    audience = kr.Audience.disjoint(setting.group_sizes, setting.targeted_counts, spread)
    check(audience, setting.impressions, cap, truth(setting, cap))


@st.composite
def overlapping_settings(draw: st.DrawFn) -> Setting:
    group_count = draw(st.integers(2, 3))
    sets = st.sets(st.integers(0, group_count - 1), min_size=1).map(lambda s: tuple(sorted(s)))
    classes = draw(st.lists(st.tuples(sets, st.integers(1, 2)), min_size=1, max_size=3))
    members = [sum(h for groups, h in classes if j in groups) for j in range(group_count)]
    idle = [draw(st.integers(0, 1)) for _ in members]
    sizes = tuple(max(1, m + i) for m, i in zip(members, idle, strict=True))
    return Setting(
        name="random",
        kind="overlapping",
        group_sizes=sizes,
        impressions=tuple(draw(st.integers(0, 2 if k > 3 else 3)) for k in sizes),
        classes=tuple(classes),
    )


@settings(max_examples=60)
@given(overlapping_settings(), st.integers(1, 4))
def test_overlapping(setting: Setting, cap: int) -> None:
    audience = kr.Audience.overlapping(setting.group_sizes, setting.classes)
    check(audience, setting.impressions, cap, truth(setting, cap))


@st.composite
def profiled_settings(draw: st.DrawFn) -> Setting:
    weights = st.lists(st.integers(0, 5), min_size=1, max_size=3).filter(any)
    rows = draw(st.lists(weights, min_size=1, max_size=3))
    shares = tuple(tuple(Fraction(w, sum(row)) for w in row) for row in rows)
    return Setting(
        name="random",
        kind="profiled",
        group_sizes=tuple(len(row) for row in rows),
        impressions=tuple(draw(st.integers(0, 4)) for _ in rows),
        visit_shares=shares,
    )


@settings(max_examples=60)
@given(profiled_settings(), st.integers(1, 5))
def test_profiled(setting: Setting, cap: int) -> None:
    audience = kr.Audience.profiled([np.array(row, dtype=float) for row in setting.visit_shares])
    check(audience, setting.impressions, cap, truth(setting, cap))
