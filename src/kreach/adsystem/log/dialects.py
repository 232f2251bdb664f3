"""Compiles Ibis expressions to the SQL of an engine, where Ibis is not exact with what it needs.

ClickHouse: Ibis' instants are cut to the second and end in 2106, so they are written with six
digits here, and beyond what its type holds (1900 to 2299) as its first and last instant. Before the
first row and after the last there is NULL, not 0.
"""

from datetime import UTC, datetime
from typing import Any

import ibis
import ibis.expr.types as ir
from ibis.backends.sql.compilers import ClickHouseCompiler

__all__ = ["DIALECTS", "to_sql"]

DIALECTS = (
    "bigquery",
    "clickhouse",
    "databricks",
    "duckdb",
    "postgres",
    "snowflake",
    "trino",
)
"""Those that `kreach log sql` writes; Spark's is that of Databricks."""

_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_LAST = datetime(2299, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


class _ClickHouse(ClickHouseCompiler):  # type: ignore[misc]
    """Instants to the microsecond."""

    __slots__ = ()

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        if not dtype.is_timestamp():
            return super().visit_NonNullLiteral(op, value=value, dtype=dtype)
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        moment = min(max(moment.astimezone(UTC), _FIRST), _LAST)
        return self.f.toDateTime64(f"{moment:%Y-%m-%d %H:%M:%S.%f}", 6, "UTC")

    def visit_ExtractEpochSeconds(self, op: Any, *, arg: Any) -> Any:  # noqa: N802
        del op
        exact = self.f.toUnixTimestamp64Micro(self.f.toDateTime64(arg, 6, "UTC"))
        return self.f.intDiv(exact, 1_000_000)

    def visit_Lag(self, op: Any, *, arg: Any, offset: Any, default: Any) -> Any:  # noqa: N802
        return super().visit_Lag(op, arg=self.f.toNullable(arg), offset=offset, default=default)

    def visit_Lead(self, op: Any, *, arg: Any, offset: Any, default: Any) -> Any:  # noqa: N802
        return super().visit_Lead(op, arg=self.f.toNullable(arg), offset=offset, default=default)


_clickhouse = _ClickHouse()


def to_sql(query: ir.Table, dialect: str, *, pretty: bool = False) -> str:
    """A query in a dialect."""
    if dialect == "clickhouse":
        compiled = _clickhouse.to_sqlglot(query.unbind())
        return str(compiled.sql(dialect=_clickhouse.dialect, pretty=pretty))
    return str(ibis.to_sql(query, dialect=dialect, pretty=pretty))
