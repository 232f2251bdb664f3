"""Counts from a warehouse: the text of every query, its rows where it can be run, and the reports.

ClickHouse and Postgres run theirs, Spark that of Databricks. The others are translated to DuckDB's
SQL and run there, which shows that the query is right, not that the warehouse takes it.
"""

from pathlib import Path
from typing import Any

import duckdb as database
import pyarrow as pa
import pytest
import sqlglot
from msgspec import to_builtins

import kreach as kr
from kreach import count_sql, open_counts
from kreach.adsystem.log.count_tables import count_query
from kreach.adsystem.log.dialects import DIALECTS
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.tables import log_rows
from kreach.boundary.times import Window
from tests.adsystem.visit_models import sample_model
from tests.cli.command import kreach
from tests.contract.reference_logs import DAY, START, Row, expected, write_groups, write_log
from tests.contract.test_copies import ROWS as COPIES
from tests.golden.count_queries import FOLDER, golden_query

ROWS = [
    *COPIES,
    *(Row(f"d{n}", "it's", "ab"[n % 2], START + n * DAY / 5) for n in range(13)),
    Row("far", "c", "a", START - 9 * DAY),
    Row("far", "c", "a", START + DAY / 2),  # a copy of a row before the window
    Row("nobody's", None, "a", START),
]
GROUPS = {"group": ["a", "b", "never"], "size": [20, 25, 30], "dispersion": [0.5, None, 2.0]}
END = START + 2 * DAY


def wanted() -> set[tuple[Any, ...]]:
    """By a count in plain Python: campaign, period, group, impressions, of rows with a time."""
    result = set()
    for campaign in ("c", "it's"):
        for window in Window(START, END).periods("day"):
            for group, n in expected(ROWS, campaign, window).counts.items():
                result.add((campaign, window.start, group, n))
    return result


def counted(columns: dict[str, Any]) -> set[tuple[Any, ...]]:
    rows = zip(*(columns[n] for n in ("campaign", "period", "group", "impressions")), strict=True)
    return {
        (campaign, START + round((period - _SECONDS) / 86_400) * DAY, group, int(n))
        for campaign, period, group, n in rows
        if n and group is not None and period is not None
    }


_SECONDS = START.timestamp()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_query_is_what_it_was(dialect: str) -> None:
    """If it is meant to change: python -m tests.golden.count_queries, and read the difference."""
    assert (FOLDER / f"{dialect}.sql").read_text() == golden_query(dialect) + "\n"


@pytest.mark.parametrize("dialect", ["bigquery", "databricks", "duckdb", "snowflake", "trino"])
def test_the_query_counts_as_plain_python(dialect: str, tmp_path: Path) -> None:
    sql = (FOLDER / f"{dialect}.sql").read_text()
    if dialect != "duckdb":
        sql = sqlglot.transpile(sql, read=dialect, write="duckdb")[0]
    # not a function of DuckDB, and not translated
    sql = sql.replace("TIMESTAMP_TZ_FROM_PARTS(2026, 11, 1, 0, 0, 0, 0, 'UTC')", "'2026-11-01'")
    sql = sql.replace("TIMESTAMP_TZ_FROM_PARTS(2026, 11, 3, 0, 0, 0, 0, 'UTC')", "'2026-11-03'")
    sql = sql.replace("FROM_ISO8601_TIMESTAMP", "")
    path = write_log(tmp_path / "log.parquet", ROWS)
    with database.connect() as one:
        one.execute("SET TimeZone = 'UTC'; CREATE SCHEMA ads")
        one.execute(f"CREATE TABLE ads.impressions AS SELECT * FROM '{path}'")
        timed = f"SELECT * REPLACE (epoch(period) AS period) FROM ({sql})"
        cursor = one.execute(timed)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    assert counted(columns) == wanted()
    assert sum(columns["duplicates"]) == sum(
        expected(ROWS, campaign, Window(START, END)).duplicate for campaign in ("c", "it's")
    )


