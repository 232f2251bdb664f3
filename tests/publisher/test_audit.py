"""What an attacker could learn: counts by hand, and two attacks run for real."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.audit import Audit, Spread, audit, coverage, linkage
from kreach.publisher.audit.page import audit_page
from kreach.publisher.audit.report import SeedView
from kreach.publisher.grouping import Assignment, AtRandom, BySegments, Overlapping, form_groups
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.lineage import Crowds
from kreach.publisher.people import Attribute, People
from kreach.publisher.release import Floors
from tests.publisher.populations import column, crowd, populations

PEOPLE = crowd(3_000, seed=61)
AT_RANDOM = form_groups(PEOPLE, 20, AtRandom(), seed=1)


def by_hand(groups: list[int], k: int) -> Assignment:
    return Assignment(np.array(groups).reshape(-1, 1), k, "by hand")


def levels(report: Audit, words: str) -> list[str]:
    return [finding.level for finding in report.findings if words in finding.text]


# Linkage over time


def test_linkage_by_hand() -> None:
    """Six people, three versions: after two, the sequences are 00 00 01 10 11 11."""
    sequences = np.array([[0, 0, 5], [0, 0, 5], [0, 1, 5], [1, 0, 5], [1, 1, 5], [1, 1, 6]])
    assert linkage(sequences) == [(0.0, 3, 3.0), (2 / 6, 1, 2.0), (4 / 6, 1, 1.0)]


def test_one_version_tells_the_group_and_no_more() -> None:
    (first,) = linkage(AT_RANDOM.groups)
    assert first == (0.0, 20, 20.0)


def test_linkage_of_nobody() -> None:
    assert linkage(np.zeros((0, 2), dtype=np.int64)) == [(0.0, 0, 0.0), (0.0, 0, 0.0)]


@given(
    sequences=st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=40).map(np.array)
)
def test_linkage_agrees_with_counting_tuples(
    sequences: np.ndarray[tuple[int, int], np.dtype[np.int64]],
) -> None:
    for seen, (unique, least, median) in enumerate(linkage(sequences), start=1):
        rows = [tuple(row) for row in sequences[:, :seen].tolist()]
        crowds = [rows.count(row) for row in rows]
        assert unique == pytest.approx(crowds.count(1) / len(rows))
        assert least == min(crowds)
        assert median == np.median(crowds)


def test_naive_regrouping_singles_people_out_and_sticky_groups_hold() -> None:
    report = audit(PEOPLE, AT_RANDOM, churn=0.05, seed=1)
    anew, gaps, sticky = report.linkage
    assert anew.versions == gaps.versions == sticky.versions == (1, 2, 4, 8)
    assert anew.unique_share[0] == sticky.unique_share[0] == 0.0
    assert anew.unique_share[2] > 0.95
    assert all(share < 0.01 for share in sticky.unique_share)
    assert anew.moved_share == 1.0
    assert 0.0 < sticky.moved_share < 0.1
    assert sticky.median_crowd[-1] > 8
    assert levels(report, "sticky versions") == ["ok"]


def test_newcomers_who_fill_gaps_are_counted_and_singled_out() -> None:
    """Four in a hundred people are new each time; nearly all of them came from elsewhere, alone."""
    _, gaps, sticky = audit(PEOPLE, AT_RANDOM, churn=0.05, seed=1).linkage
    assert 0.03 < gaps.unique_share[1] < 0.05
    assert 0.2 < gaps.unique_share[3] < 0.35
    assert gaps.small_share >= gaps.unique_share
    assert sticky.small_share == (0.0, 0.0, 0.0, 0.0)


def test_groups_that_nobody_leaves_are_never_linked() -> None:
    """They have no room, so the first renewal merges them in pairs, whole."""
    _, gaps, sticky = audit(PEOPLE, AT_RANDOM, churn=0.0).linkage
    for link in (gaps, sticky):
        assert link.unique_share == (0.0, 0.0, 0.0, 0.0)
        assert link.min_crowd == (20, 20, 20, 20)
    assert gaps.moved_share == 0.0
    assert sticky.moved_share == pytest.approx(0.5 / 7)


@pytest.mark.parametrize("churn", [0.05, 0.4])
def test_one_version_singles_out_nobody_whatever_the_churn(churn: float) -> None:
    """Who leaves later was in the crowd of the first version all the same."""
    for link in audit(PEOPLE, AT_RANDOM, churn=churn, seed=1).linkage:
        assert link.unique_share[0] == 0.0
        assert link.min_crowd[0] >= 20


def test_a_population_that_dies_out_is_followed_as_far_as_it_goes() -> None:
    people = People(np.ones(12, dtype=np.int64))
    report = audit(people, form_groups(people, 10, AtRandom(), seed=1), churn=0.9, seed=1)
    assert report.linkage[0].versions in {(1,), (1, 2), (1, 2, 4)}


def test_the_seed_alone_decides_the_attack() -> None:
    one, two, other = (audit(PEOPLE, AT_RANDOM, seed=seed).document() for seed in (1, 1, 2))
    assert one == two
    assert one["linkage"] != other["linkage"]


@pytest.mark.parametrize(
    ("alone", "small", "level"),
    [(0, 0, "ok"), (0, 29, "ok"), (3, 3, "warning"), (30, 90, "danger")],
)
def test_linkage_over_past_versions_is_judged(alone: int, small: int, level: str) -> None:
    past = Crowds(4, alone, small, 1 if alone else 3, 12.0)
    report = audit(PEOPLE, AT_RANDOM, past=past)
    assert levels(report, "in 4 versions") == [level]
    assert "Releases to other buyers." in report.not_examined
    assert f">{alone}</td>" in audit_page(report, "Audit")
    assert report.document()["past"]["versions"] == 4


# Counts


def test_spread_by_hand() -> None:
    spread = Spread.of(np.array([1, 2, 3, 4, 40]))
    assert (spread.least, spread.median, spread.mean) == (1.0, 3.0, 10.0)
    assert spread.p05 == pytest.approx(1.2)
    assert Spread.of(np.zeros(0)) == Spread(0.0, 0.0, 0.0, 0.0)


def test_coverage_by_hand() -> None:
    """Two targeted in a group of three, none in the other: 2/3. All in one of two: 1."""
    groups = np.array([0, 0, 0, 1, 1])
    assert coverage(groups, np.array([1, 1, 0, 0, 0])) == pytest.approx(2 / 3)
    assert coverage(groups, np.array([0, 0, 0, 1, 1])) == 1.0
    assert coverage(groups, np.array([1, 0, 0, 1, 0])) == pytest.approx(2 / 5)
    assert coverage(groups, np.zeros(5, dtype=np.int64)) == 1.0


def test_columns_by_hand() -> None:
    """One group of a single value, one of two halves, one of three quarters and a quarter."""
    people = People(
        np.ones(12, dtype=np.int64),
        {"illness": column(["a"] * 4 + ["a", "a", "b", "b"] + ["b", "b", "b", "a"])},
    )
    assignment = by_hand([0] * 4 + [1] * 4 + [2] * 4, k=4)
    (seen,) = audit(people, assignment, sensitive=("illness",)).columns
    assert (seen.role, seen.min_distinct, seen.homogeneous_people) == ("sensitive", 1, 4)
    assert seen.min_entropy_l == pytest.approx(1.0)
    assert seen.max_share == 1.0
    assert seen.max_t == pytest.approx(5 / 12)
    mixed = by_hand([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1], k=4)
    (better,) = audit(people, mixed, sensitive=("illness",)).columns
    assert (better.min_distinct, better.homogeneous_people) == (2, 0)
    third = 2 / 6
    entropy = -third * np.log(third) - (1 - third) * np.log(1 - third)
    assert better.min_entropy_l == pytest.approx(np.exp(entropy))


ILL = People(np.ones(8, dtype=np.int64), {"illness": column(["a"] * 4 + ["b"] * 4)})
SPLIT = by_hand([0] * 4 + [1] * 4, k=4)


@pytest.mark.parametrize("declared", [("illness",), ()])
def test_people_whose_group_gives_them_away_are_a_danger(declared: tuple[str, ...]) -> None:
    """Whether the column was declared or only kept."""
    report = audit(ILL, SPLIT, sensitive=declared)
    assert levels(report, "8 people are in groups where all share one value") == ["danger"]
    assert not report.safe
    assert report.verdict == "This catalogue must not be released: 1 danger was found."


@pytest.mark.parametrize("strategy", ["segments", "random"])
def test_what_groups_are_formed_along_is_a_warning_unless_declared(strategy: str) -> None:
    formed_by = NamedStrategy(strategy, segments=("illness",))
    report = audit(ILL, SPLIT, formed_by=formed_by)
    words = "formed along it" if strategy == "segments" else "may target it"
    assert levels(report, words) == ["warning"]
    assert report.columns[0].role == ("formed along" if strategy == "segments" else "targeting")
    declared = audit(ILL, SPLIT, formed_by=formed_by, sensitive=("illness",))
    assert not declared.safe


def test_a_value_of_nearly_everybody_is_hardly_news() -> None:
    people = People(np.ones(80, dtype=np.int64), {"illness": column(["no"] * 78 + ["yes"] * 2)})
    groups = by_hand([0] * 20 + [1] * 20 + [2] * 20 + [3] * 20, k=20)
    report = audit(people, groups, sensitive=("illness",))
    assert levels(report, "60 people are in groups where all share one value") == ["warning"]
    assert report.safe
    floors = DiversityFloors(2)
    promised = audit(people, groups, sensitive=("illness",), diversity=floors)
    assert levels(promised, "3 groups break the diversity floors") == ["danger"]


def test_nothing_to_look_at_is_said() -> None:
    people = People(np.ones(40, dtype=np.int64))
    report = audit(people, by_hand([0] * 20 + [1] * 20, k=20))
    assert levels(report, "no column was kept") == ["warning"]
    assert "1 warning" not in report.verdict
    assert "once the warning is reviewed" in report.verdict


def test_a_column_that_identifies_is_a_danger() -> None:
    """Names under another name; so are values that two people share."""
    for values in (range(40), [who // 2 for who in range(40)]):
        people = People(np.ones(40, dtype=np.int64), {"score": Attribute.of(np.array(values))})
        report = audit(people, by_hand([0] * 20 + [1] * 20, k=20))
        assert levels(report, "score identifies people: 40 share its value") == ["danger"]


def test_a_segment_of_one_is_a_danger_and_is_not_named() -> None:
    towns = column(["Bath"] * 20 + ["York"] * 19 + ["Ely"])
    people = People(np.ones(40, dtype=np.int64), {"town": towns})
    report = audit(people, by_hand([0] * 20 + [1] * 20, k=20), segments=("town",))
    assert levels(report, "2 segments have fewer than 20 people (20 people)") == ["danger"]
    assert "Ely" not in json.dumps(report.document())


def test_overlapping_groups_are_looked_at_in_every_partition_and_combination() -> None:
    """Both partitions are mixed; who is in the first group of both is ill."""
    groups = Assignment(np.array([[0, 0, 1, 1] * 2, [2, 3, 2, 3] * 2]).T, 4, "overlapping")
    people = People(np.ones(8, dtype=np.int64), {"illness": column(["a", "b", "b", "c"] * 2)})
    (seen,) = audit(people, groups, sensitive=("illness",)).columns
    assert (seen.min_distinct, seen.homogeneous_people) == (1, 8)


SEED = SeedView("drawn", 128, True, False, 17, True, False, False)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, "ok"),
        ({"released": True}, "danger"),
        ({"guessed": True}, "danger"),
        ({"guessed": True, "by_chance": False}, "warning"),
        ({"origin": "given", "bits": 40}, "danger"),
        ({"origin": "given", "bits": 40, "reproduced": False}, "warning"),
        ({"origin": "given"}, "warning"),
        ({"origin": "unknown", "bits": 0, "reproduced": False}, "warning"),
    ],
)
def test_a_seed_that_others_may_know(change: dict[str, Any], level: str) -> None:
    report = audit(PEOPLE, AT_RANDOM, seed_view=replace(SEED, **change))
    assert [f.level for f in report.findings if f.check == "seed"] == [level]


def test_segments_by_hand() -> None:
    """k = 4: three of "Bath" in the first group, one in the second, none in the third."""
    towns = ["Bath", "Bath", "Bath", "York"] + ["Bath", "York", "York", "York"] + ["York"] * 4
    people = People(np.ones(12, dtype=np.int64), {"town": column(towns)})
    assignment = by_hand([0] * 4 + [1] * 4 + [2] * 4, k=4)
    floors = Floors(min_visible=3, effective_anonymity=1.0)
    report = audit(people, assignment, segments=("town",), floors=floors)
    bath, york = report.segments
    assert (bath.segment, bath.people, bath.coverage) == ("town=Bath", 4, 4 / 8)
    assert bath.exposed_people == 1
    assert (york.segment, york.people, york.coverage) == ("town=York", 8, 8 / 12)
    assert york.exposed_people == 1
    said = [finding for finding in report.findings if finding.check.startswith("visible people")]
    assert [finding.level for finding in said] == ["warning", "warning"]
    assert [re.findall(r"\d+", finding.text)[:3] for finding in said] == [
        ["1", "4", "3"],
        ["1", "8", "3"],
    ], "the people below the floor, all of them, and the floor"


def test_intersection_of_audiences_by_hand() -> None:
    """Everybody minus "Bath" leaves one person of the first group: two segments, one betrays."""
    towns = ["Bath"] * 3 + ["York"] + ["York"] * 4
    people = People(np.ones(8, dtype=np.int64), {"town": column(towns)})
    floors = Floors(min_visible=2, effective_anonymity=1.0)
    report = audit(people, by_hand([0] * 4 + [1] * 4, k=4), segments=("town",), floors=floors)
    crossing = report.intersection
    assert (crossing.compared_pairs, crossing.small_differences) == (2, 1)
    assert crossing.people_in_small_differences == 1
    assert levels(report, "1 (1 of 2 segments)") == ["warning"]


def test_intersection_of_groups_by_hand() -> None:
    """Two partitions of eight: six people share both groups, two are alone in theirs."""
    first = [0, 0, 0, 0, 1, 1, 1, 1]
    second = [2, 2, 2, 3, 3, 3, 3, 2]
    assignment = Assignment(np.array([first, second]).T, 4, "overlapping")
    people = People(np.ones(8, dtype=np.int64))
    report = audit(people, assignment, floors=Floors(membership_class=2))
    assert report.intersection.classes == Spread(1.0, 1.0, 2.0, 2.0)
    assert report.intersection.people_in_small_classes == 2
    assert levels(report, "2 people are in combinations of groups") == ["danger"]
    assert not report.safe
    assert report.linkage == ()
    assert report.effective is None


def test_overlap_with_a_floor_is_safe() -> None:
    assignment = form_groups(PEOPLE, 20, Overlapping(2, 10), seed=1)
    report = audit(PEOPLE, assignment)
    assert report.safe
    assert report.intersection.classes is not None
    assert report.intersection.classes.least >= 10


# Verdicts


def test_groups_of_one_active_person_are_a_danger() -> None:
    visits = np.ones(40, dtype=np.int64)
    visits[0] = 2_000
    report = audit(People(visits), by_hand([0] * 20 + [1] * 20, k=20))
    assert report.groups_below_effective_floor == 1
    assert report.effective is not None
    assert report.effective.least < 2.0 < report.effective.mean
    assert levels(report, "1 groups are worth fewer than 2 equally active people") == ["danger"]
    assert not report.safe


def test_k_1_is_a_danger() -> None:
    report = audit(PEOPLE, form_groups(PEOPLE, 1, AtRandom(), seed=1))
    assert levels(report, "group_size is 1: this is no anonymity") == ["danger"]


def test_people_without_history_can_be_audited() -> None:
    people = People(np.zeros(60, dtype=np.int64))
    report = audit(people, form_groups(people, 20, AtRandom(), seed=1))
    assert report.effective is None
    assert report.safe


def test_an_audit_refuses_what_it_cannot_read() -> None:
    for churn in (-0.1, 1.0, float("nan")):
        with pytest.raises(KreachError, match=r"^churn must lie between 0 and 1"):
            audit(PEOPLE, AT_RANDOM, churn=churn)
    with pytest.raises(KreachError, match=r"^seed must be"):
        audit(PEOPLE, AT_RANDOM, seed=-1)
    with pytest.raises(KreachError, match=r"one of those loaded .*got 'religion'"):
        audit(PEOPLE, AT_RANDOM, sensitive=("religion",))
    with pytest.raises(KreachError, match=r"one of those loaded .*got 'religion'"):
        audit(PEOPLE, AT_RANDOM, segments=("religion",))


@given(people=populations(most=60), k=st.integers(1, 8), layers=st.integers(1, 2))
def test_every_population_can_be_audited(people: People, k: int, layers: int) -> None:
    if people.count < k:
        return
    strategy = AtRandom() if layers == 1 else Overlapping(layers, 3)
    assignment = form_groups(people, k, strategy, seed=1)
    report = audit(
        people, assignment, sensitive=("town", "unknown"), segments=("town", "age"), churn=0.2
    )
    text = json.dumps(report.document(), allow_nan=False)
    assert json.loads(text)["people"] == people.count
    assert audit_page(report, "Any").startswith("<!doctype html>")


# The page


class Elements(HTMLParser):
    """All tags with their attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(report: Audit, title: str = "Audit of v1") -> tuple[str, Elements]:
    page = audit_page(report, title)
    elements = Elements()
    elements.feed(page)
    return page, elements


