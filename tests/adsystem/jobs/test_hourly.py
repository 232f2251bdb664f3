"""An hour of all bidders: the library's digits, and what happens when it is not over yet."""

import shutil
from dataclasses import replace
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
from tests.adsystem.api.live_stores import KINDS, make_catalogue
from tests.adsystem.jobs.sample_stores import (
    DAY,
    HOUR,
    NOW,
    START,
    SampleStore,
    Sold,
    hours,
    rows_of,
    tree,
)
from tests.adsystem.visit_models import sample_model

MINUTE = timedelta(minutes=1)
AT = START + 30 * HOUR


def folder_of(sample: SampleStore, start: datetime) -> Path:
    return sample.folder / "out" / "hourly" / f"day={start:%Y-%m-%d}" / f"hour={start:%H}"


def states(summary: Summary) -> list[str]:
    return [one.state for one in summary.done]


def check(
    sample: SampleStore, catalogue: Catalogue, start: datetime, *, begins: datetime = START
) -> set[tuple[str, str, int]]:
    """Hold every row of one catalogue against the library; the keys that were there."""
    seen = set()
    for row in rows_of(folder_of(sample, start)):
        if row["catalogue"] != catalogue.version:
            continue
        first = start if row["span"] == "hour" else begins
        assert (row["window_start"], row["window_end"]) == (first, start + HOUR)
        truth = sample.rows(row["campaign"], catalogue.version, first, start + HOUR)
        assert row["impressions"] == len(truth)
        assert row["spend_micros"] == sum(sold.micros for sold in truth)
        wanted = sample.measured(row["campaign"], catalogue, row["cap"], first, start + HOUR)
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
    sample = SampleStore(tmp_path, catalogue, bidders=("b1", "b2"))
    sample.add("spring")
    caps = (Cap(limit=1, span_seconds=3600.0), Cap(limit=4, span_seconds=86_400.0))
    sample.add("rolling", caps=caps)
    sample.write_random(140, seed=5, span=36 * HOUR)
    sample.move(AT - 2 * HOUR)
    sample.move()
    summary = run_hourly(sample.options(), hours(AT), NOW)
    assert states(summary) == ["written"]
    spans = ("hour", "flight")
    assert check(sample, catalogue, AT) == {
        *(("spring", span, cap) for span in spans for cap in (1, 2)),
        *(("rolling", span, cap) for span in spans for cap in (1, 4)),
    }
    facts = read_manifest(folder_of(sample, AT)) or {}
    truth = [sold for sold in sample.sold if AT <= sold.ts < AT + HOUR]
    assert facts["impressions"] == len(truth) > 0
    assert facts["spend_micros"] == sum(sold.micros for sold in truth)
    assert facts["bidders"].keys() == {"b1", "b2"}
    assert facts["complete"]


