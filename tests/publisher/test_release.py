"""The only exit: what it refuses, what the ids tell, and what the files hold."""

import json
import pickle
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import read_catalogue, write_catalogue, write_groups
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.grouping import Assignment, AtRandom, BySegments, Overlapping, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import Floors, Release, ReleaseRefused, new_key, release
from tests.publisher.populations import KEY, NOW, crowd, dirichlet_visits

PEOPLE = crowd(600, seed=31)
AT_RANDOM = form_groups(PEOPLE, 20, AtRandom(), seed=1)
CROSSED = form_groups(PEOPLE, 20, Overlapping(partitions=2, floor=10), seed=1)


def sample_release(
    people: People = PEOPLE,
    assignment: Assignment = AT_RANDOM,
    *,
    key: bytes = KEY,
    buyer: str = "acme",
    version: str = "v1",
    now: datetime = NOW,
    **options: Any,
) -> Release:
    return release(people, assignment, key=key, buyer=buyer, version=version, now=now, **options)


def visitors(released: Release, group: int) -> IntArray:
    """The members of a group who visited."""
    return np.flatnonzero((released.group_indices[:, 0] == group) & (released.visits > 0))


def refusal(**options: Any) -> list[str]:
    with pytest.raises(ReleaseRefused) as caught:
        sample_release(**options)
    assert str(caught.value) == "release refused: " + "; ".join(caught.value.reasons)
    return caught.value.reasons


# What is refused


def test_a_combination_of_groups_below_the_floor_is_refused() -> None:
    reasons = refusal(assignment=CROSSED, floors=Floors(membership_class=11))
    assert len(reasons) == 1
    assert "combinations of groups are held by fewer than 11 people" in reasons[0]
    assert sample_release(assignment=CROSSED).catalogue.class_floor == 10


def test_plainly_crossed_partitions_are_refused_with_everybody_counted() -> None:
    loose = form_groups(PEOPLE, 20, Overlapping(partitions=3, floor=1), seed=1)
    (reason,) = refusal(assignment=loose)
    assert reason.endswith("are held by fewer than 10 people (600 people)")


def test_a_group_with_one_active_person_is_refused() -> None:
    visits = np.where(np.arange(600) % 20 == 0, 400, 0)
    visits[AT_RANDOM.group_of() > 0] = 5
    visits[np.flatnonzero(AT_RANDOM.group_of() == 0)[0]] = 4_000
    (reason,) = refusal(people=People(visits))
    assert reason.startswith("1 groups are worth fewer than 2 equally active people (the least: 1.")


def test_the_floor_of_effective_anonymity_can_be_moved() -> None:
    (reason,) = refusal(floors=Floors(effective_anonymity=19.5))
    assert "are worth fewer than 19.5 equally active people" in reason


def test_every_reason_is_given_at_once() -> None:
    """Floors are checked together: the message of a refusal lists all of them."""
    error = ReleaseRefused(["one", "another"])
    assert isinstance(error, KreachError)
    assert str(error) == "release refused: one; another"


def test_a_campaign_on_few_people_inside_a_group_is_refused() -> None:
    released = sample_release()
    targeted = np.zeros(600, dtype=np.bool_)
    for group, count in ((3, 4), (4, 5), (5, 1)):
        targeted[visitors(released, group)[:count]] = True
    expected = [
        "in 2 of 3 groups a campaign could see fewer than 5 people of the audience, or fewer than "
        "2 equally active ones (5 of 10 people; the fewest visible: 1, the best guess who visits: "
        "right with 100%); drop these people, widen the audience to whole groups, or form groups"
    ]
    for attempt in (released.targeted_counts, released.audience):
        with pytest.raises(ReleaseRefused) as caught:
            attempt(targeted)
        assert [reason[: len(expected[0])] for reason in caught.value.reasons] == expected
    counts = released.targeted_counts(targeted, below="drop")
    assert np.flatnonzero(counts).tolist() == [4]
    assert counts[4] == 5
    audience = released.audience(targeted, below="drop")
    assert audience.targeted_user_count == 5


@pytest.mark.parametrize("count", [1, 4, 5, 15])
def test_targeted_counts_are_zero_or_clear_the_floor(count: int) -> None:
    released = sample_release()
    targeted = np.zeros(600, dtype=np.bool_)
    targeted[visitors(released, 7)[:count]] = True
    if count < 5:
        with pytest.raises(ReleaseRefused):
            released.targeted_counts(targeted)
    else:
        assert released.targeted_counts(targeted)[7] == count


