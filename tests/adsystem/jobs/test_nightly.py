"""A day of all bidders in one place: every row once, sums that agree, and its reach."""

import json
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.adsystem.jobs.engines import EmbeddedJobs
from kreach.adsystem.jobs.hourly import run_hourly
from kreach.adsystem.jobs.listing import view_log
from kreach.adsystem.jobs.merge import LOG_COLUMNS
from kreach.adsystem.jobs.nightly import run_nightly
from kreach.adsystem.jobs.output import MANIFEST, read_manifest
from kreach.adsystem.jobs.sources import Sources
from kreach.errors import KreachError
from tests.adsystem.api.live_stores import make_catalogue
from tests.adsystem.jobs.sample_stores import (
    DAY,
    HOUR,
    NOW,
    START,
    SampleStore,
    Sold,
    days,
    hours,
    rows_of,
    tree,
)
from tests.cli.command import kreach

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """Two bidders with a name and one without, two catalogues, two campaigns, three days: done."""
    catalogues = make_catalogue("disjoint", "v1"), make_catalogue("disjoint", "v2", groups=9)
    bidders = ("", "b1", "b2")
    sample = SampleStore(tmp_path_factory.mktemp("rich"), *catalogues, bidders=bidders)
    sample.add("spring")
    sample.add("autumn", start=START + 30 * HOUR)
    sample.write_random(600, seed=11, span=3 * DAY)
    sample.move(START + DAY + 5 * HOUR)
    sample.move()
    summary = run_nightly(sample.options(), days(START, START + DAY, START + 2 * DAY), NOW)
    assert states(summary) == ["written"] * 3
    return sample


