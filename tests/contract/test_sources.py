"""Where impressions can lie: the same rows give the same answer from every kind of source."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb as database
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.fast_spark import on_engines
from tests.contract.reference_logs import DAY, START, Row, write_csv, write_groups, write_log

ROWS = [
    Row("1", "c", "007", START),
    Row("1", "c", "007", START + DAY),
    Row("2", "c", "7", START),
    Row("3", "it's", "a,b", START + DAY),
    Row("4", "c", 'say "hi"', START + DAY),
    Row(None, "c", "007", START + DAY),
]
OF_C = [{"007": 1, "7": 1}, {"007": 1, 'say "hi"': 1}]  # on each of two days


def assert_same_rows(engine: Engine, source: Any) -> None:
    log = kr.ImpressionLog.open(engine, source)
    measured = log.counts_by_period("c", START, START + 2 * DAY, by="day")
    assert [counts for _, counts in measured] == OF_C


def of_day(row: Row) -> str:
    assert row.ts is not None
    return f"day={row.ts:%Y-%m-%d}"


def parquet_file(folder: Path) -> str:
    return write_log(folder / "log.parquet", ROWS)


def flat_folder(folder: Path) -> str:
    for at, row in enumerate(ROWS):
        write_log(folder / "flat" / f"{at}.parquet", [row])
    return str(folder / "flat")


def by_day(folder: Path) -> str:
    for at, row in enumerate(ROWS):
        write_log(folder / "days" / of_day(row) / f"{at}.parquet", [row])
    return str(folder / "days")


def by_campaign_and_day(folder: Path) -> str:
    """The campaign is in the path only."""
    for at, row in enumerate(ROWS):
        name = folder / "deep" / f"campaign={row.campaign}" / of_day(row)
        write_log(name / f"{at}.parquet", [row])
        table = pq.read_table(name / f"{at}.parquet", partitioning=None)
        pq.write_table(table.drop_columns(["campaign"]), name / f"{at}.parquet")
    return str(folder / "deep")


def nested_folder(folder: Path) -> str:
    """Folders within the folder that say nothing about the rows."""
    for at, row in enumerate(ROWS):
        write_log(folder / "nested" / f"{at % 2}" / f"{at}.parquet", [row])
    return str(folder / "nested")


def files_that_differ(folder: Path) -> str:
    """One file has a column more, another has its columns in another order."""
    write_log(folder / "mixed" / "0.parquet", ROWS[:3])
    write_log(folder / "mixed" / "1.parquet", ROWS[3:4], price=[1.5])
    write_log(folder / "mixed" / "2.parquet", ROWS[4:])
    table = pq.read_table(folder / "mixed" / "2.parquet")
    turned = table.select(table.column_names[::-1])
    pq.write_table(turned, folder / "mixed" / "2.parquet")
    return str(folder / "mixed")


def folder_with_company(folder: Path) -> str:
    """What writers leave beside the data: a mark, a note, files of a write that never ended."""
    flat_folder(folder)
    (folder / "flat" / "_SUCCESS").write_text("")
    (folder / "flat" / ".draft").write_text("half a file")
    write_log(folder / "flat" / "_temporary" / "0" / "part-0.parquet", [Row("9", "c", "7", START)])
    write_log(folder / "flat" / "_unfinished.parquet", [Row("8", "c", "7", START)])
    return str(folder / "flat")


def csv_file(folder: Path) -> str:
    def quoted(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    lines = [
        ",".join([*(quoted(value) for value in row[:3]), f"{row.ts:%Y-%m-%dT%H:%M:%SZ}"])
        for row in ROWS
    ]
    return write_csv(folder / "log.csv", "impression_id,campaign,group,ts", *lines)


def tsv_file(folder: Path) -> str:
    lines = [
        f"{row.impression_id or ''}\t{row.campaign}\t{row.group}\t{row.ts:%Y-%m-%d %H:%M:%S}"
        for row in ROWS
        if row.group != 'say "hi"'
    ]
    lines.append('4\tc\t"say ""hi"""\t2026-11-02')
    return write_csv(folder / "log.tsv", "impression_id\tcampaign\tgroup\tts", *lines)


@pytest.mark.parametrize(
    "write",
    [
        parquet_file,
        flat_folder,
        by_day,
        by_campaign_and_day,
        nested_folder,
        files_that_differ,
        folder_with_company,
        csv_file,
        tsv_file,
    ],
)
def test_files_and_folders(writer: Engine, tmp_path: Path, write: Callable[[Path], str]) -> None:
    assert_same_rows(writer, write(tmp_path))


