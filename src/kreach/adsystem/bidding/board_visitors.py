"""The visitor filter of a campaign on the board: its draws are the board's, its sessions its own.

The board's tables value a request as one of a fresh session. Where a campaign has won a request of
the group lately, the filter says what share of that the request is worth. `RecentWins` tells which
campaigns have, so that all other requests, which are most, cost nothing more.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.measurement.visitor_filter import VisitorFilter
from kreach.adsystem.measurement.visitor_table import ModelProbability
from kreach.boundary.audience import Audience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["BoardVisitors", "RecentWins"]

_SWEEP = 20_000  # groups with recent wins until those that are over are looked for


class RecentWins:
    """By group: the campaigns that have won a request of it lately."""

    def __init__(self) -> None:
        self._by_group: dict[int, dict[int, BoardVisitors]] = {}
        self._next_sweep = _SWEEP

    def __len__(self) -> int:
        return len(self._by_group)

    def add(self, group: int, campaign: "BoardVisitors") -> None:
        """A campaign won a request of a group."""
        self._by_group.setdefault(group, {})[campaign.slot] = campaign
        if len(self._by_group) >= self._next_sweep:
            for each in list(self._by_group):
                self._drop_idle(each)
            self._next_sweep = max(_SWEEP, 2 * len(self._by_group))

    def shares(self, group: int, now: float) -> dict[int, float] | None:
        """Of a request: its value over that of a fresh session's, by slot; 1 for other slots."""
        if group not in self._by_group:
            return None
        campaigns = self._drop_idle(group)
        return {slot: campaign.share(group, now) for slot, campaign in campaigns.items()} or None

    def forget(self, slot: int) -> None:
        """The slot is another campaign's now."""
        for campaigns in self._by_group.values():
            campaigns.pop(slot, None)

    def _drop_idle(self, group: int) -> dict[int, "BoardVisitors"]:
        campaigns = self._by_group[group]
        for slot in [s for s, each in campaigns.items() if not each.filter.holds(group)]:
            del campaigns[slot]
        if not campaigns:
            del self._by_group[group]
        return campaigns


class BoardVisitors(BoardValuation):
    """The valuation of a campaign with a visit model: one cap for the whole flight.

    Of a log that was folded, and of other bidders, only impressions by group are known: each is
    taken for `draws_per_impression`, as those that this bidder counted were.
    """

    def __init__(
        self,
        board: Board,
        slot: int,
        audience: Audience,
        cap: int,
        model: VisitModel,
        recent: RecentWins,
    ) -> None:
        super().__init__(board, slot)
        self.filter = VisitorFilter(audience, model, [cap], draws=_Column(board, slot))
        self._recent = recent
        self._wins = 0
        self._won_draws = 0.0

    @property
    def draws_per_impression(self) -> float:
        """Effective draws of an impression, as counted so far."""
        return (self._won_draws + 1.0) / (self._wins + 1.0)

    def record(self, group: int, now: float) -> None:
        before = self._board.counts.item(group, self.slot)
        self.filter.won(group, now)
        self._wins += 1
        self._won_draws += self._board.counts.item(group, self.slot) - before
        if self.filter.holds(group):
            self._recent.add(group, self)

    def revert(self, group: int, won_at: float) -> None:
        try:
            self.filter.revert(group, won_at)
        except KreachError:  # too long ago: its session is over
            self._board.revert(group, self.slot)

    def share(self, group: int, now: float) -> float:
        """The value of a request over that of one of a fresh session; records the request."""
        fresh = self.filter.fresh_value(group)
        value = self.filter.request(group, now)
        assert isinstance(value, float)  # there is one cap
        return min(value / fresh, 1.0) if fresh > 0.0 else 1.0

    def kind_probability(self, now: float) -> ModelProbability:
        """The value of a request of a fresh session now, by kind of group and draws."""
        return self.filter.kind_probability(now)

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        draws: FloatArray = impressions * np.float64(self.draws_per_impression)
        self._board.load(self.slot, groups, draws)

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
