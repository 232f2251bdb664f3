"""An hour of all bidders: the library's digits, and what happens when it is not over yet."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import ibis
import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.jobs.hourly import run_hourly
from kreach.adsystem.jobs.output import MANIFEST, read_manifest
from kreach.adsystem.jobs.runs import Summary
from kreach.adsystem.log.exposures import _disjoint
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.reports.measure import interval_method
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_groups
from kreach.errors import KreachError
from tests.adsystem.api.stores import KINDS, make_catalogue
from tests.adsystem.jobs.rooms import (
    DAY,
    HOUR,
    NOW,
    START,
    Room,
    Sold,
    hours,
    rows_of,
    tree,
)

MINUTE = timedelta(minutes=1)
AT = START + 30 * HOUR


def folder_of(room: Room, start: datetime) -> Path:
    return room.folder / "out" / "hourly" / f"day={start:%Y-%m-%d}" / f"hour={start:%H}"


def states(summary: Summary) -> list[str]:
    return [one.state for one in summary.done]


def check(
    room: Room, catalogue: Catalogue, start: datetime, *, begins: datetime = START
) -> set[tuple[str, str, int]]:
    """Hold every row of one catalogue against the library; the keys that were there."""
    seen = set()
    for row in rows_of(folder_of(room, start)):
        if row["catalogue"] != catalogue.version:
            continue
        first = start if row["span"] == "hour" else begins
        assert (row["window_start"], row["window_end"]) == (first, start + HOUR)
        truth = room.rows(row["campaign"], catalogue.version, first, start + HOUR)
        assert row["impressions"] == len(truth)
        assert row["spend_micros"] == sum(sold.micros for sold in truth)
        wanted = room.measured(row["campaign"], catalogue, row["cap"], first, start + HOUR)
        assert row["people"] == wanted.targeted_user_count
        # profiles and classes are added up in an order of their own
        plain = catalogue.visit_shares is None and catalogue.classes is None
        assert row["reach"] == pytest.approx(wanted.reach, rel=0.0 if plain else 1e-14)
        assert row["std"] == pytest.approx(wanted.std, rel=1e-9)
        interval = wanted.interval(0.95, interval_method(wanted))
        drawn = 0.0 if catalogue.classes is None else 3.0  # simulated, class by class
        assert (row["low"], row["high"]) == pytest.approx(interval, abs=drawn)
        assert (row["min_reach"], row["max_reach"]) == wanted.bounds
        assert row["over_exposed"] == pytest.approx(wanted.over_exposed, abs=1e-12)
        assert row["average_frequency"] == pytest.approx(wanted.average_frequency)
        assert (row["rejected"], row["note"], row["level"]) == (0, None, 0.95)
        assert row["complete_until"] == start + HOUR
        seen.add((row["campaign"], row["span"], row["cap"]))
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_library_s_to_the_last_digit(tmp_path: Path, kind: str) -> None:
    catalogue = make_catalogue(kind)
    room = Room(tmp_path, catalogue, bidders=("b1", "b2"))
    room.add("spring")
    caps = (Cap(limit=1, span_seconds=3600.0), Cap(limit=4, span_seconds=86_400.0))
    room.add("rolling", caps=caps)
    room.chance(140, seed=5, span=36 * HOUR)
    room.move(AT - 2 * HOUR)
    room.move()
    summary = run_hourly(room.options(), hours(AT), NOW)
    assert states(summary) == ["written"]
    spans = ("hour", "flight")
    assert check(room, catalogue, AT) == {
        *(("spring", span, cap) for span in spans for cap in (1, 2)),
        *(("rolling", span, cap) for span in spans for cap in (1, 4)),
    }
    facts = read_manifest(folder_of(room, AT)) or {}
    truth = [sold for sold in room.sold if AT <= sold.ts < AT + HOUR]
    assert facts["impressions"] == len(truth) > 0
    assert facts["spend_micros"] == sum(sold.micros for sold in truth)
    assert facts["bidders"].keys() == {"b1", "b2"}
    assert facts["complete"]


def test_the_order_in_which_an_engine_answers_changes_no_digit() -> None:
    """Or the same hour would have other bytes the next time."""
    generator = np.random.default_rng(1)
    shares = np.empty(200, dtype=object)
    shares[:] = [np.sort(generator.dirichlet(np.ones(7))).tolist() for _ in range(200)]
    cells = {"visit_shares": shares, "groups": generator.integers(1, 9, 200)}
    impressions = generator.integers(0, 30, 200)
    groups = GroupTable(ibis.table({"group": "string"}), None, ("visit_shares",), 1_400, (), 0)
    found = set()
    for _ in range(10):
        order = generator.permutation(200)
        mixed = {name: values[order] for name, values in cells.items()}
        exposure = _disjoint(groups, mixed, impressions[order])
        found.add((exposure.reach(2), exposure.variance(2)))
    assert len(found) == 1


def test_each_catalogue_is_measured_on_its_own(tmp_path: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("dispersed", "v2", groups=12)
    room = Room(tmp_path, old, new)
    room.add("spring")
    room.chance(400, seed=6, span=34 * HOUR)
    room.move()
    run_hourly(room.options(), hours(AT), NOW)
    for catalogue in (old, new):
        assert len(check(room, catalogue, AT)) == 4


def test_a_campaign_counts_from_the_start_of_its_flight(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.add("early")
    room.add("late", start=AT - 2 * HOUR + 7 * MINUTE)
    room.add("today", start=AT + 5 * MINUTE)
    room.add("later", start=AT + DAY)
    room.add("over", end=AT)
    room.add("silent")
    group = 0
    for name, starts in [
        ("early", [START, AT]),
        ("late", [AT - HOUR]),  # nothing in the hour itself
        ("today", [AT + 10 * MINUTE]),
        ("over", [AT - HOUR]),
    ]:
        room.write([Sold("", name, "v1", (group := group + 1), ts, 700) for ts in starts])
    room.move()
    run_hourly(room.options(), hours(AT), NOW)
    found = {(r["campaign"], r["span"]): r for r in rows_of(folder_of(room, AT)) if r["cap"] == 1}
    names = {name for name, _ in found}
    assert names == {"early", "late", "today"}  # the others have no impression, or are over
    assert found["early", "flight"]["impressions"] == 2
    assert found["late", "hour"]["impressions"] == found["late", "hour"]["reach"] == 0
    assert found["late", "flight"]["window_start"] == AT - 2 * HOUR + 7 * MINUTE
    assert found["late", "flight"]["spend_micros"] == 700
    assert found["today", "flight"]["window_start"] == AT
    assert found["today", "flight"]["reach"] == found["today", "hour"]["reach"] == 1.0


def test_an_audience_of_its_own(tmp_path: Path) -> None:
    catalogue = make_catalogue("dispersed")
    room = Room(tmp_path, catalogue)
    counts = np.arange(len(catalogue)) % 4
    write_groups(catalogue, tmp_path / "sports.parquet", counts)
    room.settings = AdSystemSettings(
        store=room.settings.store,
        catalogues=room.settings.catalogues,
        audiences={"sports": tmp_path / "sports.parquet"},
    )
    room.add("spring", audience="sports")
    room.chance(300, seed=7, span=31 * HOUR)
    room.move()
    run_hourly(room.options(), hours(AT), NOW)
    audience = catalogue.audience(counts)
    rows = rows_of(folder_of(room, AT))
    assert len(rows) == 4
    for row in rows:
        counted = room.counts("spring", catalogue, row["window_start"], row["window_end"])
        wanted = kr.measure(audience, counted, row["cap"])
        assert row["reach"] == pytest.approx(wanted.reach, rel=1e-14)
        assert row["people"] == int(counts.sum())


def test_what_cannot_be_measured_is_counted_and_says_why(tmp_path: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("disjoint", "v2")
    room = Room(tmp_path, old, new)
    room.add("spring")
    room.add("lost", audience="gone")
    room.chance(200, seed=8, span=31 * HOUR)
    room.move()
    room.settings = AdSystemSettings(
        store=room.settings.store, catalogues=room.settings.catalogues[1:]
    )
    room.numbers["deleted"] = 99  # a campaign that the store does not hold
    room.write([Sold("", "deleted", "v2", 0, AT + MINUTE, 50)])
    room.move()
    summary = run_hourly(room.options(), hours(AT), NOW)
    assert summary.done[0].facts["not_measured"] == 4
    found = {
        (r["campaign"], r["catalogue"], r["span"], r["cap"]): r
        for r in rows_of(folder_of(room, AT))
    }
    assert found["spring", "v2", "flight", 2]["reach"] > 0
    notes = {(key[0], key[1]): row["note"] for key, row in found.items() if row["note"]}
    assert notes[("spring", "v1")] == "catalogue must be one of v2, got 'v1'"
    assert notes[("lost", "v2")] == "audience must be one of everyone, got 'gone'"
    assert notes[("deleted", "v2")] == "campaign must be in the store, got 'deleted'"
    unmeasured = found["spring", "v1", "flight", 2]
    assert unmeasured["impressions"] == len(room.rows("spring", "v1", START, AT + HOUR))
    assert unmeasured["reach"] is None
    assert ("deleted", "v2", "flight", 1) not in found


def test_groups_that_the_catalogue_lost_are_rejected_and_counted(tmp_path: Path) -> None:
    """A folder that was released again under the same version, with fewer groups."""
    room = Room(tmp_path)
    room.add("spring")
    room.write([Sold("", "spring", "v1", group, AT + MINUTE, 10) for group in (0, 1, 29)])
    room.move()
    fewer = make_catalogue("disjoint", "v1", groups=20)
    Room(tmp_path / "again", fewer)
    shutil.copytree(tmp_path / "again" / "v1", tmp_path / "v1", dirs_exist_ok=True)
    run_hourly(room.options(), hours(AT), NOW)
    for row in rows_of(folder_of(room, AT)):
        assert (row["impressions"], row["rejected"], row["spend_micros"]) == (3, 1, 30)
        assert row["reach"] == kr.measure(fewer.audience(), [1, 1] + [0] * 18, row["cap"]).reach


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """Six hours of two bidders, all in files."""
    room = Room(tmp_path_factory.mktemp("room"), bidders=("b1", "b2"))
    room.add("spring")
    room.chance(300, seed=9, span=6 * HOUR)
    room.move()
    return room


@pytest.fixture
def room(made: Room, tmp_path: Path) -> Room:
    return made.copy(tmp_path)


def three_hours(folder: Path) -> Room:
    """Three hours of two bidders, nothing in files."""
    room = Room(folder, bidders=("b1", "b2"))
    room.add("spring")
    room.chance(200, seed=9, span=3 * HOUR)
    return room


def test_an_hour_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    now = START + 3 * HOUR + 5 * MINUTE
    room = three_hours(tmp_path)
    room.move(now)
    summary = run_hourly(room.options(), hours(START, START + HOUR, START + 2 * HOUR), now)
    assert states(summary) == ["written", "written"]
    assert summary.refused is not None
    assert summary.refused.period.start == START + 2 * HOUR
    again = summary.refused.try_again
    assert again is not None
    assert START + 3 * HOUR + 15 * MINUTE < again < START + 3 * HOUR + 20 * MINUTE
    said = str(summary.refused)
    assert said.endswith(f"got 2025-11-01T02:00Z: try again after {again:%Y-%m-%dT%H:%MZ}")
    assert f"up to {summary.complete_until:%Y-%m-%dT%H:%M:%SZ}" in said
    assert "\n" not in said
    assert not folder_of(room, START + 2 * HOUR).exists()
    room.move(again)
    after = run_hourly(room.options(), hours(START + 2 * HOUR), again)
    assert states(after) == ["written"]
    check(room, room.catalogues[0], START + 2 * HOUR)


def test_one_bidder_is_enough_to_wait_for(tmp_path: Path) -> None:
    room = three_hours(tmp_path)
    room.move(NOW, bidder="b1")
    summary = run_hourly(room.options(), hours(START + HOUR), NOW)
    assert summary.done == ()
    assert "bidder b2 has moved its rows into files up to" in str(summary.refused)
    assert "try again when it has (compaction_rows)" in str(summary.refused)
    assert summary.document()["refused"]["try_again"] is None


def test_a_partial_hour_is_marked_and_replaced(tmp_path: Path) -> None:
    now = START + 3 * HOUR + 5 * MINUTE
    at = START + 2 * HOUR
    room = three_hours(tmp_path)
    room.move(now)
    summary = run_hourly(room.options(partial=True), hours(at), now)
    assert states(summary) == ["partial"]
    facts = read_manifest(folder_of(room, at)) or {}
    assert not facts["complete"]
    rows = rows_of(folder_of(room, at))
    whole = len(room.rows("spring", "v1", at, at + HOUR))
    assert {row["complete_until"] for row in rows} == {summary.complete_until}
    assert 0 < facts["impressions"] < whole
    assert facts["complete_until"] == summary.document()["complete_until"]
    later = now + 30 * MINUTE
    room.move(later)
    assert states(run_hourly(room.options(partial=True), hours(at), later)) == ["written"]
    assert (read_manifest(folder_of(room, at)) or {})["impressions"] == whole
    check(room, room.catalogues[0], at)
    assert states(run_hourly(room.options(partial=True), hours(at), later)) == ["kept"]


def test_a_partial_hour_never_takes_the_place_of_a_full_one(room: Room) -> None:
    run_hourly(room.options(), hours(START), NOW)
    before = tree(room.folder / "out")
    room.write([Sold("b1", "spring", "v1", 3, START + MINUTE, 9)])  # live, and older than the hour
    assert states(run_hourly(room.options(partial=True), hours(START), NOW)) == ["kept"]
    assert run_hourly(room.options(), hours(START), NOW).refused is not None
    assert tree(room.folder / "out") == before


def test_an_hour_that_has_not_begun_is_refused(room: Room) -> None:
    with pytest.raises(KreachError, match="hour must have begun"):
        run_hourly(room.options(partial=True), hours(NOW), NOW)
    refused = run_hourly(room.options(), hours(NOW), NOW).refused
    assert refused is not None
    assert refused.try_again == NOW + HOUR + 5 * MINUTE


def test_twice_is_the_same_bytes_and_what_is_complete_is_kept(room: Room) -> None:
    asked = hours(*(START + at * HOUR for at in range(2)))
    assert states(run_hourly(room.options(), asked, NOW)) == ["written"] * 2
    before = tree(room.folder / "out")
    inodes = [folder_of(room, period.start).stat().st_ino for period in asked]
    kept = run_hourly(room.options(), asked, NOW)
    assert states(kept) == ["kept"] * 2
    assert [folder_of(room, period.start).stat().st_ino for period in asked] == inodes
    assert states(run_hourly(room.options(force=True), asked, NOW)) == ["written"] * 2
    assert tree(room.folder / "out") == before
    new = run_hourly(room.options(), hours(*(START + at * HOUR for at in range(3))), NOW)
    assert states(new) == ["kept"] * 2 + ["written"]
    assert {path.partition("/")[0] for path in tree(room.folder / "out")} == {"hourly"}


def test_late_rows_make_an_hour_and_those_after_it_anew(room: Room) -> None:
    """They should not come; if they do, the next run over the hour notices."""
    asked = hours(*(START + at * HOUR for at in range(1, 4)))
    run_hourly(room.options(), asked, NOW)
    room.write([Sold("b1", "spring", "v1", 3, START + 2 * HOUR + MINUTE, 9)])
    room.move()
    summary = run_hourly(room.options(), asked, NOW)
    assert states(summary) == ["kept", "written", "written"]
    for period in asked:
        check(room, room.catalogues[0], period.start)


def test_a_log_that_lost_rows_is_refused_unless_forced(room: Room) -> None:
    run_hourly(room.options(), hours(START + HOUR), NOW)
    before = tree(room.folder / "out")
    shutil.rmtree(room.bidders.pop("b2"))
    with pytest.raises(KreachError, match=r"log must hold the \d+ rows that hour=01 was made from"):
        run_hourly(room.options(), hours(START + HOUR), NOW)
    assert tree(room.folder / "out") == before
    assert states(run_hourly(room.options(force=True), hours(START + HOUR), NOW)) == ["written"]


def test_an_impression_that_two_bidders_list_is_refused(room: Room) -> None:
    shutil.copytree(room.bidders["b1"], room.settings.store / "bidders" / "copy")
    with pytest.raises(
        KreachError, match=r"log must hold each impression once.*got \d+ duplicate impression ids"
    ):
        run_hourly(room.options(), hours(START), NOW)
    assert tree(room.folder / "out") == {}


def test_files_that_are_listed_nowhere_are_not_ours(room: Room) -> None:
    for file in (room.bidders["b1"] / "log").rglob("*.parquet"):
        shutil.copy(file, file.with_name("part-000000000900-000000000999.parquet"))
    assert states(run_hourly(room.options(), hours(START), NOW)) == ["written"]
    check(room, room.catalogues[0], START)


def test_an_hour_without_impressions_has_a_table_without_rows(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.add("spring")
    room.write([])
    assert states(run_hourly(room.options(), hours(START), NOW)) == ["written"]
    assert rows_of(folder_of(room, START)) == []
    room.write([Sold("", "spring", "v1", 3, AT, 9)])
    room.move()
    summary = run_hourly(room.options(), hours(START, AT - HOUR, AT, AT + HOUR), NOW)
    assert [one.facts["rows"] for one in summary.done] == [0, 0, 4, 4]


def test_what_is_not_ours_is_not_replaced(room: Room) -> None:
    folder = folder_of(room, START)
    folder.mkdir(parents=True)
    (folder / "mine.parquet").write_text("mine")
    for text in (None, "no JSON", "[]", '{"job": "other"}'):
        if text is not None:
            (folder / MANIFEST).write_text(text)
        for force in (False, True):
            with pytest.raises(KreachError, match="out must hold only what jobs wrote"):
                run_hourly(room.options(force=force), hours(START), NOW)
    assert (folder / "mine.parquet").read_text() == "mine"


def test_a_store_without_campaigns_or_with_unreadable_catalogues_is_refused(room: Room) -> None:
    (room.folder / "v1" / "catalogue.json").write_text("{}")
    with pytest.raises(KreachError, match="catalogue must be a released folder"):
        run_hourly(room.options(), hours(START), NOW)
    (room.settings.store / "control.sqlite3").unlink()
    with pytest.raises(KreachError, match="store must hold campaigns"):
        run_hourly(room.options(), hours(START), NOW)
    assert not (room.settings.store / "control.sqlite3").exists()
