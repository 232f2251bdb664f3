"""Inventory and prices as bidders saw them: what a plan without a campaign rests on.

Bidders write requests by group, and what every campaign learned of its market, to their journals
(`bidserver.checkpoints`). Requests are totals of the site; prices come from all auctions of all
campaigns together, wins and losses (Kaplan and Meier), so no campaign's own prices are told.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from kreach.adsystem.log.snapshot import journal_reader
from kreach.adsystem.store_layout import log_folders
from kreach.boundary.money import MICROS
from kreach.boundary.times import DAY_SECONDS
from kreach.numeric.types import FloatArray

__all__ = [
    "ObservedInventory",
    "ObservedPrices",
    "observed_inventory",
    "observed_prices",
    "observed_requests",
]

_MIN_SECONDS = 3_600.0  # of traffic, to tell how much there is
_MIN_PRICES = 100.0
_QUANTILES = (0.05, 0.95)  # of the market within which a log-normal is fitted


@dataclass(frozen=True)
class ObservedInventory:
    """Bid requests a day on a catalogue, over so many days, and the share that ads could use.

    `eligible_share` is the mean over campaigns: a banner fits some of the places on a site.
    """

    requests_per_day: float
    days: float
    eligible_share: float

    def in_flight(self, start: datetime, end: datetime) -> int:
        """Eligible requests to expect between two moments."""
        days = (end - start).total_seconds() / DAY_SECONDS
        return max(ceil(self.requests_per_day * self.eligible_share * days), 1)


@dataclass(frozen=True)
class ObservedPrices:
    """A log-normal market of prices per thousand, fitted to so many auctions."""

    mu: float
    sigma: float
    auctions: float


def observed_inventory(store: Path, version: str) -> ObservedInventory | None:
    """Requests on a catalogue so far; None while too little was seen.

    Bidders that share counts each have those of all: the largest count is that of the site.
    """
    best: tuple[float, float] | None = None
    shares = []
    for memories in _journals(store):
        for name, at_us, value in memories:
            if name == f"traffic:{version}" and len(value) >= 8:
                since = float(np.frombuffer(value[:8], dtype=np.float64)[0])
                total = float(np.frombuffer(value[8:], dtype=np.uint32).sum(dtype=np.float64))
                seconds = at_us / MICROS - since
                if seconds >= _MIN_SECONDS and (best is None or total > best[0]):
                    best = (total, seconds)
            elif name.startswith(f"campaign:{version}:"):
                learned = _document(value)
                sampled = _number(learned.get("sampled_requests"))
                if sampled > 0.0:
                    shares.append(min(_number(learned.get("eligible_requests")) / sampled, 1.0))
    if best is None or best[0] <= 0.0:
        return None
    total, seconds = best
    usable = [share for share in shares if share > 0.0]
    share = sum(usable) / len(usable) if usable else 1.0
    return ObservedInventory(DAY_SECONDS * total / seconds, seconds / DAY_SECONDS, share)


def observed_requests(store: Path) -> int:
    """Bid requests with a group of any catalogue so far, as of the last checkpoint."""
    most: dict[str, float] = {}
    for memories in _journals(store):
        for name, _, value in memories:
            if name.startswith("traffic:") and len(value) >= 8:
                total = float(np.frombuffer(value[8:], dtype=np.uint32).sum(dtype=np.float64))
                most[name] = max(most.get(name, 0.0), total)
    return int(sum(most.values()))


def observed_prices(store: Path, version: str, auction: str) -> ObservedPrices | None:
    """The market of an auction type, from what all campaigns learned; None while that is little."""
    grids: dict[tuple[float, float, int], list[FloatArray]] = {}
    for memories in _journals(store):
        for name, _, value in memories:
            if name.startswith(f"campaign:{version}:"):
                learned = _document(value).get("markets")
                one = learned.get(auction) if isinstance(learned, dict) else None
                if isinstance(one, dict):
                    _add_auctions(grids, one)
    if not grids:
        return None
    (low, high, cells), (seen, lost) = max(grids.items(), key=lambda item: float(item[1][0].sum()))
    if float(seen.sum()) < _MIN_PRICES:
        return None
    edges = np.exp(np.linspace(np.log(low), np.log(high), cells))
    fitted = _fit_log_normal(edges, seen, lost)
    if fitted is None:
        return None
    mu, sigma = fitted
    return ObservedPrices(mu + float(np.log(1_000.0)), sigma, float(seen.sum() + lost.sum()))


def _add_auctions(
    grids: dict[tuple[float, float, int], list[FloatArray]], learned: dict[str, Any]
) -> None:
    """Add the auctions of a campaign to those on the same grid of prices."""
    try:
        low, high = (float(edge) for edge in learned["edges"])
        seen, lost = (np.array(learned[name], dtype=np.float64) for name in ("seen", "lost"))
    except (KeyError, TypeError, ValueError):
        return
    if not (0.0 < low < high < float("inf")) or seen.ndim != 1 or seen.shape != lost.shape:
        return
    key = (low, high, len(seen))
    if key in grids:
        grids[key][0] += seen
        grids[key][1] += lost
    else:
        grids[key] = [seen, lost]


def _fit_log_normal(
    edges: FloatArray, seen: FloatArray, lost: FloatArray
) -> tuple[float, float] | None:
    """Least squares on normal quantiles of the win probability; None where it says too little."""
    at_risk = np.cumsum((seen + lost)[::-1])[::-1]
    hazard = np.where(at_risk > 0.0, seen / np.maximum(at_risk, 1e-12), 0.0)
    win = 1.0 - np.cumprod(1.0 - np.minimum(hazard, 1.0))
    low, high = _QUANTILES
    inside = (win > low) & (win < high) & (at_risk > 1.0)
    _, first = np.unique(win, return_index=True)  # flat stretches hold no prices
    chosen = first[inside[first]]
    if len(chosen) < 3:
        return None
    normal = NormalDist()
    quantiles = np.array([normal.inv_cdf(p) for p in win[chosen].tolist()])
    sigma, mu = np.polyfit(quantiles, np.log(edges[chosen]), 1).tolist()
    return (mu, sigma) if 0.0 < sigma < 20.0 and abs(mu) < 40.0 else None


def _journals(store: Path) -> Iterable[Sequence[tuple[str, int, bytes]]]:
    for folder in log_folders(store):
        with journal_reader(folder) as reader:
            if reader is not None:
                yield _memories(reader)


def _memories(reader: sqlite3.Connection) -> list[tuple[str, int, bytes]]:
    sql = """SELECT name, ts, value FROM memory
    WHERE (name >= 'traffic:' AND name < 'traffic;')
    OR (name >= 'campaign:' AND name < 'campaign;')"""
    return [(str(name), int(at), bytes(value)) for name, at, value in reader.execute(sql)]


def _document(value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
