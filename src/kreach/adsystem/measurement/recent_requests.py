"""The recent requests of one group, and how many impressions the session of each has had.

A state is the tuple (P(won), P(b = 1), ..., P(b = top − 1)) of the impressions b of a session so
far: all 0 for a session that nobody has won. A request is a tuple

    (instant, state after, state before, draws before, draw, values)

with the effective draws before it, the share of a draw that winning it was (`NOT_WON` if it was
not: its two states are then the same), and its values by cap; () if nobody has asked for them.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US

__all__ = [
    "NOT_WON",
    "OPEN",
    "RecentRequests",
    "Request",
    "SessionOdds",
    "State",
    "Values",
    "after_win",
]

State = tuple[float, ...]
Values = tuple[float, ...]
Request = tuple[int, State, State, float, float, Values]
OPEN = 16  # requests of a group whose win can still be recorded or taken back
NOT_WON = -1.0
_NEGLIGIBLE = 1e-12  # probability that a session was won


class SessionOdds:
    """The probabilities e_l by hour, lag and gap, and the mixing of states by them."""

    def __init__(self, model: VisitModel, traffic: float, top: int) -> None:
        odds = model.continuation_odds
        used = np.flatnonzero(odds.max(axis=0))
        columns = int(used[-1]) + 1 if used.size else 0
        self.lags = len(odds)
        self.edges_us: list[int] = model.gap_edges_us[:columns].tolist()
        self.horizon_us = self.edges_us[-1] if columns else 0
        busy = (model.hourly_traffic * traffic)[:, None, None]
        share = odds[None, :, :columns] / (odds[None, :, :columns] + busy)
        self._by_hour: list[list[list[float]]] = share.tolist()
        self._fresh: State = (0.0,) * top
        self._later = range(1, top)

    def state(self, requests: Sequence[Request], index: int, at_us: int) -> State:
        """The state of a request at `at_us` after the first `index` ones: Σ w_l · state of l."""
        edges, horizon = self.edges_us, self.horizon_us
        won, left = 0.0, 1.0
        several: list[float] | None = None
        for row in self._by_hour[at_us // HOUR_US % 24]:
            index -= 1
            if index < 0:
                break
            request = requests[index]
            gap = at_us - request[0]
            if gap >= horizon:
                break
            weight = left * row[bisect_right(edges, gap)]
            left -= weight
            state = request[1]
            if state[0]:
                won += weight * state[0]
                if self._later:
                    several = several or [0.0] * len(state)
                    for b in self._later:
                        several[b] += weight * state[b]
        if not won:
            return self._fresh
        if several is None:
            return (won,)
        several[0] = won
        return tuple(several)

    def extend(self, requests: list[Request], times_us: Sequence[int], draws: float) -> None:
        """Append requests at these times, which follow in time, after so many draws."""
        for at_us in times_us:
            state = self.state(requests, len(requests), at_us)
            requests.append((at_us, state, state, draws, NOT_WON, ()))


def after_win(state: State) -> State:
    """The state after one impression more."""
    return (1.0, 1.0 - state[0], *state[1:-1]) if len(state) > 1 else (1.0,)


class RecentRequests:
    """Requests of one group in order of time, from the first won one on.

    Earlier ones have the state of a fresh session and need not be held. At most `OPEN` and the lags
    before them are, twice that between two trims.
    """

    __slots__ = ("first_open", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.first_open = 0  # from here on requests may change; those before are their context

    def place(self, at_us: int) -> int:
        """Where a request of this time belongs: after those of the same time."""
        index = len(self.requests)
        while index > self.first_open and self.requests[index - 1][0] > at_us:
            index -= 1
        return index

    def find(self, at_us: int, *, was_won: bool) -> int | None:
        """The last request of this time that was, or was not, won."""
        for index in range(len(self.requests) - 1, self.first_open - 1, -1):
            request = self.requests[index]
            if request[0] == at_us and (request[4] != NOT_WON) == was_won:
                return index
        return None

    def trim(self, lags: int) -> bool:
        """Forget what no later request can continue and no notice can concern.

        False if nothing is left that differs from a fresh session.
        """
        if len(self.requests) < 2 * (OPEN + lags):
            return True
        del self.requests[: -(OPEN + lags)]
        self.first_open = lags
        return any(request[1][0] > _NEGLIGIBLE for request in self.requests)
