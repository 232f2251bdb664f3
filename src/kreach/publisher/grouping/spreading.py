"""Spread sensitive values over groups that were formed, and keep them as they are otherwise.

A strategy puts people in line; its groups are runs of that line. Groups that break a diversity
floor are joined with their neighbors in the line into blocks, and each block is dealt out again:
its people, sorted by value, go round its groups like cards, so that every group gets the values of
the block in equal parts. Which person of a value goes where follows the line: the first group gets
the first people of each value, the last group the last ones. So a block of groups by visit rates
becomes groups by visit rates, with mixed values. Blocks double until every group holds the floors.

Blocks first stay inside a cell of the strategy (a segment). A cell that cannot hold the floors with
its groups is cut into fewer and larger ones, and only then joined with the next cell. Nothing loops
over people.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.grouping.diversity import DiversityFloors, GroupDiversity, SensitiveValues

__all__ = [
    "MAX_GROWTH",
    "DiversityRefused",
    "Line",
    "diversity_refusal",
    "refuse_impossible",
    "spread_values",
]

MAX_GROWTH = 5  # times its size that a group may grow to hold the floors
_BISECTIONS = 7  # of the number of groups: right within 1 %
_ADVICE = (
    f"groups may grow to {MAX_GROWTH} times group_size; raise it, lower the floor, or use coarser "
    "values"
)


class DiversityRefused(KreachError):
    """No groups of an acceptable size hold the diversity floors."""


@dataclass(frozen=True, eq=False)
class Line:
    """People in the order of a strategy, group after group.

    `people` are their numbers, `sizes` the sizes of groups along the line, `cells` a row for each
    group: the values it has in common, most important first; groups of equal rows are neighbors.
    """

    people: IntArray
    sizes: IntArray
    cells: IntArray


def spread_values(
    line: Line,
    names: tuple[str, ...],
    columns: list[SensitiveValues],
    floors: DiversityFloors,
    *,
    best_effort: bool = False,
) -> IntArray:
    """The group of each person such that every group holds the floors, or a refusal.

    With `best_effort`, groups that cannot hold them are left, spread as well as possible.
    """
    if not best_effort:
        refuse_impossible(names, columns, floors)
    blocks = _Blocks(line, columns, floors)
    for depth in range(line.cells.shape[1], -1, -1):
        blocks.join_within(depth)
        blocks.grow()
    if not blocks.holds.all() and not best_effort:
        raise diversity_refusal(names, blocks.largest_groups(), floors, _ADVICE)
    groups = np.empty(len(line.people), dtype=np.int64)
    groups[line.people] = blocks.group_of()
    return groups


class _Blocks:
    """Runs of the line, each dealt into some groups."""

    def __init__(self, line: Line, columns: list[SensitiveValues], floors: DiversityFloors) -> None:
        self._columns, self._floors = columns, floors
        self._people, self._cells = line.people, line.cells
        self._hands = _Hands([_dealing_order(c)[c.codes[line.people]] for c in columns])
        self._sizes = line.sizes
        self._pieces = np.ones(len(line.sizes), dtype=np.int64)  # groups of each block
        self._slot = np.zeros(len(line.people), dtype=np.int64)  # of each person in its block
        self._worst = 0  # the attribute that broke most floors when last checked
        self.holds = self._check(np.ones(len(line.sizes), dtype=np.bool_))

    def join_within(self, depth: int) -> None:
        """Join blocks that break a floor with neighbors of their cell, twice as many each time.

        Only the first `depth` values of a cell count. A short window at the end of a cell belongs
        to the one before it.
        """
        first = self._cells[:, :depth]
        change = (first[1:] != first[:-1]).any(axis=1)
        cell = np.concatenate([[0], np.cumsum(change)]).astype(np.int64)
        count = np.bincount(cell)
        rank = np.arange(len(cell)) - (np.cumsum(count) - count)[cell]
        for doubling in range(1, int(count.max()).bit_length() + 1):
            windows = np.maximum(count >> doubling, 1)
            window = (np.cumsum(windows) - windows)[cell]
            window += np.minimum(rank >> doubling, windows[cell] - 1)
            broken = np.bincount(window, weights=~self.holds)[window] > 0
            joins = broken & (np.bincount(window)[window] > 1)
            if not joins.any():
                continue
            starts = np.concatenate([[True], window[1:] != window[:-1]]) | ~joins
            at = np.flatnonzero(starts)
            self._sizes = np.add.reduceat(self._sizes, at)
            self._pieces = np.add.reduceat(self._pieces, at)
            self._cells, cell, rank = self._cells[at], cell[at], rank[at]
            self.holds = self.holds[at] & ~joins[at]
            self._deal_out(joins[at], self._pieces)

    def grow(self) -> None:
        """Cut blocks that break a floor into fewer groups, as many as hold the floors."""
        broken, most = ~self.holds, self._pieces
        if not broken.any():
            return
        low, high = self._fewest(broken), most.copy()  # low holds, high does not
        self._deal_out(broken, low)
        growing = broken & self.holds
        for _ in range(_BISECTIONS):
            trial = growing & (high - low > 1)
            if not trial.any():
                break
            middle = (low + high) // 2
            before = self._slot.copy()
            self._deal_out(trial, np.where(trial, middle, low))
            worse = trial & ~self.holds
            low = np.where(trial & self.holds, middle, low)
            high = np.where(worse, middle, high)
            back = np.repeat(worse, self._sizes)
            self._slot[back] = before[back]
            self.holds = self.holds | worse
        self._deal_out(broken & ~growing, np.where(growing, low, most))

    def group_of(self) -> IntArray:
        """The group of each place in the line; what breaks a floor is spread all the same."""
        if not self.holds.all():
            self._deal_out(~self.holds, self._pieces, hopeless=True)
        first = np.cumsum(self._pieces) - self._pieces
        return np.repeat(first, self._sizes) + self._slot

    def largest_groups(self) -> list[GroupDiversity]:
        """Diversity if blocks that break a floor are cut into groups as large as allowed."""
        broken = ~self.holds
        self._deal_out(broken, self._fewest(broken), hopeless=True)
        places, group, _ = self._groups_of(broken)
        return [column.in_groups(group, self._people[places]) for column in self._columns]

    def _fewest(self, chosen: BoolArray) -> IntArray:
        return np.where(chosen, -(-self._pieces // MAX_GROWTH), self._pieces)

    def _deal_out(self, chosen: BoolArray, pieces: IntArray, *, hopeless: bool = False) -> None:
        """Deal the chosen blocks into so many groups; try what keeps most to the line first.

        Blocks whose values cannot suffice are left as they are, unless `hopeless` ones are wanted.
        """
        self._pieces = pieces
        self.holds = self.holds & ~chosen
        if not hopeless:
            chosen = chosen & self._possible(chosen)
        for value, pooled in self._hands.ways(self._worst):
            if not chosen.any():
                return
            places = np.flatnonzero(np.repeat(chosen, self._sizes))
            block = np.repeat(np.arange(np.count_nonzero(chosen)), self._sizes[chosen])
            self._slot[places] = _deal(block, value[places], pieces[chosen], pooled)
            self.holds = np.where(chosen, self._check(chosen), self.holds)
            chosen = chosen & ~self.holds

    def _possible(self, chosen: BoolArray) -> BoolArray:
        """Whether the values of a block suffice for `min_l` different ones in each of its groups.

        A value held by c people is in at most min(c, pieces) groups. Dealing would only show it.
        """
        places = np.flatnonzero(np.repeat(chosen, self._sizes))
        block = np.repeat(np.flatnonzero(chosen), self._sizes[chosen])
        possible = np.ones(len(chosen), dtype=np.bool_)
        for column in self._columns:
            codes = column.codes[self._people[places]]
            cell, count = np.unique(block * column.count + codes, return_counts=True)
            owner = cell // column.count
            seats = np.bincount(
                owner, np.minimum(count, self._pieces[owner]), minlength=len(chosen)
            )
            possible &= seats >= self._floors.min_l * self._pieces
        return possible

    def _groups_of(self, chosen: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
        """Places in the chosen blocks, their groups 0..M−1, and the block of each group."""
        places = np.flatnonzero(np.repeat(chosen, self._sizes))
        pieces = self._pieces[chosen]
        first = np.cumsum(pieces) - pieces
        group = np.repeat(first, self._sizes[chosen]) + self._slot[places]
        return places, group, np.repeat(np.flatnonzero(chosen), pieces)

    def _check(self, chosen: BoolArray) -> BoolArray:
        """Whether all groups of each chosen block hold the floors; True for other blocks."""
        places, group, block_of = self._groups_of(chosen)
        ok = np.ones(len(block_of), dtype=np.bool_)
        failures = []
        for column in self._columns:
            hold = self._floors.hold(column.in_groups(group, self._people[places]))
            failures.append(np.count_nonzero(~hold))
            ok &= hold
        self._worst = int(np.argmax(failures))
        broken: BoolArray = np.bincount(block_of, weights=~ok, minlength=len(chosen)) > 0
        return ~broken


class _Hands:
    """The value by which people are sorted to be dealt: of one attribute, or of several."""

    def __init__(self, codes: list[IntArray]) -> None:
        self._codes = codes
        self._joint: dict[int, IntArray] = {}

    def ways(self, worst: int) -> Iterator[tuple[IntArray, bool]]:
        """Values and whether rare ones are dealt as one, which keeps to the line.

        By the attribute that breaks most floors alone; then by all, that one first.
        """
        yield self._codes[worst], True
        if len(self._codes) > 1:
            yield self._all(worst), True
            yield self._all(worst), False
        else:
            yield self._codes[0], False

    def _all(self, first: int) -> IntArray:
        """One number for each combination of values, ascending in the first attribute."""
        if first not in self._joint:
            joint = np.zeros(len(self._codes[0]), dtype=np.int64)
            for column in sorted(range(len(self._codes)), key=lambda i: i != first):
                code = self._codes[column]
                joint = np.unique(joint * (int(code.max()) + 1) + code, return_inverse=True)[1]
            self._joint[first] = joint
        return self._joint[first]


def _dealing_order(column: SensitiveValues) -> IntArray:
    """The place of each value in the order of dealing: numbers ascending, categories by count."""
    place = np.arange(column.count)
    if not column.ordered:
        place[np.argsort(-column.counts, kind="stable")] = np.arange(column.count)
    return place


def _deal(block: IntArray, value: IntArray, pieces: IntArray, pooled: bool) -> IntArray:
    """The slot of each person, 0..pieces−1 of its block; people are in line, block after block.

    Sorted by value, the r-th person of a block gets slot r mod pieces, so that every slot gets an
    equal part of each value. Inside a value the slots are then given out along the line. `pooled`:
    values that are rarer in the block than it has pieces count as one.
    """
    key = block * (int(value.max()) + 2) + value
    order = np.argsort(key, kind="stable")
    start, length = _runs(key[order])
    if pooled:
        rare = np.repeat(length, length) < pieces[block]  # sorting leaves blocks where they are
        pool = block * (int(value.max()) + 2) + int(value.max()) + 1
        key[order] = np.where(rare, pool, key[order])
        order = np.argsort(key, kind="stable")
        start, length = _runs(key[order])
    groups = pieces[block[start]]
    sizes = np.bincount(block)
    offset = (start - (np.cumsum(sizes) - sizes)[block[start]]) % groups
    result = np.empty(len(block), dtype=np.int64)
    result[order] = _round_robin(offset, length, groups)
    return result


def _runs(values: IntArray) -> tuple[IntArray, IntArray]:
    """Starts and lengths of runs of equal values."""
    start = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return start, np.diff(np.concatenate([start, [len(values)]]))


def _round_robin(offset: IntArray, length: IntArray, groups: IntArray) -> IntArray:
    """For each run the slots (offset + 0, 1, …, length − 1) mod groups, in ascending order.

    Every slot comes ⌊length/groups⌋ times, those of an arc from `offset` once more. The arc may
    pass the last slot, so there are three stretches of slots with their times.
    """
    times, more = np.divmod(length, groups)
    past = np.maximum(offset + more - groups, 0)  # the part of the arc that begins again at 0
    wraps = past > 0
    stretches = (
        (np.where(wraps, past, offset), times + wraps),
        (np.where(wraps, offset - past, more), times + ~wraps),
        (np.where(wraps, groups - offset, groups - offset - more), times + wraps),
    )
    run = np.repeat(np.arange(len(length)), length)
    rank = np.arange(len(run)) - (np.cumsum(length) - length)[run]
    slot = np.zeros(len(run), dtype=np.int64)
    before_slots, before_people = np.zeros_like(length), np.zeros_like(length)
    for slots, each in stretches:
        here = rank >= before_people[run]
        at = run[here]
        slot[here] = before_slots[at] + (rank[here] - before_people[at]) // np.maximum(each[at], 1)
        before_slots, before_people = before_slots + slots, before_people + slots * each
    return slot


def refuse_impossible(
    names: tuple[str, ...], columns: list[SensitiveValues], floors: DiversityFloors
) -> None:
    """Refuse floors that all people together do not hold."""
    for name, column in zip(names, columns, strict=True):
        everybody = column.of_all()
        distinct, worth = int(everybody.distinct[0]), float(everybody.entropy_l[0])
        if distinct < floors.min_l:
            raise DiversityRefused(
                f"min_l of {floors.min_l} cannot be held: {name} has {distinct} different "
                "values among all people",
                field="min_l",
            )
        if worth < floors.min_entropy_l:
            raise DiversityRefused(
                f"min_entropy_l of {floors.min_entropy_l:g} cannot be held: {name} is worth "
                f"{worth:.2f} equally likely values among all people, because one value is held "
                f"by {float(everybody.top_share[0]):.0%} of them",
                field="min_entropy_l",
            )


def diversity_refusal(
    names: tuple[str, ...], measured: list[GroupDiversity], floors: DiversityFloors, advice: str
) -> DiversityRefused:
    """Say which floors break in groups as large as allowed, and by how much."""
    reasons = []
    for name, groups in zip(names, measured, strict=True):
        size = int(np.median(groups.sizes))
        if groups.distinct.min() < floors.min_l:
            said = f"{int(groups.distinct.min())} different values (min_l {floors.min_l})"
            reasons.append(f"{name}: groups of {size} people have as few as {said}")
        if groups.entropy_l.min() < floors.min_entropy_l:
            said = f"{groups.entropy_l.min():.2f} equally likely values"
            said += f" (min_entropy_l {floors.min_entropy_l:g})"
            reasons.append(f"{name}: groups of {size} people are worth as few as {said}")
        if groups.t.max() > floors.max_t:
            said = f"t = {groups.t.max():.2f} (max_t {floors.max_t:g})"
            reasons.append(f"{name}: groups of {size} people are as far from everybody as {said}")
    return DiversityRefused(f"diversity floors cannot be held: {'; '.join(reasons)}; {advice}")
