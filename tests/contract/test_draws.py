"""Effective draws: DuckDB, Spark, the live log and the library report alike on the same rows."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.reports.measure import cap_reports
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.settings import AdSystemSettings, GuardSettings, NoiseSettings
from kreach.boundary.files import write_catalogue
from kreach.boundary.times import Window
from kreach.service.logs import Log
from tests.adsystem.api.live_stores import GROUPS, START, make_campaign, make_catalogue
from tests.adsystem.report_services import chapter_reports, noisy_reports, open_reports
from tests.adsystem.visit_models import sample_model
from tests.contract.reference_logs import Row, assert_close, write_log

CAPS = (1, 3)
DAYS = 4
CAMPAIGNS = ("spring", "fall")
MODEL = sample_model()
END = START + timedelta(days=DAYS)
WINDOWS = (
    Window(),
    Window(START + timedelta(hours=5, minutes=7), START + timedelta(days=2, hours=1)),
    Window(START + timedelta(days=1), None),
    Window(START + timedelta(days=1, hours=9), START + timedelta(days=1, hours=10)),
)


class Served(NamedTuple):
    """An impression: campaign, group, microseconds since the start."""

    campaign: str
    group: int
    us: int


def _at(row: Served) -> datetime:
    return START + timedelta(microseconds=row.us)


def _served() -> list[Served]:
    """Bursts on one group, ties, hours without anything; not in the order of time."""
    chance = np.random.default_rng(16)
    rows = []
    for campaign in CAMPAIGNS:
        for _ in range(110):
            group = int(chance.integers(0, GROUPS - 3))
            at = int(chance.integers(0, DAYS * 86_400)) * 1_000_000
            for _ in range(int(chance.integers(1, 7))):
                rows.append(Served(campaign, group, at))
                at += int(chance.choice([0, 0, 59_999_999, 60_000_000, 400_000_001, 3_000_000_000]))
    rows = [row for row in rows if row.us < DAYS * 86_400_000_000]
    return [rows[at] for at in chance.permutation(len(rows))]


SERVED = _served()
CATALOGUE = replace(make_catalogue("dispersed"), model=MODEL)


def _library(
    campaign: str, window: Window, served: Sequence[Served] = SERVED
) -> list[dict[str, Any]]:
    """The library's own figures."""
    mine = [
        row
        for row in served
        if row.campaign == campaign
        and (window.start is None or _at(row) >= window.start)
        and (window.end is None or _at(row) < window.end)
    ]
    times = np.array([int(START.timestamp()) * 1_000_000 + row.us for row in mine])
    reports = kr.measure_times(
        CATALOGUE.audience(),
        [row.group for row in mine],
        times.astype("datetime64[us]"),
        CAPS,
        model=MODEL,
    )
    return _plain(cap_reports(tuple(reports[cap] for cap in CAPS), 0.95))


def _plain(reports: Any) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = msgspec.to_builtins(reports)
    return result


def _same(ours: Any, theirs: Any) -> None:
    assert_close(_plain(ours), theirs, rel=1e-9)


# -- logs in files ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as files, with copies of ids, and rows that do not count."""
    folder = tmp_path_factory.mktemp("drawn")
    rows = [
        Row(f"i{at}", row.campaign, CATALOGUE.groups[row.group], _at(row))
        for at, row in enumerate(SERVED)
    ]
    again = [row._replace(ts=row.ts + timedelta(seconds=30)) for row in rows[::7] if row.ts]
    strange = [Row("s1", "spring", "a stranger", START), Row("s2", "spring", None, START)]
    unknown = [Row("s3", "spring", CATALOGUE.groups[0], None)]
    half = len(rows) // 2
    write_log(folder / "log" / "a.parquet", rows[:half] + strange + again)
    write_log(folder / "log" / "b.parquet", rows[half:] + unknown + rows[::11])
    write_catalogue(CATALOGUE, folder / "release")
    return folder


def _on_engines() -> list[Any]:
    """Every window on each engine; on Spark, which takes seconds for one, those cut at one end
    and at both. `test_prepared.py` has the others there."""
    names = ("duckdb", "clickhouse", "postgres")
    chosen = [(name, at) for name in names for at in range(len(WINDOWS))]
    return [
        pytest.param(
            name,
            WINDOWS[at],
            id=f"{name}-{at}",
            marks=() if name == "duckdb" else pytest.mark.xdist_group(name),
        )
        for name, at in [*chosen, ("spark", 1), ("spark", 2)]
    ]


