"""What an engine must be able to do: read, answer, keep, write. All the rest is expressions.

To put a log of your own warehouse under kreach, subclass `Engine`: `dialect` is the name under
which Ibis knows its SQL, `read` tells the columns of a table, `answer` runs a query, `store` keeps
its result, `guard` turns errors into ours; `create` and `write` are for logs that are appended to.
No other module knows which engine it speaks to.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt
from ibis.expr.operations import Node

from kreach.boundary.duckdb import TEXT_FILES
from kreach.boundary.events import Impression
from kreach.errors import KreachError

__all__ = ["Columns", "Engine", "Source", "as_columns", "log_columns", "table_of", "written_folder"]

Columns = dict[str, npt.NDArray[Any]]
Source = Any
"""A path (Parquet file, folder of them, CSV, `base.duckdb#table`), `#table` of the engine's own
database, or what the engine can take in memory: an Arrow table, a data frame, arrays by name."""

_DATABASES = (".duckdb", ".ddb", ".db")


class TableName(NamedTuple):
    """A table of a database file, or of the engine's own database if `file` is None."""

    file: Path | None
    table: str


def table_of(source: Source) -> TableName | None:
    """`base.duckdb#table` and `#table`; a database without a table name means `impressions`."""
    if not isinstance(source, (str, Path)):
        return None
    file, mark, table = str(source).rpartition("#")
    if mark and not file:
        return TableName(None, table)
    if mark and file.lower().endswith(_DATABASES):
        return TableName(Path(file), table)
    if str(source).lower().endswith(_DATABASES):
        return TableName(Path(source), "impressions")
    return None


@lru_cache(maxsize=256)
def _compiled(query: Node, dialect: str) -> str:
    """Compiling takes longer than most queries on a live log run."""
    return str(ibis.to_sql(query.to_expr(), dialect=dialect, pretty=False))


class Engine(ABC):
    """Where the rows are and the counting is done."""

    dialect: str

    def __init__(self) -> None:
        self._numbers = itertools.count()

    @abstractmethod
    def read(self, name: str, source: Source) -> ir.Table:
        """Make a source known and tell its columns; `name` is the argument, for complaints."""

    @abstractmethod
    def answer(self, sql: str) -> Columns:
        """Run a query and fetch its columns."""

    @abstractmethod
    def store(self, name: str, sql: str) -> None:
        """Keep the result of a query as a temporary table."""

    @abstractmethod
    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        """Add rows to a source that can be written, whole or not at all."""

    @abstractmethod
    def create(self, source: Source) -> None:
        """Make an empty log, unless there is one."""

    @abstractmethod
    def guard(self, name: str, rule: str) -> AbstractContextManager[None]:
        """Turn the engine's complaints into ours: one line, and no row quoted."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds."""

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(self, question: ir.Table) -> str:
        """The query in the engine's dialect; one that was asked before is not compiled again."""
        return _compiled(question.op(), self.dialect)

    def columns(self, question: ir.Table) -> Columns:
        """Ask a question."""
        with self.guard("impressions", "be readable to the end"):
            return self.answer(self.sql(question))

    def one(self, question: ir.Table) -> dict[str, Any]:
        """Ask a question that has one row for an answer."""
        return {name: values[0] for name, values in self.columns(question).items()}

    def keep(
        self,
        question: ir.Table,
        name: str = "impressions",
        rule: str = "be readable to the end",
    ) -> ir.Table:
        """Answer a question into a temporary table; `name` and `rule` are for complaints."""
        kept = self.fresh("kept")
        with self.guard(name, rule):
            self.store(kept, self.sql(question))
        return ibis.table(question.schema(), name=kept)

    def fresh(self, what: str) -> str:
        """A name that this engine has not used yet."""
        return f"kreach_{what}_{next(self._numbers)}"


def written_folder(source: Source) -> Path:
    """The folder of a log that can be appended to: flat, of Parquet files."""
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
    result: Columns = {}
    for at, name in enumerate(names):
        values = [row[at] for row in rows]
        nested = any(isinstance(value, (list, str)) or value is None for value in values)
        column = np.empty(len(values), dtype=object)
        column[:] = values
        result[name] = column if nested or not values else np.array(values)
    return result


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
