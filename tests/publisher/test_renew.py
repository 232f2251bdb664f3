"""The next version of a build: who leaves, who joins, and that nobody else moves."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kreach.boundary.files import read_catalogue
from kreach.errors import KreachError
from kreach.publisher.audience_file import AudienceChoice, declared_audiences, write_audience
from kreach.publisher.audit import Audit
from kreach.publisher.audit.build_audit import audit_build
from kreach.publisher.build import BuildOptions, build_groups
from kreach.publisher.grouping import DiversityFloors
from kreach.publisher.grouping.spreading import DiversityRefused
from kreach.publisher.release import Floors
from kreach.publisher.renewal import RenewOptions, renew_groups
from kreach.publisher.renewed_people import RenewalPolicy
from kreach.publisher.store import Build, read_build, read_group_lookup

START = datetime(2026, 1, 1, tzinfo=UTC)
Rows = list[tuple[str, float, str]]  # user, week, town


def write_visits(path: Path, rows: Rows) -> Path:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE visit (user_id VARCHAR, ts TIMESTAMP, town VARCHAR)")
        naive = START.replace(tzinfo=None)
        engine.executemany(
            "INSERT INTO visit VALUES (?, ?, ?)",
            [(user, naive + timedelta(weeks=week), town) for user, week, town in rows],
        )
        engine.execute(f"COPY visit TO '{path}' (FORMAT parquet)")
    return path


def people(*names: str, week: float, town: str = "Ely") -> Rows:
    return [(name, week, town) for name in names]


def at(week: float) -> datetime:
    return START + timedelta(weeks=week)


OLD = [f"old-{n:02}" for n in range(40)]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Forty people in groups of ten, in week 1."""
    rows = people(*OLD[:20], week=0.5, town="Ely") + people(*OLD[20:], week=0.5, town="Bath")
    visits = write_visits(tmp_path / "first.parquet", rows)
    options = BuildOptions(
        visits,
        10,
        "segments",
        tmp_path / "v1",
        segments=("town",),
        knowledge="dispersion",
        buyer="acme",
        seed=4,
    )
    build_groups(options, at(1), lambda _: None)
    return tmp_path / "v1"


def renew(
    old: Path, rows: Rows, week: float, *, group_size: int | None = None, **policy: Any
) -> tuple[Build, dict[str, Any]]:
    """Renew in some week; the new build and its facts."""
    folder = old.parent
    out = folder / f"week-{week:g}"
    visits = write_visits(folder / f"{out.name}.parquet", rows)
    chosen = RenewalPolicy(**{"room": 1.0, **policy})
    options = RenewOptions(old, visits, out, group_size=group_size, policy=chosen, seed=1)
    facts = renew_groups(options, at(week), lambda _: None)
    return read_build(out), facts


def crowd_of(build: Build) -> dict[str, frozenset[str]]:
    """Who is in the group of each person."""
    groups: dict[int, list[str]] = {}
    for user, group in zip(build.user_ids, build.assignment.group_of().tolist(), strict=True):
        groups.setdefault(group, []).append(user)
    return {user: frozenset(members) for members in groups.values() for user in members}


def test_nobody_comes_or_goes_and_only_ids_are_new(first: Path) -> None:
    old = read_build(first)
    new, facts = renew(first, people(*OLD, week=4), 5)
    assert crowd_of(new) == crowd_of(old)
    assert (facts["renewal"]["moved"], facts["renewal"]["joined"]) == (0, 0)
    assert facts["renewal"]["series"]["smallest"] == 10
    assert facts["warnings"] == []
    was, now = (read_catalogue(folder / "release") for folder in (first, new.folder))
    assert not set(was.groups) & set(now.groups)
    assert old.key != new.key
    assert (facts["buyer"], facts["knowledge"], facts["strategy"]) == (
        "acme",
        "dispersion",
        "segments",
    )
    stored = json.loads((new.folder / "publisher" / "build.json").read_text())
    assert stored == json.loads(json.dumps(facts))
    assert len(read_group_lookup(new.folder)) == 40, "the gateway can serve it"


