"""How likely two sessions of a group are one person's, for the sessions of a whole campaign.

People keep to their hours and come back for days or not at all, so the probability c depends on
the parts of the day of both sessions and on the days between them. A table holds it:

    c[p, q, b]   the earlier session in part p of the day, the later in part q, b days apart

with days in ranges (`DAY_EDGES`). For the draws of a campaign the law of shares needs one number,
the mean of c over pairs of draws. Pairs are taken from the draws of all groups together, part by
part: the campaign's calendar and its autocorrelation are enough, no pairs within groups are listed.
"""

import numpy as np

from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "DAY_EDGES",
    "PARTS",
    "PART_US",
    "calendar",
    "crowded_meeting",
    "day_range",
    "mean_meeting",
    "meeting_at",
    "pair_weights",
]

PARTS = 12  # of a day
PART_US = 86_400_000_000 // PARTS
DAY_EDGES = (1, 2, 3, 7, 8, 14, 28, 56)  # 0, 1, 2, 3 to 6, 7, 8 to 13, ... days apart


def day_range(days: IntArray) -> IntArray:
    """The index of the range that a number of days lies in."""
    result: IntArray = np.searchsorted(np.array(DAY_EDGES), days, side="right")
    return result


def calendar(part: IntArray, draws: FloatArray) -> FloatArray:
    """Draws by day (row) and part of the day, from parts counted since 1970 and their draws.

    Of a stretch without draws at most `DAY_EDGES[-1]` days are there.
    """
    if len(part) == 0:
        return np.zeros((0, PARTS))
    part, draws = _folded(part, draws)
    days, day = np.unique(part // PARTS, return_inverse=True)
    # longer lags are all one range, so that long stretches without draws need not be there
    gaps = np.minimum(np.diff(days, prepend=days[:1]), DAY_EDGES[-1] + 1)
    row = np.cumsum(gaps)
    place = row[day] * PARTS + part % PARTS
    table = np.bincount(place, weights=draws, minlength=(int(row[-1]) + 1) * PARTS)
    result: FloatArray = table.astype(np.float64).reshape(-1, PARTS)
    return result


def _folded(part: IntArray, draws: FloatArray) -> tuple[IntArray, FloatArray]:
    """Rows of one part as one: far quicker to sort where rows are many."""
    first = int(part.min())
    span = int(part.max()) - first + 1
    if span > len(part):
        return part, draws
    present: IntArray = np.flatnonzero(np.bincount(part - first)).astype(np.int64)
    sums: FloatArray = np.bincount(part - first, weights=draws)[present].astype(np.float64)
    return present + first, sums


def pair_weights(days: FloatArray) -> FloatArray:
    """Σ over pairs of draws by (part of the earlier, part of the later, range of days apart).

    Autocorrelations over days, by FFT; on one day a pair counts once, the earlier part first.
    """
    result = np.zeros((PARTS, PARTS, len(DAY_EDGES) + 1))
    count = len(days)
    if count == 0:
        return result
    width = 1 << int(2 * count - 1).bit_length()
    transformed = np.fft.rfft(days, width, axis=0)
    ranges = day_range(np.arange(count))
    cell = (ranges[:, None] * PARTS + np.arange(PARTS)).ravel()
    cells = PARTS * result.shape[2]
    for p in range(PARTS):
        product = np.conj(transformed[:, p : p + 1]) * transformed
        apart = np.maximum(np.fft.irfft(product, width, axis=0)[:count], 0.0)
        apart[0, :p] = 0.0
        apart[0, p] *= 0.5
        sums = np.bincount(cell, weights=apart.ravel(), minlength=cells)
        result[p] = sums.reshape(-1, PARTS).T
    return result


def crowded_meeting(meeting: FloatArray, factor: float | FloatArray) -> FloatArray:
    """The same probability with `factor` times as many sessions of other people.

    A person's own sessions stay, those of others are multiplied: c / (c + factor (1 − c)).
    """
    result: FloatArray = meeting / (meeting + factor * (1.0 - meeting))
    return result


def mean_meeting(meeting: FloatArray, days: FloatArray) -> float:
    """The mean of c over pairs of draws of a campaign; of the whole table if there are none."""
    weights = pair_weights(days)
    total = float(weights.sum())
    return float((weights * meeting).sum() / total) if total > 0.0 else float(meeting.mean())


def meeting_at(meeting: FloatArray, part: IntArray, draws: FloatArray, now: int) -> float:
    """The mean of c over pairs of a draw so far and one in the part `now`; parts count from 1970.

    Reach grows by these pairs: summed over a campaign's draws, one by one, they are all its pairs.
    Before there are draws it is c of two draws in that very part.
    """
    total = float(draws.sum())
    if total <= 0.0:
        return float(meeting[now % PARTS, now % PARTS, 0])
    early, late = np.minimum(part, now), np.maximum(part, now)
    days = day_range(late // PARTS - early // PARTS)
    return float(draws @ meeting[early % PARTS, late % PARTS, days]) / total
