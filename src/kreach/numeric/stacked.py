"""Several caps at once: "1 a day and 3 a week and 10 in all".

Windows are nested, so impressions fall into segments: the last day, the rest of the week, what is
older. A request counts if the person is under every cap: l₁ < c₁, l₁ + l₂ < c₂, and so on, where
l_w is what the person saw in segment w. Given that a person saw l of N impressions, which ones is
pure chance, so with A(l) = Σ Π C(n_w, l_w) over the allowed splits of l,

    P(open and X = l) = P(X = l)·A(l)/C(N, l).

It holds for uniform, dispersed and fixed shares alike.
"""

from collections.abc import Sequence

import numpy as np

from kreach.numeric.exposure import binomial_law
from kreach.numeric.types import FloatArray

__all__ = ["open_share"]


def open_share(segments: Sequence[int], caps: Sequence[int]) -> FloatArray:
    """A(l)/C(N, l) for l = 0, 1, ..., largest cap − 1: the chance that l impressions break no cap.

    `segments` are impressions from the shortest window outwards, without what is already counted;
    `caps` belong to the windows. Segment by segment: of l impressions among those so far, x fall
    into the newest segment with hypergeometric probability, and the other l − x must be open.
    """
    top = max(caps)
    share = np.zeros(top)
    share[0] = 1.0
    so_far = 0
    for count, cap in zip(segments, caps, strict=True):
        so_far += count
        wider = np.zeros(top)
        for seen in range(min(cap, so_far + 1)):
            wider[seen] = _hypergeometric(seen, count, so_far) @ share[: seen + 1][::-1]
        share = wider
    return share


def _hypergeometric(drawn: int, marked: int, total: int) -> FloatArray:
    """P(x of `drawn` are among the `marked` of `total`), x = 0..drawn.

    As a ratio of binomial probabilities, equal for every success rate; at drawn/total none of
    them is small.
    """
    if total == 0:
        return np.ones(1)
    rate = np.array([drawn / total])
    inside = binomial_law(np.array([float(marked)]), rate, drawn).pmf[0]
    outside = binomial_law(np.array([float(total - marked)]), rate, drawn).pmf[0]
    both = inside * outside[::-1]
    result: FloatArray = both / both.sum()
    return result
