"""People whom two or more sets of impressions reached: the exact variance of their number.

Given the visit shares, the sets fall on a pair of members independently of each other, so the
chance that both members are in two or more sets is a product over sets, with a state for each
member: in no set so far, in one, in more. It takes, set by set, the chances that the first, the
second and both were missed. With Dirichlet shares the chance is averaged over the shares of the
pair: with x the share of the first and (1 − x)·y that of the second,

    x ~ Beta(a, (k − 1)a),    y ~ Beta(a, (k − 2)a),    independent,

by Gauss-Jacobi nodes: exact up to as many impressions as twice the nodes.

Above cap 1 there is a bound. What a member adds (impressions within the cap, if in two sets or
more) grows with the member's own counts, and counts of different members are negatively associated
under all laws here, so Var[Σ φ_i] ≤ Σ Var[φ_i] (Joag-Dev and Proschan 1983, Ann. Statist. 11).
"""

import numpy as np

from kreach.numeric.types import FloatArray

__all__ = ["both_in_several", "in_several", "several_variance"]

_MAX_NODES = 40
_CELLS = 1 << 20
_AS_GOOD_AS_UNIFORM = 1e5  # a concentration from which shares are taken as fixed


def in_several(missed: FloatArray) -> FloatArray:
    """P(in two or more sets) from the chances to be missed by each, in the last axis."""
    none = np.ones(missed.shape[:-1])
    one = np.zeros_like(none)
    more = np.zeros_like(none)
    for miss in np.moveaxis(missed, -1, 0):
        more = more + one * (1.0 - miss)
        one = one * miss + none * (1.0 - miss)
        none = none * miss
    return more


def both_in_several(
    first_missed: FloatArray, second_missed: FloatArray, both_missed: FloatArray
) -> FloatArray:
    """P(both of a pair in two or more sets); sets are in the last axis of all three."""
    shape = both_missed.shape[:-1]
    states = {(i, j): np.zeros(shape) for i in range(3) for j in range(3)}
    states[0, 0] = np.ones(shape)
    sets = (np.moveaxis(chance, -1, 0) for chance in (first_missed, second_missed, both_missed))
    for a, b, neither in zip(*sets, strict=True):
        only_second, only_first = a - neither, b - neither
        both = 1.0 - a - only_first
        states = {
            (i, j): states[i, j] * _stays(i, j, neither, only_first, only_second, both)
            + (states[i - 1, j] * _enters(j, only_first, both) if i else 0.0)
            + (states[i, j - 1] * _enters(i, only_second, both) if j else 0.0)
            + (states[i - 1, j - 1] * both if i and j else 0.0)
            for i in range(3)
            for j in range(3)
        }
    return states[2, 2]


def _stays(
    i: int, j: int, neither: FloatArray, first: FloatArray, second: FloatArray, both: FloatArray
) -> FloatArray:
    """A member in two sets or more stays there, whatever the next set does."""
    stay = neither
    if i == 2:
        stay = stay + first
    if j == 2:
        stay = stay + second
    return stay + both if i == j == 2 else stay


def _enters(other: int, alone: FloatArray, both: FloatArray) -> FloatArray:
    """One member enters the next state and the other stays in its own."""
    return alone + both if other == 2 else alone


def several_variance(
    counts: FloatArray, size: FloatArray, targeted: FloatArray, dispersion: FloatArray
) -> FloatArray:
    """Var[number of targeted members in two or more sets], a row per group, a column per set."""
    result = np.zeros(len(counts))
    served = (counts > 0.0).sum(axis=1) >= 2
    random = served & (size > 1.0) & (targeted > 0.0)
    kinds = np.unique(np.stack([size, dispersion])[:, random], axis=1)
    for k, a in kinds.T.tolist():
        rows = np.flatnonzero(random & (size == k) & (dispersion == a))
        fixed = not k * a < _AS_GOOD_AS_UNIFORM
        nodes = 1 if fixed else int(min(_MAX_NODES, counts[rows].sum(axis=1).max() // 2 + 1))
        step = max(1, _CELLS // (nodes * nodes * counts.shape[1]))
        x, y, weight = _uniform_pair(k) if fixed else _pair_nodes(k, a, nodes)
        for low in range(0, len(rows), step):
            here = rows[low : low + step]
            chance, both = _chances(counts[here], x, y, weight)
            u = targeted[here]
            result[here] = u * (chance - chance**2) + u * (u - 1.0) * (both - chance**2)
    return np.maximum(result, 0.0)


def _chances(
    counts: FloatArray, x: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """P(one member in several), P(both of a pair in several), averaged over nodes of shares."""
    n = counts[:, None, :]
    first, second, both = ((1.0 - q)[None, :, None] ** n for q in (x, y, x + y))
    return in_several(first) @ weight, both_in_several(first, second, both) @ weight


def _uniform_pair(size: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    share = np.array([1.0 / size])
    return share, share, np.ones(1)


def _pair_nodes(size: float, a: float, nodes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of two members and the weights of an average over them."""
    x, p = _beta_nodes(a, (size - 1.0) * a, nodes)
    if size == 2.0:
        return x, 1.0 - x, p
    y, q = _beta_nodes(a, (size - 2.0) * a, nodes)
    second = (1.0 - x)[:, None] * y
    return np.repeat(x, nodes), second.reshape(-1), (p[:, None] * q).reshape(-1)


def _beta_nodes(a: float, b: float, nodes: int) -> tuple[FloatArray, FloatArray]:
    from scipy.special import roots_jacobi  # noqa: PLC0415 - slow to import

    t, weight = roots_jacobi(nodes, b - 1.0, a - 1.0)
    return (1.0 + t) / 2.0, weight / weight.sum()
