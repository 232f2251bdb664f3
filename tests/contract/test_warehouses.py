"""Databases as users have them: tables with their own types, over the command, and what goes wrong.

Everything else of the contract runs on files, which engines on databases upload.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import clickhouse_connect
import psycopg
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.engine_url import PASSWORD, PASSWORD_FILE, open_warehouse
from kreach.boundary.files import write_catalogue
from tests.cli.command import Result, kreach
from tests.contract.fast_spark import on
from tests.contract.reference_logs import DAY, START, Row, rows_at, write_groups, write_log
from tests.contract.test_draws import CATALOGUE, END, SERVED

TABLES = {
    "clickhouse": """CREATE TABLE {name} (impression_id Nullable(String),
        campaign LowCardinality(Nullable(String)), "group" Nullable(String),
        ts Nullable(DateTime64(6, 'Asia/Kolkata')), price Decimal(9, 2) DEFAULT 1)
        ENGINE = MergeTree ORDER BY tuple()""",
    "postgres": """CREATE TABLE {name} (impression_id varchar(40), campaign text, "group" text,
        ts timestamptz, price numeric(9, 2) DEFAULT 1, extra jsonb)""",
}
COLUMNS = 'impression_id, campaign, "group", ts'


class Server(NamedTuple):
    """A database, as its owner sees it."""

    engine: Engine
    port: int
    execute: Callable[[str], list[Any]]

    @property
    def scheme(self) -> str:
        return self.engine.dialect

    def address(self, user: str = "ads") -> str:
        path = "/postgres" if self.scheme == "postgres" else ""
        return f"{self.scheme}://{user}@127.0.0.1:{self.port}{path}"

    def insert(self, name: str, rows: list[Row]) -> None:
        """Rows as text, in UTC."""
        listed = ", ".join(
            "(" + ", ".join("NULL" if v is None else _literal(v) for v in row) + ")" for row in rows
        )
        self.execute(f"INSERT INTO {name} ({COLUMNS}) VALUES {listed}")


def _literal(value: str | datetime) -> str:
    text = f"{value:%Y-%m-%d %H:%M:%S.%f+00:00}" if isinstance(value, datetime) else value
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _clickhouse(port: int) -> Iterator[Callable[[str], list[Any]]]:
    options: dict[str, Any] = {"port": port, "username": "ads", "password": "secret"}
    client = clickhouse_connect.get_client(host="127.0.0.1", **options)

    def execute(sql: str) -> list[Any]:
        if sql.startswith("SELECT"):
            return list(client.query(sql).result_rows)
        client.command(sql)
        return []

    yield execute
    client.close()


@contextmanager
def _postgres(port: int) -> Iterator[Callable[[str], list[Any]]]:
    options: dict[str, Any] = {"port": port, "user": "ads", "password": "secret"}
    with psycopg.connect(host="127.0.0.1", dbname="postgres", autocommit=True, **options) as one:

        def execute(sql: str) -> list[Any]:
            cursor = one.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield execute


@pytest.fixture(scope="session", params=on("clickhouse", "postgres"))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Either database."""
    engine = request.getfixturevalue(request.param)
    port = request.getfixturevalue(f"{request.param}_port")
    opened = _clickhouse(port) if request.param == "clickhouse" else _postgres(port)
    with opened as execute:
        yield Server(engine, port, execute)


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """Sessions of two campaigns, copies of ids, and rows that do not count."""
    base = [
        Row(
            f"i{at}",
            row.campaign,
            CATALOGUE.groups[row.group],
            START + timedelta(microseconds=row.us),
        )
        for at, row in enumerate(SERVED[:300])
    ]
    again = [row._replace(ts=row.ts + timedelta(seconds=30)) for row in base[::7] if row.ts]
    odd = [Row("s1", "spring", "a stranger", START), Row("s2", "spring", None, START)]
    odd += [Row("s3", "spring", CATALOGUE.groups[0], None), Row("s4", "it's \\ odd", "x", START)]
    return base + again + odd


@pytest.fixture(scope="session")
def table(server: Server, rows: list[Row]) -> str:
    """The rows in a table of the database."""
    server.execute(TABLES[server.scheme].format(name="impressions"))
    server.insert("impressions", rows)
    return "table:impressions"


