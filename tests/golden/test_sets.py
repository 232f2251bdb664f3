"""Unions, overlaps and differences against enumeration of every assignment, in exact fractions."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

import kreach as kr

Fractions = list[Fraction]


@dataclass(frozen=True)
class World:
    """Groups as lists of people, a visit law for each, and impressions by part and group."""

    audience: kr.Audience
    members: list[list[int]]  # person numbers by group; targeted people come first
    targeted: int
    shares: list[Fractions] | None  # fixed ones by group
    dispersion: Fraction | None
    parts: dict[str, list[int]]


def _assignments(world: World) -> Iterator[tuple[Fraction, np.ndarray]]:
    """Every assignment to people: its probability, impressions by person and part."""
    shown = [
        (part, group)
        for part, counts in enumerate(world.parts.values())
        for group, count in enumerate(counts)
        for _ in range(count)
    ]
    people = 1 + max(person for group in world.members for person in group)
    for chosen in product(*(range(len(world.members[group])) for _, group in shown)):
        chance = Fraction(1)
        seen = np.zeros((people, len(world.parts)), dtype=int)
        drawn = [[0] * len(group) for group in world.members]
        for (part, group), member in zip(shown, chosen, strict=True):
            chance *= next_draw(world, group, member, drawn[group])
            drawn[group][member] += 1
            seen[world.members[group][member], part] += 1
        yield chance, seen[: world.targeted]


@cache
def outcomes(name: str) -> list[tuple[Fraction, np.ndarray]]:
    """Distinct outcomes of a world: their probability, impressions by person and part."""
    chances: dict[bytes, Fraction] = {}
    tables: dict[bytes, np.ndarray] = {}
    for chance, seen in _assignments(WORLDS[name]):
        key = seen.tobytes()
        chances[key] = chances.get(key, Fraction(0)) + chance
        tables[key] = seen
    return [(chance, tables[key]) for key, chance in chances.items()]


def next_draw(world: World, group: int, member: int, drawn: list[int]) -> Fraction:
    """Pólya's urn for Dirichlet shares: whoever was drawn is likelier to be drawn again."""
    size = len(world.members[group])
    if world.shares is not None:
        return world.shares[group][member]
    if world.dispersion is None:
        return Fraction(1, size)
    a = world.dispersion
    return (a + drawn[member]) / (a * size + sum(drawn))


WORLDS = {
    "uniform": World(
        kr.Audience.disjoint([3, 2]),
        [[0, 1, 2], [3, 4]],
        5,
        None,
        None,
        {"a": [2, 1], "b": [1, 1], "c": [1, 1]},
    ),
    "targeted": World(
        kr.Audience.disjoint([3], targeted_counts=[2]),
        [[0, 1, 2]],
        2,
        None,
        None,
        {"a": [3], "b": [2], "c": [2]},
    ),
    "dispersed": World(
        kr.Audience.disjoint([3, 2], dispersion=0.75),
        [[0, 1, 2], [3, 4]],
        5,
        None,
        Fraction(3, 4),
        {"a": [2, 1], "b": [2, 2], "c": [1, 0]},
    ),
    "dispersed_targeted": World(
        kr.Audience.disjoint([4], targeted_counts=[2], dispersion=0.5),
        [[0, 1, 2, 3]],
        2,
        None,
        Fraction(1, 2),
        {"a": [3], "b": [2]},
    ),
    "profiled": World(
        kr.Audience.profiled([[0.5, 0.25, 0.25], [0.25, 0.75]]),
        [[0, 1, 2], [3, 4]],
        5,
        [[Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]],
        None,
        {"a": [2, 1], "b": [1, 2], "c": [1, 0]},
    ),
    "overlapping": World(
        kr.Audience.overlapping([3, 2, 2], [((0,), 1), ((0, 1), 2), ((2,), 1)]),
        [[0, 1, 2], [1, 2], [3, 4]],
        4,
        None,
        None,
        {"a": [2, 1, 1], "b": [1, 1, 1], "c": [0, 1, 0]},
    ),
}


