"""The values of a request to all campaigns, looked up at once.

Bidders decide one by one; with a hundred campaigns that is too slow for a bid request. The board
holds the same decisions as tables: the worth of a request (reach probability times the plan's
discount) by kind of group, requests still to come and impressions so far, a table per campaign,
renewed with every plan. What the tables say is what `Bidder.wanted` says (tests hold them to it).

`value` looks all campaigns up at once. `ranks` is quicker still: groups of a kind with as many
requests share a ranking of campaigns by the most that each could bid, times its luck, which holds
for seconds; going down it, a bidder can stop where the next could not come before the best so far.
"""

from array import array
from collections.abc import Mapping
from itertools import starmap

import msgspec
import numpy as np
import numpy.typing as npt

from kreach.adsystem.bidding.competition import PREFERENCE
from kreach.adsystem.bidding.worth import SessionValues, Worth
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Board", "BoardValuation", "Rank"]

_MAX_COMBINATIONS = 1 << 12
_RANKED = 16
_MAX_RANKINGS = 4_000
_RANKING_SECONDS = 2.0


Parts = Mapping[int, float] | None
"""By slot: the value of a request over that of one of a fresh session; 1 for other slots."""


class Rank(msgspec.Struct, frozen=True, gc=False):
    """A campaign's place in a ranking, with all that its exact value takes."""

    score: float  # `most` times luck
    slot: int
    luck: float
    fresh: float  # the value with no impressions yet, without the limit
    cell: int  # of no impressions
    last_column: int
    multiplier: float
    most: float  # that it could value a request, whatever its impressions