def test_the_floor_of_targeting_is_never_more_than_the_group_size() -> None:
    """In groups of 3 no count could reach a floor of 5."""
    released = sample_release(
        assignment=form_groups(PEOPLE, 3, AtRandom(), seed=1),
        floors=Floors(effective_anonymity=1.0),
    )
    everybody = np.ones(600, dtype=np.bool_)
    np.testing.assert_array_equal(released.targeted_counts(everybody), released.catalogue.sizes)


def test_a_campaign_on_few_people_of_a_class_is_refused() -> None:
    released = sample_release(assignment=CROSSED)
    targeted = np.zeros(600, dtype=np.bool_)
    first = (released.group_indices == released.group_indices[0]).all(axis=1)
    targeted[np.flatnonzero(first)[:9]] = True
    with pytest.raises(ReleaseRefused, match=r"1 classes hold fewer than 10 targeted people \(9\)"):
        released.audience(targeted)
    assert released.audience(targeted, below="drop").targeted_user_count == 0
    targeted[first] = True
    assert released.audience(targeted).targeted_user_count == np.count_nonzero(first)


def test_overlapping_groups_have_no_counts_by_group() -> None:
    everybody = np.ones(600, dtype=np.bool_)
    with pytest.raises(KreachError, match=r"^catalogue must have disjoint groups"):
        sample_release(assignment=CROSSED).targeted_counts(everybody)
    with pytest.raises(KreachError, match=r"^targeted_counts must be None for overlapping groups"):
        sample_release(assignment=CROSSED).catalogue.audience([1] * 60)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"key": b"short"}, "key must have at least 16 bytes, got 5 bytes"),
        (
            {"knowledge": "all"},
            "knowledge must be one of none, dispersion, model, shares, got 'all'",
        ),
        ({"people": crowd(500, seed=1)}, "assignment must place all 500 people, got 600"),
        ({"version": ""}, "version must not be empty"),
        ({"now": NOW.replace(tzinfo=None)}, "created must have a time zone"),
        (
            {"assignment": CROSSED, "knowledge": "shares"},
            "knowledge must not be shares for overlapping groups",
        ),
    ],
)
def test_what_release_cannot_use_is_refused(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(KreachError, match=r"^" + rule.replace(",", ".")):
        sample_release(**options)


@pytest.mark.parametrize("wrong", [np.ones(599, dtype=np.bool_), np.ones(600, dtype=np.int64)])
def test_targeting_must_speak_about_everybody(wrong: Any) -> None:
    for attempt in (sample_release().audience, sample_release().targeted_counts):
        with pytest.raises(KreachError, match=r"^targeted must be a bool for each of the 600"):
            attempt(wrong)


@pytest.mark.parametrize(
    ("floors", "name"),
    [
        ({"membership_class": 0}, "membership_class"),
        ({"min_visible": 0}, "min_visible"),
        ({"effective_anonymity": 0.5}, "effective_anonymity"),
        ({"effective_anonymity": float("nan")}, "effective_anonymity"),
    ],
)
def test_floors_are_at_least_one(floors: dict[str, Any], name: str) -> None:
    with pytest.raises(KreachError, match=f"^{name} must be "):
        Floors(**floors)


def test_k_1_is_released_with_a_loud_warning() -> None:
    released = sample_release(assignment=form_groups(PEOPLE, 1, AtRandom(), seed=1))
    assert released.warnings == (
        "group_size is 1: every group is one person. THIS IS NO ANONYMITY.",
    )
    assert not sample_release().warnings


# Ids


def test_ids_are_stable_for_one_buyer_and_version_and_strange_to_any_other() -> None:
    released = [
        set(sample_release(buyer=buyer, version=version).catalogue.groups)
        for buyer, version in (("acme", "v1"), ("acme", "v2"), ("bestco", "v1"), ("acmev", "1"))
    ]
    assert released[0] == set(sample_release().catalogue.groups)
    for i, one in enumerate(released):
        assert len(one) == AT_RANDOM.group_count
        assert not any(one & other for other in released[i + 1 :])
    assert not released[0] & set(sample_release(key=new_key()).catalogue.groups)


def test_keys_are_random_and_long() -> None:
    assert len({new_key() for _ in range(20)}) == 20
    assert len(new_key()) == 32


def test_the_order_of_a_catalogue_tells_nothing() -> None:
    """Rank correlation of position with group number, and between versions: |r|·√M below 4."""
    people = People(np.ones(40_000, dtype=np.int64))
    assignment = form_groups(people, 10, AtRandom(), seed=1)
    places = []
    for version in ("v1", "v2"):
        released = sample_release(people, assignment, version=version, knowledge="none")
        position = np.empty(assignment.group_count)
        position[assignment.group_of()] = released.group_indices[:, 0]
        places.append(position)
        assert list(released.catalogue.groups) == sorted(released.catalogue.groups)
    number = np.arange(assignment.group_count)
    allowed = 4.0 / np.sqrt(assignment.group_count)
    assert abs(np.corrcoef(places[0], number)[0, 1]) < allowed
    assert abs(np.corrcoef(places[1], number)[0, 1]) < allowed
    assert abs(np.corrcoef(places[0], places[1])[0, 1]) < allowed


@pytest.mark.parametrize("assignment", [AT_RANDOM, CROSSED])
def test_placed_and_sizes_agree_with_the_assignment(assignment: Assignment) -> None:
    released = sample_release(assignment=assignment)
    counts = np.bincount(released.group_indices.ravel(), minlength=len(released.catalogue))
    np.testing.assert_array_equal(counts, released.catalogue.sizes)
    assert sorted(released.catalogue.sizes.tolist()) == sorted(assignment.group_sizes.tolist())
    for layer in range(assignment.groups.shape[1]):
        pairs = np.stack([assignment.groups[:, layer], released.group_indices[:, layer]], axis=1)
        groups = len(np.unique(assignment.groups[:, layer]))
        assert len(np.unique(pairs, axis=0)) == groups, "old and new names go one to one"
    assert released.catalogue.group_size == 20
    assert released.catalogue.created == NOW
    assert released.catalogue.version == "v1"


# What crosses about visits


def test_knowledge_none_tells_nothing_about_visits() -> None:
    catalogue = sample_release(knowledge="none").catalogue
    assert catalogue.dispersion is None
    assert catalogue.visit_shares is None


def test_knowledge_dispersion_is_one_number() -> None:
    visits, group_of = dirichlet_visits(400, 20, 0.7, per_group=100, seed=32)
    assignment = Assignment(group_of.reshape(-1, 1), 20, "by hand")
    catalogue = sample_release(People(visits), assignment).catalogue
    assert catalogue.dispersion == pytest.approx(0.7, rel=0.05)
    assert catalogue.visit_shares is None
    given = sample_release(People(visits), assignment, dispersion=1.5).catalogue
    assert given.dispersion == 1.5


def test_even_visits_cross_as_no_dispersion() -> None:
    catalogue = sample_release(People(np.full(600, 3))).catalogue
    assert catalogue.dispersion is None


def test_people_without_history_can_be_released() -> None:
    catalogue = sample_release(People(np.zeros(600, dtype=np.int64))).catalogue
    assert catalogue.dispersion is None


def test_knowledge_shares_is_a_vector_for_each_group_in_its_place() -> None:
    released = sample_release(knowledge="shares")
    shares = released.catalogue.visit_shares
    assert shares is not None
    assert [len(vector) for vector in shares] == released.catalogue.sizes.tolist()
    heaviest = [vector.max() for vector in shares]
    busiest = np.zeros(len(released.catalogue))
    totals = np.bincount(released.group_indices[:, 0], weights=PEOPLE.visits)
    np.maximum.at(busiest, released.group_indices[:, 0], PEOPLE.visits)
    assert np.corrcoef(heaviest, busiest / totals)[0, 1] > 0.95


# Audiences


def test_audiences_of_a_release_are_of_the_kind_released() -> None:
    assert isinstance(sample_release().audience(), DisjointAudience)
    assert isinstance(sample_release(knowledge="shares").audience(), ProfiledAudience)
    assert isinstance(sample_release(assignment=CROSSED).audience(), OverlappingAudience)
    half = PEOPLE.attribute("device").codes == 0
    some = sample_release(knowledge="shares").audience(half, below="drop")
    assert isinstance(some, DisjointAudience), "shares are tied to nobody, so not to the targeted"


def test_nobody_may_be_targeted() -> None:
    nobody = np.zeros(600, dtype=np.bool_)
    for assignment in (AT_RANDOM, CROSSED):
        assert sample_release(assignment=assignment).audience(nobody).targeted_user_count == 0


@pytest.mark.parametrize("knowledge", ["dispersion", "shares"])
def test_a_released_audience_measures_what_happened(knowledge: str) -> None:
    """One flight drawn from the same habits; the reach said is within 5 % of the truth."""
    generator = np.random.default_rng(33)
    habits = generator.gamma(0.7, 1.0, 4_000)
    people = People(generator.poisson(9.0 * habits))
    assignment = form_groups(people, 20, AtRandom(), seed=1)
    released = sample_release(people, assignment, knowledge=knowledge)
    seen = generator.poisson(1.0 * habits)
    by_group = np.bincount(released.group_indices[:, 0], weights=seen).astype(np.int64)
    truth = np.count_nonzero(seen)
    said = kr.measure(released.audience(), by_group, cap=1).reach
    uniform = kr.measure(kr.Audience.disjoint(released.catalogue.sizes), by_group, cap=1).reach
    assert said == pytest.approx(truth, rel=0.05)
    assert uniform > 1.1 * truth


def test_a_targeted_audience_measures_what_happened() -> None:
    """Everybody visits alike, so z-tolerance 4 of the reported spread."""
    generator = np.random.default_rng(34)
    people = People(np.full(4_000, 10), PEOPLE.attributes)
    assignment = form_groups(people, 20, AtRandom(), seed=1)
    released = sample_release(people, assignment)
    targeted = generator.random(4_000) < 0.6
    audience = released.audience(targeted, below="drop")
    visitor = generator.integers(0, 4_000, 6_000)
    by_group = np.bincount(released.group_indices[visitor, 0], minlength=len(released.catalogue))
    seen = np.bincount(visitor, minlength=4_000)
    report = kr.measure(audience, by_group, cap=2)
    truth = int(np.minimum(seen[targeted], 2).sum())
    assert abs(report.reach - truth) < 4.0 * report.std


# Files


def columns_of(path: Path) -> dict[str, str]:
    with duckdb.connect() as engine:
        described = engine.execute(f"DESCRIBE SELECT * FROM read_parquet('{path}')").fetchall()
    return {row[0]: row[1] for row in described}


CATALOGUES = {
    "plain": sample_release(knowledge="none").catalogue,
    "dispersion": sample_release().catalogue,
    "shares": sample_release(knowledge="shares").catalogue,
    "overlapping": sample_release(assignment=CROSSED).catalogue,
}


@pytest.mark.parametrize("kind", sorted(CATALOGUES))
def test_a_catalogue_comes_back_as_it_was_written(kind: str, tmp_path: Path) -> None:
    catalogue = CATALOGUES[kind]
    write_catalogue(catalogue, tmp_path / "it's here")
    again = read_catalogue(tmp_path / "it's here")
    assert again.version == catalogue.version
    assert again.created == catalogue.created
    assert again.group_size == catalogue.group_size
    assert again.groups == catalogue.groups
    np.testing.assert_array_equal(again.sizes, catalogue.sizes)
    assert again.dispersion == catalogue.dispersion
    assert again.class_floor == catalogue.class_floor
    assert (again.visit_shares is None) == (catalogue.visit_shares is None)
    for one, other in zip(again.visit_shares or (), catalogue.visit_shares or (), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (again.classes is None) == (catalogue.classes is None)
    if catalogue.classes is not None and again.classes is not None:
        assert {(tuple(sorted(groups)), count) for groups, count in again.classes} == set(
            catalogue.classes
        )
    impressions = np.full(len(catalogue), 7)
    before, after = (kr.measure(c.audience(), impressions, cap=2) for c in (catalogue, again))
    assert after.reach == pytest.approx(before.reach, rel=1e-12)
    assert after.variance == pytest.approx(before.variance, rel=1e-9)


def test_the_groups_file_has_the_promised_columns(tmp_path: Path) -> None:
    expected = {
        "plain": {},
        "dispersion": {"dispersion": "DOUBLE"},
        "shares": {"dispersion": "DOUBLE", "visit_shares": "DOUBLE[]"},
        "overlapping": {},
    }
    for kind, further in expected.items():
        write_catalogue(CATALOGUES[kind], tmp_path / kind)
        columns = columns_of(tmp_path / kind / "groups.parquet")
        assert columns == {"group": "VARCHAR", "size": "BIGINT", "targeted": "BIGINT", **further}
        files = {path.name for path in (tmp_path / kind).iterdir()}
        crossed = {"classes.parquet"} if kind == "overlapping" else set()
        assert files == {"catalogue.json", "groups.parquet"} | crossed
    classes = columns_of(tmp_path / "overlapping" / "classes.parquet")
    assert classes == {"groups": "VARCHAR[]", "headcount": "BIGINT"}


def test_the_classes_file_adds_up_to_the_groups(tmp_path: Path) -> None:
    write_catalogue(CATALOGUES["overlapping"], tmp_path)
    with duckdb.connect() as engine:
        rows = engine.execute(
            f"""SELECT sum(headcount) = any_value(size) FROM
            (SELECT unnest(groups) AS "group", headcount
             FROM read_parquet('{tmp_path}/classes.parquet'))
            JOIN read_parquet('{tmp_path}/groups.parquet') USING ("group") GROUP BY "group" """
        ).fetchall()
    assert len(rows) == len(CATALOGUES["overlapping"])
    assert all(row[0] for row in rows)


def test_a_groups_file_for_a_campaign_holds_its_targeting(tmp_path: Path) -> None:
    released = sample_release(knowledge="shares")
    counts = released.targeted_counts(PEOPLE.attribute("device").codes == 0, below="drop")
    write_groups(released.catalogue, tmp_path / "campaign.parquet", counts)
    assert "visit_shares" not in columns_of(tmp_path / "campaign.parquet")
    with duckdb.connect() as engine:
        rows = engine.execute(
            f"SELECT \"group\", size, targeted FROM read_parquet('{tmp_path}/campaign.parquet')"
        ).fetchall()
    assert [row[0] for row in rows] == list(released.catalogue.groups)
    assert [row[1] for row in rows] == released.catalogue.sizes.tolist()
    assert [row[2] for row in rows] == counts.tolist()


# What is checked again on entering


def spoiled(folder: Path, kind: str, change: str, table: str = "groups") -> KreachError:
    """Write a catalogue, change its file by a query on `old`, and read it."""
    write_catalogue(CATALOGUES[kind], folder)
    path = folder / f"{table}.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE old AS SELECT * FROM read_parquet('{path}')")
        engine.execute(f"COPY ({change}) TO '{path}' (FORMAT parquet)")
    with pytest.raises(KreachError) as caught:
        read_catalogue(folder).audience()
    return caught.value


@pytest.mark.parametrize(
    ("kind", "table", "change", "said"),
    [
        (
            "plain",
            "groups",
            "SELECT * REPLACE (if(row_number() OVER () = 3, 19, size) AS size) FROM old",
            r"sizes\[2\] must be at least group_size \(20\), got 19",
        ),
        ("plain", "groups", "SELECT * FROM old UNION ALL FROM old LIMIT 40", "groups must name"),
        ("plain", "groups", "SELECT * REPLACE (-size AS size) FROM old", "sizes"),
        ("plain", "groups", "SELECT * REPLACE (NULL::BIGINT AS size) FROM old", "sizes"),
        ("plain", "groups", "SELECT * REPLACE (size + 0.5 AS size) FROM old", "sizes"),
        ("plain", "groups", "SELECT * EXCLUDE (size) FROM old", "size"),
        ("plain", "groups", 'SELECT * EXCLUDE ("group") FROM old', "group"),
        ("dispersion", "groups", "SELECT * REPLACE (-1.0 AS dispersion) FROM old", "dispersion"),
        (
            "shares",
            "groups",
            "SELECT * REPLACE (visit_shares[2:] AS visit_shares) FROM old",
            "visit_shares",
        ),
        ("shares", "groups", "SELECT * REPLACE ([1.0] AS visit_shares) FROM old", "visit_shares"),
        (
            "overlapping",
            "classes",
            "SELECT groups, if(row_number() OVER () = 1, 9, headcount) AS headcount FROM old",
            r"classes\[0\] must have at least class_floor \(10\) people, got 9",
        ),
        (
            "overlapping",
            "classes",
            "SELECT ['nobody knows it'] AS groups, headcount FROM old",
            "classes",
        ),
        (
            "overlapping",
            "classes",
            "SELECT groups, headcount * 100 AS headcount FROM old",
            "classes must not target more people",
        ),
    ],
)
def test_a_spoiled_catalogue_is_refused_on_entering(
    kind: str, table: str, change: str, said: str, tmp_path: Path
) -> None:
    message = str(spoiled(tmp_path / "release", kind, change, table))
    assert re.search(said, message), message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": "v1"}', "not JSON"],
)
def test_spoiled_facts_are_refused_on_entering(text: str, tmp_path: Path) -> None:
    write_catalogue(CATALOGUES["plain"], tmp_path)
    (tmp_path / "catalogue.json").write_text(text)
    with pytest.raises(KreachError, match=r"^catalogue must be a released folder"):
        read_catalogue(tmp_path)


