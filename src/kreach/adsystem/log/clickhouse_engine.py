"""The ClickHouse engine: queries run in a ClickHouse server. Needs the extra `clickhouse`."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
from ibis.backends.sql.datatypes import ClickHouseType

from kreach.adsystem.log.engine import Columns, as_column
from kreach.adsystem.log.warehouse_engine import WarehouseEngine, quoted_table
from kreach.boundary.duckdb import sql_name
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["ClickHouseEngine"]

_SETTINGS = {
    "session_timezone": "UTC",  # times without a zone are UTC, and so are hours and days
    "join_use_nulls": 1,  # as in other databases, what a join does not find is NULL
    "aggregate_functions_null_for_empty": 1,  # and so is the first of no times, not 1970
    "enable_extended_results_for_datetime_functions": 1,  # hours before 1970
    "cast_keep_nullable": 1,
}
_UNKNOWN_TABLE = (60, 81)  # table, database
_RIGHTS = "let its user set session settings and create temporary tables (see docs/warehouses.md)"
_READ_ONLY = (164, 497)  # the profile is read-only, a grant is missing


class ClickHouseEngine(WarehouseEngine):
    """A ClickHouse server over HTTP, in a session of its own.

    `client` takes a client of clickhouse-connect that is open already, in place of the others.

    >>> import kreach as kr
    >>> with kr.ClickHouseEngine("ch.example", user="ads") as engine:  # doctest: +SKIP
    ...     log = kr.ImpressionLog.open(engine, "table:impressions")
    """

    dialect = "clickhouse"

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int | None = None,
        *,
        user: str = "default",
        password: str = "",
        database: str | None = None,
        secure: bool = False,
        ca_cert: str | None = None,
        client: Any = None,
    ) -> None:
        require_extra("the ClickHouse engine", "clickhouse")
        super().__init__()
        where = f"{host}:{port or (8443 if secure else 8123)}"
        with _translate_errors("engine", f"be a ClickHouse server that answers at {where}"):
            self._client = (
                client
                if client is not None
                else _connected(
                    host=host,
                    port=port or (8443 if secure else 8123),
                    username=user,
                    password=password,
                    database=database,
                    interface="https" if secure else "http",
                    ca_cert=ca_cert,
                )
            )
        with _translate_errors("engine", _RIGHTS):
            for name, value in _SETTINGS.items():
                self._client.set_client_setting(name, value)
            self._client.query("SELECT 1")

    def describe(self, name: str, table: str) -> Mapping[str, str]:
        with self.translate_errors(name, f"name a table that the user may read, such as {table}"):
            result = self._client.query(f"DESCRIBE TABLE {quoted_table(table)}")
        return {str(row[0]): str(row[1]) for row in result.result_rows}

    def parse_type(self, kind: str) -> dt.DataType:
        # how a value is stored, not what it is
        plain = re.sub(r"LowCardinality\((.*)\)$", r"\1", kind)
        parsed: dt.DataType = ClickHouseType.from_string(plain)
        return parsed

    def columns(self, query: ir.Table) -> Columns:
        found = super().columns(query)  # without rows there are no columns either
        return found or {name: np.empty(0, dtype=object) for name in query.columns}

    def run(self, sql: str) -> Columns:
        result = self._client.query(sql)
        columns = result.result_columns or [()] * len(result.column_names)
        return {
            name: as_column(list(values))
            for name, values in zip(result.column_names, columns, strict=True)
        }

    def create_temp_table(self, name: str, sql: str) -> None:
        self._client.command(f"CREATE TEMPORARY TABLE {name} AS {sql}")

    def drop_temp_table(self, name: str) -> None:
        self._client.command(f"DROP TEMPORARY TABLE IF EXISTS {name}")

    def upload(self, table: str, schema: Mapping[str, dt.DataType], query: str, file: Path) -> None:
        columns = ", ".join(
            f"{sql_name(n)} {ClickHouseType.to_string(k)}" for n, k in schema.items()
        )
        self._client.command(f"CREATE TEMPORARY TABLE {table} ({columns})")
        self.local.write_rows(query, file.parent, file.name)
        with file.with_suffix(".parquet").open("rb") as rows:
            self._client.raw_insert(table, list(schema), rows, fmt="Parquet")

    def translate_errors(self, name: str, rule: str) -> AbstractContextManager[None]:
        return _translate_errors(name, rule)

    def close(self) -> None:
        super().close()
        self._client.close()


def _connected(**options: Any) -> Any:
    import clickhouse_connect  # noqa: PLC0415 - an extra

    for name in ("clickhouse_connect", "urllib3.connectionpool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors say it

    return clickhouse_connect.get_client(
        **options, autogenerate_session_id=True, connect_timeout=10, query_limit=0
    )


@contextmanager
def _translate_errors(name: str, rule: str) -> Iterator[None]:
    """ClickHouse's errors quote values and queries; report their names only."""
    from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415 - an extra

    try:
        yield
    except ClickHouseError as error:
        code = getattr(error, "code", None)
        if code in _UNKNOWN_TABLE:
            raise KreachError.rule(name, "name a table that exists", _kind(error)) from None
        if code in _READ_ONLY:
            raise KreachError.rule("engine", _RIGHTS, _kind(error)) from None
        raise KreachError.rule(name, rule, _kind(error)) from None


def _kind(error: Exception) -> str:
    known = getattr(error, "name", None)
    if known:
        return str(known).lower().replace("_", " ")
    kinds = {"OperationalError": "no answer", "ProgrammingError": "a read-only user"}
    return kinds.get(type(error).__name__, "an error")