def test_a_catalogue_with_a_visit_model_is_measured_by_draws(tmp_path: Path) -> None:
    """Alone and since the flight began, as the library measures times; repeated, the same bytes."""
    model = sample_model()
    catalogue = replace(make_catalogue("dispersed"), model=model)
    sample = SampleStore(tmp_path, catalogue, bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(400, seed=6, span=12 * HOUR)
    sample.move()
    periods = hours(START + 10 * HOUR)
    assert states(run_hourly(sample.options(), periods, NOW)) == ["written"]
    rows = rows_of(folder_of(sample, START + 10 * HOUR))
    assert {row["span"] for row in rows} == {"hour", "flight"}
    for row in rows:
        sold = [one for one in sample.sold if row["window_start"] <= one.ts < row["window_end"]]
        wanted = kr.measure_times(
            catalogue.audience(),
            [one.group for one in sold],
            [one.ts for one in sold],
            [row["cap"]],
            model=model,
        )[row["cap"]]
        assert row["reach"] == pytest.approx(wanted.reach, rel=1e-9)
        assert row["model"] == "visit model"
        assert wanted.exposure.model_error is not None
        assert row["model_error"] == wanted.exposure.model_error.spread
    before = tree(sample.folder / "out")
    assert states(run_hourly(sample.options(force=True), periods, NOW)) == ["written"]
    assert tree(sample.folder / "out") == before


def test_the_order_in_which_an_engine_answers_changes_no_digit() -> None:
    """Or the same hour would have other bytes the next time."""
    generator = np.random.default_rng(1)
    shares = np.empty(200, dtype=object)
    shares[:] = [np.sort(generator.dirichlet(np.ones(7))).tolist() for _ in range(200)]
    cells = {"visit_shares": shares, "groups": generator.integers(1, 9, 200)}
    impressions = generator.integers(0, 30, 200)
    groups = GroupTable(ibis.table({"group": "string"}), None, ("visit_shares",), 1_400, (), 0)
    rows = set()
    for _ in range(10):
        order = generator.permutation(200)
        mixed = {name: values[order] for name, values in cells.items()}
        exposure = _disjoint(groups, mixed, impressions[order])
        rows.add((exposure.reach(2), exposure.variance(2)))
    assert len(rows) == 1


def test_each_catalogue_is_measured_on_its_own(tmp_path: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("dispersed", "v2", groups=12)
    sample = SampleStore(tmp_path, old, new)
    sample.add("spring")
    sample.write_random(400, seed=6, span=34 * HOUR)
    sample.move()
    run_hourly(sample.options(), hours(AT), NOW)
    for catalogue in (old, new):
        assert len(check(sample, catalogue, AT)) == 4


def test_a_campaign_counts_from_the_start_of_its_flight(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path)
    sample.add("early")
    sample.add("late", start=AT - 2 * HOUR + 7 * MINUTE)
    sample.add("today", start=AT + 5 * MINUTE)
    sample.add("later", start=AT + DAY)
    sample.add("over", end=AT)
    sample.add("silent")
    group = 0
    for name, starts in [
        ("early", [START, AT]),
        ("late", [AT - HOUR]),  # nothing in the hour itself
        ("today", [AT + 10 * MINUTE]),
        ("over", [AT - HOUR]),
    ]:
        sample.write([Sold("", name, "v1", (group := group + 1), ts, 700) for ts in starts])
    sample.move()
    run_hourly(sample.options(), hours(AT), NOW)
    rows = {(r["campaign"], r["span"]): r for r in rows_of(folder_of(sample, AT)) if r["cap"] == 1}
    names = {name for name, _ in rows}
    assert names == {"early", "late", "today"}  # the others have no impression, or are over
    assert rows["early", "flight"]["impressions"] == 2
    assert rows["late", "hour"]["impressions"] == rows["late", "hour"]["reach"] == 0
    assert rows["late", "flight"]["window_start"] == AT - 2 * HOUR + 7 * MINUTE
    assert rows["late", "flight"]["spend_micros"] == 700
    assert rows["today", "flight"]["window_start"] == AT
    assert rows["today", "flight"]["reach"] == rows["today", "hour"]["reach"] == 1.0


def test_an_audience_of_its_own(tmp_path: Path) -> None:
    catalogue = make_catalogue("dispersed")
    sample = SampleStore(tmp_path, catalogue)
    counts = np.arange(len(catalogue)) % 4
    write_groups(catalogue, tmp_path / "sports.parquet", counts)
    sample.settings = AdSystemSettings(
        store=sample.settings.store,
        catalogues=sample.settings.catalogues,
        audiences={"sports": tmp_path / "sports.parquet"},
    )
    sample.add("spring", audience="sports")
    sample.write_random(300, seed=7, span=31 * HOUR)
    sample.move()
    run_hourly(sample.options(), hours(AT), NOW)
    audience = catalogue.audience(counts)
    rows = rows_of(folder_of(sample, AT))
    assert len(rows) == 4
    for row in rows:
        counted = sample.counts("spring", catalogue, row["window_start"], row["window_end"])
        wanted = kr.measure(audience, counted, row["cap"])
        assert row["reach"] == pytest.approx(wanted.reach, rel=1e-14)
        assert row["people"] == int(counts.sum())


def test_what_cannot_be_measured_is_counted_and_says_why(tmp_path: Path) -> None:
    old, new = make_catalogue("disjoint", "v1"), make_catalogue("disjoint", "v2")
    sample = SampleStore(tmp_path, old, new)
    sample.add("spring")
    sample.add("lost", audience="gone")
    sample.write_random(200, seed=8, span=31 * HOUR)
    sample.move()
    sample.settings = AdSystemSettings(
        store=sample.settings.store, catalogues=sample.settings.catalogues[1:]
    )
    sample.numbers["deleted"] = 99  # a campaign that the store does not hold
    sample.write([Sold("", "deleted", "v2", 0, AT + MINUTE, 50)])
    sample.move()
    summary = run_hourly(sample.options(), hours(AT), NOW)
    assert summary.done[0].facts["not_measured"] == 4
    rows = {
        (r["campaign"], r["catalogue"], r["span"], r["cap"]): r
        for r in rows_of(folder_of(sample, AT))
    }
    assert rows["spring", "v2", "flight", 2]["reach"] > 0
    notes = {(key[0], key[1]): row["note"] for key, row in rows.items() if row["note"]}
    assert notes[("spring", "v1")] == "catalogue must be one of v2, got 'v1'"
    assert notes[("lost", "v2")] == "audience must be one of everyone, got 'gone'"
    assert notes[("deleted", "v2")] == "campaign must be in the store, got 'deleted'"
    unmeasured = rows["spring", "v1", "flight", 2]
    assert unmeasured["impressions"] == len(sample.rows("spring", "v1", START, AT + HOUR))
    assert unmeasured["reach"] is None
    assert ("deleted", "v2", "flight", 1) not in rows


def test_groups_that_the_catalogue_lost_are_rejected_and_counted(tmp_path: Path) -> None:
    """A folder that was released again under the same version, with fewer groups."""
    sample = SampleStore(tmp_path)
    sample.add("spring")
    sample.write([Sold("", "spring", "v1", group, AT + MINUTE, 10) for group in (0, 1, 29)])
    sample.move()
    fewer = make_catalogue("disjoint", "v1", groups=20)
    SampleStore(tmp_path / "again", fewer)
    shutil.copytree(tmp_path / "again" / "v1", tmp_path / "v1", dirs_exist_ok=True)
    run_hourly(sample.options(), hours(AT), NOW)
    for row in rows_of(folder_of(sample, AT)):
        assert (row["impressions"], row["rejected"], row["spend_micros"]) == (3, 1, 30)
        assert row["reach"] == kr.measure(fewer.audience(), [1, 1] + [0] * 18, row["cap"]).reach


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """Six hours of two bidders, all in files."""
    sample = SampleStore(tmp_path_factory.mktemp("sample"), bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(300, seed=9, span=6 * HOUR)
    sample.move()
    return sample


@pytest.fixture
def sample(template: SampleStore, tmp_path: Path) -> SampleStore:
    return template.copy(tmp_path)


def three_hours(folder: Path) -> SampleStore:
    """Three hours of two bidders, nothing in files."""
    sample = SampleStore(folder, bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(200, seed=9, span=3 * HOUR)
    return sample


def test_an_hour_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    now = START + 3 * HOUR + 5 * MINUTE
    sample = three_hours(tmp_path)
    sample.move(now)
    summary = run_hourly(sample.options(), hours(START, START + HOUR, START + 2 * HOUR), now)
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
    assert not folder_of(sample, START + 2 * HOUR).exists()
    sample.move(again)
    after = run_hourly(sample.options(), hours(START + 2 * HOUR), again)
    assert states(after) == ["written"]
    check(sample, sample.catalogues[0], START + 2 * HOUR)


def test_one_bidder_is_enough_to_wait_for(tmp_path: Path) -> None:
    sample = three_hours(tmp_path)
    sample.move(NOW, bidder="b1")
    summary = run_hourly(sample.options(), hours(START + HOUR), NOW)
    assert summary.done == ()
    assert "bidder b2 has moved its rows into files up to" in str(summary.refused)
    assert "try again when it has (compaction_rows)" in str(summary.refused)
    assert summary.document()["refused"]["try_again"] is None


def test_a_partial_hour_is_marked_and_replaced(tmp_path: Path) -> None:
    now = START + 3 * HOUR + 5 * MINUTE
    at = START + 2 * HOUR
    sample = three_hours(tmp_path)
    sample.move(now)
    summary = run_hourly(sample.options(partial=True), hours(at), now)
    assert states(summary) == ["partial"]
    facts = read_manifest(folder_of(sample, at)) or {}
    assert not facts["complete"]
    rows = rows_of(folder_of(sample, at))
    whole = len(sample.rows("spring", "v1", at, at + HOUR))
    assert {row["complete_until"] for row in rows} == {summary.complete_until}
    assert 0 < facts["impressions"] < whole
    assert facts["complete_until"] == summary.document()["complete_until"]
    later = now + 30 * MINUTE
    sample.move(later)
    assert states(run_hourly(sample.options(partial=True), hours(at), later)) == ["written"]
    assert (read_manifest(folder_of(sample, at)) or {})["impressions"] == whole
    check(sample, sample.catalogues[0], at)
    assert states(run_hourly(sample.options(partial=True), hours(at), later)) == ["unchanged"]


def test_a_partial_hour_never_takes_the_place_of_a_full_one(sample: SampleStore) -> None:
    run_hourly(sample.options(), hours(START), NOW)
    before = tree(sample.folder / "out")
    sample.write(
        [Sold("b1", "spring", "v1", 3, START + MINUTE, 9)]
    )  # live, and older than the hour
    assert states(run_hourly(sample.options(partial=True), hours(START), NOW)) == ["unchanged"]
    assert run_hourly(sample.options(), hours(START), NOW).refused is not None
    assert tree(sample.folder / "out") == before


def test_an_hour_that_has_not_begun_is_refused(sample: SampleStore) -> None:
    with pytest.raises(KreachError, match="hour must have begun"):
        run_hourly(sample.options(partial=True), hours(NOW), NOW)
    refused = run_hourly(sample.options(), hours(NOW), NOW).refused
    assert refused is not None
    assert refused.try_again == NOW + HOUR + 5 * MINUTE


def test_twice_is_the_same_bytes_and_what_is_complete_is_kept(sample: SampleStore) -> None:
    periods = hours(*(START + at * HOUR for at in range(2)))
    assert states(run_hourly(sample.options(), periods, NOW)) == ["written"] * 2
    before = tree(sample.folder / "out")
    inodes = [folder_of(sample, period.start).stat().st_ino for period in periods]
    again = run_hourly(sample.options(), periods, NOW)
    assert states(again) == ["unchanged"] * 2
    assert [folder_of(sample, period.start).stat().st_ino for period in periods] == inodes
    assert states(run_hourly(sample.options(force=True), periods, NOW)) == ["written"] * 2
    assert tree(sample.folder / "out") == before
    new = run_hourly(sample.options(), hours(*(START + at * HOUR for at in range(3))), NOW)
    assert states(new) == ["unchanged"] * 2 + ["written"]
    assert {path.partition("/")[0] for path in tree(sample.folder / "out")} == {"hourly"}


def test_late_rows_make_an_hour_and_those_after_it_anew(sample: SampleStore) -> None:
    """They should not come; if they do, the next run over the hour notices."""
    periods = hours(*(START + at * HOUR for at in range(1, 4)))
    run_hourly(sample.options(), periods, NOW)
    sample.write([Sold("b1", "spring", "v1", 3, START + 2 * HOUR + MINUTE, 9)])
    sample.move()
    summary = run_hourly(sample.options(), periods, NOW)
    assert states(summary) == ["unchanged", "written", "written"]
    for period in periods:
        check(sample, sample.catalogues[0], period.start)


def test_a_log_that_lost_rows_is_refused_unless_forced(sample: SampleStore) -> None:
    run_hourly(sample.options(), hours(START + HOUR), NOW)
    before = tree(sample.folder / "out")
    shutil.rmtree(sample.bidders.pop("b2"))
    with pytest.raises(
        KreachError, match=r"log must hold the \d+ rows that hour=01 was written from"
    ):
        run_hourly(sample.options(), hours(START + HOUR), NOW)
    assert tree(sample.folder / "out") == before
    assert states(run_hourly(sample.options(force=True), hours(START + HOUR), NOW)) == ["written"]


def test_an_impression_that_two_bidders_list_is_refused(sample: SampleStore) -> None:
    shutil.copytree(sample.bidders["b1"], sample.settings.store / "bidders" / "copy")
    with pytest.raises(
        KreachError, match=r"log must hold each impression once.*got \d+ duplicate impression ids"
    ):
        run_hourly(sample.options(), hours(START), NOW)
    assert tree(sample.folder / "out") == {}


def test_files_that_are_listed_nowhere_are_not_ours(sample: SampleStore) -> None:
    for file in (sample.bidders["b1"] / "log").rglob("*.parquet"):
        shutil.copy(file, file.with_name("part-000000000900-000000000999.parquet"))
    assert states(run_hourly(sample.options(), hours(START), NOW)) == ["written"]
    check(sample, sample.catalogues[0], START)


def test_an_hour_without_impressions_has_a_table_without_rows(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path)
    sample.add("spring")
    sample.write([])
    assert states(run_hourly(sample.options(), hours(START), NOW)) == ["written"]
    assert rows_of(folder_of(sample, START)) == []
    sample.write([Sold("", "spring", "v1", 3, AT, 9)])
    sample.move()
    summary = run_hourly(sample.options(), hours(START, AT - HOUR, AT, AT + HOUR), NOW)
    assert [one.facts["rows"] for one in summary.done] == [0, 0, 4, 4]


def test_what_is_not_ours_is_not_replaced(sample: SampleStore) -> None:
    folder = folder_of(sample, START)
    folder.mkdir(parents=True)
    (folder / "mine.parquet").write_text("mine")
    for text in (None, "no JSON", "[]", '{"job": "other"}'):
        if text is not None:
            (folder / MANIFEST).write_text(text)
        for force in (False, True):
            with pytest.raises(KreachError, match="out must hold only what jobs wrote"):
                run_hourly(sample.options(force=force), hours(START), NOW)
    assert (folder / "mine.parquet").read_text() == "mine"


def test_a_store_without_campaigns_or_with_unreadable_catalogues_is_refused(
    sample: SampleStore,
) -> None:
    (sample.folder / "v1" / "catalogue.json").write_text("{}")
    with pytest.raises(KreachError, match="catalogue must be a released folder"):
        run_hourly(sample.options(), hours(START), NOW)
    (sample.settings.store / "control.sqlite3").unlink()
    with pytest.raises(KreachError, match="store must hold campaigns"):
        run_hourly(sample.options(), hours(START), NOW)
    assert not (sample.settings.store / "control.sqlite3").exists()
