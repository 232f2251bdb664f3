"""Audiences: frozen, validated when made, and the same whatever form the numbers come in."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience

SIZES, TARGETED, SPREAD = [2, 3, 4], [1, 3, 0], [0.5, 2.0, 7.0]
CLASSES = [((0,), 1), ((0, 1), 1), ((1, 2), 2), ((2,), 1)]
SHARES = [[0.5, 0.5], [0.2, 0.8, 0.0], [1.0]]
IMPRESSIONS = [3, 0, 5]


def locked(values: list[int]) -> Any:
    array = np.array(values)
    array.flags.writeable = False
    return array


FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "int64": np.array,
    "int8": lambda v: np.array(v, dtype=np.int8),
    "int32": lambda v: np.array(v, dtype=np.int32),
    "uint8": lambda v: np.array(v, dtype=np.uint8),
    "uint64": lambda v: np.array(v, dtype=np.uint64),
    "float16": lambda v: np.array(v, dtype=np.float16),
    "float32": lambda v: np.array(v, dtype=np.float32),
    "float64": lambda v: np.array(v, dtype=np.float64),
    "big-endian": lambda v: np.array(v, dtype=">i4"),
    "whole floats": lambda v: [float(n) for n in v],
    "numpy scalars": lambda v: [np.int16(n) for n in v],
    "backwards": lambda v: np.array(v[::-1])[::-1],
    "column": lambda v: np.array([v, v]).T[:, 0],
    "read-only": locked,
}
every_form = pytest.mark.parametrize("form", FORMS)


def same(one: kr.Audience, other: kr.Audience, impressions: Any = IMPRESSIONS) -> None:
    """Reports on both are equal to the last digit."""
    first, second = kr.measure(one, IMPRESSIONS, 2), kr.measure(other, impressions, 2)
    assert first.reach == second.reach
    assert first.variance == second.variance
    assert first.bounds == second.bounds
    assert first.frequency(3).tolist() == second.frequency(3).tolist()


@every_form
def test_forms_of_counts(form: str) -> None:
    make = FORMS[form]
    plain = kr.Audience.disjoint(SIZES, TARGETED)
    same(plain, kr.Audience.disjoint(make(SIZES), make(TARGETED)))
    same(plain, plain, make(IMPRESSIONS))
    overlapping = kr.Audience.overlapping(SIZES, CLASSES)
    same(overlapping, kr.Audience.overlapping(make(SIZES), CLASSES), make(IMPRESSIONS))
    same(kr.Audience.profiled(SHARES), kr.Audience.profiled(SHARES), make(IMPRESSIONS))
    actual = kr.reach_probability(plain, make(IMPRESSIONS), 2)
    assert actual.tolist() == kr.reach_probability(plain, IMPRESSIONS, 2).tolist()


@every_form
def test_forms_of_classes(form: str) -> None:
    make = FORMS[form]
    plain = kr.Audience.overlapping(SIZES, CLASSES)
    same(plain, kr.Audience.overlapping(SIZES, [(make(list(g)), h) for g, h in CLASSES]))
    heads = make([h for _, h in CLASSES])
    pairs = zip([g for g, _ in CLASSES], heads, strict=True)
    same(plain, kr.Audience.overlapping(SIZES, pairs))


def test_generators_are_accepted_where_rows_are_read() -> None:
    same(
        kr.Audience.overlapping(SIZES, CLASSES),
        kr.Audience.overlapping(SIZES, (c for c in CLASSES)),
    )
    same(kr.Audience.profiled(SHARES), kr.Audience.profiled(row for row in SHARES))
    same(kr.Audience.profiled(SHARES), kr.Audience.profiled(np.array(row) for row in SHARES))
    square = [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]
    same(kr.Audience.profiled(square), kr.Audience.profiled(np.array(square)))


def test_order_within_a_class_and_of_shares_does_not_matter() -> None:
    turned = [(groups[::-1], headcount) for groups, headcount in CLASSES]
    same(kr.Audience.overlapping(SIZES, CLASSES), kr.Audience.overlapping(SIZES, turned))
    same(kr.Audience.profiled(SHARES), kr.Audience.profiled([row[::-1] for row in SHARES]))


def test_scalars_broadcast() -> None:
    sizes = [3, 3, 4]
    same(kr.Audience.disjoint(sizes, [2, 2, 2]), kr.Audience.disjoint(sizes, 2))
    same(kr.Audience.disjoint(sizes, None, [2.5] * 3), kr.Audience.disjoint(sizes, dispersion=2.5))
    audience = kr.Audience.disjoint(sizes)
    assert kr.measure(audience, 4, 1).reach == kr.measure(audience, [4, 4, 4], 1).reach
    assert kr.measure(audience, np.float64(4), 1).reach == kr.measure(audience, 4, 1).reach


@pytest.mark.parametrize("cap", [2, 2.0, np.int8(2), np.uint64(2), np.float32(2.0)])
def test_forms_of_a_cap(cap: Any) -> None:
    audience = kr.Audience.disjoint(SIZES)
    assert kr.measure(audience, IMPRESSIONS, cap).cap == 2
    assert type(kr.measure(audience, IMPRESSIONS, cap).cap) is int
    assert kr.ReachMeter(audience, [cap]).caps == (2,)
    assert kr.ReachMeter(audience, np.array([cap, 3]).tolist()).caps == (2, 3)


@pytest.mark.parametrize("level", [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5)])
def test_forms_of_a_level(level: Any) -> None:
    report = kr.measure(kr.Audience.disjoint(SIZES), IMPRESSIONS, 2)
    for method in ("exact", "normal", "chebyshev"):
        assert report.interval(level, method) == report.interval(0.5, method)


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7)])
def test_forms_of_a_seed(seed: Any) -> None:
    audience = kr.Audience.disjoint(SIZES)
    actual = kr.sample_reach(audience, IMPRESSIONS, 2, 20, seed)
    assert actual.tolist() == kr.sample_reach(audience, IMPRESSIONS, 2, 20, 7).tolist()


def make_all() -> list[kr.Audience]:
    return [
        kr.Audience.disjoint(SIZES, TARGETED),
        kr.Audience.disjoint(SIZES, TARGETED, SPREAD),
        kr.Audience.overlapping(SIZES, CLASSES),
        kr.Audience.profiled(SHARES),
        kr.baselines.every_impression(3),
        kr.baselines.every_group(3),
    ]


ARRAYS = [
    (audience, name)
    for audience in make_all()
    for name in ("group_sizes", "targeted_counts", "dispersion", "classes", "headcounts", "shares")
    if isinstance(getattr(audience, name, None), np.ndarray)
]


@pytest.mark.parametrize(("audience", "name"), ARRAYS, ids=[f"{a!r} {n}" for a, n in ARRAYS])
def test_arrays_are_read_only(audience: kr.Audience, name: str) -> None:
    array = getattr(audience, name)
    with pytest.raises(ValueError, match="read-only"):
        array.flat[0] = 99


@pytest.mark.parametrize("audience", make_all(), ids=repr)
def test_fields_are_frozen(audience: kr.Audience) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        audience.group_sizes = np.array([1])  # type: ignore[misc]


def test_derived_tables_are_read_only() -> None:
    profiled = kr.Audience.profiled(SHARES)
    assert isinstance(profiled, ProfiledAudience)
    for array in (profiled.offsets, profiled.shares_of(1)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_the_caller_s_arrays_stay_the_caller_s() -> None:
    """Changing them after the fact must not change an audience that was checked."""
    sizes, targeted, spread = np.array(SIZES), np.array(TARGETED), np.array(SPREAD)
    shares = [np.array(row) for row in SHARES]
    audiences = [
        kr.Audience.disjoint(sizes, targeted, spread),
        kr.Audience.overlapping(sizes, CLASSES),
        kr.Audience.profiled(shares),
    ]
    before = [kr.measure(audience, IMPRESSIONS, 2).reach for audience in audiences]
    for array in (sizes, targeted, spread, *shares):
        assert array.flags.writeable
        array[:] = array + 7
    assert [kr.measure(audience, IMPRESSIONS, 2).reach for audience in audiences] == before
    assert audiences[0].group_sizes.tolist() == SIZES
    assert audiences[1].group_sizes.tolist() == SIZES


def test_what_an_audience_says_of_itself() -> None:
    plain = kr.Audience.disjoint(SIZES, TARGETED)
    assert isinstance(plain, DisjointAudience)
    assert (plain.group_count, plain.targeted_user_count) == (3, 4)
    assert repr(plain) == "DisjointAudience(groups=3, targeted=4, visits=uniform)"
    dispersed = kr.Audience.disjoint(SIZES, dispersion=0.5)
    assert repr(dispersed) == "DisjointAudience(groups=3, targeted=9, visits=dispersed)"
    overlapping = kr.Audience.overlapping(SIZES, CLASSES)
    assert isinstance(overlapping, OverlappingAudience)
    assert (overlapping.group_count, overlapping.targeted_user_count) == (3, 5)
    assert repr(overlapping) == "OverlappingAudience(groups=3, classes=4, targeted=5)"
    profiled = kr.Audience.profiled(SHARES)
    assert isinstance(profiled, ProfiledAudience)
    assert (profiled.group_count, profiled.targeted_user_count) == (3, 6)
    assert repr(profiled) == "ProfiledAudience(groups=3, targeted=6)"
    assert profiled.shares_of(1).tolist() == [0.0, 0.2, 0.8]


def test_shares_are_scaled_to_sum_to_exactly_1() -> None:
    third = kr.Audience.profiled([[0.3333333, 0.3333333, 0.3333333]])
    assert isinstance(third, ProfiledAudience)
    assert third.shares_of(0).sum() == pytest.approx(1.0, rel=1e-15)


def test_kinds_are_counted_once() -> None:
    audience = kr.Audience.disjoint([2, 3, 2, 2], [1, 3, 1, 2])
    assert isinstance(audience, DisjointAudience)
    kinds = audience.kinds
    assert len(kinds) == 3
    assert kinds.of_group is not None
    assert kinds.of_group[0] == kinds.of_group[2]
    assert kinds.size[kinds.of_group].tolist() == [2, 3, 2, 2]
    assert kinds.targeted[kinds.of_group].tolist() == [1, 3, 1, 2]
    one = kr.Audience.disjoint([4, 4])
    assert isinstance(one, DisjointAudience)
    assert len(one.kinds) == 1
    assert one.kinds.of_group is None
