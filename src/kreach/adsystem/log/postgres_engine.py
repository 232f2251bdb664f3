"""The Postgres engine: queries run in a Postgres server. Needs the extra `postgres`."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import ibis.expr.datatypes as dt
from ibis.backends.sql.datatypes import PostgresType

from kreach.adsystem.log.engine import Columns, as_columns
from kreach.adsystem.log.warehouse_engine import WarehouseEngine, quoted_table
from kreach.boundary.duckdb import sql_name
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["PostgresEngine"]

_COLUMNS = """SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_RIGHTS = "let its user read the tables and create temporary ones (see docs/warehouses.md)"
_CHUNK = 1 << 20
_NULL = "\\N"


class PostgresEngine(WarehouseEngine):
    """A Postgres server, in a session of its own; `options` are those of libpq.

    >>> import kreach as kr
    >>> with kr.PostgresEngine(host="pg.example", dbname="ads") as engine:  # doctest: +SKIP
    ...     log = kr.ImpressionLog.open(engine, "table:impressions")
    """

    dialect = "postgres"

    def __init__(self, **options: str | int | None) -> None:
        require_extra("the Postgres engine", "postgres")
        import psycopg  # noqa: PLC0415 - an extra

        super().__init__()
        given: dict[str, Any] = {"connect_timeout": 10, "application_name": "kreach"}
        given |= {name: value for name, value in options.items() if value is not None}
        where = f"{given.get('host', '127.0.0.1')}:{given.get('port', 5432)}"
        with _translate_errors("engine", f"be a Postgres server that answers at {where}"):
            self._connection: Any = psycopg.connect(**given, autocommit=True)
            # times without a zone are UTC, and so are hours and days
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._connection.execute("SET extra_float_digits = 1")

    def describe(self, name: str, table: str) -> Mapping[str, str]:
        with self.translate_errors(name, "name a table that exists"):
            rows = self._connection.execute(_COLUMNS, [quoted_table(table)]).fetchall()
        if not rows:
            raise KreachError.rule(name, "name a table that exists", table)
        return {str(column): str(kind) for column, kind in rows}

    def parse_type(self, kind: str) -> dt.DataType:
        parsed: dt.DataType = PostgresType.from_string(kind)
        return parsed

    def run(self, sql: str) -> Columns:
        cursor = self._connection.execute(sql, prepare=False)
        return as_columns([column.name for column in cursor.description], cursor.fetchall())

    def create_temp_table(self, name: str, sql: str) -> None:
        self._connection.execute(f"CREATE TEMPORARY TABLE {name} AS {sql}", prepare=False)
        self._connection.execute(f"ANALYZE {name}")  # nobody else does, of a temporary table

    def drop_temp_table(self, name: str) -> None:
        self._connection.execute(f"DROP TABLE IF EXISTS pg_temp.{name}")

    def upload(self, table: str, schema: Mapping[str, dt.DataType], query: str, file: Path) -> None:
        columns = ", ".join(f"{sql_name(n)} {PostgresType.to_string(k)}" for n, k in schema.items())
        self._connection.execute(f"CREATE TEMPORARY TABLE {table} ({columns})")
        written = ", ".join(_text(name, kind) for name, kind in schema.items())
        self.local.write_csv(f"SELECT {written} FROM ({query})", file, null=_NULL)
        copy = f"COPY {table} FROM STDIN (FORMAT csv, NULL '{_NULL}')"
        with self._connection.cursor().copy(copy) as target, file.open("rb") as rows:
            while chunk := rows.read(_CHUNK):
                target.write(chunk)
        self._connection.execute(f"ANALYZE {table}")

    def translate_errors(self, name: str, rule: str) -> AbstractContextManager[None]:
        return _translate_errors(name, rule)

    def close(self) -> None:
        super().close()
        self._connection.close()


def _text(name: str, kind: dt.DataType) -> str:
    """A column in DuckDB's SQL, as Postgres reads it; lists are written in braces."""
    column = sql_name(name)
    if not isinstance(kind, dt.Array):
        return column
    each = "x"
    if kind.value_type.is_string():
        each = "'\"' || replace(replace(x, '\\', '\\\\'), '\"', '\\\"') || '\"'"
    listed = f"[coalesce(CAST({each} AS VARCHAR), 'NULL') FOR x IN {column}]"
    return f"'{{' || array_to_string({listed}, ',') || '}}' AS {column}"


@contextmanager
def _translate_errors(name: str, rule: str) -> Iterator[None]:
    """Postgres' errors quote values and queries; report their classes only."""
    import psycopg  # noqa: PLC0415 - an extra
    from psycopg import errors  # noqa: PLC0415

    try:
        yield
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege) as error:
        raise KreachError.rule("engine", _RIGHTS, _kind(error)) from None
    except psycopg.Error as error:
        raise KreachError.rule(name, rule, _kind(error)) from None


def _kind(error: Exception) -> str:
    if getattr(error, "sqlstate", None) is None and type(error).__name__ == "OperationalError":
        refused = "password authentication failed" in str(error)
        return "a password that it refuses" if refused else "no connection"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
