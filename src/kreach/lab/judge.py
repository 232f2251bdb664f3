"""How far off each way to measure is: estimators by buying pattern, window, share won and cap.

Who measures may not know who will buy or which window will be asked for, so an estimator is judged
on all of them, on people and times that nothing was fitted to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.patterns import PATTERNS, Requests, select, utc_hours
from kreach.numeric.types import IntArray

__all__ = ["CAPS", "WINDOWS", "WIN_SHARES", "Cell", "cells_of", "judge_campaign", "window_names"]

Row = dict[str, Any]

WIN_SHARES = (0.01, 0.02, 0.05, 0.1, 0.3, 1.0)  # random wins; all of them over the whole flight
_PATTERN_SHARES = (0.02, 0.1, 0.3)
CAPS = (1, 3)
WINDOWS: Mapping[str, int | None] = {  # name: seconds; None is the whole flight
    "hour": HOUR_SECONDS,
    "6 hours": 6 * HOUR_SECONDS,
    "day": DAY_SECONDS,
    "3 days": 3 * DAY_SECONDS,
    "week": 7 * DAY_SECONDS,
    "30 days": 30 * DAY_SECONDS,
    "flight": None,
}
_WINDOWS_EACH = 3  # of one length, drawn at random
_MIN_REACHED = 30  # people in a window; fewer say nothing about an estimator


@dataclass(frozen=True)
class _Slice:
    """A window of the flight: its name, and where it begins and ends in seconds."""

    name: str
    start: float
    end: float

    @property
    def hours(self) -> float:
        return (self.end - self.start) / HOUR_SECONDS


def window_names(seconds: float) -> list[str]:
    """The windows that fit into a flight of so many seconds, each shorter than half of it."""
    return [name for name, length in WINDOWS.items() if length is None or 2 * length <= seconds]


def judge_campaign(
    grouped: GroupedCampaign,
    wins_of_buyers: Mapping[str, IntArray],
    generator: np.random.Generator,
    base: Row,
) -> list[Row]:
    """A row for each pattern, share won, window, cap and estimator."""
    campaign = grouped.campaign
    hours = utc_hours(campaign.starts_us, campaign.at)
    requests = Requests(grouped.groups, campaign.at, hours, campaign.price)
    rows = []
    for pattern, share, won in _purchases(requests, wins_of_buyers, generator):
        for piece in _slices(campaign.seconds, generator):
            inside = (campaign.at[won] >= piece.start) & (campaign.at[won] < piece.end)
            rows += _errors(
                grouped,
                won[inside],
                piece,
                base | {"pattern": pattern, "win_share": share, "window": piece.name},
            )
    return rows


def _purchases(
    requests: Requests, wins_of_buyers: Mapping[str, IntArray], generator: np.random.Generator
) -> Iterator[tuple[str, float, IntArray]]:
    for pattern in PATTERNS:
        for share in WIN_SHARES if pattern == "random" else _PATTERN_SHARES:
            yield pattern, share, select(pattern, requests, share, generator)
    for buyer, won in wins_of_buyers.items():
        yield f"buyer: {buyer}", len(won) / max(len(requests), 1), won


def _slices(seconds: float, generator: np.random.Generator) -> Iterator[_Slice]:
    for name in window_names(seconds):
        length = WINDOWS[name]
        if length is None:
            yield _Slice(name, 0.0, seconds + 1.0)
            continue
        for _ in range(_WINDOWS_EACH):
            start = HOUR_SECONDS * np.floor(
                generator.random() * (seconds - length) / HOUR_SECONDS
            )  # reports begin on the hour
            yield _Slice(name, float(start), float(start) + length)


def _errors(grouped: GroupedCampaign, won: IntArray, piece: _Slice, base: Row) -> list[Row]:
    seen = np.bincount(grouped.campaign.person[won]) if len(won) else np.zeros(1, dtype=np.int64)
    reached = np.count_nonzero(seen)
    if reached == 0 or (reached < _MIN_REACHED and base["window"] != "flight"):
        return []
    rows = []
    for approach in grouped.applicable_approaches():
        if base["window"] != "flight" and approach in grouped.flight_only:
            continue
        reports = grouped.reports(approach, won, CAPS, piece.hours, piece.start)
        for cap, report in reports.items():
            truth = int(np.minimum(seen, cap).sum())
            low, high = (0.0, 0.0)
            if approach not in grouped.flight_only:
                low, high = report.interval(0.95, "normal")
            rows.append(
                base
                | {
                    "approach": approach,
                    "cap": cap,
                    "true_reach": truth,
                    "measured_reach": report.reach,
                    "error": report.reach / truth - 1.0,
                    "covered": bool(low <= truth <= high),
                    "width": (high - low) / truth,
                }
            )
    return rows


@dataclass(frozen=True)
class Cell:
    """One pattern and window over campaigns and shares won."""

    error: float  # Σ measured / Σ true − 1: large campaigns count more
    coverage: float  # share of the 95 % intervals that held the truth
    width: float  # mean width of these, relative to the truth
    reports: int


def cells_of(rows: Iterable[Row]) -> dict[tuple[str, str], Cell]:
    """Rows of one estimator and cap by (pattern, window)."""
    sorted_rows: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pattern = str(row["pattern"]).partition(",")[0]  # a buyer with all its budgets
        sorted_rows.setdefault((pattern, str(row["window"])), []).append(row)
    return {
        key: Cell(
            sum(row["measured_reach"] for row in mine) / sum(row["true_reach"] for row in mine)
            - 1.0,
            float(np.mean([row["covered"] for row in mine])),
            float(np.mean([row["width"] for row in mine])),
            len(mine),
        )
        for key, mine in sorted_rows.items()
    }
