"""Effective draws: how many independent looks at a group its impressions are worth.

People visit in sessions, so an impression minutes after another of its group is mostly shown to
the same person. Let the l-th previous impression of the group lie a gap g_l back. Then

    e_l = o_l(g_l) / (o_l(g_l) + τ)        continues the session of the l-th previous impression,
                                           given that it continues none nearer
    share = Π_l (1 − e_l) = Π_l τ / (o_l(g_l) + τ)

is the probability that the impression starts a session of its own, as far as impressions tell.
The odds o_l are those at average traffic; τ is the traffic of the hour relative to the average:
where fewer other people are about, two impressions so far apart are likelier one person's.
The sum of the shares over a group is its number of effective draws. Gaps of an hour and more
barely matter: what makes two *sessions* one person's is in `meetings.py`.
"""

import numpy as np

from kreach.numeric.types import FloatArray, IntArray

__all__ = ["HOUR_US", "draw_shares", "gap_odds", "hour_of_day", "sum_by"]

HOUR_US = 3_600_000_000


def hour_of_day(at_us: IntArray) -> IntArray:
    """The UTC hour 0..23 of instants in microseconds since 1970."""
    result: IntArray = at_us // HOUR_US % 24
    return result


def gap_odds(gaps_us: IntArray, edges_us: IntArray, odds: FloatArray) -> FloatArray:
    """The odds of each gap: `odds[i]` below `edges_us[i]`, 0 from the last edge on."""
    table = np.append(odds, 0.0)
    result: FloatArray = table[np.searchsorted(edges_us, gaps_us, side="right")]
    return result


def draw_shares(
    group: IntArray, at_us: IntArray, edges_us: IntArray, odds: FloatArray, traffic: FloatArray
) -> FloatArray:
    """The share of a draw of each impression; rows come ordered by group, then time.

    `odds` has a row per lag and a column per gap; `traffic` is relative, by UTC hour. The first
    impression of a group counts whole: a window that cuts a session sees its rest as a new one.
    """
    shares = np.ones(len(group))
    here = traffic[hour_of_day(at_us)]
    for lag, row in enumerate(odds, start=1):
        same = np.flatnonzero(group[lag:] == group[:-lag]) + lag
        if same.size == 0:
            break
        found = gap_odds(at_us[same] - at_us[same - lag], edges_us, row)
        shares[same] *= here[same] / (here[same] + found)
    return shares


def sum_by(index: IntArray, weights: FloatArray, length: int) -> FloatArray:
    """Sums of the weights by index 0..length − 1."""
    return np.bincount(index, weights=weights, minlength=length).astype(np.float64)
