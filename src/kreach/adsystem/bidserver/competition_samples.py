"""Sampled requests, compared by campaign several at once.

A comparison takes some forty calls on arrays of one number per campaign, and their overhead is most
of it. So of a sampled request only what may change is copied. Comparisons follow before anything
else changes that they depend on: a few times a second, as the board turns to a new time.
"""

import numpy as np

from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.competition import PREFERENCE, Competition
from kreach.adsystem.bidserver.pending_request import PendingRequest
from kreach.adsystem.bidserver.request_samples import RequestSamples
from kreach.boundary.openrtb import Imp
from kreach.numeric.types import IntArray

__all__ = ["CompetitionSamples"]

_MAX_WAITING = 32


class CompetitionSamples:
    """Places of sampled requests that `competition` does not know yet."""

    def __init__(self, board: Board, competition: Competition, samples: RequestSamples) -> None:
        self._board, self._competition, self._samples = board, competition, samples
        self._draws = np.zeros((_MAX_WAITING, 0), dtype=board.counts.dtype)  # a row for each
        self._requests: list[tuple[int, float, float, float]] = []  # group, share, time, others
        self._eligible: list[list[bool]] = []
        self._parts: list[tuple[int, int, float]] = []  # row, slot, part of a fresh session's value

    def add(self, pending: PendingRequest, imp: Imp) -> bool:
        """Note a place of a request; whether it is time to `record`."""
        board, row, group = self._board, len(self._requests), pending.group
        if self._draws.shape[1] != board.slots:
            self._draws = np.zeros((_MAX_WAITING, board.slots), dtype=board.counts.dtype)
        self._draws[row] = board.counts[group]
        self._eligible.append(self._samples.eligible(pending.request, imp))
        if pending.shares is not None:
            self._parts += [(row, slot, part) for slot, part in pending.shares.items()]
        others = sum(runtime.weight * value**PREFERENCE for value, _, runtime in pending.individual)
        self._requests.append((group, pending.share, pending.now, others))
        return board.paper or row + 1 == _MAX_WAITING  # the paper's multipliers always change

    def record(self, pools: IntArray | None) -> None:
        """Have campaigns learn what others leave over; `pools` as in `Competition.record`."""
        if not self._requests:
            return
        board, requests, eligible, parts = self._board, self._requests, self._eligible, self._parts
        self._requests, self._eligible, self._parts = [], [], []
        groups, shares, times, others = map(np.array, zip(*requests, strict=True))
        values = board.values_at(groups, shares, self._draws[: len(groups)])
        values *= self._samples.by_slot(eligible) & (board.ends > times[:, None])
        if parts:
            row, slot, part = map(np.array, zip(*parts, strict=True))
            values[row, slot] = np.minimum(values[row, slot] * part, board.most[slot])
        self._competition.record_all(values, board.multipliers, board.weights, others, pools)
