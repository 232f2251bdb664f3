"""Visible anonymity: by hand, against effective anonymity, and on builds crafted to be bad."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.audit import Audit, audit
from kreach.publisher.grouping import Assignment, AtRandom, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import Floors, Release, ReleaseRefused, release
from kreach.publisher.visible import VisibleMembers
from kreach.publisher.visit_knowledge import (
    anonymity_from_visits,
    match_pseudo_visits,
    shrunk_shares,
)
from tests.publisher.populations import KEY, NOW, column, crowd

PEOPLE = crowd(600, seed=5)
GROUPS = form_groups(PEOPLE, 20, AtRandom(), seed=2)


def released(people: People, assignment: Assignment, **options: object) -> Release:
    floors = options.pop("floors", None)
    assert floors is None or isinstance(floors, Floors)
    return release(people, assignment, key=KEY, buyer="acme", version="v1", now=NOW, floors=floors)


def lonely(groups: int = 30, k: int = 20) -> tuple[People, Assignment]:
    """One person of each group is in Malta; all visit alike."""
    towns = ["Malta" if person % k == 0 else "Rome" for person in range(groups * k)]
    people = People(np.full(groups * k, 7), {"country": column(towns)})
    return people, Assignment(np.arange(groups * k)[:, None] // k, k, "random")


def in_country(people: People, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    attribute = people.attribute("country")
    return np.asarray(attribute.codes == attribute.labels.index(name))


def test_by_hand() -> None:
    """Even visits: every visible person is as likely as another."""
    members = VisibleMembers(np.array([4, 4, 4, 0, 4, 4, 4, 0]), np.repeat([0, 1], 4))
    seen = members.of(np.array([1, 1, 0, 1, 0, 0, 0, 1], dtype=np.bool_))
    assert seen.groups.tolist() == [0, 1]
    assert (seen.targeted.tolist(), seen.visible.tolist()) == ([3, 1], [2, 0])
    np.testing.assert_allclose(seen.effective, [2.0, 0.0])
    np.testing.assert_allclose(seen.guess, [0.5, 0.0])
    summary = seen.summary(2, 1.5)
    assert (summary.people, summary.visible_people, summary.groups) == (4, 2, 2)
    assert (summary.min_visible, summary.median_visible) == (0, 1.0)
    assert (summary.small_groups, summary.people_in_small_groups) == (1, 1)
    assert (summary.worst_guess, summary.mean_guess) == pytest.approx((0.5, 0.5))


def test_with_everybody_targeted_it_is_effective_anonymity() -> None:
    visits = PEOPLE.visits + 1  # everybody visits
    group_of = GROUPS.group_of()
    seen = VisibleMembers(visits, group_of).of(np.ones(600, dtype=np.bool_))
    np.testing.assert_allclose(seen.effective, anonymity_from_visits(visits, group_of))
    shares = shrunk_shares(visits, group_of, match_pseudo_visits(visits, group_of))
    best = [shares[group_of == group].max() for group in range(GROUPS.group_count)]
    np.testing.assert_allclose(seen.guess, best)
    assert not seen.small(20, 19.9).any(), "whole groups are judged with the catalogue"


@given(st.integers(0, 2**32 - 1), st.floats(0.02, 1.0))
def test_laws(seed: int, share: float) -> None:
    targeted = np.random.default_rng(seed).random(600) < share
    seen = VisibleMembers(PEOPLE.visits, GROUPS.group_of()).of(targeted)
    some = seen.visible > 0
    assert (seen.visible <= seen.targeted).all()
    assert (seen.effective <= seen.visible + 1e-9).all()
    assert (seen.guess[some] >= 1.0 / seen.visible[some] - 1e-12).all()
    assert (seen.guess[some] >= 1.0 / seen.effective[some] - 1e-9).all()
    assert seen.targeted.sum() == np.count_nonzero(targeted)
    summary = seen.summary(5, 2.0)
    assert summary.worst_guess is not None
    assert summary.mean_guess is not None
    assert summary.mean_guess <= summary.worst_guess + 1e-12


def test_the_guess_is_right_as_often_as_it_says() -> None:
    """Draw visitors by the shares: the busiest visible member is the visitor so often."""
    group_of, generator = GROUPS.group_of(), np.random.default_rng(3)
    targeted = generator.random(600) < 0.3
    seen = VisibleMembers(PEOPLE.visits, group_of).of(targeted)
    person = np.flatnonzero(targeted & (PEOPLE.visits > 0))
    weight = PEOPLE.visits[person] + match_pseudo_visits(PEOPLE.visits, group_of)
    visitor = generator.choice(person, 40_000, p=weight / weight.sum())
    busiest = {
        group: max(person[group_of[person] == group], key=lambda one: int(PEOPLE.visits[one]))
        for group in np.unique(group_of[person]).tolist()
    }
    right = np.mean([busiest[int(group_of[one])] == one for one in visitor])
    expected = seen.summary(5, 2.0).mean_guess
    assert expected is not None
    assert abs(right - expected) < 4.0 * np.sqrt(expected * (1 - expected) / 40_000)


def test_values_of_a_column_are_the_audiences_of_their_people() -> None:
    town = PEOPLE.attribute(next(iter(PEOPLE.attributes)))
    members = VisibleMembers(PEOPLE.visits, GROUPS.group_of())
    for label, seen in members.by_value(town):
        same = members.of(town.codes == town.labels.index(label))
        for name in ("groups", "sizes", "targeted", "visible", "effective", "guess", "visits"):
            np.testing.assert_array_equal(getattr(seen, name), getattr(same, name), name)


def test_without_history_everybody_may_be_visible() -> None:
    members = VisibleMembers(np.zeros(8, dtype=np.int64), np.repeat([0, 1], 4))
    summary = members.of(np.arange(8) < 3).summary(3, 2.0)
    assert (summary.min_visible, summary.min_effective, summary.worst_guess) == (3, None, None)


def test_targeting_is_a_bool_for_each_person() -> None:
    with pytest.raises(KreachError, match="targeted must be a bool for each of the 600 people"):
        VisibleMembers(PEOPLE.visits, GROUPS.group_of()).of(np.ones(599, dtype=np.bool_))


# Builds that are crafted to be bad


def test_one_visible_person_per_group_is_refused_at_release() -> None:
    people, assignment = lonely()
    out = released(people, assignment)
    with pytest.raises(ReleaseRefused, match=r"in 30 of 30 groups .* right with 100%"):
        out.audience(in_country(people, "Malta"))
    assert out.catalogue.min_visible == 5
    with pytest.raises(KreachError, match=r"^audience must target nobody or at least 5 people"):
        out.catalogue.audience(np.ones(30, dtype=np.int64))
    assert out.audience(in_country(people, "Malta"), below="drop").targeted_user_count == 0
    widened = out.audience(in_country(people, "Malta"), below="widen")
    assert widened.targeted_user_count == 600, "whole groups, of which the catalogue speaks anyway"


def levels(report: Audit, text: str) -> list[str]:
    return [finding.level for finding in report.findings if text in finding.text]


def test_one_visible_person_per_group_is_a_danger() -> None:
    people, assignment = lonely()
    report = audit(people, assignment, segments=("country",))
    assert levels(report, "audience country=Malta: 30 of 30 people") == ["danger"]
    assert not report.safe
    malta = next(view for view in report.visible if view.audience == "country=Malta")
    assert (malta.seen.worst_guess, malta.seen.mean_guess) == pytest.approx((1.0, 1.0))
    everyone = report.visible[0].seen
    assert everyone.min_visible == 20
    assert everyone.worst_guess == pytest.approx(0.05)


def test_a_segment_of_one_is_a_danger_and_not_named() -> None:
    people, assignment = lonely()
    names = ["Sealand", *(["Rome"] * 599)]
    people = People(people.visits, {"country": column(names)})
    report = audit(people, assignment, segments=("country",))
    assert levels(report, "1 segments have fewer than 20 people (1 people)") == ["danger"]
    assert "Sealand" not in str(report.document())


def test_members_who_never_visit_hide_nobody() -> None:
    """Twenty members, three of whom visit: an audience of ten of them shows three."""
    visits = np.tile([9, 9, 9, *([0] * 17)], 30)
    people = People(visits, {"country": column(["Malta"] * 600)})
    _, assignment = lonely()
    out = released(people, assignment)
    half = np.arange(600) % 20 < 10
    with pytest.raises(ReleaseRefused, match="the fewest visible: 3"):
        out.audience(half)
    report = audit(people, assignment)
    assert levels(report, "some groups have fewer than 5 members who ever visited") == ["warning"]


def test_one_busy_person_among_five_is_too_few() -> None:
    visits = np.tile([4_000, *([3] * 19)], 30)
    people = People(visits)
    _, assignment = lonely()
    first_five = np.arange(600) % 20 < 5
    out = released(people, assignment, floors=Floors(effective_anonymity=1.0))
    assert out.audience(first_five).targeted_user_count == 150
    everybody = np.ones(600, dtype=np.bool_)
    group, five = (out.visible(who).min_effective for who in (everybody, first_five))
    assert group is not None
    assert five is not None
    between = released(people, assignment, floors=Floors(effective_anonymity=(group + five) / 2.0))
    with pytest.raises(ReleaseRefused, match=r"active ones \(150 of 150 people; the fewest"):
        between.audience(first_five)


@pytest.mark.parametrize("below", ["refuse", "drop", "widen"])
def test_what_leaves_clears_the_floors(below: str) -> None:
    out = released(PEOPLE, GROUPS)
    targeted = np.random.default_rng(4).random(600) < 0.4
    if below == "refuse":
        with pytest.raises(ReleaseRefused):
            out.settle(targeted, below)
        return
    final, counts = out.settle(targeted, below)
    seen = out.visible(final)
    assert (seen.small_groups, seen.people_in_small_groups) == (0, 0)
    np.testing.assert_array_equal(
        counts, np.bincount(out.group_indices[final, 0], minlength=len(out.catalogue))
    )
    assert (final <= targeted).all() if below == "drop" else (final >= targeted).all()
    with pytest.raises(KreachError, match="below must be one of refuse, drop, widen"):
        out.settle(targeted, "hide")
