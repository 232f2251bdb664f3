"""What engines on a user's database have in common: they read its tables and write none of them.

A source is `table:name` (or `table:schema.name`), which the database reads, or anything that the
embedded engine reads: a groups file, a CSV, arrays. That is read here, checked and brought into the
shape of queries by the embedded engine, and uploaded as a temporary table of the session. So files
mean the same on every engine, and the database needs to know no format.

A subclass has a connection: `describe`, `run`, `create_temp_table` and `upload` use it.
"""

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
from ibis.common.exceptions import IbisError

from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
from kreach.adsystem.log.engine import Engine, Source, table_of
from kreach.boundary.duckdb import sql_name
from kreach.boundary.events import Impression
from kreach.errors import KreachError

__all__ = ["WarehouseEngine", "quoted_table"]

_TIMES = ("ts", "received")


class WarehouseEngine(Engine):
    """Queries run in a database; files of this machine are uploaded for the session."""

    def __init__(self) -> None:
        super().__init__()
        self._local: EmbeddedEngine | None = None

    @abstractmethod
    def describe(self, name: str, table: str) -> Mapping[str, str]:
        """The columns of a table and their types, as the database spells them."""

    @abstractmethod
    def parse_type(self, kind: str) -> dt.DataType:
        """A type of the database as Ibis knows it."""

    @abstractmethod
    def upload(self, table: str, schema: Mapping[str, dt.DataType], query: str, file: Path) -> None:
        """Create a temporary table from the rows of a query of the embedded engine.

        `file` is a path that may be used on the way.
        """

    @property
    def local(self) -> EmbeddedEngine:
        """The embedded engine, which reads files; started when there is one to read."""
        if self._local is None:
            self._local = EmbeddedEngine()
        return self._local

    def read(self, name: str, source: Source) -> ir.Table:
        table = table_of(source)
        if table is None or table.file is not None:
            return self._uploaded(name, self.local.read(name, source))
        columns = self.describe(name, table.table)
        schema = {column: self._type(kind) for column, kind in columns.items()}
        *schemas, last = table.table.split(".", 1)
        return ibis.table(schema, name=last, database=schemas[0] if schemas else None)

    def load(self, name: str, source: Source, shape: Callable[[ir.Table], ir.Table]) -> ir.Table:
        table = table_of(source)
        if table is None or table.file is not None:
            return self._uploaded(name, shape(self.local.read(name, source)))
        raw = self.read(name, source)
        for column in _TIMES:
            if column in raw.columns and raw[column].type().is_string():
                rule = f"hold times in {column}, not text: name a view that casts it"
                raise KreachError.rule(name, rule, table.table)
        shaped = shape(raw)
        try:
            self.sql(shaped)
        except IbisError:
            rule = f"have columns of types that {self.dialect} can convert: name a view that does"
            raise KreachError.rule(name, rule, table.table) from None
        return shaped

    def _type(self, kind: str) -> dt.DataType:
        try:
            return self.parse_type(kind)
        except Exception:  # of a column that no query may use
            return dt.unknown

    def _uploaded(self, name: str, query: ir.Table) -> ir.Table:
        schema = {column: _stored(kind) for column, kind in query.schema().items()}
        known = {column: kind for column, kind in schema.items() if _can_upload(kind)}
        table = self.unused_name("upload")
        folder = Path(tempfile.mkdtemp(prefix="kreach-"))
        try:
            sql = self.local.sql(query.select(*known)) if known else None
            with (
                self.local.translate_errors(name, "be readable to the end"),
                self.translate_errors(name, "be accepted by the database"),
            ):
                if sql is not None:
                    self.upload(table, known, sql, folder / "rows")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return ibis.table(schema, name=table)

    def create(self, source: Source) -> None:
        raise self._refused(source)

    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        raise self._refused(source)

    def _refused(self, source: Source) -> KreachError:
        rule = f"be on another engine, to be appended to: kreach writes nothing into {self.dialect}"
        return KreachError.rule("log", rule, source if isinstance(source, str) else "data")

    def close(self) -> None:
        if self._local is not None:
            self._local.close()
            self._local = None


def quoted_table(table: str) -> str:
    """The name of a table, with a schema before a dot or without, inside double quotes."""
    return ".".join(sql_name(part) for part in table.split(".", 1))


def _stored(kind: dt.DataType) -> dt.DataType:
    """Instants to the microsecond: some databases cut to the second by default."""
    if isinstance(kind, dt.Timestamp):
        return dt.Timestamp(timezone=kind.timezone, scale=6)
    return kind


def _can_upload(kind: dt.DataType) -> bool:
    if isinstance(kind, dt.Array):
        return _can_upload(kind.value_type) and not isinstance(kind.value_type, dt.Array)
    return bool(
        kind.is_string()
        or kind.is_integer()
        or kind.is_floating()
        or kind.is_boolean()
        or kind.is_timestamp()
        or kind.is_date()
    )
