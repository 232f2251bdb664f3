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

from kreach.numeric.types import FloatArray

__all__ = ["open_share"]


def open_share(segments: Sequence[int], caps: Sequence[int]) -> FloatArray:
    """A(l)/C(N, l) for l = 0, 1, ..., largest cap − 1: the chance that l impressions break no cap.

    `segments` are impressions from the shortest window outwards, without what is already counted;
    `caps` belong to the windows. Counts are scaled by N^l, which keeps every term below 1.
    """
    total = sum(segments)
    top = max(caps)
    ways = np.zeros(top)
    ways[0] = 1.0
    for count, cap in zip(segments, caps, strict=True):
        own = _scaled_choices(count, total, top)
        ways = np.convolve(ways, own)[:top]
        ways[cap:] = 0.0
    everything = _scaled_choices(total, total, top)
    return np.where(everything > 0.0, ways / np.where(everything > 0.0, everything, 1.0), 0.0)


def _scaled_choices(count: int, total: int, top: int) -> FloatArray:
    """C(count, l)/total^l for l < top."""
    steps = np.arange(1, top)
    ratios = np.maximum(count - steps + 1, 0) / (steps * max(total, 1))
    result: FloatArray = np.concatenate([[1.0], np.cumprod(ratios)])
    return result
