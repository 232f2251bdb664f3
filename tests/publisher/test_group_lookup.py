"""User in, group out: known people, unknown_count, and what an observer of visits can see."""

import secrets
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import kreach as kr
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.publisher.group_lookup import GroupLookup, VisitorGroup
from kreach.publisher.grouping import AtRandom, Overlapping, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import Floors, Release, release
from tests.publisher.populations import KEY, NOW

COUNT = 330
IDS = [f"user-{i}" for i in range(COUNT)]


@pytest.fixture(autouse=True)
def _seeded_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's draws must not be guessed; a test's must be the same each time."""
    generator = np.random.default_rng(50)
    monkeypatch.setattr(secrets, "randbelow", lambda bound: int(generator.integers(bound)))


def sample_release(count: int = COUNT, *, layers: int = 1, k: int = 20, floor: int = 10) -> Release:
    people = People(np.full(count, 3))
    strategy = AtRandom() if layers == 1 else Overlapping(layers, floor)
    assignment = form_groups(people, k, strategy, seed=1)
    floors = Floors(membership_class=floor)
    return release(people, assignment, key=KEY, buyer="acme", version="v7", now=NOW, floors=floors)


def lookup_of(released: Release, ids: list[str] = IDS, **options: Any) -> GroupLookup:
    return GroupLookup(released.catalogue, ids, released.group_indices, **{"key": KEY, **options})


def test_every_known_user_gets_its_group() -> None:
    released = sample_release()
    lookup = lookup_of(released)
    assert len(lookup) == COUNT
    for at, user in enumerate(IDS):
        assert lookup.identify(user) == VisitorGroup(
            released.catalogue.groups[released.group_indices[at, 0]], released.catalogue.version
        )


def test_all_that_leaves_is_a_group_and_a_version() -> None:
    answer = lookup_of(sample_release()).identify(IDS[0])
    assert set(VisitorGroup.__slots__) == {"group", "catalogue"}
    assert (answer.catalogue, len(answer.group)) == ("v7", 16)
    assert IDS[0] not in repr(answer)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_stranger_gets_one_existing_group_and_keeps_it(layers: int) -> None:
    released = sample_release(layers=layers)
    lookups = [lookup_of(released, choice="sticky") for _ in range(2)]
    for unknown in (f"unknown-{i}" for i in range(200)):
        answers = {lookup.identify(unknown) for lookup in lookups for _ in range(3)}
        assert len(answers) == 1
        assert answers.pop().group in released.catalogue


def test_at_each_visit_a_stranger_looks_like_a_member() -> None:
    """Somebody who always showed one group would stand out as a unknown."""
    released = sample_release(layers=3)
    classes = {
        frozenset(released.catalogue.groups[g] for g in row)
        for row in released.group_indices.tolist()
    }
    lookup = lookup_of(released, choice="each_visit")
    for unknown in (f"unknown-{i}" for i in range(50)):
        shown = frozenset(lookup.identify(unknown).group for _ in range(60))
        assert shown in classes


def test_strangers_spread_over_groups_in_proportion_to_their_sizes() -> None:
    """χ² over 16 groups of 20 and 21; the tail beyond the tolerance is one in a million."""
    released = sample_release()
    sizes = released.catalogue.sizes
    assert sizes.min() < sizes.max()
    lookup = lookup_of(released)
    counts = np.zeros(len(sizes))
    unknown_count = 40_000
    for i in range(unknown_count):
        counts[released.catalogue.index(lookup.identify(f"unknown {i}").group)] += 1
    expected = unknown_count * sizes / sizes.sum()
    assert float(((counts - expected) ** 2 / expected).sum()) < chi2.isf(1e-6, len(sizes) - 1)


def test_strangers_spread_by_size_where_sizes_differ_much() -> None:
    """Groups of 2 and 38: the small one gets a twentieth, z-tolerance 4."""
    groups = np.repeat([0, 1], [2, 38])
    catalogue = Catalogue("v1", NOW, 2, ("small", "large"), np.array([2, 38]))
    ids = [f"user-{i}" for i in range(40)]
    lookup = GroupLookup(catalogue, ids, groups.reshape(-1, 1), key=KEY)
    small = sum(lookup.identify(f"unknown {i}").group == "small" for i in range(20_000))
    assert abs(small - 1_000) < 4.0 * np.sqrt(20_000 * 0.05 * 0.95)


def test_strangers_do_not_keep_their_group_under_another_key() -> None:
    released = sample_release()
    one, other = lookup_of(released), lookup_of(released, key=KEY[::-1])
    same = sum(one.identify(f"s{i}") == other.identify(f"s{i}") for i in range(400))
    assert same < 60  # 25 expected by chance


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    "unknown",
    ["x" * 100_000, "\u200b", "naïve 用户", "\x00", "'; DROP TABLE people; --", "\ud800"],
)
def test_no_text_is_an_error(unknown: str, layers: int) -> None:
    released = sample_release(layers=layers)
    assert lookup_of(released).identify(unknown).group in released.catalogue


@pytest.mark.parametrize("wrong", ["", None, 5, b"CANARY", 1.5, ["CANARY"]])
def test_what_is_no_id_is_refused_without_an_echo(wrong: Any) -> None:
    with pytest.raises(KreachError) as caught:
        lookup_of(sample_release()).identify(wrong)
    assert str(caught.value) == "user_id must be a non-empty text"
    assert caught.value.__cause__ is None


def seen_by_observer(lookup: GroupLookup, user: str, visits: int) -> set[str]:
    """The groups that somebody sees who knows that these visits are one person's."""
    return {lookup.identify(user).group for _ in range(visits)}


