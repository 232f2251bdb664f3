"""Instants as whole microseconds since 1970, in the SQL of each engine."""

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from kreach.boundary.times import MICROS

__all__ = ["micros"]


@ibis.udf.scalar.builtin(name="epoch_us")  # type: ignore[untyped-decorator]
def _epoch_us(moment: dt.timestamp) -> int:  # type: ignore[empty-body]
    """Microseconds since 1970 on DuckDB."""


@ibis.udf.scalar.builtin(name="unix_micros")  # type: ignore[untyped-decorator]
def _unix_micros(moment: dt.timestamp) -> int:  # type: ignore[empty-body]
    """Microseconds since 1970 on Spark, Databricks and BigQuery."""


@ibis.udf.scalar.builtin(name="toUnixTimestamp64Micro")  # type: ignore[untyped-decorator]
def _clickhouse_micros(moment: dt.timestamp) -> int:  # type: ignore[empty-body]
    """Microseconds since 1970 on ClickHouse."""


def micros(column: ir.Value, dialect: str) -> ir.Value:
    """An instant in microseconds since 1970, exactly."""
    if dialect == "duckdb":
        return _epoch_us(column)
    if dialect in ("pyspark", "databricks", "bigquery"):
        return _unix_micros(column.cast("timestamp('UTC')"))
    if dialect == "clickhouse":
        return _clickhouse_micros(column.cast("timestamp('UTC', 6)"))
    if dialect == "postgres":  # where seconds since 1970 have six digits
        return (column.epoch_seconds().cast("decimal(38, 6)") * MICROS).cast("int64")
    seconds = column.truncate("s").epoch_seconds().cast("int64")
    return seconds * MICROS + column.microsecond().cast("int64")