def test_engines_count_alike(engine: Engine, tmp_path: Path) -> None:
    """The expression itself, on every engine that runs here."""
    path = write_log(tmp_path / "log.parquet", ROWS)
    rows = engine.load("impressions", path, lambda raw: log_rows(raw, "log"))
    query = count_query(rows, "day", campaigns=["c", "it's"], window=Window(START, END))
    columns = engine.columns(query.mutate(period=query["period"].epoch_seconds()))
    listed = {name: values.tolist() for name, values in columns.items()}
    assert counted(listed) == wanted()


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All counts by day as a warehouse would export them, and the log that they are of."""
    folder = tmp_path_factory.mktemp("counts")
    path = write_log(folder / "log.parquet", ROWS)
    with database.connect() as one:
        one.execute("SET TimeZone = 'UTC'")
        one.execute(f"CREATE TABLE impressions AS SELECT * FROM '{path}'")
        query = count_sql("duckdb", "impressions")
        one.execute(f"COPY ({query}) TO '{folder / 'counts.parquet'}' (FORMAT parquet)")
        names = ("campaign", "period", "group", "impressions", "duplicates")
        shouted = ", ".join(f'"{name}" AS "{name.upper()}"' for name in names)
        csv = f"SELECT {shouted} FROM ({query})"
        one.execute(f"COPY ({csv}) TO '{folder / 'counts.csv'}' (HEADER)")
    write_groups(folder / "groups.parquet", **GROUPS)
    return folder


@pytest.mark.parametrize("file", ["counts.parquet", "counts.csv"])
def test_reports_on_counts_are_those_on_the_log(duckdb: Engine, counts: Path, file: str) -> None:
    groups = kr.open_groups(duckdb, counts / "groups.parquet")
    log = kr.ImpressionLog.open(duckdb, counts / "log.parquet")
    short = open_counts(duckdb, counts / file)
    for campaign in ("c", "it's"):
        asked: dict[str, Any] = {"campaign": campaign, "start": START, "end": END}
        for measured in (kr.measure_window, kr.measure_series):
            ours, theirs = (
                to_builtins(measured(one, groups, [1, 3], **asked).document())
                for one in (short, log)
            )
            del ours["warnings"], theirs["warnings"]
            assert ours == theirs
    whole = kr.measure_series(short, groups, [1], by="week", campaign="c").document()
    assert whole == kr.measure_series(log, groups, [1], by="week", campaign="c").document()
    classes = {"groups": ["a", "a;b"], "headcount": [3, 4]}
    plain = {"group": ["a", "b"], "size": [20, 25]}
    overlapping = kr.open_groups(duckdb, plain, classes)
    ours, theirs = (
        kr.measure_window(one, overlapping, [2], campaign="c").document() for one in (short, log)
    )
    assert ours == theirs


def test_the_command_measures_counts(counts: Path) -> None:
    asked = ["measure", "--groups", str(counts / "groups.parquet"), "--cap", "2", "--json"]
    asked += ["--campaign", "c", "--by", "day", "--start", "2026-11-01", "--end", "2026-11-03"]
    ours = kreach(*asked, "--counts", str(counts / "counts.csv"))
    theirs = kreach(*asked, "--impressions", str(counts / "log.parquet"))
    assert (ours.code, theirs.code) == (0, 0), ours.err
    text = ours.out.replace('"warnings":{"converted_to_utc":0}', '"warnings":{}')
    assert text == theirs.out
    printed = kreach("log", "sql", "--dialect", "trino", "--table", "hive.ads.log", "--no-ids")
    assert '"hive"."ads"."log"' in printed.out
    assert "impression_id" not in printed.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--counts", "{counts}", "--impressions", "{log}"),
            "impressions must be given, or counts",
        ),
        ((), "impressions must be given, or counts instead of them, got 'none'"),
        (("--counts", "{counts}", "--start", "2026-11-01T03:00"), "at a whole day"),
        (("--counts", "{counts}", "--campaign", "c", "--campaign", "d"), "they need rows"),
        (("--counts", "{log}"), "counts must have a column period"),
        (("--counts", "{folder}/none.csv"), "counts must name a file that exists"),
        (("--counts", "{folder}/less.csv"), "have impressions that are whole numbers"),
        (("--counts", "{folder}/odd.csv"), "have periods that begin at whole hours"),
    ],
)
def test_bad_counts(counts: Path, options: tuple[str, ...], words: str) -> None:
    head = "campaign,period,group,impressions"
    (counts / "less.csv").write_text(f"{head}\nc,2026-11-01,a,-1\nc,2026-11-01,b,x\n")
    (counts / "odd.csv").write_text(f"{head}\nc,2026-11-01T00:30:00Z,a,1\n")
    places = {"counts": counts / "counts.csv", "log": counts / "log.parquet", "folder": counts}
    given = [option.format(**places) for option in options]
    refused = kreach("measure", "--groups", str(counts / "groups.parquet"), "--cap", "1", *given)
    assert refused.code == 1
    assert words in refused.err
    assert refused.err.count("\n") == 1


def test_a_model_needs_times(duckdb: Engine, counts: Path) -> None:
    groups = kr.open_groups(duckdb, counts / "groups.parquet").with_model(sample_model())
    with pytest.raises(kr.KreachError, match="model must be none for a report on counts"):
        kr.measure_window(open_counts(duckdb, counts / "counts.csv"), groups, [1])


@pytest.mark.parametrize(
    ("dialect", "table", "words"),
    [
        ("mysql", "t", "dialect must be one of"),
        ("trino", "a.b.c.d", "table must be a name"),
        ("trino", "a..b", "table must be a name"),
    ],
)
def test_bad_queries(dialect: str, table: str, words: str) -> None:
    refused = kreach("log", "sql", "--dialect", dialect, "--table", table)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert words in refused.err


def test_arrow_tables_are_counts_too(duckdb: Engine) -> None:
    rows = pa.table(
        {"campaign": ["c"], "period": [START], "group": ["a"], "impressions": [7]},
    )
    groups = kr.open_groups(duckdb, {"group": ["a"], "size": [5]})
    assert kr.measure_window(open_counts(duckdb, rows), groups, [1]).impressions == 7
