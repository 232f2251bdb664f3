"""Audiences that advertisers may use: many people, none nearly the same as what others tell."""

from collections.abc import Mapping
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.catalogues import headcounts
from kreach.adsystem.disclosure import combinations as module
from kreach.adsystem.disclosure.audiences import (
    CHANGED,
    NOT_HERE,
    TOO_CLOSE,
    TOO_FEW_VISIBLE,
    TOO_SMALL,
    distance,
    margins,
    pack_counts,
    served_people,
    unpack_counts,
    verdicts,
)
from kreach.adsystem.disclosure.combinations import Combinations, check_together
from kreach.boundary.audience import Audience
from kreach.errors import KreachError
from tests.strategies import audiences

SIZES = [10] * 8


def some(*targeted: int) -> Audience:
    return Audience.disjoint(SIZES, targeted)


def judged(
    known: Mapping[str, Audience],
    min_audience: int = 20,
    min_difference: int = 5,
    together: int = 4,
) -> dict[str, str | None]:
    def read(name: str) -> Audience:
        if name not in known:
            raise KreachError.rule("audience", "be known", name)
        return known[name]

    reasons = verdicts([*known, "missing"], read, min_audience, min_difference, together=together)
    assert reasons.pop("missing").reason == NOT_HERE
    return {name: verdict.reason for name, verdict in reasons.items()}


def test_small_and_close_audiences_are_not_for_advertisers() -> None:
    all_of = some(*SIZES)
    reasons = judged(
        {
            "everyone": all_of,
            "all but one": some(10, 10, 10, 10, 10, 10, 10, 9),
            "one person": some(1, 0, 0, 0, 0, 0, 0, 0),
            "the same": some(*SIZES),
            "half": some(10, 10, 10, 10, 0, 0, 0, 0),
            "other half": some(0, 0, 0, 0, 10, 10, 10, 10),  # as many, others
            "half, one exchanged": some(10, 10, 10, 9, 1, 0, 0, 0),  # as many, at distance 2
            "far enough": some(10, 10, 10, 5, 0, 0, 0, 0),
            "nearly": some(10, 10, 10, 6, 0, 0, 0, 0),
        },
        together=2,
    )
    assert reasons == {
        "everyone": None,
        "all but one": TOO_CLOSE,
        "one person": TOO_SMALL,
        "the same": TOO_CLOSE,  # or a refusal would tell that two are not the same
        "half": None,
        "other half": None,
        "half, one exchanged": TOO_CLOSE,
        "far enough": None,
        "nearly": TOO_CLOSE,
    }


def test_nor_are_those_that_others_add_up_to() -> None:
    lists = {
        "everyone": some(*SIZES),
        "left": some(10, 10, 10, 5, 0, 0, 0, 0),
        "right": some(0, 0, 0, 5, 10, 10, 10, 9),  # everyone less left, but for one person
        "middle": some(0, 0, 10, 10, 10, 10, 0, 0),
        "ends": some(10, 10, 0, 0, 0, 0, 9, 8),  # everyone less middle, nearly
        "left and ends": some(10, 10, 10, 5, 0, 0, 10, 9),
        "all but the middle of left": some(10, 10, 0, 5, 10, 10, 10, 10),
    }
    alone = judged(lists, together=2)
    assert set(alone.values()) == {None}
    reasons = judged(lists, together=3)
    assert {name for name in lists if reasons[name]} == {"right", "ends"}
    decided = verdicts(lists, lists.__getitem__, 20, 5, together=3)
    assert decided["right"].near == "everyone − left"
    assert decided["ends"].near == "everyone − middle"
    assert "everyone" not in decided["right"].rule


def test_unions_and_intersections_tell_as_much() -> None:
    lists = {
        "everyone": some(*SIZES),
        "first": some(10, 10, 10, 10, 10, 10, 0, 0),
        "last": some(0, 0, 10, 10, 10, 10, 10, 10),
        "both": some(0, 0, 10, 10, 10, 9, 0, 0),  # all on both lists but one
    }
    assert set(judged(lists, together=3).values()) == {None}
    decided = verdicts(lists, lists.__getitem__, 20, 5)
    assert (decided["both"].reason, decided["both"].near) == (TOO_CLOSE, "first + last − everyone")


def test_an_audience_that_may_not_be_used_stands_in_nobodys_way() -> None:
    reasons = judged({"a": some(*[5] * 8), "b": some(*[5] * 7, 2), "c": some(*[5] * 6, 3, 2)})
    assert reasons == {"a": None, "b": TOO_CLOSE, "c": None}  # c is close to b, which nobody uses


