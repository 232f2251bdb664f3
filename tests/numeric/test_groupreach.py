"""The exact distribution of the reach of one group, against going through its members."""

from fractions import Fraction
from math import factorial

import numpy as np
import pytest

from kreach.numeric.groupreach import GroupKind, group_reach_pmf, reach_pmf_cost
from kreach.numeric.types import FloatArray


def member_by_member(kind: GroupKind, n: int, cap: int) -> FloatArray:
    """P(reach = r) by adding one member after the other, in fractions.

    Weights of counts: qˡ/l! with fixed shares (multinomial), and the rising factorial of k·a·q
    over l! with Dirichlet ones; untargeted members are one member who never counts.
    """
    total = Fraction(1)

    def weight(strength: Fraction, count: int) -> Fraction:
        result = Fraction(1, factorial(count))
        for step in range(count):
            result *= strength if np.isinf(kind.concentration) else strength + step
        return result

    scale = Fraction(1) if np.isinf(kind.concentration) else Fraction(kind.concentration)
    members = [
        (Fraction(float(share)) * scale, True)
        for share, people in zip(kind.shares, kind.people, strict=True)
        for _ in range(int(people))
    ]
    rest = Fraction(1) - sum(
        (Fraction(float(s)) * int(p) for s, p in zip(kind.shares, kind.people, strict=True)),
        Fraction(0),
    )
    if rest > Fraction(1, 10**12):
        members.append((rest * scale, False))
    table = {(0, 0): total}
    for strength, targeted in members:
        longer: dict[tuple[int, int], Fraction] = {}
        for (used, reach), value in table.items():
            for count in range(n - used + 1):
                key = (used + count, reach + (min(count, cap) if targeted else 0))
                longer[key] = longer.get(key, Fraction(0)) + value * weight(strength, count)
        table = longer
    final = {reach: value for (used, reach), value in table.items() if used == n}
    result = np.zeros(max(final) + 1)
    for reach, value in final.items():
        result[reach] = float(value / sum(final.values()))
    return result


KINDS = [
    GroupKind(np.array([0.25]), np.array([4.0]), np.inf),
    GroupKind(np.array([0.25]), np.array([3.0]), np.inf),
    GroupKind(np.array([0.125]), np.array([1.0]), np.inf),
    GroupKind(np.array([0.5]), np.array([2.0]), np.inf),
    GroupKind(np.array([1.0]), np.array([1.0]), np.inf),
    GroupKind(np.array([0.0, 0.125, 0.375, 0.5]), np.array([2.0, 1.0, 1.0, 1.0]), np.inf),
    GroupKind(np.array([0.0, 1.0]), np.array([3.0, 1.0]), np.inf),
    GroupKind(np.array([0.25]), np.array([4.0]), 2.0),
    GroupKind(np.array([0.25]), np.array([2.0]), 0.5),
    GroupKind(np.array([0.5]), np.array([2.0]), 64.0),
    GroupKind(np.array([1.0]), np.array([1.0]), 0.5),
]


@pytest.mark.parametrize("cap", [1, 2, 4, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_small_groups(kind: GroupKind, cap: int) -> None:
    for n in (0, 1, 2, 3, 7, 12):
        actual, wanted = group_reach_pmf(kind, n, cap), member_by_member(kind, n, cap)
        length = max(len(actual), len(wanted))
        padded = np.pad(actual, (0, length - len(actual)))
        exact = np.pad(wanted, (0, length - len(wanted)))
        assert padded.tolist() == pytest.approx(exact.tolist(), rel=1e-10, abs=1e-13)
        assert padded.sum() == pytest.approx(1.0, rel=1e-14)


def test_unique_reach_of_a_crowd_is_the_classical_occupancy_law() -> None:
    """P(r of k reached by n) = C(k, r) · surjections(n, r) / kⁿ, in whole numbers."""
    k, n = 30, 60
    surjections = [[1] + [0] * k]
    for _ in range(n):
        row = surjections[-1]
        surjections.append([0] + [r * (row[r] + row[r - 1]) for r in range(1, k + 1)])
    ways = 1
    exact = []
    for r in range(k + 1):
        exact.append(float(Fraction(ways * surjections[n][r], k**n)))
        ways = ways * (k - r) // (r + 1)
    actual = group_reach_pmf(GroupKind(np.array([1.0 / k]), np.array([float(k)]), np.inf), n, 1)
    assert actual.tolist() == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("concentration", [np.inf, 1000.0, 60.0])
def test_large_groups_have_the_right_mean(concentration: float) -> None:
    k, n, cap = 1000, 1500, 2
    kind = GroupKind(np.array([1.0 / k]), np.array([float(k)]), concentration)
    pmf = group_reach_pmf(kind, n, cap)
    from scipy.stats import betabinom, binom

    if np.isinf(concentration):
        law = binom(n, 1.0 / k)
    else:
        law = betabinom(n, concentration / k, concentration * (k - 1) / k)
    mean = k * (law.pmf(1) + 2.0 * law.sf(1))
    assert pmf @ np.arange(len(pmf)) == pytest.approx(mean, rel=1e-10)


def test_saturation_is_certain() -> None:
    kind = GroupKind(np.array([0.5]), np.array([2.0]), np.inf)
    pmf = group_reach_pmf(kind, 10_000, 3)
    assert pmf.tolist() == [0.0] * 6 + [1.0]


def test_cost_grows_with_everything() -> None:
    small = GroupKind(np.array([0.01]), np.array([100.0]), np.inf)
    uneven = GroupKind(np.array([0.01]), np.array([100.0]), 1.0)
    assert reach_pmf_cost(small, 0, 3) == 1.0
    assert reach_pmf_cost(small, 100, 3) < reach_pmf_cost(small, 1000, 3)
    assert reach_pmf_cost(small, 1000, 1) < reach_pmf_cost(small, 1000, 3)
    assert reach_pmf_cost(small, 1000, 3) < reach_pmf_cost(uneven, 1000, 3)