def test_newcomers_stay_where_the_gateway_put_them(first: Path) -> None:
    lookup = read_group_lookup(first)
    joined = [f"new-{n}" for n in range(8)]
    before = {user: lookup.identify(user).group for user in [*OLD, *joined]}
    new, facts = renew(first, people(*OLD, *joined, week=4), 5)
    assert facts["renewal"]["joined"] == 8
    assert facts["renewal"]["moved"] == 0
    crowds = crowd_of(new)
    for user in joined:
        together = {other for other, group in before.items() if group == before[user]}
        assert crowds[user] == together
    assert facts["renewal"]["pair"]["smallest"] >= 10
    assert new.user_ids == sorted(new.user_ids), "the order does not tell who is new"


def test_newcomers_who_fill_gaps_are_singled_out_and_it_is_said(first: Path) -> None:
    joined = [f"new-{n}" for n in range(8)]
    _, facts = renew(first, people(*OLD, *joined, week=4), 5, newcomers="gaps")
    assert facts["renewal"]["series"]["in_small_crowds"] > 0
    assert "whoever followed people over 2 versions" in facts["warnings"][0]


def test_people_are_forgotten_in_time_and_find_their_group_until_then(first: Path) -> None:
    loyal, away = OLD[2:], OLD[:2]
    second, facts = renew(first, people(*loyal, week=4), 5)
    assert facts["renewal"]["left"] == 0
    assert set(away) <= set(second.user_ids)
    third, facts = renew(second.folder, people(*loyal, week=20) + people(away[0], week=19), 21)
    assert facts["renewal"]["left"] == 0
    assert crowd_of(read_build(first))[away[0]] <= crowd_of(third)[away[0]]
    fourth, facts = renew(third.folder, people(*loyal, week=29), 30)
    assert facts["renewal"]["left"] == 1, "not seen for 28 weeks"
    assert away[1] not in fourth.user_ids
    assert away[0] in fourth.user_ids
    assert facts["renewal"]["series"]["versions"] == 4


def test_only_people_seen_lately_make_k(first: Path) -> None:
    """Three of a group do not come any more: it is merged whole, into its own town."""
    old = read_build(first)
    group = sorted(crowd_of(old)["old-00"])
    gone = group[:3]
    here = [user for user in OLD if user not in gone]
    rows = [(user, 9.0, "Ely" if user in OLD[:20] else "Bath") for user in here]
    new, facts = renew(first, rows, 10)
    assert facts["renewal"]["merged_groups"] == 1
    assert facts["renewal"]["counted_people"] == 37
    assert facts["renewal"]["min_counted_in_group"] >= 10
    assert crowd_of(new)["old-00"] == frozenset(OLD[:20])
    assert facts["renewal"]["left"] == 0


def test_a_file_of_all_visits_says_when_people_were_seen(first: Path) -> None:
    """Visits that formed the groups are in the file: no member counts as seen at the build."""
    rows = people(*OLD, week=0.5) + people(*OLD[5:], week=9)
    _, facts = renew(first, rows, 10)
    assert facts["renewal"]["counted_people"] == 35
    assert facts["renewal"]["left"] == 0


def values_of(build: Build, name: str) -> dict[str, object]:
    attribute = build.people.attribute(name)
    codes = attribute.codes.tolist()
    return {u: attribute.labels[c] for u, c in zip(build.user_ids, codes, strict=True)}


def test_attributes_follow_and_changes_are_counted(first: Path) -> None:
    rows = people(*OLD[1:20], week=4, town="Ely") + people(*OLD[20:38], week=4, town="Bath")
    rows += people("old-00", week=4, town="Bath")
    rows += people("new-0", week=4, town="Bath")
    new, facts = renew(first, rows, 5)
    assert facts["renewal"]["attributes_changed"] == {"town": 1}
    towns = values_of(new, "town")
    assert towns["old-00"] == towns["new-0"] == "Bath"
    assert towns["old-39"] == "Bath", "not in the new visits: as it was"
    assert 0.5 < facts["coverage"]["town"] < 1.0, "somebody from Bath is in a group of Ely"
    assert facts["pooled"] == {}