@pytest.mark.parametrize(("engine", "window"), _on_engines(), indirect=["engine"])
def test_windows_of_files_are_those_of_the_library(
    engine: Engine, file: Path, window: Window
) -> None:
    log = kr.ImpressionLog.open(engine, str(file / "log"))
    groups = kr.open_groups(engine, file / "release")
    for campaign in CAMPAIGNS:
        report = kr.measure_window(
            log, groups, CAPS, campaign=campaign, start=window.start, end=window.end
        ).document()
        _same(report.reports, _library(campaign, window))
        assert report.model is not None
        assert (report.model.name, report.model.fitted_people) == ("visit model", 12_345)
        assert report.basis is not None
        assert report.basis.startswith("visit model")


def test_series_of_files_are_those_of_the_library(engine: Engine, file: Path) -> None:
    log = kr.ImpressionLog.open(engine, str(file / "log"))
    groups = kr.open_groups(engine, file / "release" / "groups.parquet")  # brings its model too
    start, end = START + timedelta(hours=3), END - timedelta(hours=2)
    series = kr.measure_series(
        log, groups, CAPS, by="day", campaign="spring", start=start, end=end
    ).document()
    assert len(series.series) == DAYS
    for period in series.series:
        window = Window.between(period.start, period.end)
        _same(period.period, _library("spring", window))
        _same(period.cumulative, _library("spring", Window(start, window.end)))
    _same(series.reports, _library("spring", Window(start, end)))


def test_a_long_series_continues_sessions_over_its_blocks(duckdb: Engine, file: Path) -> None:
    log = kr.ImpressionLog.open(duckdb, str(file / "log"))
    groups = kr.open_groups(duckdb, file / "release")
    series = kr.measure_series(log, groups, [1], by="hour", campaign="fall").document()
    assert len(series.series) > 48
    for period in series.series[40:60]:
        assert period.cumulative is not None
        window = Window(None, Window.between(period.start, period.end).end)
        theirs = _library("fall", window)[0]
        assert period.cumulative[0].reach == pytest.approx(theirs["reach"], rel=1e-9)


def test_without_a_model_the_paper_s_formulas_are_used(engine: Engine, file: Path) -> None:
    log = kr.ImpressionLog.open(engine, str(file / "log"))
    groups = kr.open_groups(engine, file / "release")
    report = kr.measure_window(log, groups, CAPS, campaign="spring", model=None)
    counts = np.bincount(
        [row.group for row in SERVED if row.campaign == "spring"], minlength=GROUPS
    )
    for cap in CAPS:
        plain = kr.measure(CATALOGUE.audience(), counts, cap)
        assert report.report(cap).reach == pytest.approx(plain.reach, rel=1e-12)
    model = report.document().model
    assert model is not None
    assert (model.name, model.fitted_people, model.error) == ("dispersion", None, None)


# -- the live log -----------------------------------------------------------------------------