@pytest.fixture(scope="module")
def plain_template(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """Two bidders, one campaign, three days."""
    sample = SampleStore(tmp_path_factory.mktemp("plain"), bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(150, seed=13, span=3 * DAY)
    sample.move()
    return sample


@pytest.fixture
def sample(plain_template: SampleStore, tmp_path: Path) -> SampleStore:
    return plain_template.copy(tmp_path)


def log_of(sample: SampleStore, start: Any = START) -> Path:
    return sample.folder / "out" / "log" / f"day={start:%Y-%m-%d}"


def daily_of(sample: SampleStore, start: Any = START) -> Path:
    return sample.folder / "out" / "daily" / f"day={start:%Y-%m-%d}"


def merged_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a day's files, in their order."""
    files = sorted(folder.glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def states(summary: Any) -> list[str]:
    return [one.state for one in summary.done]


def test_every_impression_is_there_once_and_in_order(rich: SampleStore) -> None:
    sample = rich
    log = []
    for at in range(3):
        here = merged_rows(log_of(sample, START + at * DAY))
        assert here == sorted(here, key=lambda r: (r["campaign"], r["ts"], r["impression_id"]))
        assert {row["ts"].date() for row in here} == {(START + at * DAY).date()}
        log += here
    assert len({row["impression_id"] for row in log}) == len(log) == 600
    names = {c.version: c.groups for c in sample.catalogues}
    written = sorted(
        (
            row["bidder"],
            row["campaign"],
            row["catalogue"],
            row["group"],
            row["ts"],
            row["price_micros"],
        )
        for row in log
    )
    truth = sorted(
        (s.bidder, s.campaign, s.version, names[s.version][s.group], s.ts, s.micros)
        for s in sample.sold
    )
    assert written == truth
    for row in log:
        assert list(row) == list(LOG_COLUMNS)
        assert row["bid_ts"] == row["ts"] - timedelta(seconds=2)
        assert row["price"] == row["price_micros"] / 1e6
        assert row["impression_id"].startswith(f"{row['bidder']}-" if row["bidder"] else "1")


def test_large_days_are_cut_into_files(sample: SampleStore, tmp_path: Path) -> None:
    whole = sample.options(out=tmp_path / "whole")
    cut = sample.options(out=tmp_path / "cut", rows_per_file=30)
    for options in (whole, cut):
        run_nightly(options, days(START), NOW)
    (one,) = sorted((tmp_path / "whole").rglob("part-*.parquet"))
    many = sorted((tmp_path / "cut").rglob("part-*.parquet"))
    sizes = [pq.ParquetFile(file).metadata.num_rows for file in many]
    assert len(sizes) == -(-pq.ParquetFile(one).metadata.num_rows // 30) > 1
    assert max(sizes) <= 30
    assert merged_rows(many[0].parent) == merged_rows(one.parent)


def test_the_merged_log_is_one_that_measure_reads(rich: SampleStore) -> None:
    sample = rich
    end = START + 2 * DAY
    flags = ("--campaign", "spring", "--cap", "1", "--cap", "2", "--end", end.isoformat())
    groups, log = str(sample.folder / "v1"), str(sample.folder / "out" / "log")
    output = kreach("measure", "--groups", groups, "--impressions", log, *flags, "--json")
    document = json.loads(output.out)
    daily = {
        row["cap"]: row
        for row in rows_of(daily_of(sample, START + DAY))
        if (row["campaign"], row["catalogue"], row["span"]) == ("spring", "v1", "flight")
    }
    for report in document["reports"]:
        assert daily[report["cap"]]["reach"] == report["reach"]
        assert [daily[report["cap"]]["low"], daily[report["cap"]]["high"]] == report["interval"]
    assert document["rejected"]["duplicate"] == 0
    assert document["warnings"]["filed_under_another_day"] == 0


def test_daily_reach_is_the_library_s(rich: SampleStore) -> None:
    sample = rich
    seen = set()
    for at in range(2):
        start = START + at * DAY
        for row in rows_of(daily_of(sample, start)):
            catalogue = sample.catalogues[int(row["catalogue"] == "v2")]
            flight = {"spring": START, "autumn": min(start, START + 30 * HOUR)}[row["campaign"]]
            first = start if row["span"] == "day" else flight
            assert (row["window_start"], row["window_end"]) == (first, start + DAY)
            truth = sample.rows(row["campaign"], row["catalogue"], first, start + DAY)
            assert row["impressions"] == len(truth)
            assert row["spend_micros"] == sum(sold.micros for sold in truth)
            args = (row["campaign"], catalogue, row["cap"], first, start + DAY)
            assert row["reach"] == sample.measured(*args).reach
            seen.add((at, row["campaign"], row["catalogue"], row["span"], row["cap"]))
    assert len(seen) == 2 * 2 * 2 * 2 * 2


def test_twice_is_the_same_bytes_and_what_is_there_is_kept(
    sample: SampleStore, tmp_path: Path
) -> None:
    periods = days(START, START + DAY)
    run_nightly(sample.options(), periods, NOW)
    before = tree(tmp_path / "out")
    assert set(before) == {
        f"{kind}/day=2025-11-0{day}/{name}"
        for kind, file in (("log", "part-0000.parquet"), ("daily", "reach.parquet"))
        for day in (1, 2)
        for name in (MANIFEST, file)
    }
    assert states(run_nightly(sample.options(), periods, NOW)) == ["unchanged", "unchanged"]
    assert states(run_nightly(sample.options(force=True), periods, NOW)) == ["written", "written"]
    assert tree(tmp_path / "out") == before


def test_a_day_that_is_not_over_is_refused(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path)
    sample.add("spring")
    sample.write_random(50, seed=12, span=46 * HOUR)
    now = START + 47 * HOUR
    sample.move(now)
    summary = run_nightly(sample.options(), days(START, START + DAY), now)
    assert states(summary) == ["written"]
    assert summary.refused is not None
    assert str(summary.refused).startswith("day must be complete")
    assert summary.refused.try_again == START + 2 * DAY + 5 * MINUTE


def test_late_rows_make_a_day_and_the_reach_after_it_anew(
    sample: SampleStore, tmp_path: Path
) -> None:
    periods = days(START, START + DAY, START + 2 * DAY)
    run_nightly(sample.options(), periods, NOW)
    inode = log_of(sample, START + 2 * DAY).stat().st_ino
    sample.write([Sold("b1", "spring", "v1", 3, START + DAY + MINUTE, 9)])
    sample.move()
    assert states(run_nightly(sample.options(), periods, NOW)) == [
        "unchanged",
        "written",
        "written",
    ]
    assert log_of(sample, START + 2 * DAY).stat().st_ino == inode  # its log is as it was
    last = next(
        row
        for row in rows_of(daily_of(sample, START + 2 * DAY))
        if (row["campaign"], row["catalogue"], row["span"], row["cap"])
        == ("spring", "v1", "flight", 1)
    )
    wanted = sample.measured("spring", sample.catalogues[0], 1, START, START + 3 * DAY)
    assert last["reach"] == wanted.reach
    assert len(merged_rows(log_of(sample, START + DAY))) == sum(
        row.ts.date() == (START + DAY).date() for row in sample.sold
    )


def test_a_day_without_impressions_has_files_without_rows(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path)
    sample.add("spring")
    sample.write([Sold("", "spring", "v1", 3, START + DAY, 9)])
    sample.move()
    assert states(run_nightly(sample.options(), days(START, START + DAY), NOW)) == ["written"] * 2
    assert merged_rows(log_of(sample)) == rows_of(daily_of(sample)) == []
    with kr.EmbeddedEngine() as engine:
        log = kr.ImpressionLog.open(engine, str(tmp_path / "out" / "log"))
        assert log.counts("spring") == {"v1-g0003": 1}


class Careless(EmbeddedJobs):
    """Loses a row on the way, or has it cost something else."""

    flaw = ""

    def write_sorted(self, question: ir.Table, by: Sequence[str], folder: Path, files: int) -> None:
        if self.flaw == "loses":
            question = question.filter(question["impression_id"] != "b1-10000000001")
        if self.flaw == "changes":
            micros = question["price_micros"]
            one = question["impression_id"] == "b1-10000000001"
            question = question.mutate(price_micros=one.ifelse(micros + 1, micros))
        super().write_sorted(question, by, folder, files)


@pytest.mark.parametrize("flaw", ["loses", "changes", ""])
def test_nothing_is_replaced_by_what_does_not_agree(
    sample: SampleStore, tmp_path: Path, flaw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_nightly(sample.options(), days(START), NOW)
    before = tree(tmp_path / "out")
    monkeypatch.setattr("kreach.adsystem.jobs.engines.EmbeddedJobs", Careless)
    monkeypatch.setattr(Careless, "flaw", flaw)
    if flaw:
        with pytest.raises(KreachError, match="merged log must agree with its sources"):
            run_nightly(sample.options(force=True), days(START), NOW)
    else:
        run_nightly(sample.options(force=True), days(START), NOW)
    assert tree(tmp_path / "out") == before


def test_an_impression_that_two_bidders_list_is_refused(
    sample: SampleStore, tmp_path: Path
) -> None:
    shutil.copytree(sample.bidders["b1"], sample.settings.store / "bidders" / "b3")
    with pytest.raises(KreachError, match="log must hold each impression once, over all bidders"):
        run_nightly(sample.options(), days(START), NOW)
    assert tree(tmp_path / "out") == {}


def test_rows_of_another_day_than_their_file_are_refused(
    sample: SampleStore, tmp_path: Path
) -> None:
    view = view_log(sample.settings.store, NOW)
    first, second = (view.of_day((START + at * DAY).date()) for at in (0, 1))
    first_file = min(first, key=lambda file: file.rows)
    engine = EmbeddedJobs()
    rows = engine.read("log", [file.path for file in second]).limit(first_file.rows)
    engine.write_sorted(rows, ["ts"], tmp_path, 1)
    engine.close()
    shutil.move(tmp_path / "part-0000.parquet", first_file.path)
    with pytest.raises(KreachError, match="log must hold the rows that are listed, all of their"):
        run_nightly(sample.options(), days(START), NOW)


def test_hours_are_the_same_with_and_without_gathered_days(
    sample: SampleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods = hours(START + 23 * HOUR, START + 50 * HOUR)
    run_hourly(sample.options(), periods, NOW)
    before = {k: v for k, v in tree(tmp_path / "out").items() if k.startswith("hourly")}
    run_nightly(sample.options(), days(START, START + DAY), NOW)
    used: list[object] = []
    original = Sources.merged

    def noted(self: Sources, day: Any) -> Any:
        merged = original(self, day)
        used.append((day, merged is not None))
        return merged

    monkeypatch.setattr(Sources, "merged", noted)
    run_hourly(sample.options(force=True), periods, NOW)
    assert ((START + DAY).date(), True) in used
    after = {k: v for k, v in tree(tmp_path / "out").items() if k.startswith("hourly")}
    assert after == before


@pytest.mark.parametrize("harm", ["gone", "cut", "late"])
def test_a_gathered_day_that_is_not_whole_is_not_used(
    sample: SampleStore, tmp_path: Path, harm: str
) -> None:
    run_nightly(sample.options(), days(START), NOW)
    (file,) = log_of(sample).glob("part-*.parquet")
    if harm == "gone":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        sample.write([Sold("b1", "spring", "v1", 3, START + MINUTE, 9)])
        sample.move()
    sources = Sources(view_log(sample.settings.store, NOW), tmp_path / "out")
    assert sources.merged(START.date()) is None
    at = START + 25 * HOUR
    run_hourly(sample.options(), hours(at), NOW)
    row = next(
        row
        for row in rows_of(tmp_path / "out" / "hourly" / "day=2025-11-02" / "hour=01")
        if (row["campaign"], row["catalogue"], row["span"], row["cap"])
        == ("spring", "v1", "flight", 2)
    )
    wanted = sample.measured("spring", sample.catalogues[0], 2, START, at + HOUR)
    assert row["reach"] == wanted.reach
    assert states(run_nightly(sample.options(), days(START), NOW)) == ["written"]
    assert len(merged_rows(log_of(sample))) == sum(r.ts.date() == START.date() for r in sample.sold)


def test_a_log_that_lost_a_bidder_is_refused_unless_forced(
    sample: SampleStore, tmp_path: Path
) -> None:
    run_nightly(sample.options(), days(START), NOW)
    before = tree(tmp_path / "out")
    shutil.rmtree(sample.bidders["b2"])
    with pytest.raises(
        KreachError, match=r"hold the \d+ rows that day=2025-11-01 was written from"
    ):
        run_nightly(sample.options(), days(START), NOW)
    assert tree(tmp_path / "out") == before
    run_nightly(sample.options(force=True), days(START), NOW)
    facts = read_manifest(log_of(sample)) or {}
    assert facts["bidders"].keys() == {"b1"}


def test_a_log_that_is_not_ours_is_not_replaced(sample: SampleStore, tmp_path: Path) -> None:
    log_of(sample).mkdir(parents=True)
    (log_of(sample) / "mine.parquet").write_text("mine")
    for force in (False, True):
        with pytest.raises(KreachError, match="out must hold only what jobs wrote"):
            run_nightly(sample.options(force=force), days(START), NOW)
    assert (log_of(sample) / "mine.parquet").read_text() == "mine"
