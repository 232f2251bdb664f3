"""Exact reach figures by brute force: the truth that the library's formulas are tested against.

Every way in which the impressions can fall on the members of the groups is listed, each with its
exact probability, and every reported quantity is taken from that list by its definition. There is
no formula of the paper in here and nothing of kreach is imported, so an error in the library
cannot hide in its own reference values.

    python tests/golden/generate.py            writes values.json
    python tests/golden/generate.py --check    exits 1 if values.json is not what this generates
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

VALUES = Path(__file__).with_name("values.json")

FREQUENCY_TOP = 5
"""The last entry of `frequency` counts the persons with this many impressions or more."""

Counts = tuple[int, ...]
"""Impressions on each member of one group, in the order of its members."""


# ---------------------------------------------------------------------------------------- model


@dataclass(frozen=True)
class Group:
    """Explicit people, and how the group's impressions choose among them.

    The impressions follow `shares`, one per member, or, where `dispersion` is given, shares that
    were drawn once from a symmetric Dirichlet with that concentration.
    """

    members: tuple[int, ...]
    impressions: int
    shares: tuple[Fraction, ...]
    dispersion: Fraction | None


@dataclass(frozen=True)
class World:
    """People are numbered 0, 1, ...; `targeted` holds the numbers of those the campaign wants."""

    groups: tuple[Group, ...]
    person_count: int
    targeted: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """One way in which all impressions of all groups can have fallen."""

    probability: Fraction
    counts: tuple[Counts, ...]  # for each group, impressions of that group on each member
    exposures: tuple[int, ...]  # for each person, impressions over all groups: X_i


def next_request(group: Group, counts: Counts) -> list[Fraction]:
    """Chance of each member to be the author of the group's next request, given those so far.

    With fixed shares the past does not matter. With Dirichlet shares it does (Polya's urn): each
    request makes its author likelier to be the author of the next one.
    """
    if group.dispersion is None:
        return list(group.shares)
    a = group.dispersion
    return [(a + count) / (len(counts) * a + sum(counts)) for count in counts]


def ways_to_fall(group: Group) -> dict[Counts, Fraction]:
    """Every way one group's impressions can fall on its members, one impression at a time."""
    ways = {(0,) * len(group.members): Fraction(1)}
    for _ in range(group.impressions):
        longer: dict[Counts, Fraction] = {}
        for counts, probability in ways.items():
            for position, chance in enumerate(next_request(group, counts)):
                if chance > 0:
                    fallen = (*counts[:position], counts[position] + 1, *counts[position + 1 :])
                    longer[fallen] = longer.get(fallen, Fraction(0)) + probability * chance
        ways = longer
    assert ways == ways_to_fall_by_weight(group)
    return ways


def ways_to_fall_by_weight(group: Group) -> dict[Counts, Fraction]:
    """The same by another road: list all counts, weigh each as a whole (multinomial, Polya)."""
    ways = {}
    for counts in product(range(group.impressions + 1), repeat=len(group.members)):
        if sum(counts) != group.impressions:
            continue
        weight = Fraction(math.factorial(group.impressions))
        for position, count in enumerate(counts):
            weight /= math.factorial(count)
            if group.dispersion is None:
                weight *= group.shares[position] ** count
            else:
                weight *= rising(group.dispersion, count)
        if group.dispersion is not None:
            weight /= rising(len(group.members) * group.dispersion, group.impressions)
        if weight > 0:
            ways[counts] = weight
    return ways


def rising(base: Fraction, steps: int) -> Fraction:
    """base (base + 1) (base + 2) ..., `steps` factors."""
    result = Fraction(1)
    for step in range(steps):
        result *= base + step
    return result


def all_outcomes(world: World) -> list[Outcome]:
    """Every way all groups' impressions can fall; groups do not influence each other."""
    outcomes = []
    for ways in product(*(ways_to_fall(group).items() for group in world.groups)):
        probability = Fraction(1)
        exposures = [0] * world.person_count
        for group, (counts, chance) in zip(world.groups, ways, strict=True):
            probability *= chance
            for person, count in zip(group.members, counts, strict=True):
                exposures[person] += count
        by_group = tuple(counts for counts, _ in ways)
        outcomes.append(Outcome(probability, by_group, tuple(exposures)))
    return outcomes


# ----------------------------------------------------------------------------------- quantities


@dataclass(frozen=True)
class Measures:
    """What is reported for one world and one cap."""

    reach: Fraction
    variance: Fraction
    distribution: dict[int, Fraction]
    over_exposed: Fraction
    frequency: tuple[Fraction, ...]
    average_frequency: Fraction
    reach_probability: tuple[Fraction, ...]
    bounds: tuple[int, int]


def measure(world: World, outcomes: list[Outcome], cap: int) -> Measures:
    """Each quantity by its definition, as an average over all outcomes."""

    def expected(quantity: Callable[[Outcome], int | Fraction]) -> Fraction:
        return sum((o.probability * quantity(o) for o in outcomes), Fraction(0))

    def capped_reach(outcome: Outcome) -> int:
        return sum(min(outcome.exposures[person], cap) for person in world.targeted)

    def expected_persons(wanted: Callable[[int], bool]) -> Fraction:
        return expected(lambda o: sum(1 for p in world.targeted if wanted(o.exposures[p])))

    def expected_persons_with_exactly(seen: int) -> Fraction:
        return expected_persons(lambda x: x == seen)

    def next_is_reach(index: int) -> Fraction:
        group = world.groups[index]

        def chance(outcome: Outcome) -> Fraction:
            total = Fraction(0)
            chances = next_request(group, outcome.counts[index])
            for person, author in zip(group.members, chances, strict=True):
                if person in world.targeted and outcome.exposures[person] < cap:
                    total += author
            return total

        return expected(chance)

    reach = expected(capped_reach)

    distribution: dict[int, Fraction] = {}
    for outcome in outcomes:
        value = capped_reach(outcome)
        distribution[value] = distribution.get(value, Fraction(0)) + outcome.probability

    impressions = expected(lambda o: sum(o.exposures[person] for person in world.targeted))
    reached = expected_persons(lambda x: x >= 1)

    return Measures(
        reach=reach,
        variance=expected(lambda o: (capped_reach(o) - reach) ** 2),
        distribution=dict(sorted(distribution.items())),
        over_exposed=expected_persons(lambda x: x > cap),
        frequency=(
            *(expected_persons_with_exactly(seen) for seen in range(FREQUENCY_TOP)),
            expected_persons(lambda x: x >= FREQUENCY_TOP),
        ),
        average_frequency=impressions / reached if reached > 0 else Fraction(0),
        reach_probability=tuple(next_is_reach(index) for index in range(len(world.groups))),
        bounds=(min(map(capped_reach, outcomes)), max(map(capped_reach, outcomes))),
    )


def check_measures(world: World, outcomes: list[Outcome], cap: int, measures: Measures) -> None:
    """What must hold whatever the model: a slip in this file should not become a reference."""
    law = measures.distribution
    assert all(outcome.probability > 0 for outcome in outcomes)
    assert sum(law.values()) == 1
    assert sum(value * chance for value, chance in law.items()) == measures.reach
    assert (
        sum(value**2 * chance for value, chance in law.items()) - measures.reach**2
        == measures.variance
    )
    assert measures.bounds == (min(law), max(law))
    assert sum(measures.frequency) == len(world.targeted)
    assert all(0 <= chance <= 1 for chance in measures.reach_probability)
    if cap < FREQUENCY_TOP:
        assert sum(measures.frequency[cap + 1 :]) == measures.over_exposed
        assert measures.reach == sum(
            min(seen, cap) * persons for seen, persons in enumerate(measures.frequency)
        )
    if cap >= sum(group.impressions for group in world.groups):
        # Nobody can exceed the cap: reach is all impressions that fall on targeted people.
        assert measures.over_exposed == 0
        assert measures.reach == measures.average_frequency * sum(measures.frequency[1:])


# ------------------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Setting:
    """An audience as a user of the library describes it, impressions, and the caps to report."""

    name: str
    kind: str
    group_sizes: tuple[int, ...]
    impressions: tuple[int, ...]
    caps: tuple[int, ...] = (1, 2, 3)
    targeted_counts: tuple[int, ...] = ()
    dispersion: Fraction | None = None
    classes: tuple[tuple[tuple[int, ...], int], ...] = ()
    visit_shares: tuple[tuple[Fraction, ...], ...] = ()


def disjoint(
    name: str,
    sizes: list[int],
    impressions: list[int],
    *,
    targeted: list[int] | None = None,
    caps: tuple[int, ...] = (1, 2, 3),
) -> Setting:
    """Uniform visits, everybody in one group; all are targeted unless `targeted` says otherwise."""
    return Setting(
        name=f"disjoint-{name}",
        kind="disjoint",
        group_sizes=tuple(sizes),
        impressions=tuple(impressions),
        caps=caps,
        targeted_counts=tuple(sizes if targeted is None else targeted),
    )


def dispersed(
    name: str,
    dispersion: str,
    sizes: list[int],
    impressions: list[int],
    *,
    targeted: list[int] | None = None,
    caps: tuple[int, ...] = (1, 2, 3),
) -> Setting:
    """As `disjoint`, with visit shares drawn once per group from a symmetric Dirichlet."""
    return Setting(
        name=f"dispersed-{name}",
        kind="dispersed",
        group_sizes=tuple(sizes),
        impressions=tuple(impressions),
        caps=caps,
        targeted_counts=tuple(sizes if targeted is None else targeted),
        dispersion=Fraction(dispersion),
    )


def overlapping(
    name: str,
    sizes: list[int],
    classes: list[tuple[tuple[int, ...], int]],
    impressions: list[int],
    *,
    caps: tuple[int, ...] = (1, 2, 3),
) -> Setting:
    """Uniform visits; a class is a set of groups and how many targeted people are in just those."""
    return Setting(
        name=f"overlapping-{name}",
        kind="overlapping",
        group_sizes=tuple(sizes),
        impressions=tuple(impressions),
        caps=caps,
        classes=tuple(classes),
    )


def profiled(
    name: str,
    visit_shares: list[str],
    impressions: list[int],
    *,
    caps: tuple[int, ...] = (1, 2, 3),
) -> Setting:
    """Known visit shares, one text like "1/4 3/4" per group; everybody is targeted."""
    shares = tuple(tuple(Fraction(share) for share in text.split()) for text in visit_shares)
    return Setting(
        name=f"profiled-{name}",
        kind="profiled",
        group_sizes=tuple(len(group_shares) for group_shares in shares),
        impressions=tuple(impressions),
        caps=caps,
        visit_shares=shares,
    )


def build_world(setting: Setting) -> World:
    """Turn head-counts into explicit, numbered people."""
    members: list[list[int]] = [[] for _ in setting.group_sizes]
    targeted: list[int] = []
    person_count = 0

    # The targeted people: each kind of audience says in its own way which groups they are in.
    if setting.kind == "overlapping":
        classes = list(setting.classes)
    elif setting.kind == "profiled":
        classes = [((index,), size) for index, size in enumerate(setting.group_sizes)]
    else:
        classes = [((index,), count) for index, count in enumerate(setting.targeted_counts)]
    for containing_groups, headcount in classes:
        for _ in range(headcount):
            targeted.append(person_count)
            for index in containing_groups:
                members[index].append(person_count)
            person_count += 1

    # All other members are untargeted; what else they are in does not matter.
    for index, size in enumerate(setting.group_sizes):
        while len(members[index]) < size:
            members[index].append(person_count)
            person_count += 1
        assert len(members[index]) == size, f"{setting.name}: group {index} has too many members"

    groups = []
    for index, size in enumerate(setting.group_sizes):
        shares = (Fraction(1, size),) * size
        if setting.kind == "profiled":
            shares = setting.visit_shares[index]
        assert sum(shares) == 1
        groups.append(
            Group(
                members=tuple(members[index]),
                impressions=setting.impressions[index],
                shares=shares,
                dispersion=setting.dispersion,
            )
        )
    return World(tuple(groups), person_count, tuple(targeted))


MORE_CAPS = (1, 2, 3, 5, 100)

DISJOINT = [
    # Equal sizes, everybody targeted. The first is the paper's example of users A and B.
    disjoint("paper-a-and-b", [2], [1]),
    disjoint("one-pair", [2], [3], caps=MORE_CAPS),
    disjoint("one-group-of-3", [3], [4], caps=MORE_CAPS),
    disjoint("one-group-of-5", [5], [4]),
    disjoint("two-groups-of-3", [3, 3], [2, 4], caps=(1, 2, 3, 5)),
    disjoint("two-groups-of-4", [4, 4], [3, 4]),
    disjoint("three-pairs", [2, 2, 2], [1, 2, 3]),
    disjoint("four-identical-pairs", [2, 2, 2, 2], [2, 2, 2, 2]),
    # Mixed sizes in one audience.
    disjoint("sizes-1-2", [1, 2], [2, 2]),
    disjoint("sizes-1-3", [1, 3], [1, 4]),
    disjoint("sizes-2-3-4", [2, 3, 4], [2, 3, 2], caps=(1, 2, 3, 100)),
    disjoint("sizes-1-1-4", [1, 1, 4], [3, 0, 5], caps=MORE_CAPS),
    # Partly targeted: an untargeted member can swallow every impression of the group.
    disjoint("1-of-3-targeted", [3], [4], targeted=[1], caps=MORE_CAPS),
    disjoint("2-and-1-of-3-targeted", [3, 3], [3, 3], targeted=[2, 1]),
    disjoint("0-of-2-and-3-of-4-targeted", [2, 4], [3, 4], targeted=[0, 3], caps=(1, 2, 3, 100)),
    disjoint("nobody-targeted", [3, 3], [2, 2], targeted=[0, 0]),
    disjoint("partly-targeted-sizes-1-2-3", [1, 2, 3], [2, 3, 3], targeted=[0, 1, 3]),
    disjoint("partly-targeted-most-below-impressions", [3], [7], targeted=[2], caps=MORE_CAPS),
    # One person per group: reach is known exactly.
    disjoint("singletons", [1, 1, 1], [0, 1, 4], caps=MORE_CAPS),
    disjoint("one-singleton", [1], [5], caps=MORE_CAPS),
    disjoint("singletons-partly-targeted", [1, 1], [3, 3], targeted=[1, 0]),
    # No impressions at all, or none in some groups.
    disjoint("no-impressions", [3, 2], [0, 0], caps=(1, 2, 100)),
    disjoint("one-of-three-groups-served", [3, 3, 2], [0, 4, 0]),
    # Fewer impressions than the cap, and many more than the group can use.
    disjoint("fewer-than-cap", [2, 3], [1, 2], caps=(3, 5, 100)),
    disjoint("saturated-pair", [2], [11], caps=(1, 2, 3, 5)),
    disjoint("saturated-partly-targeted", [3, 2], [10, 7], targeted=[1, 2]),
]

DISPERSED = [
    dispersed("pair-a0.6", "3/5", [2], [3], caps=MORE_CAPS),
    dispersed("pair-a0.1", "1/10", [2], [3]),
    dispersed("group-of-3-a0.6", "3/5", [3], [4], caps=MORE_CAPS),
    dispersed("group-of-3-a2", "2", [3], [5], caps=(1, 2, 3, 5)),
    dispersed("group-of-3-a0.1", "1/10", [3], [4]),
    dispersed("group-of-3-a1", "1", [3], [4]),
    dispersed("group-of-4-a0.6", "3/5", [4], [4]),
    dispersed("2-of-3-targeted-a0.6", "3/5", [3], [4], targeted=[2], caps=(1, 2, 3, 100)),
    dispersed("1-of-3-targeted-a0.1", "1/10", [3], [5], targeted=[1]),
    dispersed("two-groups-partly-targeted-a0.6", "3/5", [3, 3], [3, 4], targeted=[1, 3]),
    dispersed("0-of-2-and-2-of-3-targeted-a2", "2", [2, 3], [2, 4], targeted=[0, 2]),
    dispersed("two-pairs-a0.1", "1/10", [2, 2], [2, 4]),
    dispersed("one-singleton-a0.6", "3/5", [1], [4], caps=MORE_CAPS),
    dispersed("sizes-1-2-a2", "2", [1, 2], [2, 3]),
    dispersed("sizes-1-2-3-partly-targeted-a0.6", "3/5", [1, 2, 3], [2, 3, 3], targeted=[1, 1, 2]),
    dispersed("no-impressions-a0.6", "3/5", [3, 2], [0, 0], caps=(1, 2)),
    dispersed("one-of-two-groups-served-a2", "2", [2, 3], [0, 4]),
    dispersed("saturated-pair-a2", "2", [2], [9], caps=(1, 2, 3, 5)),
    dispersed("saturated-pair-a0.1", "1/10", [2], [9]),
]

OVERLAPPING = [
    # Everybody in one group only: nothing overlaps after all.
    overlapping("one-class-in-one-group", [3], [((0,), 3)], [4]),
    overlapping("single-group-classes", [2, 3], [((0,), 2), ((1,), 3)], [2, 3]),
    # Equal sizes, everybody targeted.
    overlapping("one-shared-group", [3, 3], [((0,), 2), ((0, 1), 1), ((1,), 2)], [3, 2]),
    overlapping("two-classes-meet-in-one-of-three", [2, 2, 2],
                [((0, 1), 1), ((1, 2), 1), ((0,), 1), ((2,), 1)], [2, 3, 1], caps=MORE_CAPS),
    overlapping("two-shared-groups", [2, 2, 2],
                [((0, 1), 1), ((0, 1, 2), 1), ((2,), 1)], [2, 3, 2], caps=MORE_CAPS),
    overlapping("same-pair-in-two-groups", [2, 2], [((0, 1), 2)], [3, 3], caps=MORE_CAPS),
    overlapping("same-three-in-three-groups", [3, 3, 3], [((0, 1, 2), 3)], [1, 2, 2]),
    overlapping("chain-of-three-headcounts", [3, 3, 3],
                [((0,), 1), ((0, 1), 2), ((1, 2), 1), ((2,), 2)], [2, 3, 2]),
    overlapping("headcounts-of-2", [4, 4], [((0, 1), 2), ((0,), 2), ((1,), 2)], [3, 3]),
    overlapping("ring-of-four", [2, 2, 2, 2],
                [((0, 1), 1), ((1, 2), 1), ((2, 3), 1), ((0, 3), 1)], [2, 1, 2, 3]),
    # Mixed sizes: a person's impressions then come with different chances.
    overlapping("sizes-2-3", [2, 3], [((0,), 1), ((0, 1), 1), ((1,), 2)], [3, 3], caps=MORE_CAPS),
    overlapping("sizes-1-3", [1, 3], [((0, 1), 1), ((1,), 2)], [1, 3]),
    overlapping("sizes-1-2-4-nested", [1, 2, 4],
                [((0, 1, 2), 1), ((1, 2), 1), ((2,), 2)], [1, 2, 3]),
    overlapping("sizes-2-4-nested", [2, 4], [((0, 1), 2), ((1,), 2)], [3, 3]),
    overlapping("sizes-2-3-4-triangle", [2, 3, 4],
                [((0, 1), 1), ((0, 2), 1), ((1, 2), 2), ((2,), 1)], [2, 2, 3]),
    # Partly targeted.
    overlapping("partly-targeted-one-shared", [3, 3], [((0, 1), 1), ((0,), 1)], [3, 3]),
    overlapping("partly-targeted-one-person", [3, 3], [((0, 1), 1)], [2, 3], caps=(1, 2, 3, 100)),
    overlapping("partly-targeted-group-without-target", [3, 3, 2], [((0, 1), 2)], [2, 2, 3]),
    overlapping("partly-targeted-sizes-2-4-3", [2, 4, 3],
                [((0, 1), 1), ((1, 2), 1), ((2,), 1)], [2, 2, 3]),
    # The least reach is a smallest set of people who meet every served group.
    overlapping("triangle", [2, 2, 2],
                [((0, 1), 1), ((1, 2), 1), ((0, 2), 1)], [2, 2, 2], caps=MORE_CAPS),
    overlapping("triangle-uneven", [2, 2, 2],
                [((0, 1), 1), ((1, 2), 1), ((0, 2), 1)], [3, 1, 2]),
    overlapping("triangle-one-group-escapes", [2, 2, 3],
                [((0, 1), 1), ((1, 2), 1), ((0, 2), 1)], [2, 2, 3]),
    # Taking whoever is in most groups first (the class of four) ends with 3 people; 2 suffice.
    overlapping("greedy-trap", [2, 2, 2, 2, 2, 2],
                [((1, 2, 3, 4), 1), ((0, 1, 2), 1), ((3, 4, 5), 1), ((0,), 1), ((5,), 1)],
                [1, 2, 1, 1, 2, 1]),
    # Seven lines of three points: 3 people are needed, the linear relaxation says 7/3.
    overlapping("fano-plane", [3, 3, 3, 3, 3, 3, 3],
                [((0, 1, 2), 1), ((0, 3, 4), 1), ((0, 5, 6), 1), ((1, 3, 5), 1),
                 ((1, 4, 6), 1), ((2, 3, 6), 1), ((2, 4, 5), 1)],
                [1, 1, 1, 1, 1, 1, 1]),
    # The most reach is a flow: impressions must be routed around people who are full already.
    overlapping("flow-around-singleton", [1, 2, 2],
                [((0, 1), 1), ((1, 2), 1), ((2,), 1)], [2, 1, 2]),
    overlapping("saturated", [2, 2], [((0,), 1), ((0, 1), 1), ((1,), 1)], [7, 8]),
    # Few or no impressions.
    overlapping("no-impressions", [2, 2], [((0,), 1), ((0, 1), 1), ((1,), 1)], [0, 0],
                caps=(1, 2)),
    overlapping("shared-group-idle", [2, 2], [((0,), 1), ((0, 1), 1), ((1,), 1)], [4, 0]),
    overlapping("fewer-than-cap", [2, 2], [((0,), 1), ((0, 1), 1), ((1,), 1)], [1, 1],
                caps=(2, 3, 100)),
]  # fmt: skip

PROFILED = [
    profiled("equal-one-pair", ["1/2 1/2"], [3], caps=MORE_CAPS),
    profiled("equal-two-groups-of-3", ["1/3 1/3 1/3", "1/3 1/3 1/3"], [2, 4], caps=(1, 2, 3, 5)),
    profiled("equal-sizes-1-2", ["1", "1/2 1/2"], [2, 2]),
    profiled("uneven-pair", ["1/4 3/4"], [4], caps=MORE_CAPS),
    profiled("uneven-group-of-3", ["1/6 1/3 1/2"], [4], caps=MORE_CAPS),
    profiled("uneven-group-of-4", ["1/16 3/16 1/4 1/2"], [4]),
    profiled("steep", ["1/100 9/100 9/10"], [5]),
    profiled("sizes-1-2-3", ["1", "1/3 2/3", "1/8 3/8 1/2"], [2, 3, 3]),
    profiled("share-0", ["0 1/2 1/2"], [4], caps=MORE_CAPS),
    profiled("share-1", ["0 0 1"], [3], caps=MORE_CAPS),
    profiled("share-1-beside-uneven", ["0 1", "1/3 2/3"], [4, 3]),
    profiled("share-0-saturated", ["0 1/3 2/3"], [9]),
    profiled("one-singleton", ["1"], [3]),
    profiled("no-impressions", ["1/4 3/4", "0 1"], [0, 0], caps=(1, 2)),
    profiled("fewer-than-cap", ["1/4 3/4"], [1], caps=(2, 3, 100)),
    profiled("saturated-uneven", ["1/4 3/4", "1/3 2/3"], [7, 9]),
]

TWINS = [
    ("profiled-equal-one-pair", "disjoint-one-pair"),
    ("profiled-equal-two-groups-of-3", "disjoint-two-groups-of-3"),
    ("profiled-equal-sizes-1-2", "disjoint-sizes-1-2"),
    ("overlapping-one-class-in-one-group", "disjoint-one-group-of-3"),
]
"""Settings that say the same in two ways, so must have the same values."""


# ----------------------------------------------------------------------------------------- file


def to_case(setting: Setting, cap: int, measures: Measures) -> dict[str, object]:
    """One entry of values.json; fractions are text, so that nothing is rounded."""
    case: dict[str, object] = {"name": f"{setting.name}-cap-{cap}", "kind": setting.kind}
    case["group_sizes"] = setting.group_sizes
    if setting.kind in ("disjoint", "dispersed"):
        case["targeted_counts"] = setting.targeted_counts
    if setting.kind == "dispersed":
        case["dispersion"] = str(setting.dispersion)
    if setting.kind == "overlapping":
        case["classes"] = setting.classes
    if setting.kind == "profiled":
        case["visit_shares"] = [[str(share) for share in group] for group in setting.visit_shares]
    case["impressions"] = setting.impressions
    case["cap"] = cap
    case["reach"] = str(measures.reach)
    case["variance"] = str(measures.variance)
    case["distribution"] = {str(value): str(p) for value, p in measures.distribution.items()}
    case["over_exposed"] = str(measures.over_exposed)
    case["frequency"] = [str(persons) for persons in measures.frequency]
    case["average_frequency"] = str(measures.average_frequency)
    case["reach_probability"] = [str(chance) for chance in measures.reach_probability]
    case["bounds"] = measures.bounds
    return case


def generate() -> str:
    """The text of values.json, one case per line so that a change shows as a line of a diff."""
    settings = DISJOINT + DISPERSED + OVERLAPPING + PROFILED
    measured: dict[tuple[str, int], Measures] = {}
    lines = []
    for setting in settings:
        world = build_world(setting)
        outcomes = all_outcomes(world)
        for cap in setting.caps:
            measures = measure(world, outcomes, cap)
            check_measures(world, outcomes, cap, measures)
            assert (setting.name, cap) not in measured, f"{setting.name} is there twice"
            measured[setting.name, cap] = measures
            lines.append(json.dumps(to_case(setting, cap, measures)))
    for left, right in TWINS:
        shared = [cap for name, cap in measured if name == left and (right, cap) in measured]
        assert shared, f"{left} and {right} have no cap in common"
        assert all(measured[left, cap] == measured[right, cap] for cap in shared)
    return '{"cases": [\n' + ",\n".join(lines) + "\n]}\n"


def main(arguments: list[str]) -> int:
    """Write values.json, or with --check only compare it; the result is the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    text = generate()
    if not arguments:
        VALUES.write_text(text, encoding="utf-8")
        return 0
    if VALUES.exists() and VALUES.read_text(encoding="utf-8") == text:
        return 0
    print(f"{VALUES} is not what {Path(__file__).name} generates; run it and commit the result")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