def test_the_rule_tells_floors_and_never_sizes() -> None:
    decided = verdicts(["a", "b"], lambda name: some(*[4] * 7, 3 + (name == "a")), 20, 5)
    assert decided["b"].rule == (
        "differ from every other, and from what others add up to, by clearly more than 5 people"
    )
    assert decided["b"].near == "a"
    decided = verdicts(["a"], lambda _: some(*[4] * 8), 33, 5)
    assert decided["a"].rule == "have clearly more than 33 people"
    assert "32" not in decided["a"].rule


vectors = st.lists(st.integers(0, 10), min_size=8, max_size=8)


def closest(mine: list[int], others: list[list[int]], most: int) -> int:
    """To any sum or difference of up to so many others, by trying all of them."""
    apart = [10**9]
    for size in range(1, most + 1):
        for chosen in combinations(others, size):
            for signs in product((1, -1), repeat=size):
                if any(sign > 0 for sign in signs):
                    added = [
                        sum(s * c for s, c in zip(signs, group, strict=True))
                        for group in zip(*chosen, strict=True)
                    ]
                    apart.append(sum(abs(a - b) for a, b in zip(mine, added, strict=True)))
    return min(apart)


@given(
    st.lists(vectors, min_size=1, max_size=6),
    st.integers(1, 60),
    st.integers(0, 30),
    st.integers(2, 5),
)
def test_usable_audiences_are_large_and_far_from_what_others_add_up_to(
    listed: list[list[int]], min_audience: int, min_difference: int, together: int
) -> None:
    known = {str(at): some(*targeted) for at, targeted in enumerate(listed)}
    reasons = judged(known, min_audience, min_difference, together)
    usable: list[list[int]] = []
    for name, targeted in zip(known, listed, strict=True):
        if sum(targeted) < min_audience:
            assert reasons[name] == TOO_SMALL
        elif closest(targeted, usable, together - 1) < min_difference:
            assert reasons[name] == TOO_CLOSE
        else:
            assert reasons[name] is None
            usable.append(targeted)
    # audiences at the end leave those before them as they are
    shorter = dict(list(known.items())[:-1])
    before = judged(shorter, min_audience, min_difference, together)
    assert before == {name: reasons[name] for name in shorter}


@given(st.lists(vectors, min_size=1, max_size=6), vectors, st.integers(1, 30), st.integers(1, 4))
def test_no_sum_that_is_near_is_sifted_out(
    listed: list[list[int]], mine: list[int], floor: int, most: int
) -> None:
    with patch.object(module, "_PARTS", 3), patch.object(module, "_AT_ONCE", 2):
        _check_sifting(listed, mine, floor, most)


def _check_sifting(listed: list[list[int]], mine: list[int], floor: int, most: int) -> None:
    sums = Combinations(most)
    for at, targeted in enumerate(listed):
        sums.add(str(at), np.array(targeted))
    reasons = list(sums.near(np.array(mine), floor))
    assert len(set(reasons)) == len(reasons)
    near = 10**9
    for others in reasons:
        added = np.sum([sign * np.array(listed[int(name)]) for name, sign in others], axis=0)
        near = min(near, int(np.abs(np.array(mine) - added).sum()))
    assert (near < floor) == (closest(mine, listed, most) < floor)


def stored_counts(**audiences: Audience) -> dict[str, bytes]:
    return {name: pack_counts(headcounts(audience)) for name, audience in audiences.items()}


def test_what_was_shown_stands_in_the_way_of_its_like() -> None:
    """Changed, taken out, behind others or unreadable: reports on it may have been seen."""
    half = some(10, 10, 10, 10, 0, 0, 0, 0)
    twin = some(10, 10, 10, 9, 0, 0, 0, 0)
    other = some(0, 0, 0, 0, 0, 10, 10, 10)
    for named in (
        {"half": other, "twin": twin},  # it was changed
        {"twin": twin},  # it was taken out
        {"twin": twin, "half": half},  # it was put behind
    ):
        reasons = verdicts(named, named.__getitem__, 20, 5, stored=stored_counts(half=half))
        assert (reasons["twin"].reason, reasons["twin"].near) == (TOO_CLOSE, "half")
        if "half" in named:
            assert reasons["half"].reason == (None if named["half"] is half else CHANGED)

    def unreadable(name: str) -> Audience:
        if name == "half":
            raise KreachError.rule("audience", "be readable", name)
        return twin

    reasons = verdicts(["half", "twin"], unreadable, 20, 5, stored=stored_counts(half=half))
    assert (reasons["half"].reason, reasons["twin"].reason) == (NOT_HERE, TOO_CLOSE)


