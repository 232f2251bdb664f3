"""The embedded engine: DuckDB, inside this process."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any
from uuid import uuid4

import ibis
import ibis.expr.types as ir
import numpy as np
from ibis.backends.sql.datatypes import DuckDBType

from kreach.adsystem.log.engine import (
    Columns,
    Engine,
    Source,
    log_columns,
    table_of,
    written_folder,
)
from kreach.boundary.checks import as_whole_number
from kreach.boundary.duckdb import (
    TEXT_FILES,
    file_reader,
    new_engine,
    sql_name,
    sql_text,
    translate_errors,
)
from kreach.boundary.events import Impression
from kreach.boundary.times import to_micros
from kreach.errors import KreachError

__all__ = ["EmbeddedEngine"]

_LOG = (
    'impression_id VARCHAR, campaign VARCHAR, "group" VARCHAR, '
    "ts TIMESTAMPTZ, price DOUBLE, received TIMESTAMPTZ"
)


class EmbeddedEngine(Engine):
    """DuckDB in this process; what exceeds `memory` spills to a temporary folder.

    `database` is a file that holds logs as tables; without one, tables last as long as the engine.
    One process at a time can have a database open for writing.

    >>> import kreach as kr
    >>> with kr.EmbeddedEngine(memory="500MB") as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a", "b"], "size": [20, 25]})
    ...     groups.people
    45
    """

    dialect = "duckdb"
    rows_per_file = 10_000_000

    def __init__(
        self, database: Path | str | None = None, memory: str = "1500MB", threads: int | None = None
    ) -> None:
        super().__init__()
        with translate_errors("database", "be a database that no other process writes"):
            self._engine = new_engine(database)
        folder = tempfile.mkdtemp(prefix="kreach-")
        self._clean_up = weakref.finalize(self, _clean_up, self._engine, folder)
        with translate_errors("memory", "be an amount such as 1500MB"):
            self._engine.execute(f"SET memory_limit = '{sql_text(memory)}'")
        self._engine.execute(f"SET temp_directory = '{sql_text(folder)}'")
        self._engine.execute("SET preserve_insertion_order = false")
        if threads is not None:
            count = as_whole_number("threads", threads, minimum=1, maximum=4096)
            self._engine.execute(f"SET threads = {count}")
        self._database = None if database is None else Path(database).resolve()
        self._attached: dict[Path, str] = {}

    @classmethod
    def on(cls, connection: Any) -> "EmbeddedEngine":
        """An engine on an open connection, in whatever transaction that is; `close` closes it."""
        engine = cls.__new__(cls)
        Engine.__init__(engine)
        engine._engine = connection
        engine._clean_up = weakref.finalize(engine, _clean_up, connection, None)
        engine._database, engine._attached = None, {}
        return engine

    def read(self, name: str, source: Source) -> ir.Table:
        """A source, or several in a list: all their rows, columns matched by name."""
        view = self.unused_name("source")
        with self.translate_errors(name, "be a readable Parquet or CSV file, folder or table"):
            if isinstance(source, (list, tuple)):
                parts = " UNION ALL BY NAME ".join(self._parts(name, source))
                self._engine.execute(f"CREATE TEMP VIEW {view} AS {parts}")
            elif isinstance(source, (str, Path)):
                where = self._ref(name, source)
                self._engine.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM {where}")
                if str(source).lower().endswith(TEXT_FILES):
                    # parsed once, not once per query
                    self._engine.execute(f"CREATE TEMP TABLE {view}_read AS SELECT * FROM {view}")
                    view = f"{view}_read"
            else:
                self._engine.register(view, _in_memory(name, source))
            described = self._engine.execute(f"DESCRIBE {view}").fetchall()
        schema = {str(row[0]): DuckDBType.from_string(row[1]) for row in described}
        return ibis.table(schema, name=view)

    def values(
        self,
        numbers: Mapping[str, Sequence[int]],
        instants: Mapping[str, Sequence[int]],
        name: str | None = None,
    ) -> ir.Table:
        """A temporary table of whole numbers and of instants (micros since 1970)."""
        view = self.unused_name("values") if name is None else name
        selected = [f"unnest(?::BIGINT[]) AS {sql_name(name)}" for name in numbers]
        selected += [
            f"make_timestamptz(unnest(?::BIGINT[])) AS {sql_name(name)}" for name in instants
        ]
        rows = [list(column) for column in (*numbers.values(), *instants.values())]
        with self.translate_errors("values", "be whole numbers"):
            self._engine.execute(
                f"CREATE OR REPLACE TEMP TABLE {view} AS SELECT {', '.join(selected)}", rows
            )
        schema = dict.fromkeys(numbers, "int64") | dict.fromkeys(instants, "timestamp('UTC')")
        return ibis.table(schema, name=view)

    def _parts(self, name: str, sources: Sequence[Source]) -> list[str]:
        """A query for each source; Parquet files are read together."""
        files, parts = [], []
        for source in sources:
            if isinstance(source, (str, Path)) and _is_parquet_file(source):
                files.append(f"'{sql_text(escape(str(source)))}'")
            else:
                parts.append(f"SELECT * FROM {self.read(name, source).get_name()}")
        if files:
            together = f"read_parquet([{', '.join(files)}], union_by_name = true)"
            parts.insert(0, f"SELECT * FROM {together}")
        if not parts:
            raise KreachError.rule(name, "hold at least one source", "an empty list")
        return parts

    def _ref(self, name: str, source: str | Path) -> str:
        table = table_of(source)
        if table is None:
            return file_reader(name, Path(source), all_text=True)
        quoted = sql_name(table.table)
        if table.file is None or table.file.resolve() == self._database:
            return quoted
        if not table.file.exists():
            raise KreachError.rule(name, "name a file that exists", str(table.file))
        file = table.file.resolve()
        if file not in self._attached:
            alias = self.unused_name("base")
            self._engine.execute(f"ATTACH '{sql_text(file)}' AS {alias} (READ_ONLY)")
            self._attached[file] = alias
        return f"{self._attached[file]}.{quoted}"

    def count_progress(self) -> None:
        self._engine.execute("SET enable_progress_bar = true")
        self._engine.execute("SET enable_progress_bar_print = false")

    def share_done(self) -> float | None:
        percent = float(self._engine.query_progress())
        return percent / 100.0 if percent >= 0.0 else None

    def run(self, sql: str) -> Columns:
        columns = self._engine.execute(sql).fetchnumpy()
        return {name: _plain(values) for name, values in columns.items()}

    def create_temp_table(self, name: str, sql: str) -> None:
        self._engine.execute(f"CREATE TEMP TABLE {name} AS {sql}")

    def drop_temp_table(self, name: str) -> None:
        self._engine.execute(f"DROP TABLE IF EXISTS {name}")

    def create(self, source: Source) -> None:
        table = table_of(source)
        if table is not None and table.file is None:
            quoted = sql_name(table.table)
            with self.translate_errors("log", "be a name for a table"):
                self._engine.execute(f"CREATE TABLE IF NOT EXISTS {quoted} ({_LOG})")
            return
        folder = written_folder(source)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.rglob("*.parquet")):
            self._write_file(folder, [], datetime.now(UTC))

    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        table = table_of(source)
        if table is not None and table.file is None:
            quoted = sql_name(table.table)
            with self.translate_errors("log", "be a table that can be appended to"):
                self._with_rows(rows, received, f"INSERT INTO {quoted} BY NAME", "")
            return
        self._write_file(written_folder(source), rows, received)

    def _write_file(self, folder: Path, rows: Sequence[Impression], received: datetime) -> None:
        """Write a draft, then rename it: readers never see a partial file."""
        draft = folder / f".{uuid4().hex}.draft"
        with self.translate_errors("log", "be a folder that can be written"):
            where = f") TO '{sql_text(draft)}' (FORMAT parquet)"
            self._with_rows(rows, received, "COPY (", where)
        draft.rename(folder / f"part-{received:%Y%m%dT%H%M%S}-{uuid4().hex[:12]}.parquet")

    def _with_rows(
        self, rows: Sequence[Impression], received: datetime, before: str, after: str
    ) -> None:
        columns = log_columns(rows, received)
        table: dict[str, Any] = {
            name: np.array(columns[name], dtype=object)
            for name in ("impression_id", "campaign", "group")
        }
        for name in ("ts", "received"):
            table[name] = np.array([to_micros(ts) for ts in columns[name]], dtype=np.int64)
        prices = [np.nan if price is None else float(price) for price in columns["price"]]
        table["price"] = np.array(prices)
        name = self.unused_name("rows")
        self._engine.register(name, table)
        query = f"""SELECT CAST(impression_id AS VARCHAR) AS impression_id,
            CAST(campaign AS VARCHAR) AS campaign, CAST("group" AS VARCHAR) AS "group",
            make_timestamptz(ts) AS ts, CASE WHEN isnan(price) THEN NULL ELSE price END AS price,
            make_timestamptz(received) AS received FROM {name}"""
        try:
            self._engine.execute(f"{before} {query} {after}")
        finally:
            self._engine.unregister(name)

    def write_rows(self, sql: str, folder: Path, name: str) -> None:
        where = sql_text(folder / f"{name}.parquet")
        self._engine.execute("SET preserve_insertion_order = true")  # sorted rows stay sorted
        try:
            self._engine.execute(f"COPY ({sql}) TO '{where}' (FORMAT parquet)")
        finally:
            self._engine.execute("SET preserve_insertion_order = false")
        self._engine.execute("SET enable_progress_bar = true")  # so that it knows `share_done`
        self._engine.execute("SET enable_progress_bar_print = false")

    def write_csv(self, sql: str, path: Path, *, null: str) -> None:
        """Write the rows of a query as CSV without a header; text is quoted, so `null` is not."""
        self._engine.execute(
            f"COPY ({sql}) TO '{sql_text(path)}' "
            f"(FORMAT csv, HEADER false, FORCE_QUOTE *, NULLSTR '{sql_text(null)}')"
        )

    def translate_errors(self, name: str, rule: str) -> AbstractContextManager[None]:
        return translate_errors(name, rule)

    def close(self) -> None:
        self._clean_up()


def _clean_up(engine: Any, folder: str | None) -> None:
    engine.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _is_parquet_file(source: str | Path) -> bool:
    text = str(source).lower().endswith(TEXT_FILES)
    return not text and table_of(source) is None and Path(source).is_file()


def _in_memory(name: str, source: Any) -> Any:
    if isinstance(source, dict):
        return {key: _column(values) for key, values in source.items()}
    if not hasattr(source, "__arrow_c_stream__") and not hasattr(source, "columns"):
        rule = "be a path, an Arrow table, a data frame or arrays by name"
        raise KreachError.rule(name, rule, type(source).__name__)
    return source


def _column(values: Any) -> Any:
    """An array; text as objects, which DuckDB reads without further packages."""
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind in "US" else array


def _plain(values: Any) -> Any:
    """Masked arrays as plain ones, with None for missing values."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not values.mask.any():
        return values.data
    plain = values.data.astype(object)
    plain[values.mask] = None
    return plain
