"""The caps of a campaign and those of its family at once.

The campaign's impressions are among the family's, so its caps are nested in theirs. Impressions
fall into segments of time, from the newest outwards, and in each into the campaign's own and the
others of the family. A request counts if at the end of every segment that a window of a cap ends
with, the person has seen fewer of the campaign's (or of the family's) than that cap.

Which l of N impressions a person saw is pure chance, as in `stacked.py`, so what is needed is
A(l)/C(N, l): of the ways to see l, the part that breaks no cap. With independent binomials of any
one success rate r the ways are weighed alike,

    A(l)/C(N, l) = P_r(no cap broken and X = l) / P_r(X = l),

so the numerator is a convolution, cell by cell. For one cap each, c₁ on the own n₁ and c₂ on all,
this is Σ_{l<c₁} f(l; n₁) F(c₂ − 1 − l; n₂), with n₂ the impressions of the others.
"""

from collections.abc import Sequence

import numpy as np

from kreach.numeric.exposure import binomial_law
from kreach.numeric.types import FloatArray

__all__ = ["open_share_in_family"]

_STEP = 4.0  # between rates: each l is computed at the one whose mean is nearest to it


def open_share_in_family(
    own: Sequence[int],
    others: Sequence[int],
    own_caps: Sequence[int | None],
    family_caps: Sequence[int | None],
) -> FloatArray:
    """A(l)/C(N, l) for l = 0, 1, ...: the chance that l impressions break no cap.

    `own` and `others` are impressions by segment, without what is already counted; the caps
    belong to the windows that end with a segment, None if none does. Own impressions beyond the
    last cap of the family are in N, others' are not: leave them out.

    >>> open_share_in_family([1], [1], [1], [2]).round(9).tolist()  # of one: half are the own
    [1.0, 0.5, 0.0]
    """
    max_own = max((cap for cap in own_caps if cap is not None), default=1)
    max_count = max_own + max((cap for cap in family_caps if cap is not None), default=0)
    last_own = max((at for at, cap in enumerate(own_caps) if cap is not None), default=-1)
    total = sum(own) + sum(others)
    share = np.zeros(max_count)
    mean, low = 1.0, 0
    while low < max_count:
        high = max_count if mean * _STEP >= 2.0 * max_count else min(round(2.0 * mean), max_count)
        rate = mean / (total + mean)
        every = np.zeros(max_count)
        law = _binomial(total, rate, max_count)
        every[: len(law)] = law
        opened = _opened(own, others, own_caps, family_caps, rate, (max_own, max_count), last_own)
        here = slice(low, high)
        known = every[here] > 0.0
        share[here][known] = opened[here][known] / every[here][known]
        mean, low = mean * _STEP, high
    return np.minimum(share, 1.0)


def _opened(
    own: Sequence[int],
    others: Sequence[int],
    own_caps: Sequence[int | None],
    family_caps: Sequence[int | None],
    rate: float,
    shape: tuple[int, int],
    last_own: int,
) -> FloatArray:
    """P_r(no cap broken and X = l): states are (own impressions, all impressions)."""
    state = np.zeros(shape)
    state[0, 0] = 1.0
    for at, pair in enumerate(zip(own, others, strict=True)):
        # own ones that no cap of the campaign looks at are like the others'
        mine, rest = pair if at <= last_own else (0, sum(pair))
        state = _added(state, _binomial(mine, rate, shape[0]), of_own=True)
        state = _added(state, _binomial(rest, rate, shape[1]), of_own=False)
        own_cap, family_cap = own_caps[at], family_caps[at]
        if own_cap is not None:
            state[own_cap:] = 0.0
        if family_cap is not None:
            state[:, family_cap:] = 0.0
    result: FloatArray = state.sum(axis=0)
    return result


def _added(state: FloatArray, law: FloatArray, *, of_own: bool) -> FloatArray:
    """The state after more impressions, of which a person sees so many with these chances."""
    after = np.zeros_like(state)
    rows, columns = state.shape
    for seen, chance in enumerate(law.tolist()):
        down = seen if of_own else 0
        if down >= rows or seen >= columns:
            break
        after[down:, seen:] += chance * state[: rows - down, : columns - seen]
    return after


def _binomial(trials: int, rate: float, length: int) -> FloatArray:
    """P(X = 0), P(X = 1), ..., as far as there is a state for it."""
    top = min(trials, length - 1)
    law: FloatArray = binomial_law(np.array([float(trials)]), np.array([rate]), top).pmf[0]
    return law