def values(seen: np.ndarray, which: str, cap: int) -> int:
    """Impressions within the cap on the people of one report."""
    total = np.minimum(seen.sum(axis=1), cap)
    in_parts = (seen > 0).sum(axis=1)
    if which == "union":
        return int(total.sum())
    if which == "overlap":
        return int(total[in_parts >= 2].sum())
    part = int(which)
    rest = np.delete(seen, part, axis=1).sum(axis=1)
    return int(np.minimum(seen[:, part], cap)[rest == 0].sum())


def moments(name: str, which: str, cap: int) -> tuple[float, float]:
    first, second = Fraction(0), Fraction(0)
    for chance, seen in outcomes(name):
        value = values(seen, which, cap)
        first += chance * value
        second += chance * value**2
    return float(first), float(second - first**2)


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("name", list(WORLDS))
def test_sets_are_those_of_enumeration(name: str, cap: int) -> None:
    world = WORLDS[name]
    both = kr.combine(world.parts, world.audience, cap)
    reports = {"union": both.union, "overlap": both.overlap}
    reports |= {str(at): both.only[part] for at, part in enumerate(world.parts)}
    for which, report in reports.items():
        mean, variance = moments(name, which, cap)
        assert report.reach == pytest.approx(mean, abs=1e-12), which
        if which == "overlap" and cap > 1:
            assert report.variance >= variance - 1e-12, which
        else:
            assert report.variance == pytest.approx(variance, abs=1e-11), which


@pytest.mark.parametrize("name", list(WORLDS))
def test_frequencies_are_those_of_enumeration(name: str) -> None:
    world = WORLDS[name]
    both = kr.combine(world.parts, world.audience, 1)
    only, union, overlap = np.zeros((len(world.parts), 5)), np.zeros(5), np.zeros(5)
    for chance, seen in outcomes(name):
        for person in seen:
            number = min(int(person.sum()), 4)
            union[number] += float(chance)
            if (person > 0).sum() >= 2:
                overlap[number] += float(chance)
            elif number:
                only[int(person.argmax()), number] += float(chance)
    assert both.union.frequency(4)[1:] == pytest.approx(union[1:], abs=1e-12)
    assert both.overlap.frequency(4)[1:] == pytest.approx(overlap[1:], abs=1e-12)
    for at, part in enumerate(world.parts):
        assert both.only[part].frequency(4)[1:] == pytest.approx(only[at, 1:], abs=1e-12)


@pytest.mark.parametrize("name", list(WORLDS))
def test_possible_values_lie_within_the_bounds(name: str) -> None:
    world = WORLDS[name]
    for cap in (1, 2):
        both = kr.combine(world.parts, world.audience, cap)
        reports = {"overlap": both.overlap}
        reports |= {str(at): both.only[part] for at, part in enumerate(world.parts)}
        for which, report in reports.items():
            seen = [values(table, which, cap) for _, table in outcomes(name)]
            least, most = report.bounds
            assert least <= min(seen), which
            assert max(seen) <= most, which
            attained = report.bounds_attained
            assert not attained[0] or least == min(seen), which
            assert not attained[1] or most == max(seen), which


@pytest.mark.parametrize("name", list(WORLDS))
def test_variances_of_counts_are_those_of_enumeration(name: str) -> None:
    world = WORLDS[name]
    both = kr.combine(world.parts, world.audience, 1)
    for at, part in enumerate(world.parts):
        numbers: dict[int, Fraction] = {}
        for chance, seen in outcomes(name):
            rest = np.delete(seen, at, axis=1).sum(axis=1)
            number = int(((seen[:, at] >= 2) & (rest == 0)).sum())
            numbers[number] = numbers.get(number, Fraction(0)) + chance
        mean = sum(value * chance for value, chance in numbers.items())
        variance = sum(value**2 * chance for value, chance in numbers.items()) - mean**2
        found = both.only[part].exposure.at_least_variance(2)
        assert found == pytest.approx(float(variance), abs=1e-11)
