"""Texts and helpers shared by the policies for advertisers."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

__all__ = ["EVERYTHING", "PACING", "ROWS", "thinned"]

T = TypeVar("T")

EVERYTHING = "impressions, spend, reach"
ROWS = "rejected, warnings"
PACING = "multiplier, reserved, carried, requests, bids, wins, losses"


def thinned(rows: Sequence[T], points: int) -> Sequence[T]:
    """At most so many, the last of each stretch."""
    if len(rows) <= points:
        return rows
    last = np.linspace(0, len(rows), points + 1)[1:].round().astype(int) - 1
    return [rows[at] for at in last.tolist()]