def test_small_segments_are_pooled_and_columns_that_identify_refused(first: Path) -> None:
    rows = people(*OLD[1:20], week=4, town="Ely") + people(*OLD[20:], week=4, town="Bath")
    rows += people("old-00", week=4, town="York")
    new, facts = renew(first, rows, 5)
    assert values_of(new, "town")["old-00"] == "(other)"
    assert facts["pooled"] == {"town": 1}
    assert facts["renewal"]["attributes_changed"] == {"town": 1}
    assert "they are pooled" in facts["warnings"][0]
    again, facts = renew(new.folder, [(u, 8.0, t) for u, _, t in rows], 9)
    assert values_of(again, "town")["old-00"] == "(other)"
    assert facts["renewal"]["attributes_changed"] == {"town": 0}, "pooled as before"
    rows = [(user, 4.0, f"house of {user}") for user in OLD]
    with pytest.raises(KreachError, match=r"^column town identifies people"):
        renew(first, rows, 6)


def test_k_may_be_lowered_and_not_raised(first: Path) -> None:
    new, facts = renew(first, people(*OLD, week=4), 5, group_size=8, room=1.25)
    assert (facts["group_size"], new.assignment.group_size) == (8, 8)
    assert facts["renewal"]["moved"] == 0, "groups of ten have room for eight"
    with pytest.raises(KreachError, match=r"^group_size must be at most that of the old build"):
        renew(first, people(*OLD, week=4), 6, group_size=11)


def test_groups_without_room_are_merged_and_it_is_said(first: Path) -> None:
    _, facts = renew(first, people(*OLD, week=4), 5, room=1.25)
    assert facts["smallest_group"] >= 13
    assert any("people moved, because most groups" in warning for warning in facts["warnings"])


def test_the_same_seed_gives_the_same_groups(first: Path, tmp_path: Path) -> None:
    rows = people(*OLD, *(f"new-{n}" for n in range(30)), week=4)
    visits = write_visits(tmp_path / "again.parquet", rows)
    made = []
    for name in ("a", "b"):
        options = RenewOptions(first, visits, tmp_path / name, seed=5)
        renew_groups(options, at(5), lambda _: None)
        made.append(read_build(tmp_path / name).assignment.group_of())
    np.testing.assert_array_equal(made[0], made[1])


def test_bad_input_leaves_nothing(first: Path, tmp_path: Path) -> None:
    visits = write_visits(tmp_path / "v.parquet", people(*OLD, week=4))

    def refused(week: float = 5, **further: Any) -> str:
        options = RenewOptions(**{"old": first, "visits": visits, "out": tmp_path / "x"} | further)
        with pytest.raises(KreachError) as error:
            renew_groups(options, at(week), lambda _: None)
        assert not (tmp_path / "x").exists()
        assert "old-" not in str(error.value)
        return str(error.value)

    assert "old must be older than the new version" in refused(week=1)
    assert "folder must be a folder made by" in refused(old=tmp_path)
    assert "out must be a new or empty folder" in refused(out=first)
    assert "visits must name a file" in refused(visits=tmp_path / "no.parquet")
    early = datetime(2020, 1, 1, tzinfo=UTC)
    assert "visits must hold at least one visit" in refused(history_end=early)
    with pytest.raises(KreachError, match=r"^seen_weeks must be above 0 and at most forget_weeks"):
        RenewalPolicy(forget_weeks=2, seen_weeks=3)
    with pytest.raises(KreachError, match=r"^room must lie between 1 and 10"):
        RenewalPolicy(room=0.5)
    with pytest.raises(KreachError, match=r"^newcomers must be one of named, gaps"):
        RenewalPolicy(newcomers="anywhere")


def test_overlapping_groups_are_refused(tmp_path: Path) -> None:
    visits = write_visits(tmp_path / "v.parquet", people(*OLD, week=0))
    options = BuildOptions(visits, 5, "overlapping", tmp_path / "o", knowledge="none")
    build_groups(options, at(1), lambda _: None)
    with pytest.raises(KreachError, match=r"^old must have disjoint groups"):
        renew_groups(RenewOptions(tmp_path / "o", visits, tmp_path / "x"), at(2), lambda _: None)


# Floors of the old build


def with_illness(path: Path, ill: dict[str, object]) -> Path:
    """A users file; a value for each user."""
    rows = [f"{user},{value},{at % 3}" for at, (user, value) in enumerate(ill.items())]
    path.write_text("\n".join(["user_id,illness,shoe_size", *rows]) + "\n")
    return path