def test_higher_floors_hold_for_what_was_shown_too() -> None:
    lists = {"half": some(10, 10, 10, 10, 0, 0, 0, 0), "less": some(10, 10, 10, 4, 0, 0, 0, 0)}
    known = stored_counts(**lists)
    assert {v.reason for v in verdicts(lists, lists.__getitem__, 20, 5, stored=known).values()} == {
        None
    }
    reasons = verdicts(lists, lists.__getitem__, 36, 7, stored=known)
    assert (reasons["half"].reason, reasons["less"].reason) == (None, TOO_SMALL)
    reasons = verdicts(lists, lists.__getitem__, 20, 7, stored=known)
    assert (reasons["half"].reason, reasons["less"].reason) == (None, TOO_CLOSE)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_people_are_kept_as_they_are(counts: list[int]) -> None:
    assert unpack_counts(pack_counts(np.array(counts, dtype=np.int64))).tolist() == counts


def test_more_sums_than_can_be_kept_are_refused_at_once() -> None:
    check_together(1_000, 3)
    check_together(40, 6 - 1)
    with pytest.raises(KreachError, match="audiences_together must be at most 3 with 300 aud"):
        check_together(300, 4)


def test_floors_have_margins_that_only_the_key_knows() -> None:
    """At any size near the floor some audiences pass and some do not, whatever one knows of it."""
    known = margins(b"one key", 5)
    sizes = {margins(bytes([key]), 5)("a") for key in range(200)}
    assert sizes == set(range(5))
    passed = {}
    for total in range(30, 41):
        targeted = [total // 8 + (at < total % 8) for at in range(8)]
        decided = verdicts(["a"], lambda _, t=targeted: some(*t), 32, 5, known)  # type: ignore[misc]
        passed[total] = decided["a"].reason is None
    assert passed == {total: total >= 32 + known("a") for total in passed}
    pair = {key: margins(bytes([key]), 5)("b\na") for key in range(200)}
    for key in range(50):
        both = {"a": some(*[5] * 8), "b": some(*[5] * 6, 1, 4)}  # at distance 5
        decided = verdicts(both, both.__getitem__, 1, 5, margins(bytes([key]), 5))
        assert (decided["b"].reason is None) == (pair[key] == 0)


def test_few_pairs_are_compared() -> None:
    """A hundred audiences of a million groups are read once each, unless they may be close."""
    reads: list[str] = []
    sizes, chance = np.full(1_000, 10), np.random.default_rng(7)
    lists = chance.binomial(10, chance.uniform(0.1, 0.9, (100, 1)), (100, 1_000))

    def read(name: str) -> Audience:
        reads.append(name)
        return Audience.disjoint(sizes, lists[int(name)])

    reasons = verdicts([str(at) for at in range(100)], read, 200, 50, together=3)
    assert all(verdict.reason is None for verdict in reasons.values())
    assert len(reads) == 100


def test_people_of_served_groups() -> None:
    disjoint = Audience.disjoint([5, 5, 5], [1, 0, 4])
    assert served_people(disjoint, np.array([0, 1])) == 1
    assert served_people(disjoint, np.array([], dtype=np.int64)) == 0
    profiled = Audience.profiled([[0.5, 0.5], [0.2, 0.3, 0.5]])
    assert served_people(profiled, np.array([1])) == 3
    overlapping = Audience.overlapping([6, 6, 6], [((0,), 2), ((0, 1), 3), ((1, 2), 1), ((2,), 4)])
    assert served_people(overlapping, np.array([0])) == 5
    assert served_people(overlapping, np.array([2])) == 5
    assert served_people(overlapping, np.array([0, 1, 2])) == 10


@given(audiences(), st.data())
def test_served_people_rise_with_groups_to_the_whole_audience(
    audience: Audience, data: st.DataObject
) -> None:
    every = np.arange(audience.group_count)
    assert served_people(audience, every) == audience.targeted_user_count
    assert headcounts(audience).sum() == audience.targeted_user_count
    assert distance(headcounts(audience), headcounts(audience)) == 0
    some_of = np.array(sorted(data.draw(st.sets(st.sampled_from(every.tolist())))), dtype=np.int64)
    fewer = some_of[: len(some_of) // 2]
    assert served_people(audience, fewer) <= served_people(audience, some_of)


def test_audiences_of_different_catalogues_are_not_compared() -> None:
    with pytest.raises(KreachError, match="be on the same catalogue"):
        distance(np.full(8, 10), np.full(7, 10))


def test_few_people_inside_a_group_are_not_for_advertisers() -> None:
    lists = {
        "everyone": some(*SIZES),
        "three each": some(*[3] * 8),
        "few in one": some(10, 10, 10, 4, 0, 0, 0, 0),
        "enough": some(5, 5, 5, 5, 5, 0, 0, 0),
    }
    decided = verdicts(lists, lists.__getitem__, 20, 5, together=2, min_visible=5)
    assert {name: verdict.reason for name, verdict in decided.items()} == {
        "everyone": None,
        "three each": TOO_FEW_VISIBLE,
        "few in one": TOO_FEW_VISIBLE,
        "enough": None,
    }
    assert decided["three each"].rule == (
        "target nobody or at least 5 people of each group (fewer could be told apart there)"
    )