@pytest.fixture(scope="session")
def files(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in a file, and the groups with their visit model."""
    folder = tmp_path_factory.mktemp("warehouses")
    write_log(folder / "log.parquet", rows)
    write_catalogue(CATALOGUE, folder / "release")
    return folder


def ask(engine: str, impressions: str, groups: Path, *more: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PASSWORD, "secret")
        asked = ("measure", "--engine", engine, "--impressions", impressions, "--json")
        return kreach(*asked, "--groups", str(groups), "--cap", "1", "--cap", "3", *more)


QUESTIONS = [
    ("--campaign", "spring", "--by", "day", "--end", f"{END:%Y-%m-%d}"),
    ("--campaign", "spring", "--campaign", "fall", "--start", "2026-11-02T03:00:00Z"),
    ("--model", "none", "--campaign", "fall"),
    (
        "--campaign",
        "it's \\ odd",
    ),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: " ".join(words)[:40])
def test_the_command_says_what_it_says_of_a_file(
    server: Server, table: str, files: Path, question: tuple[str, ...]
) -> None:
    """With sessions by the microsecond, copies of ids, a column in another zone."""
    wanted = ask("duckdb", str(files / "log.parquet"), files / "release", *question)
    assert wanted.code == 0, wanted.err
    found = ask(server.address(), table, files / "release", *question)
    assert found.code == 0, found.err
    assert _close(json.loads(found.out), json.loads(wanted.out))


def _close(one: Any, other: Any) -> bool:
    """Equal but for the last digits of sums of floats."""
    if isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in other)
    if isinstance(other, list):
        return len(one) == len(other) and all(map(_close, one, other))
    return bool(one == pytest.approx(other, rel=1e-9)) if isinstance(other, float) else one == other


def test_groups_may_lie_in_the_database(server: Server, table: str, files: Path) -> None:
    kind = {"clickhouse": "UInt32", "postgres": "integer"}[server.scheme]
    end = {"clickhouse": "ENGINE = Memory", "postgres": ""}[server.scheme]
    server.execute(f'CREATE TABLE groups ("group" text, size {kind}, targeted {kind}) {end}')
    names = list(CATALOGUE.groups)
    listed = ", ".join(f"('{name}', 20, {at % 20})" for at, name in enumerate(names))
    server.execute(f"INSERT INTO groups VALUES {listed}")
    local = write_groups(
        files / "same.parquet",
        group=names,
        size=[20] * len(names),
        targeted=[at % 20 for at in range(len(names))],
    )
    with kr.EmbeddedEngine() as duckdb:
        log = kr.ImpressionLog.open(duckdb, files / "log.parquet")
        wanted = kr.measure_window(log, kr.open_groups(duckdb, local), [1, 2]).document()
    log = kr.ImpressionLog.open(server.engine, table)
    found = kr.measure_window(log, kr.open_groups(server.engine, "table:groups"), [1, 2])
    assert found.document() == wanted


def test_types_that_hold_the_same(server: Server) -> None:
    """Numbers and UUIDs as ids, times without a zone, a date, a schema before the name."""
    if server.scheme == "clickhouse":
        server.execute("CREATE DATABASE ads")
        kinds = "impression_id UUID, campaign Enum8('c' = 1), \"group\" UInt64, ts DateTime"
        server.execute(f"CREATE TABLE ads.typed ({kinds}) ENGINE = Log")
    else:
        server.execute("CREATE SCHEMA ads")
        kinds = 'impression_id uuid, campaign varchar(3), "group" bigint, ts timestamp'
        server.execute(f"CREATE TABLE ads.typed ({kinds})")
    one, two = (f"00000000-0000-0000-0000-00000000000{at}" for at in (1, 2))
    values = f"('{one}', 'c', 7, '2026-11-01 00:00:00'), ('{one}', 'c', 7, '2026-11-01 10:00:00')"
    server.execute(f"INSERT INTO ads.typed VALUES {values}, ('{two}', 'c', 9, '2026-11-02')")
    log = kr.ImpressionLog.open(server.engine, "table:ads.typed")
    assert log.counts("c") == {"7": 1, "9": 1}
    assert log.counts("c", START, START + DAY) == {"7": 1}
    by_day = log.counts_by_period("c")
    assert [(window.start, counts) for window, counts in by_day] == [
        (START, {"7": 1}),
        (START + DAY, {"9": 1}),
    ]


def test_nothing_is_left_behind(server: Server, table: str, files: Path) -> None:
    """Temporary tables end with the session, and nothing else is written."""
    every = {
        "clickhouse": "SELECT count() FROM system.tables WHERE database != 'system'",
        "postgres": "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'v', 'm')"
        " AND relpersistence <> 't'",
    }[server.scheme]
    before = server.execute(every)
    with open_warehouse(server.address(), {PASSWORD: "secret"}) as engine:
        log = kr.ImpressionLog.open(engine, table)
        groups = kr.open_groups(engine, files / "release")
        kr.measure_series(log, groups, [1], by="day", campaign="spring")
        assert server.execute(every) == before
        for write in (
            lambda: kr.ImpressionLog.create(engine, "table:new"),
            lambda: log.append([_ONE]),
        ):
            with pytest.raises(kr.KreachError, match="log must be on another engine"):
                write()
        with pytest.raises(kr.KreachError, match="engine must be one of duckdb, pyspark"):
            kr.prepare_log(engine, table, groups, files / "copy")
    assert server.execute(every) == before


_ONE = kr.Impression("new", "c", "a", START)


def _bad_table(server: Server, name: str, columns: str) -> str:
    end = "ENGINE = Memory" if server.scheme == "clickhouse" else ""
    server.execute(f"CREATE TABLE {name} ({columns}) {end}")
    return f"table:{name}"


def test_bad_tables(server: Server, files: Path) -> None:
    """One line each, which names what to change, and exit code 1."""
    text, number = "text", "bigint"
    stamp = "DateTime" if server.scheme == "clickhouse" else "timestamptz"
    group = f'campaign {text}, "group" {text}'
    cases = {
        "table:no_such_table": "impressions must name a table that exists",
        "table:no_such_schema.impressions": "impressions must name a table that exists",
        _bad_table(server, "lacking", group): "impressions must have a column ts",
        _bad_table(server, "numbers", f"{group}, ts {number}"): "impressions must hold times in ts",
        _bad_table(server, "texts", f"{group}, ts {text}"): "hold times in ts, not text",
        _bad_table(
            server, "fractions", f'campaign {text}, "group" double precision, ts {stamp}'
        ): "impressions must hold text or whole numbers in group",
    }
    for impressions, words in cases.items():
        _refused(ask(server.address(), impressions, files / "release"), words)


def _refused(result: Result, words: str) -> None:
    assert result.code == 1, result.out
    assert words in result.err
    assert result.err.count("\n") == 1, result.err
    assert "secret" not in result.err


def test_a_user_that_may_only_read(server: Server, table: str, files: Path) -> None:
    if server.scheme == "postgres":
        server.execute("GRANT SELECT ON impressions TO reader")
    refused = ask(server.address("reader"), table, files / "release")
    _refused(refused, "engine must let its user")
    assert "docs/warehouses.md" in refused.err


@pytest.mark.xdist_group("postgres")
def test_a_table_that_may_not_be_read(postgres: Engine, postgres_port: int, files: Path) -> None:
    with _postgres(postgres_port) as execute:
        execute('CREATE TABLE closed (campaign text, "group" text, ts timestamptz)')
        execute("REVOKE ALL ON closed FROM ads")
        address = Server(postgres, postgres_port, execute).address()
        refused = ask(address, "table:closed", files / "release")
    _refused(refused, "engine must let its user")


def test_bad_addresses(server: Server, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is not there, that refuses, or that nobody could find."""
    good, release = server.address(), files / "release"
    closed = good.replace(str(server.port), "1")
    cases = {
        closed: "server that answers at 127.0.0.1:1",
        good.replace("ads@", "nobody@"): "engine must be a",
        good.replace("ads@", "ads:secret@"): f"engine must hold no password; set {PASSWORD}",
        good.replace(str(server.port), "x"): "engine must be an address such as",
        f"{server.scheme}:///db": "engine must name a host",
        f"{good}?colour=red": "engine must have no option but",
        "mysql://ads@127.0.0.1/db": "engine must begin with clickhouse:// or postgres://",
        "warehouse": "engine must be duckdb, spark, or an address",
    }
    for address, words in cases.items():
        _refused(ask(address, "table:impressions", release), words)
    monkeypatch.setenv(PASSWORD_FILE, str(files / "no such file"))
    with pytest.raises(kr.KreachError, match=f"{PASSWORD_FILE} must name a text file"):
        open_warehouse(good)


def test_a_password_from_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    with open_warehouse(server.address(), {PASSWORD_FILE: str(tmp_path / "password")}) as engine:
        rows = rows_at("a", START)
        path = write_log(tmp_path / "log.parquet", rows)
        assert kr.ImpressionLog.open(engine, path).counts() == {"a": 1}
    (tmp_path / "password").write_text("wrong")
    with pytest.raises(kr.KreachError, match="engine must be a") as error:
        open_warehouse(server.address(), {PASSWORD_FILE: str(tmp_path / "password")})
    assert "wrong" not in str(error.value)