class Board:
    """Campaigns in slots; impressions (or effective draws) by group and slot."""

    def __init__(self, group_count: int, seed: int | None = None) -> None:
        self.group_count = group_count
        self._generator = np.random.default_rng(seed)
        self.counts = np.zeros((group_count, 0), dtype=np.float32)
        self._kinds = np.zeros((group_count, 0), dtype=np.uint16)
        self._cells = np.zeros(1, dtype=np.float32)
        self._used = 1  # cells; cell 0 is worth nothing
        self._room: list[tuple[int, int]] = []  # of each slot: first cell, cells
        self.slots = 0
        self.max_counted = np.zeros(0, dtype=np.int64)
        self.columns = np.zeros(0, dtype=np.int64)
        self._last_column = np.zeros(0, dtype=np.int64)
        self._audience = np.zeros(0, dtype=np.intp)
        self._first = np.zeros(0, dtype=np.int64)
        self._kind_cells = np.zeros(0, dtype=np.int64)
        self._last_row = np.zeros(0)
        self._per_row = np.zeros(0)  # requests to come per second, in rows
        self.ends = np.zeros(0)
        self.multipliers = np.zeros(0)
        self.most = np.zeros(0)
        self._steps = np.zeros(0)  # of the paper's rule; 0 for those who plan
        self.shares = np.zeros(0)  # of requests that suit a campaign
        self.weights = np.zeros(0)  # of campaigns that want the same request
        self._floors = np.zeros(0)  # and the least and the most multiplier it may come to
        self._ceilings = np.zeros(0)
        self.paper = False
        self._sessions: list[SessionValues | None] = []
        self._rows = np.zeros(0, dtype=np.int64)
        self._first_bound = np.zeros(0, dtype=np.int64)  # cells of the most by kind and row
        self._combination = array("H", bytes(2 * group_count))  # of kinds, by group
        self._combinations = 1  # 0: too many to rank by
        self._rankings: dict[int, list[Rank]] = {}
        self._ranked_at = 0.0
        self._buffers()

    def _buffers(self) -> None:
        self._at = np.empty(self.slots, dtype=np.int64)
        self._row = np.empty(self.slots, dtype=np.int64)
        self._left = np.empty(self.slots)
        self._rows_left = np.zeros(self.slots)
        self._falling = np.zeros(self.slots)
        self._part = np.empty(self.slots)
        self._picked = np.empty(self.slots, dtype=np.float32)
        self.values = np.empty(self.slots)

    def add_audience(self, kind_of_group: IntArray) -> int:
        """Make the kinds of an audience known; returns its number."""
        if int(kind_of_group.max(initial=0)) >= 1 << 16:
            raise OverflowError("more kinds of groups than a table can hold")
        column = kind_of_group.astype(np.uint16).reshape(-1, 1)
        self._kinds = np.concatenate([self._kinds, column], axis=1)
        self._combine(column.ravel().astype(np.int64))
        return self._kinds.shape[1] - 1

    def _combine(self, kinds: IntArray) -> None:
        """Number the combinations of kinds that groups have in all audiences."""
        self._rankings.clear()
        if not self._combinations:
            return
        before = np.frombuffer(self._combination, dtype=np.uint16).astype(np.int64)
        key = before * (int(kinds.max(initial=0)) + 1) + kinds
        keys, code = np.unique(key, return_inverse=True)
        self._combinations = len(keys) if len(keys) <= _MAX_COMBINATIONS else 0
        if self._combinations:
            self._combination = array("H", code.astype(np.uint16).tobytes())

    def add_slots(self, slots: int) -> int:
        """Add empty slots; returns the first."""
        first, more = self.slots, self.slots + slots
        wide = np.zeros((self.group_count, more), dtype=self.counts.dtype)
        counted = np.flatnonzero(self.counts.any(axis=1))  # memory that nobody writes to costs none
        wide[counted, :first] = self.counts[counted]
        self.counts = wide
        for name, fill in (
            ("max_counted", 0),
            ("columns", 1),
            ("_last_column", 0),
            ("_audience", 0),
            ("_first", 0),
            ("_kind_cells", 0),
            ("_last_row", 0.0),
            ("_rows", 1),
            ("_first_bound", 0),
            ("_per_row", 0.0),
            ("ends", 0.0),
            ("multipliers", np.inf),
            ("most", 0.0),
            ("_steps", 0.0),
            ("shares", 1.0),
            ("weights", 1.0),
            ("_floors", 0.0),
            ("_ceilings", np.inf),
        ):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full(slots, fill, dtype=old.dtype)]))
        self._room += [(0, 0)] * slots
        self._sessions += [None] * slots
        self.slots = more
        self._buffers()
        return first

    def set_worth(
        self,
        slot: int,
        audience: int,
        worth: Worth,
        left_per_second: float,
        sessions: SessionValues | None = None,
    ) -> None:
        """Bid by this table from now on. `left_per_second`: requests of all groups to come."""
        self._sessions[slot] = sessions
        _, rows, columns = worth.table.shape
        first, room = self._room[slot]
        needed = worth.table.size + worth.bound.size
        if needed > room:
            first, room = self._used, needed
            if first + room > len(self._cells):
                self._cells = np.concatenate(
                    [self._cells, np.zeros(max(room, len(self._cells)), dtype=np.float32)]
                )
            self._used += room
            self._room[slot] = (first, room)
        bounds = first + worth.table.size
        self._cells[first:bounds] = worth.table.ravel()
        self._cells[bounds : first + needed] = worth.bound.ravel()
        self._audience[slot] = audience
        self._first[slot], self._first_bound[slot], self._rows[slot] = first, bounds, rows
        self._kind_cells[slot] = rows * columns
        self.columns[slot], self._last_column[slot] = columns, columns - 1
        self._last_row[slot] = rows - 1
        self._per_row[slot] = left_per_second / worth.row_requests
        self.forget_rankings()

    def set_paper(self, slot: int, step_size: float, least: float, most: float) -> None:
        """Let this slot's multiplier follow the paper's rule (see `drift`)."""
        self._steps[slot], self._floors[slot], self._ceilings[slot] = step_size, least, most
        self.paper = bool(self._steps.any())

    def turn_to(self, now: float) -> None:
        """Let time pass: requests still to come become fewer. A few times a second will do."""
        np.subtract(self.ends, now, out=self._rows_left)
        np.maximum(self._rows_left, 0.0, out=self._rows_left)
        np.multiply(self._rows_left, self._per_row, out=self._rows_left)
        if now - self._ranked_at > _RANKING_SECONDS:
            self._ranked_at = now
            self.forget_rankings()

    def forget_rankings(self) -> None:
        """Something changed: a table, a multiplier, or who may bid."""
        self._rankings.clear()

    def ranks(
        self, group: int, requests: int, share: float, parts: Parts = None
    ) -> tuple[list[Rank], bool]:
        """Campaigns by the most they could value a request of this group, times luck; and if that
        is all.

        `requests` of the group so far; groups with about as many share a ranking. Where nothing
        can be shared (the paper's multipliers move with every request) values are exact.
        """
        if self.paper or not self._combinations:
            return self.all_ranks(group, share, parts), True
        level = requests
        if requests >= 16:
            bits = requests.bit_length()
            level = 4 * bits + (requests >> bits - 3 & 3)
        key = self._combination[group] << 8 | level
        ranking = self._rankings.get(key)
        if ranking is None:
            if len(self._rankings) >= _MAX_RANKINGS:
                self._rankings.clear()
            ranking = self._rankings[key] = self._rank(group, share)
        return ranking, len(ranking) < _RANKED

    def all_ranks(self, group: int, share: float, parts: Parts = None) -> list[Rank]:
        """All campaigns by the most that they could value a request of this group now."""
        self.value(group, share)
        values = np.where(self.multipliers < np.inf, self._picked / self.multipliers, 0.0)
        most = values.copy()
        for slot, part in (parts or {}).items():
            most[slot] *= max(part, 1.0)
        luck = self._luck(self.weights)
        np.minimum(most, self.most, out=most)
        scores = most * luck
        ordered = np.argsort(-scores)[: int(np.count_nonzero(scores))].tolist()
        score, fresh, lucky = scores.tolist(), values.tolist(), luck.tolist()
        limits = most.tolist()
        return [Rank(score[s], s, lucky[s], fresh[s], -1, 0, 1.0, limits[s]) for s in ordered]

    def luck(self, weight: float) -> float:
        """The factor of one campaign that is not on the board."""
        return float((weight / self._generator.exponential()) ** (1.0 / PREFERENCE))

    def _luck(self, weights: FloatArray) -> FloatArray:
        """Factors such that the highest product with values is i's with chance ∝ w_i·v_i^γ."""
        drawn = self._generator.exponential(size=len(weights))
        result: FloatArray = (weights / drawn) ** (1.0 / PREFERENCE)
        return result

    def _rank(self, group: int, share: float) -> list[Rank]:
        active = np.flatnonzero(np.isfinite(self.multipliers))
        kind = self._kinds[group][self._audience]
        row = np.minimum(np.sqrt(self._rows_left * share) + 0.5, self._last_row).astype(np.int64)
        bound = (self._first_bound + kind * self._rows + row)[active]
        multiplier = self.multipliers[active]
        luck = self._luck(self.weights[active])
        most = np.minimum(self._cells.take(bound) / multiplier, self.most[active])
        score = most * luck
        wanted = np.count_nonzero(most > 0.0)
        order = np.argsort(score, kind="stable")[::-1][: min(_RANKED, wanted)]
        slot = active[order]
        cell = (self._first + kind * self._kind_cells + row * self.columns)[slot]
        multiplier = multiplier[order]
        columns: tuple[FloatArray | IntArray, ...] = (
            *(score[order], slot, luck[order], self._cells.take(cell) / multiplier, cell),
            *(self._last_column[slot], multiplier, most[order]),
        )
        return list(starmap(Rank, zip(*(column.tolist() for column in columns), strict=True)))

    def exact(self, rank: Rank, group: int, part: float = 1.0) -> float:
        """What a request of a group is worth to a campaign of a ranking, in money.

        `part` is the value of the request over that of a request of a fresh session.
        """
        value, cell, most = rank.fresh, rank.cell, rank.most
        if cell >= 0:
            counted = self.counts.item(group, rank.slot)
            if counted:
                counted = min(counted, rank.last_column)
                whole = int(counted)
                above = counted - whole
                worth = self._cells.item(cell + whole)
                if above:
                    worth += above * (self._cells.item(cell + whole + 1) - worth)
                value = worth / rank.multiplier
        if part != 1.0:
            value = self._in_part(rank.slot, value, part)
        return value if value < most else most

    def _in_part(self, slot: int, value: float, part: float) -> float:
        """What a request is worth whose session is worth a part of a fresh one's."""
        sessions = self._sessions[slot]
        return value * part if sessions is None else sessions.part(value, part)

    def value(self, group: int, share: float) -> FloatArray:
        """What a request of a group is worth to each slot, in money; `share` of all requests.

        The array is the board's own and lasts until the next call.
        """
        at, left, row, values = self._at, self._left, self._row, self.values
        kind = self._kinds[group]
        one_kind = kind[0] if len(kind) == 1 else kind[self._audience]
        np.multiply(self._kind_cells, one_kind, out=at)
        np.add(at, self._first, out=at)
        np.minimum(self.counts[group], self._last_column, out=left)
        row[:] = left  # whole draws
        np.subtract(left, row, out=self._part)
        np.add(at, row, out=at)
        np.multiply(self._rows_left, share, out=left)
        np.sqrt(left, out=left)
        np.add(left, 0.5, out=left)
        np.minimum(left, self._last_row, out=left)
        row[:] = left
        np.multiply(row, self.columns, out=row)
        np.add(at, row, out=at)
        self._cells.take(at, out=self._picked, mode="clip")
        if self._part.any():
            at += self._part > 0.0
            self._picked += self._part * (self._cells.take(at, mode="clip") - self._picked)
        np.divide(self._picked, self.multipliers, out=values)
        np.minimum(values, self.most, out=values)
        return values

    def values_at(
        self, groups: IntArray, shares: FloatArray, draws: npt.NDArray[np.float32]
    ) -> FloatArray:
        """`value` of several requests, a row each; `draws` of their groups, likewise."""
        at = self._kind_cells * self._kinds[groups][:, self._audience] + self._first
        counted = np.minimum(draws, self._last_column)
        whole = counted.astype(np.int64)
        part = counted - whole
        row = np.minimum(np.sqrt(self._rows_left * shares[:, None]) + 0.5, self._last_row)
        at += whole + row.astype(np.int64) * self.columns
        picked = self._cells.take(at, mode="clip")
        if part.any():
            at += part > 0.0
            picked += part * (self._cells.take(at, mode="clip") - picked)
        return np.minimum(picked / self.multipliers, self.most)

    def unlimited(self, group: int, slot: int, share: float, part: float = 1.0) -> float:
        """What a request of a group is worth to one slot, whatever it may bid at most.

        `part` is the value of the request over that of a request of a fresh session.
        """
        self.value(group, share)
        value = float(self._picked[slot] / self.multipliers[slot])
        return value if part == 1.0 else self._in_part(slot, value, part)

    def rise(self, slot: int, step: float) -> None:
        """Something was spent: the paper's multiplier moves up by ε·r with the next request."""
        self._falling[slot] -= step

    def drift(self, group: int, share: float) -> None:
        """A request comes: λ ← λ − ε(1 − r) for the one before, if a campaign might have had it.

        The rule of the paper; planning bidders have ε = 0. A request counts as the campaign's
        share of eligible requests: eligibility itself is checked only for campaigns that bid.
        """
        multipliers = self.multipliers
        np.subtract(multipliers, self._falling, out=multipliers)
        np.maximum(multipliers, self._floors, out=multipliers)
        active = np.isfinite(multipliers)
        np.minimum(multipliers, self._ceilings, out=multipliers, where=active)
        self.value(group, share)
        np.multiply(self._steps, self._picked > 0.0, out=self._falling)
        np.multiply(self._falling, self.shares, out=self._falling)

    def record(self, group: int, slot: int) -> None:
        """Count an impression."""
        self.set_count(group, slot, self.counts.item(group, slot) + 1.0)

    def revert(self, group: int, slot: int) -> None:
        """Take an impression back."""
        self.set_count(group, slot, max(self.counts.item(group, slot) - 1.0, 0.0))

    def set_count(self, group: int, slot: int, count: float) -> None:
        """Set the impressions or effective draws of a group."""
        self.counts[group, slot] = count
        if count > self.max_counted[slot]:
            self.max_counted[slot] = int(np.ceil(count))

    def load(self, slot: int, groups: IntArray, impressions: IntArray | FloatArray) -> None:
        """Add counts of a log that was folded; groups may come more than once."""
        touched, at = np.unique(groups, return_inverse=True)
        more = np.bincount(at, weights=impressions, minlength=len(touched))
        more += self.counts[touched, slot]
        self.counts[touched, slot] = more
        most = int(np.ceil(more.max(initial=0.0)))
        self.max_counted[slot] = max(most, int(self.max_counted[slot]))


class BoardValuation:
    """The counts of one slot, for a planning bidder; the board itself values requests."""

    def __init__(self, board: Board, slot: int) -> None:
        self._board, self.slot = board, slot

    def probability(self, group: int, now: float) -> float:
        raise NotImplementedError("the board values requests")

    def record(self, group: int, now: float) -> None:
        self._board.record(group, self.slot)

    def revert(self, group: int, won_at: float) -> None:
        self._board.revert(group, self.slot)

    def count(self, group: int) -> float:
        return float(self._board.counts[group, self.slot])

    def counts(self, groups: IntArray | None = None) -> FloatArray:
        column = self._board.counts[:, self.slot]
        return (column if groups is None else column[groups]).astype(np.float64)

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        """Add impressions of a log, or of other bidders."""
        self._board.load(self.slot, groups, impressions)
