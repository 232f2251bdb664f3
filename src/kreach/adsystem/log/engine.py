"""The interface of an engine. Everything else is expressed as Ibis queries.

To run kreach on your own warehouse, subclass `WarehouseEngine` (`warehouse_engine.py`), or `Engine`
itself: `dialect` is the Ibis name of its SQL, `read` returns the columns of a table, `run` runs a
query, `create_temp_table` stores its result, `translate_errors` turns engine errors into
`KreachError`; `create` and `write` are for logs that are appended to. No other module depends on a
particular engine.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
from ibis.expr.operations import Node

from kreach.adsystem.log.dialects import to_sql
from kreach.boundary.duckdb import TEXT_FILES
from kreach.boundary.events import Impression
from kreach.errors import KreachError

__all__ = ["Columns", "Engine", "Source", "as_column", "as_columns", "log_columns", "source_name"]
__all__ += ["table_of", "written_folder"]

Columns = dict[str, npt.NDArray[Any]]
Source = Any
"""A path (Parquet file, folder of them, CSV, `base.duckdb#table`), `table:name` (or `#name`) of the
engine's own database, or data in memory: an Arrow table, a data frame, arrays by name."""

_DATABASES = (".duckdb", ".ddb", ".db")
_OWN_TABLE = "table:"


class TableName(NamedTuple):
    """A table of a database file, or of the engine's own database if `file` is None."""

    file: Path | None
    table: str


def table_of(source: Source) -> TableName | None:
    """`base.duckdb#table`, `table:name`, `#name`; a database without a name means `impressions`."""
    if not isinstance(source, (str, Path)):
        return None
    if isinstance(source, str) and source.startswith(_OWN_TABLE):
        return TableName(None, source.removeprefix(_OWN_TABLE))
    file, mark, table = str(source).rpartition("#")
    if mark and not file:
        return TableName(None, table)
    if mark and file.lower().endswith(_DATABASES):
        return TableName(Path(file), table)
    if str(source).lower().endswith(_DATABASES):
        return TableName(Path(source), "impressions")
    return None


def source_name(source: Source) -> str:
    """A source as error messages name it: its path, or its type."""
    return str(source) if isinstance(source, (str, Path)) else type(source).__name__


@lru_cache(maxsize=256)
def _compiled(query: Node, dialect: str) -> str:
    """Cached: compiling takes longer than running most queries on a live log."""
    return to_sql(query.to_expr(), dialect)


class Engine(ABC):
    """Reads logs and runs queries on them."""

    dialect: str
    rows_per_file: int | None = None
    """How many rows of a prepared log are computed and written at once; None is all."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dialect})"

    @abstractmethod
    def read(self, name: str, source: Source) -> ir.Table:
        """Open a source as a table; `name` is the argument that error messages name."""

    def load(self, name: str, source: Source, shape: Callable[[ir.Table], ir.Table]) -> ir.Table:
        """Open a source in the shape that queries expect; `shape` may refuse it."""
        return shape(self.read(name, source))

    def count_progress(self) -> None:  # noqa: B027 - some cannot
        """From now on know `share_done`, where the engine can."""

    def share_done(self) -> float | None:
        """How much of the query that runs is done, from 0 to 1; None if nobody knows.

        May be asked from another thread.
        """
        return None

    @abstractmethod
    def run(self, sql: str) -> Columns:
        """Run a query and fetch its columns."""

    @abstractmethod
    def create_temp_table(self, name: str, sql: str) -> None:
        """Store the result of a query as a temporary table."""

    @abstractmethod
    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        """Append rows to a source, all or none."""

    @abstractmethod
    def create(self, source: Source) -> None:
        """Create an empty log, unless there is one."""

    @abstractmethod
    def translate_errors(self, name: str, rule: str) -> AbstractContextManager[None]:
        """Turn errors of the engine into one-line `KreachError`s that quote no row."""

    @abstractmethod
    def close(self) -> None:
        """Release the engine's resources."""

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(self, query: ir.Table) -> str:
        """The query in the engine's dialect; compiled queries are cached."""
        return _compiled(query.op(), self.dialect)

    def columns(self, query: ir.Table) -> Columns:
        """Run a query."""
        with self.translate_errors("impressions", "be readable to the end"):
            return self.run(self.sql(query))

    def row(self, query: ir.Table) -> dict[str, Any]:
        """Run a query that returns one row."""
        return {name: values[0] for name, values in self.columns(query).items()}

    def materialize(
        self, query: ir.Table, name: str = "impressions", rule: str = "be readable to the end"
    ) -> ir.Table:
        """Run a query into a temporary table; `name` and `rule` are for error messages."""
        table = self.unused_name("result")
        with self.translate_errors(name, rule):
            self.create_temp_table(table, self.sql(query))
        return ibis.table(query.schema(), name=table)

    @contextmanager
    def temporary(self, query: ir.Table) -> Iterator[ir.Table]:
        """The result of a query as a table, until the block ends."""
        table = self.materialize(query)
        try:
            yield table
        except BaseException:
            with suppress(KreachError):  # of the two errors, the first says what is wrong
                self._drop(table)
            raise
        self._drop(table)

    def _drop(self, table: ir.Table) -> None:
        with self.translate_errors("impressions", "be readable to the end"):
            self.drop_temp_table(table.get_name())

    def drop_temp_table(self, name: str) -> None:  # noqa: B027 - not every engine can
        """Free a temporary table; an engine may leave that to its end."""

    def write_rows(self, sql: str, folder: Path, name: str) -> None:
        """Write the rows of a query into a folder as Parquet; for `prepare_log`."""
        raise KreachError.rule("engine", "be able to write queries as Parquet", self.dialect)

    def unused_name(self, what: str) -> str:
        """A table name that this engine has not used yet."""
        return f"kreach_{what}_{next(self._numbers)}"


def written_folder(source: Source) -> Path:
    """The folder of a log that can be appended to: a flat folder of Parquet files."""
    rule = "be a folder of Parquet files or a table #name, to be appended to"
    if not isinstance(source, (str, Path)) or table_of(source) is not None:
        raise KreachError.rule("log", rule, source if isinstance(source, str) else "another kind")
    folder = Path(source)
    if folder.is_file() or folder.suffix.lower() in {".parquet", *TEXT_FILES}:
        raise KreachError.rule("log", rule, str(source))
    if folder.is_dir() and any("=" in part.name for part in folder.iterdir() if part.is_dir()):
        rule = "be flat, not in folders by day, to be appended to"
        raise KreachError.rule("log", rule, str(source))
    return folder


def as_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Columns:
    """Rows as columns; lists stay objects."""
    return {name: as_column([row[at] for row in rows]) for at, name in enumerate(names)}


def as_column(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Values as an array; lists and text stay objects, decimals become numbers."""
    plain = [_number(value) if isinstance(value, Decimal) else value for value in values]
    nested = any(isinstance(value, (list, str)) or value is None for value in plain)
    column = np.empty(len(plain), dtype=object)
    column[:] = plain
    return column if nested or not plain else np.array(plain)


def _number(value: Decimal) -> int | float:
    whole = int(value)
    return whole if whole == value else float(value)


def log_columns(rows: Sequence[Impression], received: datetime) -> Mapping[str, list[Any]]:
    """The columns under which an appended impression is stored."""
    return {
        "impression_id": [row.impression_id for row in rows],
        "campaign": [row.campaign for row in rows],
        "group": [row.group for row in rows],
        "ts": [row.ts for row in rows],
        "price": [row.price for row in rows],
        "received": [received] * len(rows),
    }
