"""Members of a family on the board with a visit model: sessions that any of them may have won."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.board_visitors import BoardVisitors, RecentWins
from kreach.adsystem.bidding.family import FamilyExposure
from kreach.adsystem.bidding.family_members import EquivalentImpressions
from kreach.adsystem.measurement.visitor_table import ModelProbability
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import IntArray

__all__ = ["MemberVisitors", "PooledVisitors"]

_MAX_DRAWS = 4_096


class PooledVisitors(BoardVisitors):
    """A member with sessions whose own cap cannot bind before its family's.

    It is valued at the family's cap, by one filter over the wins of all members of its audience:
    as a campaign with all their impressions would be. A gateway's memory is not considered.
    """

    def __init__(
        self,
        board: Board,
        slot: int,
        audience: DisjointAudience,
        cap: int,
        model: VisitModel,
        recent: RecentWins,
        family: FamilyExposure,
    ) -> None:
        assert family.cap is not None
        self._family, self._shared = family, family.filter_for(audience, model)
        super().__init__(
            board, slot, audience, family.cap, model, recent, visitors=self._shared.visitors
        )
        self._own = np.zeros(board.group_count, dtype=np.int64)
        self._equivalent = EquivalentImpressions(audience, cap, family.cap)
        family.join(self)
        self._copy(np.flatnonzero(family.counts))

    @property
    def follows_at_once(self) -> bool:
        """One filter follows the wins of all members."""
        return True

    def record(self, group: int, now: float) -> None:
        before = self._shared.draws(group)
        self._own[group] += 1
        self._family.record(group, now, self)
        self._wins += 1
        self._won_draws += self._shared.draws(group) - before
        self._copy_one(group)

    def revert(self, group: int, won_at: float) -> None:
        self._own[group] = max(self._own[group] - 1, 0)
        self._family.revert(group, won_at, self)
        self._copy_one(group)

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        np.add.at(self._own, groups, impressions)
        self._family.load(groups, impressions, self, self.draws_per_impression)
        self._copy(np.unique(groups))

    def share(self, group: int, now: float) -> float:
        fresh = self._tabled(group)
        value = self._shared.value(group, now)
        return min(value / fresh, 1.0) if fresh > 0.0 else 1.0

    def kind_probability(self, now: float) -> ModelProbability:
        self._shared.turn_to(now)
        return super().kind_probability(now)

    def remember(self, memory: Mapping[str, Any]) -> None:
        super().remember(memory)
        self._shared.refresh()

    def left_by_family(self, now: float) -> float:
        return self._equivalent.left(self._kind, self._own, self._family.counts)

    def sibling_won(self, group: int, now: float) -> None:
        self._copy_one(group)

    def sibling_reverted(self, group: int, won_at: float) -> None:
        self._copy_one(group)

    def sibling_loaded(self, groups: IntArray, impressions: IntArray, draws: float) -> None:
        self._copy(groups)

    def _copy(self, groups: IntArray) -> None:
        for group in groups.tolist():
            self._copy_one(group)

    def _copy_one(self, group: int) -> None:
        """Have the board know the family's draws of a group, and that it has wins lately."""
        self._board.set_count(group, self.slot, self._shared.draws(group))
        if self._shared.holds(group):
            self._recent.add(group, self)


