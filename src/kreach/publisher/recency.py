"""Fit a recency table on history: how often the next request of a group is the same person's."""

import numpy as np

from kreach.boundary.recency import RecencyTable
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.directory import Visits

__all__ = ["DEFAULT_EDGES_SECONDS", "fit_recency"]

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
DEFAULT_EDGES_SECONDS = (
    MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    40 * MINUTE,
    HOUR,
    2 * HOUR,
    6 * HOUR,
    DAY,
)


def fit_recency(
    visits: Visits,
    group_of: IntArray,
    edges_seconds: tuple[float, ...] = DEFAULT_EDGES_SECONDS,
    prior_pairs: float = 20.0,
) -> RecencyTable:
    """Share of successive visits of a group that are one person's, for each range of gaps.

    Ranges with few pairs are drawn towards the overall share by `prior_pairs`.
    """
    if len(visits) < 2:
        raise KreachError.rule("visits", "hold at least two visits", len(visits))
    group = group_of[visits.user]
    order = np.lexsort((visits.at_us, group))
    group, user, at = group[order], visits.user[order], visits.at_us[order]
    follows = group[1:] == group[:-1]
    gap = (at[1:] - at[:-1])[follows] / 1e6
    same = (user[1:] == user[:-1])[follows]
    cell = np.searchsorted(np.array(edges_seconds), gap, side="right")
    pairs = np.bincount(cell, minlength=len(edges_seconds) + 1)
    hits = np.bincount(cell, weights=same, minlength=len(edges_seconds) + 1)
    overall = float(same.mean()) if same.size else 0.0
    shares = (hits + prior_pairs * overall) / (pairs + prior_pairs)
    return RecencyTable(edges_seconds, tuple(shares.tolist()))
