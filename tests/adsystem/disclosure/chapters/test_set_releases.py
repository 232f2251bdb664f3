"""Campaigns together behind the guard: what two releases differ by is never about few."""

from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.adsystem.disclosure.chapters.chapter import Floors
from kreach.adsystem.disclosure.chapters.set_releases import SetReleases, SetState
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.numeric.types import IntArray

GROUPS, PEOPLE = 6, 10
FLOORS = Floors(min_impressions=4, min_people=20)


class Campaigns:
    """Chapters as impressions by group: chapters[campaign][chapter]."""

    def __init__(self, chapters: dict[int, list[list[int]]]) -> None:
        self.chapters = {
            one: np.array(listed, dtype=np.int64).reshape(-1, GROUPS)
            for one, listed in chapters.items()
        }

    def counts(self, campaign: int, chapters: int) -> IntArray:
        result: IntArray = self.chapters[campaign][:chapters].sum(axis=0)
        return result

    @staticmethod
    def people(groups: IntArray) -> int:
        return PEOPLE * len(groups)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChapterStore]:
    with closing(ChapterStore(tmp_path)) as opened:
        yield opened


def ask(store: ChapterStore, campaigns: Campaigns, shown: SetState) -> SetState | None:
    return SetReleases(store, FLOORS).state("v1", shown, campaigns.counts, campaigns.people)


def test_a_set_appears_when_its_common_groups_are_many(store: ChapterStore) -> None:
    wide, narrow = [2, 2, 2, 0, 0, 0], [0, 0, 2, 2, 2, 2]
    campaigns = Campaigns({1: [wide, wide], 2: [narrow, wide]})
    assert ask(store, campaigns, {1: 1, 2: 1}) is None  # one group in common
    assert ask(store, campaigns, {1: 1, 2: 2}) == {1: 1, 2: 2}  # three


def test_none_in_common_looks_like_one(store: ChapterStore) -> None:
    campaigns = Campaigns({1: [[3, 3, 3, 0, 0, 0]], 2: [[0, 0, 0, 3, 3, 3]]})
    assert ask(store, campaigns, {1: 1, 2: 1}) is None


def test_a_chapter_that_changes_little_in_common_waits(store: ChapterStore) -> None:
    first, away, back = [2, 2, 2, 0, 0, 0], [1, 0, 0, 9, 9, 9], [2, 2, 0, 0, 0, 0]
    campaigns = Campaigns({1: [first, away, back], 2: [first]})
    assert ask(store, campaigns, {1: 1, 2: 1}) == {1: 1, 2: 1}
    assert ask(store, campaigns, {1: 2, 2: 1}) == {1: 1, 2: 1}  # group 0 alone changed
    assert ask(store, campaigns, {1: 3, 2: 1}) == {1: 3, 2: 1}


def test_a_pair_waits_for_no_triple_and_a_triple_for_all_pairs(store: ChapterStore) -> None:
    both, other = [2, 2, 2, 0, 0, 0], [0, 0, 2, 2, 2, 2]
    campaigns = Campaigns({1: [both], 2: [both], 3: [other]})
    assert ask(store, campaigns, {1: 1, 2: 1, 3: 1}) is None
    assert ask(store, campaigns, {1: 1, 2: 1}) == {1: 1, 2: 1}


def test_releases_outlive_a_restart_and_never_go_back(tmp_path: Path) -> None:
    wide = [2, 2, 2, 0, 0, 0]
    campaigns = Campaigns({1: [wide, wide], 2: [wide, wide]})
    with closing(ChapterStore(tmp_path)) as store:
        assert ask(store, campaigns, {1: 2, 2: 2}) == {1: 2, 2: 2}
    with closing(ChapterStore(tmp_path)) as store:
        assert ask(store, campaigns, {1: 1, 2: 2}) == {1: 2, 2: 2}


def test_another_process_that_releases_first_is_read_again(store: ChapterStore) -> None:
    known = store.sets("v1")
    assert store.store_sets("v1", known, {(1, 2): (1, 1)})
    assert not store.store_sets("v1", known, {(1, 2): (2, 1)})
    assert store.sets("v1") == {(1, 2): (1, 1)}
    assert store.sets("v2") == {}


chapter = st.lists(st.integers(0, 3), min_size=GROUPS, max_size=GROUPS)
logs = st.dictionaries(
    st.integers(1, 3), st.lists(chapter, min_size=4, max_size=4), min_size=3, max_size=3
)
steps = st.lists(
    st.tuples(st.sampled_from([(1, 2), (1, 3), (2, 3), (1, 2, 3)]), st.integers(1, 3)), max_size=8
)


@given(logs, steps)
@settings(max_examples=50, deadline=None)
def test_differences_of_releases_are_about_many(
    tmp_path_factory: pytest.TempPathFactory,
    log: dict[int, list[list[int]]],
    asked: list[tuple[tuple[int, ...], int]],
) -> None:
    """Whatever sets are asked for while chapters close, for every set of campaigns two states that
    were shown differ by many people in the groups that all its members served."""
    campaigns = Campaigns(log)
    shown = dict.fromkeys(log, 1)
    seen: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    with closing(ChapterStore(tmp_path_factory.mktemp("sets"))) as store:
        for members, grows in asked:
            shown[grows] = min(shown[grows] + 1, 4)
            state = ask(store, campaigns, {one: shown[one] for one in members})
            if state is None:
                continue
            for size in range(2, len(members) + 1):
                for one in combinations(members, size):
                    seen.setdefault(one, []).append(tuple(state[c] for c in one))
    for one, states in seen.items():
        for before, after in combinations(dict.fromkeys([(0,) * len(one), *states]), 2):
            early, late = sorted((before, after))
            now = [campaigns.counts(c, n) for c, n in zip(one, late, strict=True)]
            then = [campaigns.counts(c, n) for c, n in zip(one, early, strict=True)]
            new = np.sum(now, axis=0) - np.sum(then, axis=0)
            changed = np.flatnonzero(np.all([each > 0 for each in now], axis=0) & (new > 0))
            assert campaigns.people(changed) >= FLOORS.min_people
            assert new[changed].sum() >= FLOORS.min_impressions
