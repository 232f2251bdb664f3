"""Two kinds of visitors: the law of one member's impressions when people visit in sessions.

Of a group's k members a share h are *regulars*, who together make a share H of its sessions; the
others are occasional. Sessions fall on members with Dirichlet shares of total concentration A
whose means are H/(kh) for a regular and (1 − H)/(k(1 − h)) for anybody else. Two sessions are then
one person's with probability

    c = (A s + 1) / (A + 1),      s = (H²/h + (1 − H)²/(1 − h)) / k.

Given c, the share θ of its excess over 1/k that is lasting, (s − 1/k) = θ (c − 1/k), fixes H, and
A = (1 − c)/(c − s) follows. θ = 0 is the symmetric Dirichlet law with a = A/k, c = 1/k uniform.

The number of sessions S of a regular among d draws is beta-binomial(d, α, A − α) with α = A·H/(kh),
that of the others likewise. A session brings B impressions, so X = B_1 + ... + B_S.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kreach.numeric.exposure import ExposureLaw, exposure_law, exposure_laws
from kreach.numeric.types import FloatArray

__all__ = [
    "VisitorKinds",
    "batch_law",
    "compound",
    "mixture",
    "sums_of_batches",
    "visitor_kinds",
]

_MAX_SHARE = 0.95  # of one member, and of all regulars: no group is one person's by law
_MAX_MEETING = 0.98
_UNIFORM = 1e-12


@dataclass(frozen=True)
class VisitorKinds:
    """Shares of members and the concentration, for groups of each size (arrays of one length).

    `regulars` is h; `share` and `other_share` are the mean visit shares of one regular and of one
    of the others; `concentration` is A, infinite where shares are fixed.
    """

    regulars: float
    share: FloatArray
    other_share: FloatArray
    concentration: FloatArray

    def sessions(self, draws: FloatArray, top: int) -> ExposureLaw:
        """The law of the sessions of a member taken at random, row by row, for whole draws."""
        return self.sessions_of_each((draws,), top)[0]

    def sessions_of_each(self, draws: Sequence[FloatArray], top: int) -> list[ExposureLaw]:
        """`sessions` for several draws of the same rows."""
        shares = self.share, self.other_share
        cases = [(n, 1.0 / share, self.concentration * share) for n in draws for share in shares]
        laws = exposure_laws(cases, top)
        h = self.regulars
        return [
            mixture([(h, regular), (1.0 - h, other)])
            for regular, other in zip(laws[::2], laws[1::2], strict=True)
        ]

    def sessions_of_next(self, draws: FloatArray, top: int) -> ExposureLaw:
        """The law of the sessions, among `draws` whole ones, of the person of one session more.

        Busy people come more often. The next session is a regular's with probability H, and given
        that it is one member's, that member's share is Beta(α + 1, A − α) and not Beta(α, A − α).
        """
        sizes = self.regulars * self.share, (1.0 - self.regulars) * self.other_share
        fixed = np.isinf(self.concentration)
        total = np.where(fixed, 1.0, self.concentration)
        cases = []
        for share in (self.share, self.other_share):
            alpha = total * share + 1.0
            people = np.where(fixed, 1.0 / share, (total + 1.0) / alpha)
            cases.append((draws, people, np.where(fixed, np.inf, alpha)))
        weights = [size / (sizes[0] + sizes[1]) for size in sizes]
        return mixture(list(zip(weights, exposure_laws(cases, top), strict=True)))


def mixture(
    laws: list[tuple[float, ExposureLaw]] | list[tuple[FloatArray, ExposureLaw]],
) -> ExposureLaw:
    """The law of a member who is of each kind with the given weight."""
    pmf = sum(np.asarray(weight)[..., None] * law.pmf for weight, law in laws)
    tail = sum(weight * law.tail for weight, law in laws)
    return ExposureLaw(np.asarray(pmf), np.asarray(tail))


def visitor_kinds(
    meeting: FloatArray, size: FloatArray, regulars: float, lasting: float
) -> VisitorKinds:
    """The law whose two sessions meet with probability `meeting`, for groups of each size.

    Where a group is too small for its share h of regulars to be as busy as c asks, they are as busy
    as can be and the rest of c is chance.
    """
    k = np.asarray(size, dtype=np.float64)
    c, k = np.broadcast_arrays(np.minimum(meeting, _MAX_MEETING), k)
    h = regulars
    excess = np.maximum(c - 1.0 / k, 0.0)
    total = h + np.sqrt(lasting * excess * k * h * (1.0 - h))
    total = np.maximum(np.minimum(total, _MAX_SHARE * np.minimum(1.0, k * h)), h)
    same = (total**2 / h + (1.0 - total) ** 2 / (1.0 - h)) / k
    left = c - same
    concentration = np.where(left > _UNIFORM, (1.0 - c) / np.maximum(left, _UNIFORM), np.inf)
    return VisitorKinds(h, total / (k * h), (1.0 - total) / (k * (1.0 - h)), concentration)


def batch_law(session_pmf: FloatArray, mean: float, top: int) -> FloatArray:
    """P(B = 1), ..., P(B = top): impressions of a session that has any, with the given mean.

    `session_pmf[z − 1]` is the share of sessions with z requests. If each request is won with
    probability q, B is binomial(z, q) given B ≥ 1; q is the one with mean E[B] = `mean`. Where
    impressions per draw exceed the requests of a session, sessions are that many times as long.
    """
    z = np.arange(1, len(session_pmf) + 1, dtype=np.float64)
    requests = float(session_pmf @ z)
    if mean >= requests:
        return _stretched(session_pmf, mean / requests, top)

    def mean_at(q: float) -> float:
        return float(q * requests / (session_pmf @ -np.expm1(z * np.log1p(-q))))

    if mean <= mean_at(1e-9):
        return np.eye(1, top)[0] if top else np.zeros(0)
    q = _rising_root(lambda q: mean_at(q) - mean, 1e-9, 1.0 - 1e-12)
    law = exposure_law(z, np.full(len(z), 1.0 / q), np.full(len(z), np.inf), top)
    some = session_pmf @ law.pmf
    result = some[1:] / (session_pmf @ -np.expm1(z * np.log1p(-q)))
    return np.asarray(result)


def _rising_root(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses 0, to the last digits; `value(low)` must be negative.

    Secants between the last points on both sides. A side that stays counts half as much (the
    Illinois rule), so that both close in.
    """
    below, above = value(low), value(high)
    if above <= 0.0:  # by rounding: the crossing is at the very end
        return high
    at, stayed = high, 0.0
    for _ in range(60):
        at = low - below * (high - low) / (above - below)
        if not low < at < high:  # there are no digits left
            break
        found = value(at)
        if found < 0.0:
            low, below = at, found
            above *= 0.5 if stayed < 0.0 else 1.0
        else:
            high, above = at, found
            below *= 0.5 if stayed > 0.0 else 1.0
        stayed = found
    return at