def test_sticky_shows_one_group_of_the_class() -> None:
    released = sample_release(layers=3)
    lookup = lookup_of(released, choice="sticky")
    chosen = []
    for at, user in enumerate(IDS):
        seen = seen_by_observer(lookup, user, 40)
        assert len(seen) == 1
        index = released.catalogue.index(seen.pop())
        assert index in released.group_indices[at]
        chosen.append(released.group_indices[at].tolist().index(index))
    # every partition serves about a third of people: z-tolerance 4
    assert np.abs(np.bincount(chosen, minlength=3) - COUNT / 3).max() < 4.0 * np.sqrt(COUNT * 2 / 9)


def test_each_visit_shows_all_groups_of_the_class_and_nobody_elses() -> None:
    """A group is missed in 60 visits with chance (2/3)⁶⁰ = 3·10⁻¹¹."""
    released = sample_release(layers=3)
    lookup = lookup_of(released, choice="each_visit")
    for at, user in enumerate(IDS):
        seen = {released.catalogue.index(group) for group in seen_by_observer(lookup, user, 60)}
        assert seen == set(released.group_indices[at].tolist())


def test_what_each_visit_shows_is_a_crowd_of_at_least_the_floor() -> None:
    released = sample_release(layers=3)
    lookup = lookup_of(released, choice="each_visit")
    crowds: dict[frozenset[str], int] = {}
    for user in IDS:
        seen = frozenset(seen_by_observer(lookup, user, 60))
        crowds[seen] = crowds.get(seen, 0) + 1
    assert min(crowds.values()) >= 10


def reach_by_choice(choice: str, aimed: bool, seed: int) -> tuple[float, float, float]:
    """The reach that the formula gives, its spread, and what happened, over many flights.

    Everybody visits alike. Every request is won, or only those of the first partition.
    """
    generator = np.random.default_rng(seed)
    released = sample_release(240, layers=2, floor=5)
    ids = [f"user-{i}" for i in range(240)]
    lookup = lookup_of(released, ids, choice=choice)
    first = set(released.group_indices[:, 0].tolist())
    audience = released.audience()
    gaps = []
    for _ in range(60):
        impressions = np.zeros(len(released.catalogue), dtype=np.int64)
        reached = set()
        for visitor in generator.integers(0, 240, 240).tolist():
            group = released.catalogue.index(lookup.identify(ids[visitor]).group)
            if not aimed or group in first:
                impressions[group] += 1
                reached.add(visitor)
        gaps.append(kr.measure(audience, impressions, cap=1).reach - len(reached))
    return float(np.mean(gaps)), float(np.std(gaps) / np.sqrt(len(gaps))), float(len(reached))


@pytest.mark.parametrize("aimed", [False, True])
def test_the_formula_for_overlap_holds_when_every_visit_draws(aimed: bool) -> None:
    """z-tolerance 4."""
    gap, error, _ = reach_by_choice("each_visit", aimed, seed=51)
    assert abs(gap) < 4.0 * error


def test_the_formula_for_overlap_overstates_sticky_reach_on_some_of_the_groups() -> None:
    """Half of a group is never named under it, so its impressions fall on fewer people."""
    gap, error, truth = reach_by_choice("sticky", aimed=True, seed=52)
    assert gap > 6.0 * error
    assert gap > 0.1 * truth


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"choice": "loudest"}, "choice must be one of sticky, each_visit, got 'loudest'"),
        ({"key": b"short"}, "key must have at least 16 bytes, got 5 bytes"),
        ({"ids": IDS[:-1]}, f"user_ids must match the {COUNT} people, got {COUNT - 1}"),
        ({"ids": [*IDS[:-1], IDS[0]]}, "user_ids must be unique, got 1 duplicates"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(KreachError) as caught:
        lookup_of(sample_release(), **options)
    assert str(caught.value) == rule