class MemberVisitors(BoardVisitors):
    """A member with sessions whose own cap is below its family's: two filters.

    One follows its own wins at its own cap, one those of all members at the family's. A request of
    a fresh session is worth what `EquivalentImpressions` says of the effective draws of both: own
    ones, and those of the family that are not its own. A request of a session that may have been
    won is worth its value at the own cap, or at the family's if that is less.

    What is approximate: the draws of own and family's wins are taken as independent beyond what
    they have in common, and of a session that both may have won the lower value is taken, which is
    the most that it can be worth. A request of a session that may have been won is never worth
    more than at either cap alone; one of a fresh session neither, as long as the tables of the two
    filters are of one time. The memory of a gateway counts for the own cap only.
    """

    def __init__(
        self,
        board: Board,
        slot: int,
        audience: DisjointAudience,
        cap: int,
        model: VisitModel,
        recent: RecentWins,
        family: FamilyExposure,
        *,
        memory_seconds: float | None = None,
    ) -> None:
        super().__init__(board, slot, audience, cap, model, recent, memory_seconds=memory_seconds)
        assert family.cap is not None
        self._family, self._shared = family, family.filter_for(audience, model)
        self._equivalent = EquivalentImpressions(audience, cap, family.cap)
        self._own = np.zeros(board.group_count, dtype=np.int64)
        self._extra = np.zeros(board.group_count)  # equivalent draws beyond the own ones
        family.join(self)
        for group in np.flatnonzero(family.counts).tolist():
            self._update_one(group)

    @property
    def follows_at_once(self) -> bool:
        """One filter follows the wins of all members."""
        return True

    def record(self, group: int, now: float) -> None:
        super().record(group, now)
        self._own[group] += 1
        self._family.record(group, now, self)
        self._update_one(group)

    def revert(self, group: int, won_at: float) -> None:
        super().revert(group, won_at)
        self._own[group] = max(self._own[group] - 1, 0)
        self._family.revert(group, won_at, self)
        self._update_one(group)

    def left_by_family(self, now: float) -> float:
        return self._equivalent.left(self._kind, self._own, self._family.counts)

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        super().load(groups, impressions)
        np.add.at(self._own, groups, impressions)
        self._family.load(groups, impressions, self, self.draws_per_impression)
        for group in np.unique(groups).tolist():
            self._update_one(group)

    def load_shown(self, recent: Sequence[tuple[int, float]]) -> None:
        super().load_shown(recent)
        groups = np.array([group for group, _ in recent], dtype=np.int64)
        impressions = np.ones_like(groups)
        np.add.at(self._own, groups, impressions)
        self._family.load(groups, impressions, self, self.draws_per_impression)
        for group in np.unique(groups).tolist():
            self._update_one(group)

    def sibling_won(self, group: int, now: float) -> None:
        self._update_one(group)

    def sibling_reverted(self, group: int, won_at: float) -> None:
        self._update_one(group)

    def sibling_loaded(self, groups: IntArray, impressions: IntArray, draws: float) -> None:
        for group in groups.tolist():
            self._update_one(group)

    def kind_probability(self, now: float) -> ModelProbability:
        self._shared.turn_to(now)
        return super().kind_probability(now)

    def memory(self) -> dict[str, Any]:
        return super().memory() | {"family": self._shared.memory()}

    def remember(self, memory: Mapping[str, Any]) -> None:
        super().remember(memory)
        with suppress(KeyError, TypeError, ValueError):  # of a campaign without a family
            self._shared.remember(memory["family"])

    def holds(self, group: int) -> bool:
        return super().holds(group) or self._shared.holds(group)

    def share(self, group: int, now: float) -> float:
        own = super().share(group, now) if super().holds(group) else 1.0
        tabled = self._tabled(group)
        value = self._shared.value(group, now)
        return min(own, value / tabled) if tabled > 0.0 else own

    def _update_one(self, group: int) -> None:
        """Have the board count what the family's draws take away."""
        counted, before = self._board.counts.item(group, self.slot), float(self._extra[group])
        own = max(counted - before, 0.0)
        kind = 0 if self._kind is None else self._kind[group]
        others = max(self._shared.draws(group) - own, 0.0)
        equivalent = self._equivalent.between(kind, own, others)
        limited = self._at_most(kind, equivalent, self._shared.fresh_value(group))
        more = min(limited, own + others) - own - before
        if more:
            self._extra[group] = before + more
            self._board.set_count(group, self.slot, counted + more)
            if self.filter.holds(group):
                self.filter.shift_held(group, more)
        if self._shared.holds(group):
            self._recent.add(group, self)

    def _at_most(self, kind: int, draws: float, value: float) -> float:
        """Draws at which the board's table has no more than a value, at least so many."""
        if self._table is None:
            return draws
        while True:
            whole = int(draws)
            row = self._rows.get(kind, [])
            if whole + 1 >= len(row):
                row = self._row(self._table, kind, whole)
            low, high = row[whole], row[whole + 1]
            if low + (draws - whole) * (high - low) <= value or low <= 0.0:
                return draws
            if high <= value:
                return whole + (low - value) / (low - high)
            if whole >= _MAX_DRAWS:
                return draws
            draws = float(whole + 1)
