"""The exact distribution of the capped reach of one group.

Counts that add up to n are independent counts given their sum: multinomial counts are Poisson
counts given their total, Dirichlet-multinomial counts are negative binomial ones. So with member
generating function A(x, z) = Σ_l π(l) x^l z^min(l,c), the reach of a group with u targeted members
has P(R = r) ∝ [xⁿ zʳ] A(x, z)^u · B(x), B being the untargeted members. Both coefficients are read
off on roots of unity: a discrete Fourier sum over x (as many nodes as the total can stray) and one
over z (as many as reach has values). The cost is their product; nothing is sampled.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.types import ComplexArray, FloatArray, IntArray

__all__ = ["GroupKind", "group_reach_pmf", "reach_pmf_cost"]

_CERTAIN = 1e-19  # a chance below this of any member under the cap: reach is the maximum
_GRID_CELLS = 1 << 20  # bounds the memory of one block of the grid
_NOISE = 1e-14  # what lies this far below the mode is rounding noise of the Fourier sums


@dataclass(frozen=True)
class GroupKind:
    """One kind of group: targeted members by visit share, and how shares vary.

    `shares[i]` is the (expected) visit share of each of `people[i]` targeted members; they sum to
    less than 1 where some members are not targeted. `concentration` is the total concentration k·a
    of the Dirichlet law of the shares, infinite when shares are fixed.
    """

    shares: FloatArray
    people: FloatArray
    concentration: float

    def most(self, impressions: int, cap: int) -> int:
        """The largest reach that can occur."""
        return int(min(impressions, cap * float(self.people[self.shares > 0.0].sum())))


def _node_count(impressions: int, concentration: float) -> int:
    """Nodes in x so that totals a multiple away from n have no weight left (below 1e-19)."""
    n = float(impressions)
    heavy = 0.0 if np.isinf(concentration) else 45.0 / np.log1p(concentration / n)
    spread = np.sqrt(n * (1.0 + n / concentration))
    return int(np.ceil(10.0 * spread + 25.0 + heavy))


def reach_pmf_cost(kind: GroupKind, impressions: int, cap: int) -> float:
    """Complex operations that `group_reach_pmf` needs, to decide before one starts."""
    if impressions == 0:
        return 1.0
    values = kind.most(impressions, cap) + 1
    steps = min(cap, impressions) + 4
    return float(_node_count(impressions, kind.concentration)) * values * steps * len(kind.shares)


def group_reach_pmf(kind: GroupKind, impressions: int, cap: int) -> FloatArray:
    """P(R = r) for r = 0..most, exact up to rounding (about 1e-14)."""
    n = impressions
    cap = min(cap, n)
    most = kind.most(n, cap)
    pmf = np.zeros(most + 1)
    if most == 0 or n == 0:
        pmf[0] = 1.0
        return pmf
    counts = [_free_counts(share, n, kind.concentration) for share in kind.shares]
    if sum(p * pi[:cap].sum() for p, pi in zip(kind.people, counts, strict=True)) < _CERTAIN:
        pmf[most] = 1.0
        return pmf
    nodes = _node_count(n, kind.concentration)
    values = most + 1
    x = _Roots(nodes, np.arange(nodes))
    untargeted = max(0.0, 1.0 - float(kind.people @ kind.shares))
    outside = _log_untargeted(untargeted, n, kind.concentration, x)
    outside = np.exp(outside) * np.conj(x.power(n))
    half = values // 2 + 1  # the other half is conjugate
    transform = np.empty(half, dtype=np.complex128)
    step = max(1, _GRID_CELLS // nodes)
    for low in range(0, half, step):
        z = _Roots(values, np.arange(low, min(low + step, half)))
        log_members = sum(
            people * _log_member(pi, x, z, cap)
            for people, pi in zip(kind.people, counts, strict=True)
        )
        transform[low : low + step] = outside @ np.exp(log_members)
    pmf = np.fft.irfft(np.conj(transform), values)
    pmf[pmf < _NOISE * pmf.max()] = 0.0
    result: FloatArray = pmf / pmf.sum()
    return result


class _Roots:
    """Some of the `order`-th roots of unity and their powers, without drift."""

    def __init__(self, order: int, index: IntArray) -> None:
        self._all = np.exp(2j * np.pi / order * np.arange(order))
        self._index = index

    def power(self, exponent: int) -> ComplexArray:
        order = len(self._all)
        result: ComplexArray = self._all[self._index * (exponent % order) % order]
        return result


def _free_counts(share: float, n: int, concentration: float) -> FloatArray:
    """π(l): the law of one member's count before the total is known, as far as it matters."""
    mean = n * share
    if mean == 0.0:
        return np.ones(1)
    if np.isinf(concentration):
        length = int(mean + 12.0 * np.sqrt(mean) + 40.0)
        steps = np.arange(1, length, dtype=np.float64)
        logs = np.concatenate([[-mean], np.log(mean / steps)])
    else:
        a = share * concentration
        log_stay = np.log1p(n / concentration)  # −ln(1 − s), s = n/(n + ka)
        log_s = -np.log1p(concentration / n)
        length = int(mean + 12.0 * np.sqrt(mean * (1.0 + n / concentration)) + 40.0 - 60.0 / log_s)
        steps = np.arange(1, length, dtype=np.float64)
        logs = np.concatenate([[-a * log_stay], np.log((a + (steps - 1.0)) / steps) + log_s])
    result: FloatArray = np.exp(np.cumsum(logs))
    return result


def _log_member(pi: FloatArray, x: _Roots, z: _Roots, cap: int) -> ComplexArray:
    """ln A(x, z), as ln(1 + Σ_{l≥1} π(l)(x^l z^min(l,c) − 1)) so that rare visits keep digits."""
    nodes = len(x.power(0))
    beyond = pi.copy()
    beyond[:cap] = 0.0
    folded = np.bincount(np.arange(len(pi)) % nodes, weights=beyond, minlength=nodes)
    at_cap = np.conj(np.fft.fft(folded))  # Σ_{l≥c} π(l) x^l on the nodes
    change = at_cap[:, None] * z.power(cap) - beyond.sum()
    for count in range(1, min(cap, len(pi))):
        change += pi[count] * (x.power(count)[:, None] * z.power(count) - 1.0)
    return _complex_log1p(change)


def _complex_log1p(w: ComplexArray) -> ComplexArray:
    """ln(1 + w). NumPy's own adds the 1 first and so drops the digits of a small w."""
    square = w.real * (2.0 + w.real) + w.imag**2  # |1 + w|² − 1
    result = np.empty_like(w)
    near = square > -0.5
    modulus = np.hypot(1.0 + w.real, w.imag)
    result.real = np.where(
        near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(np.maximum(modulus, 1e-300))
    )
    result.imag = np.arctan2(w.imag, 1.0 + w.real)
    return result


def _log_untargeted(share: float, n: int, concentration: float, x: _Roots) -> ComplexArray:
    """ln B(x): the untargeted members together are one member with the rest of the share."""
    step = x.power(1) - 1.0
    if np.isinf(concentration):
        result: ComplexArray = n * share * step
    else:
        result = -share * concentration * _complex_log1p(-(n / concentration) * step)
    return result
