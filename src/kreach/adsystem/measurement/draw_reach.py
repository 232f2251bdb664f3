"""D(n): how many people of a group n effective draws reach, and its inverse.

D(n) is the sum over i < n of the reach of one draw more after i (`visitor_table.py`): at cap 1 the
chance that it is somebody new, above it the expected impressions of a session that still count.
"""

from bisect import bisect_right

from kreach.adsystem.measurement.visitor_table import VisitorTable

__all__ = ["DrawReach"]

_LEAST = 1e-9  # of a draw: D rises, so that it has an inverse
_MAX_DRAWS_PER_MEMBER = 16


class DrawReach:
    """D by kind of group; linear between whole draws. `share`: members targeted, by kind."""

    def __init__(self, table: VisitorTable, share: list[float]) -> None:
        self._table, self._share = table, share
        self._reached: list[list[float]] = [[0.0] for _ in share]  # D of 0, 1, ... draws
        self._max_draws = [int(_MAX_DRAWS_PER_MEMBER * size) + 64 for size in table.sizes]

    def forget(self) -> None:
        """The table was made anew."""
        self._reached = [[0.0] for _ in self._share]

    def of(self, kind: int, draws: float) -> float:
        """D: how many people of a group so many draws reach."""
        whole = int(draws)
        reached = self._up_to(kind, whole + 1)
        if whole + 1 >= len(reached):
            return reached[-1]
        return reached[whole] + (draws - whole) * (reached[whole + 1] - reached[whole])

    def draws_for(self, kind: int, people: float) -> float:
        """D⁻¹: how many draws reach so many people of a group."""
        if people <= 0.0:
            return 0.0
        size, most = 16, self._max_draws[kind]
        reached = self._up_to(kind, size)
        while reached[-1] <= people and len(reached) <= most:
            size *= 2
            reached = self._up_to(kind, size)
        whole = bisect_right(reached, people) - 1
        if whole + 1 >= len(reached):
            return float(len(reached) - 1)
        return whole + (people - reached[whole]) / (reached[whole + 1] - reached[whole])

    def _up_to(self, kind: int, draws: int) -> list[float]:
        reached, share = self._reached[kind], self._share[kind]
        draws = min(draws, self._max_draws[kind])
        if len(reached) <= draws:
            rows = self._table.rows[kind]
            if len(rows) < draws + 1:
                rows = self._table.grow(kind, draws)
            more = self._table.more_impressions()
            while len(reached) <= draws:
                row = rows[len(reached) - 1]
                new = sum(p * under for p, under in zip(more, reversed(row), strict=True))
                reached.append(reached[-1] + max(new / share if share > 0.0 else 1.0, _LEAST))
        return reached