def test_a_path_is_a_source_as_its_text_is(engine: Engine, tmp_path: Path) -> None:
    assert_same_rows(engine, Path(parquet_file(tmp_path)))


ODD_NAMES = ["it's", 'say "hi"', "two words", "x#y", "w[*]z", "a[1]", "q?", "b{1,2}", "100%", "ü"]
ODD_NAMES += ["v1.2", "semi;colon", "a=b", "$HOME", "${x}"]


TAME = {'say "hi"', "two words", "ü", "v1.2", "semi;colon", "a=b", "$HOME"}


@pytest.mark.parametrize(
    ("engine", "name"), on_engines(ODD_NAMES, not_on_spark=TAME), indirect=["engine"]
)
def test_odd_names_of_files(engine: Engine, tmp_path: Path, name: str) -> None:
    """No character of a path means anything. Beside it lies what a wildcard would find."""
    for wrong in ("w*z", "a1", "b1"):
        write_log(tmp_path / wrong / "log.parquet", [Row("9", "c", "wrong", START)])
    path = write_log(tmp_path / name / "log.parquet", ROWS[:1])
    inner = write_log(tmp_path / "files" / f"{name}.parquet", ROWS[:1])
    for source in (str(tmp_path / name), path, inner)[: 3 if engine.dialect == "duckdb" else 1]:
        assert kr.ImpressionLog.open(engine, source).counts() == {"007": 1}
    text = write_csv(tmp_path / "files" / f"{name}.csv", "campaign,group,ts", "c,007,2026-11-01")
    assert kr.ImpressionLog.open(engine, text).counts() == {"007": 1}


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if name != "a=b"])
def test_odd_names_of_logs_that_are_made(duckdb: Engine, tmp_path: Path, name: str) -> None:
    """What can be read can be written."""
    log = kr.ImpressionLog.create(duckdb, str(tmp_path / name))
    log.append([kr.Impression("1", "c", "007", START)])
    assert kr.ImpressionLog.open(duckdb, str(tmp_path / name)).counts() == {"007": 1}


def test_the_embedded_engine_reads_databases(tmp_path: Path) -> None:
    """A table of a database file, one of the engine's own, and `impressions` if none is named."""
    source = parquet_file(tmp_path)
    file = tmp_path / "it's a base.duckdb"
    with database.connect(str(file)) as base:
        for table in ("impressions", 'odd "name"'):
            quoted = table.replace('"', '""')
            base.execute(f"CREATE TABLE \"{quoted}\" AS SELECT * FROM read_parquet('{source}')")
        base.execute("CREATE VIEW seen AS SELECT * FROM impressions")
    with kr.EmbeddedEngine() as engine:
        for source in (str(file), f"{file}#impressions", f'{file}#odd "name"', f"{file}#seen"):
            assert_same_rows(engine, source)
        assert_same_rows(engine, file)
    with kr.EmbeddedEngine(file) as engine:
        assert_same_rows(engine, "#impressions")
        assert_same_rows(engine, '#odd "name"')


def test_the_own_database_by_its_file(tmp_path: Path) -> None:
    """A table is the same table, whichever way it is named."""
    with kr.EmbeddedEngine(tmp_path / "base.duckdb") as engine:
        kr.ImpressionLog.create(engine, "#log").append([kr.Impression("1", "c", "a", START)])
        measured = kr.ImpressionLog.open(engine, f"{tmp_path / 'base.duckdb'}#log")
        assert measured.counts() == {"a": 1}


def columns_of(rows: list[Row]) -> dict[str, list[Any]]:
    names = ("impression_id", "campaign", "group", "ts")
    return {name: [getattr(row, name) for row in rows] for name in names}


def as_arrow(columns: dict[str, list[Any]]) -> Any:
    return pa.table(columns)


def as_large_arrow(columns: dict[str, list[Any]]) -> Any:
    """Other physical types for the same values."""
    table = pa.table(columns)
    for at, name in enumerate(("impression_id", "campaign", "group")):
        kind = pa.large_string() if at else pa.string_view()
        table = table.set_column(at, name, table[name].cast(kind))
    return table


def as_dictionary(columns: dict[str, list[Any]]) -> Any:
    table = pa.table(columns)
    return table.set_column(1, "campaign", table["campaign"].dictionary_encode())


def as_arrays(columns: dict[str, list[Any]]) -> Any:
    times = [ts.replace(tzinfo=None) for ts in columns["ts"]]
    return {
        "impression_id": np.array(columns["impression_id"], dtype=object),
        "campaign": np.array(columns["campaign"]),
        "group": np.array(columns["group"]),
        "ts": np.array(times, dtype="datetime64[us]"),
    }