class Store(NamedTuple):
    """A bidder's store whose rows a test writes."""

    settings: AdSystemSettings
    journal: Journal
    numbers: dict[str, int]

    def write(self, rows: Sequence[Served], first_id: int) -> None:
        """Have impressions written, in this order."""
        catalogue = self.journal.catalogue_number(CATALOGUE.version)
        base = int(START.timestamp()) * 1_000_000
        for at, row in enumerate(rows, first_id):
            ts = base + row.us
            campaign = self.numbers[row.campaign]
            impression = (at, campaign, catalogue, row.group, ts, ts, ts // 1_000_000, 1_000)
            self.journal.submit("impression", impression)
        self.journal.run_now(lambda _: None)

    def compact(self) -> int:
        """Move all rows into files."""
        number = self.journal.catalogue_number(CATALOGUE.version)
        groups = {number: (CATALOGUE.version, np.array(CATALOGUE.groups, dtype=object))}
        names = {number: name for name, number in self.numbers.items()}
        later = (END + timedelta(days=1)).timestamp()
        return compact(self.journal, self.settings.store, names, groups, now=later)


@contextmanager
def _store(folder: Path) -> Iterator[Store]:
    write_catalogue(CATALOGUE, folder / "v1")
    settings = AdSystemSettings(store=folder / "store", catalogues=(folder / "v1",))
    campaigns = CampaignStore(settings.store)
    numbers = {name: campaigns.add(make_campaign(name)).number for name in CAMPAIGNS}
    campaigns.close()
    with closing(Journal(settings.store, Log("bidder", write=lambda line: None))) as journal:
        yield Store(settings, journal, numbers)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same rows in a bidder's store; a part of them are in files."""
    with _store(tmp_path_factory.mktemp("live")) as store:
        half = len(SERVED) // 2
        store.write(SERVED[:half], 0)
        assert store.compact() == half
        store.write(SERVED[half:], half)
        yield store


def _now() -> float:
    return (END + timedelta(days=40)).timestamp()


@pytest.mark.parametrize("few_rows", [0, 1_000_000])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_of_the_live_log_are_those_of_the_library(
    live: Store, window: Window, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed by the engine, and of few rows that are fetched."""
    monkeypatch.setattr("kreach.adsystem.log.draws.FEW_ROWS", few_rows)
    with open_reports(live.settings, _now) as reports:
        for campaign in CAMPAIGNS:
            document = reports.service.reach(campaign, ReachQuestion(window, CAPS))
            _same(document.reports, _library(campaign, window))
            assert document.model is not None
            assert document.model.name == "visit model"
        listed = reports.service.listing(None, 10).campaigns
    for one in listed:  # all campaigns of a list together
        wanted = _library(one.id, Window())[0]["reach"]
        assert one.status.unique_reach == pytest.approx(wanted, rel=1e-9)


def test_series_of_the_live_log_are_those_of_the_library(live: Store) -> None:
    start, end = START + timedelta(hours=3), END - timedelta(hours=2)
    with open_reports(live.settings, _now) as reports:
        series = reports.service.series("spring", "day", ReachQuestion(Window(start, end), CAPS))
        curve = reports.service.curve("fall", "hour", ReachQuestion(caps=(1,)))
    assert len(series.series) == DAYS
    for period in series.series:
        window = Window.between(period.start, period.end)
        _same(period.period, _library("spring", window))
        _same(period.cumulative, _library("spring", Window(start, window.end)))
    assert len(curve.points) > 48  # so in several blocks
    for point in curve.points[::5]:
        theirs = _library("fall", Window.between(None, point.ts))[0]
        assert point.reports[0].reach == pytest.approx(theirs["reach"], rel=1e-9)


def test_figures_so_far_follow_the_log(tmp_path: Path) -> None:
    """Row by row, with rows that are older than those before."""
    with _store(tmp_path) as store, open_reports(store.settings, _now) as reports:
        mine = [row for row in SERVED if row.campaign == "spring"][:60]
        for low in range(0, len(mine), 12):
            store.write(mine[low : low + 12], low)
            if low == 24:
                store.compact()
            document = reports.service.reach("spring", ReachQuestion(caps=CAPS))
            _same(document.reports, _library("spring", Window(), mine[: low + 12]))
            listed = reports.service.listing(None, 10).campaigns[0].status.unique_reach
            assert listed == pytest.approx(document.reports[0].reach, rel=1e-12)


# -- chapters ---------------------------------------------------------------------------------

GUARD = GuardSettings(min_impressions=20, min_people=30, min_audience=60, min_difference=10)


def test_chapters_report_the_draws_of_their_rows(live: Store) -> None:
    with chapter_reports(live.settings, GUARD, _now) as reports:
        whole = reports.service.reach("spring", ReachQuestion(caps=CAPS))
        assert whole.start is not None
        window = Window.between(None, whole.end)
        _same(whole.reports, _library("spring", window))
        series = reports.service.series("spring", "day", ReachQuestion(caps=CAPS))
        for period in series.series:
            window = Window.between(period.start, period.end)
            _same(period.period, _library("spring", window))
            _same(period.cumulative, _library("spring", Window.between(None, period.end)))


def test_a_late_row_does_not_change_what_chapters_showed(tmp_path: Path) -> None:
    """It goes into the next chapter: the log is not read again for chapters that were shown."""
    mine = sorted((row for row in SERVED if row.campaign == "spring"), key=lambda row: row.us)
    half = len(mine) // 2
    moment = [START.timestamp() + mine[half].us / 1e6]
    question = ReachQuestion(caps=CAPS)
    with _store(tmp_path) as store:
        store.write(mine[:half], 0)
        with chapter_reports(store.settings, GUARD, lambda: moment[0]) as reports:
            shown = reports.service.reach("spring", question)
        late = [mine[3]._replace(us=mine[3].us + 1_000_000)]
        store.write([*mine[half:], *late], half)
        moment[0] = _now()
        with chapter_reports(store.settings, GUARD, lambda: moment[0]) as reports:
            window = Window.between(None, shown.end)
            again = reports.service.reach("spring", ReachQuestion(window, CAPS))
            everything = reports.service.reach("spring", question)
    assert again.reports == shown.reports
    assert everything.impressions == len(mine) + 1
    _same(everything.reports, _library("spring", Window(), [*mine, *late]))


def test_noise_stays_on_plain_counts_and_says_so(live: Store) -> None:
    noise = NoiseSettings(enabled=True)
    with noisy_reports(live.settings, noise, _now, lambda part, values: list(values)) as reports:
        document = reports.service.reach("spring", ReachQuestion(caps=(1,)))
    assert document.model is not None
    assert document.model.name == "dispersion"
    counts = np.bincount(
        [row.group for row in SERVED if row.campaign == "spring"], minlength=GROUPS
    )
    plain = kr.measure(CATALOGUE.audience(), counts, 1)
    assert document.reports[0].reach == pytest.approx(plain.reach, abs=0.01)
