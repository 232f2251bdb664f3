"""Monte Carlo: draw who saw each impression, in many trials.

A trial assigns every impression to a member of its group and counts capped reach. Cost and memory
grow with impressions, not with group sizes: only the people drawn are stored.
"""

from collections.abc import Callable
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.boundary.checks import as_counts, as_seed, as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["sample_reach"]

_DRAWS_AT_ONCE = 1 << 22
Draw = Callable[[np.random.Generator, int], IntArray]
"""(generator, trials) → person of each impression, (trials, impressions); −1 is untargeted."""


def sample_reach(
    audience: Audience,
    impressions_by_group: npt.ArrayLike,
    cap: int,
    trials: int,
    seed: int | np.random.Generator,
) -> IntArray:
    """Simulated reach, one value per trial; the same seed gives the same values.

    >>> audience = Audience.disjoint([6] * 20)
    >>> reaches = sample_reach(audience, [12] * 20, cap=3, trials=1000, seed=1)
    >>> reaches.shape
    (1000,)
    """
    if not isinstance(audience, Audience):
        raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
    n = as_counts("impressions_by_group", impressions_by_group, length=audience.group_count)
    cap = as_whole_number("cap", cap, minimum=1)
    trials = as_whole_number("trials", trials, minimum=0)
    generator = as_seed("seed", seed)
    draw, people = _drawer(audience, n)
    total = int(n.sum())
    reaches = np.zeros(trials, dtype=np.int64)
    if total == 0:
        return reaches
    step = max(1, _DRAWS_AT_ONCE // total)
    for low in range(0, trials, step):
        here = min(step, trials - low)
        reaches[low : low + here] = _capped_counts(draw(generator, here), people, cap)
    return reaches


def _capped_counts(person: IntArray, people: int, cap: int) -> IntArray:
    """Σ over people of min(times drawn, cap), for each row of draws."""
    trials, draws = person.shape
    if trials * people <= 8 * trials * draws:
        key = person + np.arange(trials)[:, None] * people
        tally = np.bincount(key[person >= 0], minlength=trials * people)
        capped = np.minimum(tally, cap).reshape(trials, people)
        result: IntArray = capped.sum(axis=1)
        return result
    person = np.sort(person, axis=1)
    # the c-th and later repetition of a person adds nothing
    over = np.zeros(person.shape, dtype=np.bool_)
    over[:, cap:] = person[:, cap:] == person[:, : max(draws - cap, 0)]
    counted: IntArray = ((person >= 0) & ~over).sum(axis=1)
    return counted


@singledispatch
def _drawer(audience: Audience, impressions_by_group: IntArray) -> tuple[Draw, int]:
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


def _group_of_impression(impressions_by_group: IntArray) -> IntArray:
    return np.repeat(np.arange(len(impressions_by_group)), impressions_by_group)


@_drawer.register
def _(audience: EveryImpression, impressions_by_group: IntArray) -> tuple[Draw, int]:
    total = int(impressions_by_group.sum())
    return lambda _, trials: np.tile(np.arange(total), (trials, 1)), total


@_drawer.register
def _(audience: DisjointAudience, impressions_by_group: IntArray) -> tuple[Draw, int]:
    group = _group_of_impression(impressions_by_group)
    size = audience.group_sizes[group]
    targeted = audience.targeted_counts[group]
    first_person = (np.cumsum(audience.targeted_counts) - audience.targeted_counts)[group]
    spread = 1.0 if audience.dispersion is None else audience.dispersion[group]
    concentration: FloatArray = np.asarray(spread * size, dtype=np.float64)
    first_draw = (np.cumsum(impressions_by_group) - impressions_by_group)[group]
    order = np.arange(len(group)) - first_draw  # how many came before, in the same group

    def draw(generator: np.random.Generator, trials: int) -> IntArray:
        shape = (trials, len(group))
        member = np.minimum((generator.random(shape) * size).astype(np.int64), size - 1)
        if audience.dispersion is not None:
            member = _polya(member, order, first_draw, concentration, generator)
        return np.where(member < targeted, first_person + member, -1)

    return draw, audience.targeted_user_count


def _polya(
    fresh: IntArray,
    order: IntArray,
    first_draw: IntArray,
    concentration: FloatArray,
    generator: np.random.Generator,
) -> IntArray:
    """Dirichlet-multinomial draws without the Dirichlet: Pólya's urn.

    After m draws of a group, the next repeats one of them with probability m/(ka + m), chosen
    evenly, and is a fresh uniform member otherwise. Repeats point at earlier draws; following
    pointers to pointers halves every chain, so a few passes resolve them all.
    """
    repeats = generator.random(fresh.shape) * (concentration + order) < order
    earlier = (generator.random(fresh.shape) * np.maximum(order, 1)).astype(np.int64)
    earlier = first_draw + np.minimum(earlier, np.maximum(order - 1, 0))
    pointer = np.where(repeats, earlier, np.arange(fresh.shape[1]))
    while True:
        further = np.take_along_axis(pointer, pointer, axis=1)
        if np.array_equal(further, pointer):
            return np.take_along_axis(fresh, pointer, axis=1)
        pointer = further


@_drawer.register
def _(audience: ProfiledAudience, impressions_by_group: IntArray) -> tuple[Draw, int]:
    group = _group_of_impression(impressions_by_group)
    # cumulative shares of group j lie between j and j + 1
    starts = np.repeat(audience.offsets[:-1], audience.group_sizes)
    cumulative = np.cumsum(audience.shares)
    before = np.concatenate([[0.0], cumulative])[starts]
    owner = np.repeat(np.arange(audience.group_count), audience.group_sizes)
    ladder = owner + np.minimum(cumulative - before, 1.0)
    last = audience.offsets[1:] - 1  # ascending shares: the last member of a group has one

    def draw(generator: np.random.Generator, trials: int) -> IntArray:
        point = group + generator.random((trials, len(group)))
        return np.minimum(np.searchsorted(ladder, point, side="right"), last[group])

    return draw, len(audience.shares)


@_drawer.register
def _(audience: OverlappingAudience, impressions_by_group: IntArray) -> tuple[Draw, int]:
    group = _group_of_impression(impressions_by_group)
    row, column = np.nonzero(audience.classes >= 0)
    owner = audience.classes[row, column]
    order = np.argsort(owner, kind="stable")
    row, owner = row[order], owner[order]
    # the targeted members of a group stand in line, class after class
    end = np.cumsum(audience.headcounts[row])
    begin = end - audience.headcounts[row]
    targeted = np.bincount(owner, weights=audience.headcounts[row], minlength=audience.group_count)
    line_start = (np.cumsum(targeted) - targeted).astype(np.int64)[group]
    size, targeted_here = audience.group_sizes[group], targeted.astype(np.int64)[group]
    first_person = (np.cumsum(audience.headcounts) - audience.headcounts)[row]

    def draw(generator: np.random.Generator, trials: int) -> IntArray:
        place = (generator.random((trials, len(group))) * size).astype(np.int64)
        hit = place < targeted_here
        position = np.where(hit, line_start + place, 0)
        if not hit.any():
            return np.full(hit.shape, -1)
        segment = np.minimum(np.searchsorted(end, position, side="right"), len(end) - 1)
        return np.where(hit, first_person[segment] + position - begin[segment], -1)

    return draw, audience.targeted_user_count