def as_lists(columns: dict[str, list[Any]]) -> Any:
    return columns


@pytest.mark.parametrize("hold", [as_arrow, as_large_arrow, as_dictionary, as_arrays, as_lists])
def test_the_embedded_engine_reads_memory(
    duckdb: Engine, hold: Callable[[dict[str, list[Any]]], Any]
) -> None:
    assert_same_rows(duckdb, hold(columns_of(ROWS)))


def test_columns_by_name_on_either_engine(engine: Engine) -> None:
    assert_same_rows(engine, as_lists(columns_of(ROWS)))


@pytest.mark.parametrize(
    "source", [7, None, {"log.parquet"}, object()], ids=lambda x: type(x).__name__
)
def test_what_is_no_source(engine: Engine, source: Any) -> None:
    with pytest.raises(kr.KreachError, match="impressions must be a path"):
        kr.ImpressionLog.open(engine, source)


def test_groups_in_memory_and_in_text(engine: Engine, tmp_path: Path) -> None:
    """Groups come from the same kinds of source; in CSV lists are written as text."""
    log = kr.ImpressionLog.open(engine, parquet_file(tmp_path))
    shares = [[0.25, 0.75], [0.5, 0.5], [1.0]]
    listed = {"group": ["007", "7", "a,b"], "size": [2, 2, 1], "visit_shares": shares}
    sources = [
        write_groups(tmp_path / "groups.parquet", **listed),
        write_csv(
            tmp_path / "groups.csv",
            "group,size,visit_shares",
            '007,2,"[0.25, 0.75]"',
            "7,2,0.5;0.5",
            '"a,b",1,1',
        ),
    ]
    measured = [
        kr.measure_window(log, kr.open_groups(engine, source), [1], campaign="c").document()
        for source in sources
    ]
    assert measured[0] == measured[1]
    assert measured[0].impressions == 3
    assert measured[0].people == 5


def test_classes_in_text(engine: Engine, tmp_path: Path) -> None:
    log = kr.ImpressionLog.open(engine, parquet_file(tmp_path))
    groups = write_csv(tmp_path / "groups.csv", "group,size", "007,5", "7,5")
    classes = write_csv(tmp_path / "classes.csv", "groups,headcount", "007;7,2", "7; 007,1", "7,2")
    measured = kr.measure_window(log, kr.open_groups(engine, groups, classes), [1], campaign="c")
    plain = kr.measure(kr.Audience.overlapping([5, 5], [((0, 1), 3), ((1,), 2)]), [2, 1], 1)
    assert measured.impressions == 3
    assert measured.report(1).reach == pytest.approx(plain.reach, rel=1e-12)
    assert measured.report(1).variance == pytest.approx(plain.variance, rel=1e-12)


def test_a_source_that_changed_is_read_again(engine: Engine, tmp_path: Path) -> None:
    """Nothing that an engine keeps may outlive the file it was read from."""
    log_path = tmp_path / "log"
    write_log(log_path / "0.parquet", [Row("1", "c", "a", START)])

    def ask(size: int, heads: int) -> tuple[int, int]:
        groups = write_groups(tmp_path / "groups.parquet", group=["a", "b"], size=[size, size])
        classes = write_groups(
            tmp_path / "classes.parquet", groups=[["a"], ["a", "b"]], headcount=[heads, 1]
        )
        opened = kr.open_groups(engine, groups, classes)
        log = kr.ImpressionLog.open(engine, str(log_path))
        measured = kr.measure_window(log, opened, [1])
        return measured.impressions, measured.document().people

    assert ask(3, 2) == (1, 3)
    write_log(log_path / "1.parquet", [Row("2", "c", "b", START)])
    assert ask(5, 4) == (2, 5)


def test_times_of_nanoseconds(duckdb: Engine, tmp_path: Path) -> None:
    """Finer than a microsecond: still half-open, to the nanosecond."""
    first = np.datetime64(datetime(2026, 11, 1), "ns")
    times = pa.array(first + np.array([-1, 0, 1], dtype="timedelta64[ns]"), pa.timestamp("ns"))
    rows = [Row(f"{n}", "c", f"{n}", START) for n in range(3)]
    path = write_log(tmp_path / "log.parquet", rows, ts=times)
    assert set(kr.ImpressionLog.open(duckdb, path).counts(None, START)) == {"1", "2"}
    assert set(kr.ImpressionLog.open(duckdb, path).counts(None, None, START)) == {"0"}