def test_a_raised_promise_is_checked_against_the_sizes(tmp_path: Path) -> None:
    write_catalogue(CATALOGUES["plain"], tmp_path)
    facts = json.loads((tmp_path / "catalogue.json").read_text())
    facts["group_size"] = 30
    (tmp_path / "catalogue.json").write_text(json.dumps(facts))
    with pytest.raises(KreachError, match=r"must be at least group_size \(30\), got 20"):
        read_catalogue(tmp_path)


@pytest.mark.parametrize("name", ["catalogue.json", "groups.parquet", "classes.parquet"])
def test_a_missing_file_of_a_catalogue_is_refused(name: str, tmp_path: Path) -> None:
    write_catalogue(CATALOGUES["overlapping"], tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(KreachError, match=r"^catalogue must "):
        read_catalogue(tmp_path)


def test_catalogues_answer_by_id() -> None:
    catalogue = CATALOGUES["plain"]
    assert catalogue.index(catalogue.groups[4]) == 4
    assert catalogue.groups[4] in catalogue
    assert "nobody" not in catalogue
    with pytest.raises(KreachError, match=r"^group must be in catalogue v1, got 'nobody'"):
        catalogue.index("nobody")


def test_shares_and_overlap_do_not_go_together() -> None:
    with pytest.raises(KreachError, match=r"^visit_shares must not come with overlapping"):
        Catalogue(
            "v1",
            NOW,
            2,
            ("a", "b"),
            np.array([2, 2]),
            visit_shares=(np.array([0.5, 0.5]), np.array([0.5, 0.5])),
            classes=(((0, 1), 2),),
        )


def test_catalogues_travel(tmp_path: Path) -> None:
    """A catalogue can be sent to another process whole."""
    again = pickle.loads(pickle.dumps(CATALOGUES["shares"]))
    assert again.groups == CATALOGUES["shares"].groups


def test_segments_fit_campaigns_that_random_groups_cannot_hold() -> None:
    """With groups cut by town, a campaign on a town leaves nobody out."""
    aligned = form_groups(PEOPLE, 20, BySegments(("town",)), seed=1)
    town = PEOPLE.attribute("town").codes == 0
    assert sample_release(assignment=aligned).targeted_counts(town).sum() == np.count_nonzero(town)
    rare = PEOPLE.attribute("town").codes == 4
    with pytest.raises(ReleaseRefused):
        sample_release().targeted_counts(rare)


# The promise on audiences


def test_the_floor_on_audiences_travels_with_the_catalogue(tmp_path: Path) -> None:
    released = sample_release(floors=Floors(min_visible=7))
    write_catalogue(released.catalogue, tmp_path)
    catalogue = read_catalogue(tmp_path)
    assert catalogue.min_visible == 7
    counts = np.where(np.arange(len(catalogue)) == 2, 6, 20)
    with pytest.raises(KreachError, match=r"^audience must target nobody or at least 7 people"):
        catalogue.audience(counts)
    assert catalogue.audience(np.where(counts < 7, 0, counts)).targeted_user_count == 580


def test_a_release_from_before_the_floor_promises_none(tmp_path: Path) -> None:
    write_catalogue(sample_release().catalogue, tmp_path)
    path = tmp_path / "catalogue.json"
    facts = json.loads(path.read_text())
    assert facts.pop("min_visible") == 5
    path.write_text(json.dumps(facts))
    catalogue = read_catalogue(tmp_path)
    assert catalogue.min_visible == 1
    assert catalogue.audience(np.ones(len(catalogue), dtype=np.int64)).targeted_user_count == 30
