"""Least and most reach with overlap: exact where that is claimed, a certificate everywhere."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from kreach.numeric import bounds
from kreach.numeric.bounds import max_overlap_reach, min_overlap_reach
from kreach.numeric.types import IntArray
from tests.strategies import Campaign, campaigns, caps, overlapping


def numbers(campaign: Campaign) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Classes, head-counts, group sizes and impressions."""
    audience = campaign.audience
    classes, headcounts = vars(audience)["classes"], vars(audience)["headcounts"]
    return classes, headcounts, audience.group_sizes, np.array(campaign.impressions)


def min_by_enumeration(
    classes: IntArray, headcount: IntArray, sizes: IntArray, n: IntArray, cap: int
) -> int:
    """Every choice of who takes each group with nobody untargeted; others lose everything."""
    rows = [set(row[row >= 0].tolist()) for row in classes]
    members = [
        sum(int(h) for row, h in zip(rows, headcount, strict=True) if j in row)
        for j in range(len(sizes))
    ]
    full = [j for j in range(len(sizes)) if n[j] > 0 and members[j] == sizes[j]]
    takers = [[c for c, row in enumerate(rows) if j in row] for j in full]
    best = None
    for choice in product(*takers):
        load = dict.fromkeys(choice, 0)
        for j, taker in zip(full, choice, strict=True):
            load[taker] += int(n[j])
        value = sum(min(v, cap) for v in load.values())
        best = value if best is None else min(best, value)
    return best or 0


full_overlap = overlapping(full=True)


@given(campaigns(st.one_of(overlapping(), full_overlap)), caps)
def test_min_is_what_enumeration_finds(campaign: Campaign, cap: int) -> None:
    arguments = numbers(campaign)
    exact = min_by_enumeration(*arguments, cap)
    assert min_overlap_reach(*arguments, cap) == (exact, True)


@given(campaigns(full_overlap), caps)
def test_cheaper_tiers_are_certified_from_below(campaign: Campaign, cap: int) -> None:
    arguments = numbers(campaign)
    exact, _ = min_overlap_reach(*arguments, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_EXACT_EDGES", 0)
        relaxed, relaxed_attained = min_overlap_reach(*arguments, cap)
        patch.setattr(bounds, "_RELAXED_EDGES", 0)
        dual, dual_attained = min_overlap_reach(*arguments, cap)
    assert 0 <= dual <= relaxed <= exact
    if exact > 0:
        assert not relaxed_attained
        assert not dual_attained
        assert dual > 0


@given(campaigns(overlapping()), caps)
def test_max_by_linear_programme_is_max_by_flow(campaign: Campaign, cap: int) -> None:
    classes, headcount, _, n = numbers(campaign)
    flow = max_overlap_reach(classes, headcount, n, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_INT32_MAX", 0)
        assert max_overlap_reach(classes, headcount, n, cap) == flow
    assert flow <= min(int(n.sum()), cap * int(headcount.sum()))


def test_max_beyond_32_bits() -> None:
    classes = np.array([[0, 1], [1, -1]])
    n = np.array([2**33, 2**34])
    heads = np.array([2**33, 2**33])
    assert max_overlap_reach(classes, heads, n, 1) == 2**34
    assert max_overlap_reach(classes, heads, n, 2) == 2**33 + 2**34


def fano_plane() -> IntArray:
    """Seven people in three groups each, any two groups sharing one person."""
    return np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]])


