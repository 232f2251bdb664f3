"""The visitor filter of a campaign on the board: its draws are the board's, its sessions its own.

The board's tables value a request as one of a fresh session. Where a campaign has won a request of
the group lately, the filter says what share of that the request is worth. `RecentWins` knows which
campaigns have, and asks them as late as it can (`recent_wins.py`).

Beside a gateway that drops repeats the filter is that of `memory_filter.py`, and a group has wins
lately while the gateway remembers any. A request that passes may then be worth more than one of a
fresh session without a gateway: its share is above 1.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.bidding.recent_wins import DEFERRED_SECONDS, RecentWins
from kreach.adsystem.measurement.memory_filter import MemoryFilter
from kreach.adsystem.measurement.visitor_filter import VisitorFilter
from kreach.adsystem.measurement.visitor_table import KINDS_AT_ONCE, ModelProbability
from kreach.boundary.audience import Audience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["BoardVisitors", "RecentWins"]

_FIRST_DRAWS = 32


class BoardVisitors(BoardValuation):
    """The valuation of a campaign with a visit model: one cap for the whole flight.

    Of a log that was folded only impressions by group are known: each is taken for
    `draws_per_impression`, as those that this bidder counted were. With `memory_seconds` the
    publisher drops bids for people whom it showed the ad `cap` times in that time; of impressions
    that it may remember the times are needed too (`load_shown`).
    """

    def __init__(
        self,
        board: Board,
        slot: int,
        audience: Audience,
        cap: int,
        model: VisitModel,
        recent: RecentWins,
        *,
        memory_seconds: float | None = None,
        visitors: VisitorFilter | None = None,
    ) -> None:
        """`visitors`: a filter that others have too, with draws in a place of its own."""
        super().__init__(board, slot)
        self.filter = visitors or VisitorFilter(
            audience, model, [cap], memory_seconds=memory_seconds, draws=_Column(board, slot)
        )
        self.filter.hold_longer(DEFERRED_SECONDS)
        self._kind = self.filter.audience.kind_numbers
        self._table: ModelProbability | None = None  # what the board's table is made of
        self._rows: dict[int, list[float]] = {}  # of it, by kind
        self._recent = recent
        self._wins = 0
        self._won_draws = 0.0

    @property
    def draws_per_impression(self) -> float:
        """Effective draws of an impression, as counted so far."""
        return (self._won_draws + 1.0) / (self._wins + 1.0)

    def record(self, group: int, now: float) -> None:
        self._recent.take_in(group, self.slot)
        before = self._board.counts.item(group, self.slot)
        self.filter.won(group, now)
        self._wins += 1
        self._count(group)
        self._won_draws += self._board.counts.item(group, self.slot) - before

    def revert(self, group: int, won_at: float) -> None:
        self._recent.take_in(group, self.slot)
        try:
            self.filter.revert(group, won_at)
        except KreachError:  # too long ago: its session is over
            self.filter.drop_win(group, won_at)
        self._count(group)

    def _count(self, group: int) -> None:
        """Have the board know the draws of a group, and that it has wins lately."""
        if isinstance(self.filter, MemoryFilter):
            self._board.set_count(group, self.slot, self.filter.draws(group))
        if self.filter.holds(group):
            self._recent.add(group, self)
        else:
            self._recent.discard(group, self.slot)

    def holds(self, group: int) -> bool:
        """Whether a group has recent wins."""
        return self.filter.holds(group)

    def follow(self, group: int, times_us: Sequence[int]) -> None:
        """Take in requests of a group whose values nobody asked for."""
        self.filter.follow(group, times_us)

    def share(self, group: int, now: float) -> float:
        """The value of a request over what the board's table has; records the request."""
        fresh = self._tabled(group)
        value = self.filter.request(group, now)
        assert isinstance(value, float)  # there is one cap
        share = value / fresh if fresh > 0.0 else 1.0
        return share if self.drops_repeats else min(share, 1.0)

    @property
    def drops_repeats(self) -> bool:
        """Whether the publisher drops bids for people at the cap."""
        return isinstance(self.filter, MemoryFilter)

    @property
    def follows_at_once(self) -> bool:
        """Whether requests may not be taken in later."""
        return self.drops_repeats

    def passing(self, group: int) -> float:
        """The probability that the publisher did not drop a bid for the group's last request."""
        return self.filter.passing(group) if self.filter.holds(group) else 1.0

    def kind_probability(self, now: float) -> ModelProbability:
        """The value of a request of a fresh session now, by kind of group and draws.

        For the board's table: shares are of this from now on.
        """
        self._table = self.filter.kind_probability(now)
        self._rows = {}
        return self._table

    def _tabled(self, group: int) -> float:
        """The value of a request of a fresh session when the board's table was made."""
        if self._table is None:
            return self.filter.fresh_value(group)
        counted = self._board.counts.item(group, self.slot)
        draws = min(counted, self._board.columns.item(self.slot) - 1)  # the last that it has
        whole, kind = int(draws), 0 if self._kind is None else self._kind[group]
        row = self._rows.get(kind, [])
        if whole + 1 >= len(row):
            row = self._row(self._table, kind, whole)
        return row[whole] + (draws - whole) * (row[whole + 1] - row[whole])

    def _row(self, table: ModelProbability, kind: int, whole: int) -> list[float]:
        """The values of a kind in the board's table, for more than so many draws."""
        if kind not in self._rows:
            self._begin_rows(table, kind)
        row = self._rows[kind]
        if whole + 1 >= len(row):
            size = max(2 * len(row), whole + 2)
            row = self._rows[kind] = table(kind, np.arange(size, dtype=np.float64)).tolist()
        return row

    def _begin_rows(self, table: ModelProbability, kind: int) -> None:
        """The values of a kind for few draws, and those of its neighbours."""
        low = kind - kind % KINDS_AT_ONCE
        block = range(low, min(low + KINDS_AT_ONCE, len(table.size)))
        new = [each for each in block if each not in self._rows]
        draws = np.tile(np.arange(_FIRST_DRAWS, dtype=np.float64), len(new))
        values = table(np.repeat(np.array(new), _FIRST_DRAWS), draws)
        self._rows.update(zip(new, values.reshape(len(new), -1).tolist(), strict=True))

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        draws: FloatArray = impressions * np.float64(self.draws_per_impression)
        self._board.load(self.slot, groups, draws)
        for group, more in zip(groups.tolist(), draws.tolist(), strict=True):
            if self.filter.holds(group):
                self.filter.shift_held(group, more)

    def load_shown(self, recent: Sequence[tuple[int, float]]) -> None:
        """Add impressions of an earlier run that the publisher may remember: groups and times."""
        assert isinstance(self.filter, MemoryFilter)
        for group, moment in recent:
            self.filter.shown(group, moment)
            self._count(group)

    def memory(self) -> dict[str, Any]:
        """What was learned about sessions, as plain values."""
        return self.filter.memory() | {"wins": self._wins, "won_draws": self._won_draws}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was known before."""
        with suppress(KeyError, TypeError, ValueError):  # of a bidder without a model
            self._wins, self._won_draws = int(memory["wins"]), float(memory["won_draws"])
            self.filter.remember(memory)


class _Column:
    """The draws of one slot of a board."""

    def __init__(self, board: Board, slot: int) -> None:
        self._board, self._slot = board, slot

    def __getitem__(self, group: int) -> float:
        value: float = self._board.counts.item(group, self._slot)
        return value

    def __setitem__(self, group: int, draws: float) -> None:
        self._board.set_count(group, self._slot, draws)
