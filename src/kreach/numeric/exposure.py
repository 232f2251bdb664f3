"""The law of one person's exposure count X, as a table that is accurate for extreme input.

A law is a table of P(X = l) for l = 0..top and the one number P(X > top). Everything else of a
report is a sum of positive terms of these, so nothing cancels:

    P(X ≥ l)      = P(X > top) + Σ_{i=l..top} P(X = i)
    E[min(X, c)]  = Σ_{l=1..c} P(X ≥ l)              (Theorem 1, Corollary 2)
    P(X < c)      = Σ_{l<c} P(X = l)                 (Theorem 4)

Rows are people of one kind; all functions work row by row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from kreach.numeric.special import log_gamma_cross
from kreach.numeric.types import BoolArray, FloatArray

__all__ = [
    "ExposureLaw",
    "beta_binomial_law",
    "binomial_law",
    "exposure_law",
    "exposure_laws",
    "sum_of_laws",
]

_FEW = 4_096

LogRatios = Callable[[FloatArray, "BoolArray | EllipsisType"], FloatArray]
"""ln P(l)/P(l−1) for the given counts l and rows; −∞ beyond the number of trials."""


@dataclass(frozen=True)
class ExposureLaw:
    """P(X = l) for l = 0..top in the columns of `pmf`, P(X > top) in `tail`; a row per kind."""

    pmf: FloatArray
    tail: FloatArray

    @property
    def top(self) -> int:
        """The largest count that has a column of its own."""
        return int(self.pmf.shape[-1]) - 1

    def survival(self) -> FloatArray:
        """P(X ≥ l) for l = 0..top+1; the first column is 1 up to rounding."""
        columns = np.concatenate([self.pmf, self.tail[..., None]], axis=-1)
        return np.cumsum(columns[..., ::-1], axis=-1)[..., ::-1]

    def capped_mean(self, cap: int) -> FloatArray:
        """E[min(X, cap)], for cap ≤ top + 1."""
        result: FloatArray = self.survival()[..., 1 : cap + 1].sum(axis=-1)
        return result

    def below(self, cap: int) -> FloatArray:
        """P(X < cap), for cap ≤ top + 1."""
        result: FloatArray = self.pmf[..., :cap].sum(axis=-1)
        return result

    def capped_variance(self, cap: int) -> FloatArray:
        """Var[min(X, cap)], for cap ≤ top + 1.

        From whichever of min(X, c) and c − min(X, c) has the smaller mean: its second moment
        then exceeds its squared mean, and the difference keeps its digits.
        """
        from_below = self.survival()[..., 1 : cap + 1]  # P(X ≥ 1), ..., P(X ≥ cap)
        from_above = np.cumsum(self.pmf[..., :cap], axis=-1)[..., ::-1]  # P(X < cap), ...
        odd = 2.0 * np.arange(1, cap + 1) - 1.0  # Σ_{l≤m} (2l−1) = m²
        low_mean = from_below.sum(axis=-1)
        high_mean = from_above.sum(axis=-1)
        low = from_below @ odd - low_mean**2
        high = from_above @ odd - high_mean**2
        result: FloatArray = np.maximum(np.where(low_mean < high_mean, low, high), 0.0)
        return result


def binomial_law(trials: FloatArray, success: FloatArray, top: int) -> ExposureLaw:
    """X ~ Binomial(trials, success): one member of a group under uniform visits or a visit share.

    ln P(X = 0) = n ln(1−p) and P(l)/P(l−1) = (n−l+1)/l · p/(1−p).
    """
    n, p = np.broadcast_arrays(
        np.asarray(trials, dtype=np.float64), np.asarray(success, dtype=np.float64)
    )
    certain = p >= 1.0
    odds = np.where(certain, 0.0, p) / np.where(certain, 1.0, 1.0 - p)

    def log_ratios(counts: FloatArray, rows: BoolArray | EllipsisType) -> FloatArray:
        left = np.maximum(n[rows][..., None] - counts + 1.0, 0.0)
        with np.errstate(divide="ignore"):
            result: FloatArray = np.log(left * odds[rows][..., None] / counts)
        return result

    log_zero = n * np.log1p(-np.where(certain, 0.0, p))
    return _law_from_ratios(n, log_zero, log_ratios, certain, top)


def beta_binomial_law(
    trials: FloatArray, dispersion: FloatArray, group_size: FloatArray, top: int
) -> ExposureLaw:
    """X ~ BetaBinomial(n, a, (k−1)a): one member when visit shares are Dirichlet(a, ..., a).

    With b = (k−1)a: P(X = 0) = Γ(b+n)Γ(a+b)/(Γ(b)Γ(a+b+n)) and
    P(l)/P(l−1) = (n−l+1)/l · (a+l−1)/(b+n−l). A group of one is certain: X = n.
    """
    n, a, k = (
        np.asarray(v, dtype=np.float64) for v in np.broadcast_arrays(trials, dispersion, group_size)
    )
    certain = k <= 1.0
    b = np.where(certain, 1.0, k - 1.0) * a

    def log_ratios(counts: FloatArray, rows: BoolArray | EllipsisType) -> FloatArray:
        trials_left = n[rows][..., None] - counts
        left = np.maximum(trials_left + 1.0, 0.0)
        rest = np.where(left > 0.0, b[rows][..., None] + trials_left, 1.0)
        with np.errstate(divide="ignore"):
            result: FloatArray = np.log(
                left * (a[rows][..., None] + (counts - 1.0)) / (counts * rest)
            )
        return result

    return _law_from_ratios(n, log_gamma_cross(b, a, n), log_ratios, certain, top)


def _law_from_ratios(
    n: FloatArray, log_zero: FloatArray, log_ratios: LogRatios, certain: BoolArray, top: int
) -> ExposureLaw:
    """The table from ln P(X = 0) and ln P(l)/P(l−1), summed in logs.

    In logs, because a P(X = 0) that underflows must not take the rest along. Where X = n is
    certain the table is an indicator. The tail is P(X ≥ 1) less the table; where less than a
    thousandth would remain, it is added up term by term instead, which keeps its digits.
    """
    ratios = log_ratios(np.arange(1.0, top + 1.0), ...)
    logs = np.cumsum(np.concatenate([log_zero[..., None], ratios], axis=-1), axis=-1)
    pmf = np.exp(logs)
    hit = -np.expm1(log_zero)
    tail = hit - pmf[..., 1:].sum(axis=-1)
    faint = (n > top) & (tail < 1e-3 * hit) & ~certain
    tail = np.where(n > top, tail, 0.0)
    if faint.any():
        tail[faint] = _tail_added_up(n[faint], logs[faint, -1], log_ratios, faint, top)
    if certain.any():
        pmf = np.where(certain[..., None], np.arange(top + 1) == n[..., None], pmf)
        tail = np.where(certain, n > top, tail)
    return ExposureLaw(pmf, tail)


def _tail_added_up(
    n: FloatArray, log_top: FloatArray, log_ratios: LogRatios, rows: BoolArray, top: int
) -> FloatArray:
    """P(X > top) for the chosen rows, from top + 1 upwards in blocks until no block matters."""
    total = np.zeros_like(n)
    open_rows = rows.copy()  # rows still being added up, in the shape of the whole table
    where = np.arange(len(n))
    last = log_top
    start, block = top + 1, 32
    while where.size:
        counts = np.arange(start, start + block, dtype=np.float64)
        ratios = log_ratios(counts, open_rows)
        logs = last[:, None] + np.cumsum(ratios, axis=-1)
        terms = np.exp(logs)
        total[where] += terms.sum(axis=-1)
        rest = terms[:, -1] * np.maximum(n[where] - counts[-1], 0.0)  # bounds a falling remainder
        going = (rest > 1e-18 * total[where]) | ((ratios[:, -1] > 0.0) & (rest > 0.0))
        open_rows[open_rows] = going
        where, last = where[going], logs[going, -1]
        start, block = start + block, min(2 * block, 1 << 14)
    return total


def exposure_law(
    trials: FloatArray, group_size: FloatArray, dispersion: FloatArray, top: int
) -> ExposureLaw:
    """One member of a group with so many impressions; infinite dispersion means uniform."""
    n, k, a = np.broadcast_arrays(trials, group_size, dispersion)
    uniform = np.isinf(a)
    if uniform.all():
        return binomial_law(n, 1.0 / k, top)
    if not uniform.any():
        return beta_binomial_law(n, a, k, top)
    pmf = np.empty((*n.shape, top + 1))
    tail = np.empty(n.shape)
    for mask, law in (
        (uniform, binomial_law(n[uniform], 1.0 / k[uniform], top)),
        (~uniform, beta_binomial_law(n[~uniform], a[~uniform], k[~uniform], top)),
    ):
        pmf[mask], tail[mask] = law.pmf, law.tail
    return ExposureLaw(pmf, tail)


def exposure_laws(
    cases: Sequence[tuple[FloatArray, FloatArray, FloatArray]], top: int
) -> list[ExposureLaw]:
    """`exposure_law` of several (trials, group size, dispersion), all arrays of one shape.

    Few rows are computed together: then calls cost more than numbers.
    """
    if not 1 < cases[0][0].size <= _FEW:
        return [exposure_law(*case, top) for case in cases]
    trials, group_size, dispersion = (np.stack(column) for column in zip(*cases, strict=True))
    law = exposure_law(trials, group_size, dispersion, top)
    return [ExposureLaw(law.pmf[at], law.tail[at]) for at in range(len(cases))]


def sum_of_laws(first: ExposureLaw, second: ExposureLaw) -> ExposureLaw:
    """The law of X + X' for independent X and X', row by row, truncated at the same top.

    P(X + X' > top) = P(X > top) + Σ_{i≤top} P(X = i) P(X' > top − i): positive terms only.
    """
    top = first.top
    pmf = np.zeros(np.broadcast_shapes(first.pmf.shape, second.pmf.shape))
    beyond = second.survival()  # P(X' ≥ l)
    tail = first.tail + np.zeros(pmf.shape[:-1])
    for i in range(top + 1):
        weight = first.pmf[..., i : i + 1]
        pmf[..., i:] += weight * second.pmf[..., : top + 1 - i]
        tail = tail + weight[..., 0] * beyond[..., top + 1 - i]
    return ExposureLaw(pmf, tail)