def test_relaxation_and_dual_of_the_fano_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 people are needed; the relaxation says 7/3, and both round up to 3."""
    arguments = fano_plane(), np.ones(7, int), np.full(7, 3), np.ones(7, int)
    assert min_overlap_reach(*arguments, 1) == (3, True)
    monkeypatch.setattr(bounds, "_EXACT_EDGES", 0)
    assert min_overlap_reach(*arguments, 1) == (3, False)
    monkeypatch.setattr(bounds, "_RELAXED_EDGES", 0)
    assert min_overlap_reach(*arguments, 1) == (3, False)


def hitting_set(seed: int, groups: tuple[int, int], cap: int, low: int, high: int) -> Any:
    """Random classes of one person each, every group full."""
    generator = np.random.default_rng(seed)
    group_count = int(generator.integers(*groups))
    width = int(generator.integers(2, 5))
    class_count = int(generator.integers(group_count // 2, 2 * group_count))
    chosen = [
        np.sort(generator.choice(group_count, width, replace=False)) for _ in range(class_count)
    ]
    classes = np.array(chosen)
    sizes = np.maximum(np.bincount(classes.ravel(), minlength=group_count), 1)
    n = generator.integers(low, high, group_count)
    return classes, np.ones(class_count, dtype=np.int64), sizes, n, cap


def cost_of_a_cover(classes: IntArray, sizes: IntArray, n: IntArray, cap: int) -> int:
    """The exact cost of some assignment, found by a solver and then checked in whole numbers.

    Group by group, all impressions fall on one person of a chosen class, or on a person of their
    own where that is cheaper: reach is at most what this adds up to, so the least is too.
    """
    full = np.flatnonzero(np.bincount(classes.ravel(), minlength=len(sizes)) == sizes)
    place = {int(j): at for at, j in enumerate(full)}
    cover = np.zeros((len(full), len(classes) + len(full)))
    for at, row in enumerate(classes):
        for j in row:
            cover[place[int(j)], at] = 1.0
    cover[:, len(classes) :] = np.eye(len(full))
    price = np.concatenate([np.full(len(classes), cap), np.minimum(n[full], cap)])
    solved = scipy.optimize.milp(
        price.astype(float),
        constraints=scipy.optimize.LinearConstraint(cover, lb=1.0),
        integrality=np.ones(len(price)),
        options={"mip_rel_gap": 0.0, "node_limit": 5_000},
    )
    chosen = np.round(solved.x).astype(np.int64)
    assert ((cover @ chosen) >= 1.0).all()
    return int(price @ chosen)


@pytest.mark.parametrize(
    ("seed", "groups", "cap"),
    [
        (50, 40, 10**6),
        (314, 40, 10**6),
        (1752, 40, 10**6),
        (51, 30, 10**12),
        (256, 30, 10**12),
    ],
)
def test_the_solver_s_last_digits_do_not_raise_the_bound(seed: int, groups: int, cap: int) -> None:
    """Costs of millions come back as 9000000.00001: still 9,000,000, not one more."""
    classes, heads, sizes, n, _ = hitting_set(seed, (8, groups), cap, cap // 3, cap // 2)
    actual, _ = min_overlap_reach(classes, heads, sizes, n, cap)
    assert actual <= cost_of_a_cover(classes, sizes, n, cap)


@pytest.mark.parametrize("seed", [9, 440])
def test_attained_means_that_the_solver_proved_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that stops within a tolerance has not shown that nothing lies below."""
    generator = np.random.default_rng(seed)
    group_count = int(generator.integers(30, 90))
    width = int(generator.integers(2, 5))
    class_count = int(generator.integers(group_count // 2, 2 * group_count))
    cap = int(generator.integers(3_000, 100_000))
    classes = np.array(
        [np.sort(generator.choice(group_count, width, replace=False)) for _ in range(class_count)]
    )
    sizes = np.maximum(np.bincount(classes.ravel(), minlength=group_count), 1)
    n = generator.integers(cap // 10, cap, group_count)
    solve, proofs = scipy.optimize.milp, []

    def watched(*arguments: Any, **options: Any) -> Any:
        result = solve(*arguments, **options)
        proofs.append(result.mip_dual_bound)
        return result

    monkeypatch.setattr(scipy.optimize, "milp", watched)
    heads = np.ones(class_count, dtype=np.int64)
    actual, attained = min_overlap_reach(classes, heads, sizes, n, cap)
    assert proofs, "expected the problem to go to the solver"
    assert np.ceil(proofs[-1] - 1e-3) >= actual, "reported more than the solver proved"
    assert attained in (True, False)


@pytest.mark.parametrize("cap", [1, 3])
def test_a_large_problem_still_gets_a_certificate(cap: int) -> None:
    """Past both solvers: thousands of groups, a bound from the dual in no time."""
    generator = np.random.default_rng(5)
    group_count, class_count = 6_000, 5_000
    classes = np.sort(
        np.array([generator.choice(group_count, 3, replace=False) for _ in range(class_count)])
    )
    sizes = np.maximum(np.bincount(classes.ravel(), minlength=group_count), 1)
    n = np.ones(group_count, dtype=np.int64)
    n[np.bincount(classes.ravel(), minlength=group_count) == 0] = 0
    heads = np.ones(class_count, dtype=np.int64)
    actual, attained = min_overlap_reach(classes, heads, sizes, n, cap)
    served = int((n > 0).sum())
    assert not attained
    assert served / 3 <= actual <= served


def test_a_group_with_an_untargeted_member_can_lose_everything() -> None:
    classes, heads = np.array([[0, 1]]), np.array([2])
    n = np.array([5, 5])
    assert min_overlap_reach(classes, heads, np.array([3, 3]), n, 1) == (0, True)
    assert min_overlap_reach(classes, heads, np.array([2, 3]), n, 1) == (1, True)


@pytest.mark.parametrize("size", [10**6, 10**9, 10**12, 2**53])
def test_attained_bounds_of_large_counts_are_exact_to_the_last_impression(size: int) -> None:
    """Two full groups that share one person: she can have had them all."""
    classes, heads = np.array([[0, 1], [0, -1], [1, -1]]), np.ones(3, dtype=np.int64)
    n = np.array([size - 1, size // 2 + 1])
    actual, attained = min_overlap_reach(classes, heads, np.array([2, 2]), n, size // 2 + 7)
    assert actual <= size // 2 + 7
    if attained:
        assert actual == size // 2 + 7
    else:
        assert actual >= (size // 2 + 7) * (1 - 1e-6)


def test_the_solver_keeps_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """A program that prints JSON cannot have a solver print beside it."""
    trillion = 10**12
    classes, heads, sizes, n, _ = hitting_set(138, (8, 30), trillion, trillion // 3, trillion // 2)
    min_overlap_reach(classes, heads, sizes, n, trillion)
    assert capfd.readouterr() == ("", "")