def _stretched(pmf: FloatArray, factor: float, top: int) -> FloatArray:
    """P(1), ..., P(top) of numbers that are `factor` times as large, rounded at random."""
    size = np.arange(1, len(pmf) + 1) * factor
    low = np.floor(size).astype(np.int64)
    result = np.zeros(top + 2)
    np.add.at(result, np.minimum(low, top + 1), pmf * (1.0 - (size - low)))
    np.add.at(result, np.minimum(low + 1, top + 1), pmf * (size - low))
    return result[1 : top + 1]


def sums_of_batches(batch: FloatArray, top: int) -> FloatArray:
    """P(B_1 + ... + B_s = l) in row s and column l, for s and l from 0 to top."""
    step = np.zeros(top + 1)
    step[1 : len(batch) + 1] = batch[:top]
    sums = np.zeros((top + 1, top + 1))
    sums[0, 0] = 1.0
    for s in range(1, top + 1):
        sums[s] = np.convolve(sums[s - 1], step)[: top + 1]
    return sums


def compound(sessions: ExposureLaw, batch: FloatArray) -> ExposureLaw:
    """The law of X = B_1 + ... + B_S from that of S, with the same top. Positive terms only."""
    top = sessions.top
    sums = sums_of_batches(batch, top)
    beyond = np.maximum(1.0 - sums.sum(axis=1), 0.0)  # P(B_1 + ... + B_s > top)
    return ExposureLaw(sessions.pmf @ sums, sessions.tail + sessions.pmf @ beyond)