def test_the_page_needs_nothing_from_anywhere() -> None:
    report = audit(PEOPLE, AT_RANDOM, sensitive=("device",), segments=("town",))
    page, elements = page_of(report)
    assert not re.search(r"https?://|//[a-z]|@import|url\(", page)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in elements.tags}
    for _, attributes in elements.tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes)


def test_the_page_says_what_the_report_says() -> None:
    report = audit(PEOPLE, AT_RANDOM, sensitive=("device",), segments=("town",))
    _, elements = page_of(report)
    for finding in report.findings:
        assert finding.text in elements.text
    for words in ("Attack: linkage over time", "Attack: intersection", "town=1", "device"):
        assert words in elements.text
    assert f"{report.linkage[0].unique_share[2]:.2%}" in elements.text
    assert report.verdict in elements.text
    for line in (*report.not_examined, *report.assumptions, "Signature"):
        assert line in elements.text
    classes = [attributes.get("class") for tag, attributes in elements.tags if tag == "tr"]
    shown = [level for level in classes if level]
    assert sorted(shown) == sorted(finding.level for finding in report.findings)
    assert shown == sorted(shown, key=["danger", "warning", "ok"].index), "the worst comes first"


def test_the_page_of_overlapping_groups_shows_combinations() -> None:
    assignment = form_groups(PEOPLE, 20, Overlapping(2, 10), seed=1)
    _, elements = page_of(audit(PEOPLE, assignment))
    assert "people per combination of groups" in elements.text
    assert "linkage over time" not in elements.text


def test_values_from_the_data_cannot_become_markup() -> None:
    towns = ["<script>alert(1)</script>"] * 10 + ['"><img src=x>'] * 10
    people = People(np.ones(20, dtype=np.int64), {"<b>town</b>": column(towns)})
    assignment = form_groups(people, 5, BySegments(("<b>town</b>",)), seed=1)
    name = ("<b>town</b>",)
    report = audit(people, assignment, segments=name, sensitive=name)
    _, elements = page_of(report, "<i>title</i>")
    assert not {"script", "img", "i"} & {tag for tag, _ in elements.tags}
    assert "<script>alert(1)</script>" in elements.text
