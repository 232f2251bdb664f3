"""Fit a recency table on history: how often the next request of a group is the same person's."""

import numpy as np

from kreach.boundary.recency import RecencyTable
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS, MICROS
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.directory import Visits

__all__ = ["DEFAULT_EDGES_SECONDS", "fit_recency"]

_MINUTE = 60.0
DEFAULT_EDGES_SECONDS = (
    *(minutes * _MINUTE for minutes in (1, 5, 10, 20, 40)),
    *(hours * float(HOUR_SECONDS) for hours in (1, 2, 6)),
    float(DAY_SECONDS),
)


def fit_recency(
    visits: Visits,
    group_of: IntArray,
    edges_seconds: tuple[float, ...] = DEFAULT_EDGES_SECONDS,
    prior_pairs: float = 20.0,
) -> RecencyTable:
    """How much more often than by chance successive visits of a group are one person's, by gap.

    If a visit continues the session before it with probability s, and else is anybody's, two
    successive visits are one person's with probability s + (1 − s)·q, where q is the chance of
    meeting somebody twice. The table holds s. Ranges with few pairs are shrunk towards the overall
    share by `prior_pairs`.
    """
    if len(visits) < 2:
        raise KreachError.rule("visits", "hold at least two visits", len(visits))
    group = group_of[visits.user]
    order = np.lexsort((visits.at_us, group))
    group, user, at = group[order], visits.user[order], visits.at_us[order]
    follows = group[1:] == group[:-1]
    gap = (at[1:] - at[:-1])[follows] / MICROS
    same = (user[1:] == user[:-1])[follows]
    cell = np.searchsorted(np.array(edges_seconds), gap, side="right")
    pairs = np.bincount(cell, minlength=len(edges_seconds) + 1)
    hits = np.bincount(cell, weights=same, minlength=len(edges_seconds) + 1)
    overall = float(same.mean()) if same.size else 0.0
    same_share = (hits + prior_pairs * overall) / np.maximum(pairs + prior_pairs, 1e-300)
    chance = _chance_meeting(group, user)
    shares = np.clip((same_share - chance) / max(1.0 - chance, 1e-12), 0.0, 1.0)
    return RecencyTable(edges_seconds, tuple(shares.tolist()))


def _chance_meeting(group: IntArray, user: IntArray) -> float:
    """How often two visits of a group are one person's, whatever lies between them.

    Σ x_i(x_i − 1)/(n(n − 1)) of each group, averaged as successive visits are: n − 1 a group.
    """
    _, visits = np.unique(np.stack([group, user], axis=1), axis=0, return_counts=True)
    of_group, total = np.unique(group, return_counts=True)
    owner = np.unique(np.stack([group, user], axis=1), axis=0)[:, 0]
    alike = np.bincount(
        np.searchsorted(of_group, owner), weights=visits * (visits - 1.0), minlength=len(total)
    )
    several = total > 1
    if not several.any():
        return 0.0
    rate = alike[several] / (total[several] * (total[several] - 1.0))
    return float(np.average(rate, weights=total[several] - 1.0))