def sensitive_build(
    tmp_path: Path, ill: dict[str, object], floors: DiversityFloors, seed: int | None = 3
) -> Path:
    visits = write_visits(tmp_path / "first.parquet", people(*OLD, week=0.5))
    options = BuildOptions(
        visits,
        10,
        "random",
        tmp_path / "v1",
        users=with_illness(tmp_path / "first.csv", ill),
        sensitive=("illness",),
        diversity=floors,
        knowledge="dispersion",
        floors=Floors(min_visible=3, effective_anonymity=1.5),
        seed=seed,
    )
    build_groups(options, at(1), lambda _: None)
    return tmp_path / "v1"


def renew_ill(old: Path, ill: dict[str, object], week: float = 5) -> tuple[Build, dict[str, Any]]:
    visits = write_visits(old.parent / "next.parquet", people(*ill, week=week - 1))
    users = with_illness(old.parent / "next.csv", ill)
    out = old.parent / f"week-{week:g}"
    options = RenewOptions(old, visits, out, users, policy=RenewalPolicy(room=1.0), seed=1)
    facts = renew_groups(options, at(week), lambda _: None)
    return read_build(out), facts


def test_groups_that_break_a_diversity_floor_are_merged_whole(tmp_path: Path) -> None:
    ill: dict[str, object] = {user: "flu" if at % 2 else "none" for at, user in enumerate(OLD)}
    first = sensitive_build(tmp_path, ill, DiversityFloors(2))
    old = read_build(first)
    healthy = crowd_of(old)["old-00"]
    recovered = ill | dict.fromkeys(healthy, "none")
    new, facts = renew_ill(first, recovered)
    assert facts["renewal"]["diversity_merges"] == 1
    assert facts["groups"] == old.assignment.group_count - 1
    assert facts["diversity"]["columns"]["illness"]["min_l"] == 2
    assert facts["diversity"]["without_floors"]["groups"] == 4
    before, after = crowd_of(old), crowd_of(new)
    assert healthy < after["old-00"]
    assert len(after["old-00"]) == 20, "with one other group"
    assert all(before[user] <= after[user] for user in OLD), "nobody moved alone"
    assert facts["renewal"]["series"]["smallest"] == 10
    report = audit_build(new.folder, at(6), lambda _: None)
    (view,) = report.columns
    assert (view.role, view.groups_below_floors) == ("sensitive", 0)


def test_a_renewal_that_cannot_hold_a_floor_is_refused(tmp_path: Path) -> None:
    ill: dict[str, object] = {user: at % 4 for at, user in enumerate(OLD)}
    first = sensitive_build(tmp_path, ill, DiversityFloors(3))
    with pytest.raises(DiversityRefused, match=r"^min_l of 3 cannot be held: illness has 2 diff"):
        renew_ill(first, {user: at % 2 for at, user in enumerate(OLD)})
    assert not (tmp_path / "week-5").exists()
    visits = write_visits(tmp_path / "bare.parquet", people(*OLD, "new-0", week=4))
    options = RenewOptions(first, visits, tmp_path / "x")
    rule = r"^visits must have the sensitive columns of the old build, for newcomers, got .*illness"
    with pytest.raises(KreachError, match=rule):
        renew_groups(options, at(5), lambda _: None)


def test_a_renewed_build_records_what_a_build_does(tmp_path: Path) -> None:
    ill: dict[str, object] = {user: at % 4 for at, user in enumerate(OLD)}
    first = sensitive_build(tmp_path, ill, DiversityFloors(3, max_t=0.6))
    visits = write_visits(tmp_path / "next.parquet", people(*OLD, week=4))
    users = with_illness(tmp_path / "next.csv", ill)
    options = RenewOptions(first, visits, tmp_path / "v2", users, min_visible=4)
    facts = renew_groups(options, at(5), lambda _: None)
    old, new = read_build(first), read_build(tmp_path / "v2")
    assert set(new.facts) == set(old.facts) | {"renewal"}
    assert new.facts["formed_by"] == old.facts["formed_by"]
    assert facts["floors"] == old.facts["floors"] | {"min_visible": 4}
    assert read_catalogue(tmp_path / "v2" / "release").min_visible == 4
    assert facts["columns_not_kept"] == ["shoe_size"]
    assert (facts["seed_origin"], facts["seed"].bit_length()) == ("drawn", 128)
    assert facts["renewal"]["first"] == {
        "version": old.facts["version"],
        "seed_origin": "given",
        "seed_bits": 2,
    }
    assert new.people.attribute("illness").numeric, "numbers keep their order"
    assert facts["renewal"]["attributes_changed"] == {"illness": 0}


def test_audiences_of_the_old_version_are_to_be_declared_again(first: Path) -> None:
    choice = AudienceChoice(("town=Ely",))
    out = first.parent / "ely.parquet"
    write_audience(first, "ely", choice, out, below="refuse", requests="everyone")
    _, facts = renew(first, people(*OLD, week=4), 5)
    assert facts["renewal"]["declare_again"] == ["ely"]
    assert declared_audiences(first.parent / "week-5") == ()


# The audit of a renewed build


def seed_findings(build: Build) -> tuple[Audit, dict[str, str]]:
    report = audit_build(build.folder, at(9), lambda _: None)
    found = {f.check: f.level for f in report.findings if f.check.startswith("seed")}
    return report, found


def test_the_audit_counts_linkage_over_the_versions_that_were(first: Path) -> None:
    joined = [f"new-{n}" for n in range(8)]
    second, facts = renew(first, people(*OLD, *joined, week=4), 5, newcomers="gaps")
    report = audit_build(second.folder, at(6), lambda _: None)
    assert report.past is not None
    assert report.past.document() == facts["renewal"]["series"]
    (finding,) = (f for f in report.findings if f.check == "linkage over past versions")
    assert report.past.in_small_crowds > 0, "the key decides how many of them are alone"
    assert finding.level == ("danger" if report.past.singled_out else "warning")
    third, facts = renew(second.folder, people(*OLD, *joined, week=8), 9)
    report = audit_build(third.folder, at(9), lambda _: None)
    assert report.past is not None
    assert (report.past.versions, facts["renewal"]["first"]["version"]) == (3, "20260108T000000Z")
    assert audit_build(first, at(6), lambda _: None).past is None


def test_renewed_groups_are_not_formed_again_and_the_first_seed_counts(tmp_path: Path) -> None:
    """The seed of the renewal was given and short; that of the first version was drawn."""
    ill: dict[str, object] = {user: at % 4 for at, user in enumerate(OLD)}
    second, facts = renew_ill(sensitive_build(tmp_path, ill, DiversityFloors(), None), ill)
    assert facts["seed_origin"] == "given"
    report, found = seed_findings(second)
    assert found == {"seed of the first version": "ok"}
    assert report.seed is not None
    assert (report.seed.tried, report.seed.guessed) == (0, False)
    assert any("form the groups of the first version again" in x for x in report.not_examined)


def test_a_first_seed_that_can_be_guessed_stays_a_danger(tmp_path: Path) -> None:
    ill: dict[str, object] = {user: at % 4 for at, user in enumerate(OLD)}
    second, _ = renew_ill(sensitive_build(tmp_path, ill, DiversityFloors(2)), ill)
    assert seed_findings(second)[1] == {"seed of the first version": "danger"}
    third, _ = renew_ill(second.folder, ill, week=8)
    assert seed_findings(third)[1] == {"seed of the first version": "danger"}
    path = third.folder / "publisher" / "build.json"
    facts = json.loads(path.read_text())
    for first, level in (
        ({"version": "x", "seed_origin": "given", "seed_bits": 90}, "warning"),
        (None, "warning"),
        ({"seed_origin": 3}, "warning"),
    ):
        facts["renewal"]["first"] = first
        path.write_text(json.dumps(facts))
        assert seed_findings(third)[1] == {"seed of the first version": level}


@pytest.mark.parametrize(("floors", "required"), [(Floors(min_visible=9), 9), (Floors(10, 1), 5)])
def test_the_audit_holds_a_build_to_its_floors_or_the_defaults(
    tmp_path: Path, floors: Floors, required: int
) -> None:
    """Ten people of a shoe size in four groups of ten: few in each."""
    visits = write_visits(tmp_path / "v.parquet", people(*OLD, week=0.5))
    users = with_illness(tmp_path / "u.csv", dict.fromkeys(OLD, "none"))
    options = BuildOptions(visits, 10, "random", tmp_path / "b", users, floors=floors, seed=1)
    options = replace(options, segments=("shoe_size",), knowledge="dispersion")
    build_groups(options, at(1), lambda _: None)
    report = audit_build(tmp_path / "b", at(2), lambda _: None)
    floor = next(f.floor for f in report.findings if f.check.startswith("visible people: shoe"))
    assert floor.startswith(f"{required} people")
