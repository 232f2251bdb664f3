"""The engine that a name or address stands for: duckdb, clickhouse://user@host/db, postgres://...

A password is never part of an address: addresses end up in process lists, histories and errors. It
comes from KREACH_ENGINE_PASSWORD, or from the file that KREACH_ENGINE_PASSWORD_FILE names. For
Postgres, libpq's own ways (PGPASSWORD, ~/.pgpass, certificates) work too.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from kreach.adsystem.log.warehouse_engine import WarehouseEngine
from kreach.errors import KreachError

__all__ = ["PASSWORD", "PASSWORD_FILE", "open_warehouse"]

PASSWORD = "KREACH_ENGINE_PASSWORD"
PASSWORD_FILE = "KREACH_ENGINE_PASSWORD_FILE"
_CLICKHOUSE = ("secure", "ca_cert")
_POSTGRES = ("sslmode", "sslrootcert", "sslcert", "sslkey", "options", "connect_timeout")


def open_warehouse(address: str, environment: Mapping[str, str] | None = None) -> WarehouseEngine:
    """Connect to the database of an address.

    >>> open_warehouse("mysql://ads@host/db")
    Traceback (most recent call last):
        ...
    kreach.errors.KreachError: engine must begin with clickhouse:// or postgres://, got 'mysql'
    """
    scheme, _, _ = address.partition("://")
    opening = _SCHEMES.get(scheme.lower())
    if opening is None:
        raise KreachError.rule("engine", "begin with clickhouse:// or postgres://", scheme)
    return opening(address, _password(os.environ if environment is None else environment))


class _Parts:
    """An address taken apart; errors quote none of it but host and port."""

    def __init__(self, address: str, options: tuple[str, ...]) -> None:
        try:
            parts = urlsplit(address)
            self.port = parts.port
        except ValueError:
            raise KreachError.rule(
                "engine", "be an address such as " + _EXAMPLE, "another"
            ) from None
        if parts.password is not None:
            rule = f"hold no password; set {PASSWORD} or {PASSWORD_FILE} in the environment"
            raise KreachError.rule("engine", rule, "one")
        if not parts.hostname:
            raise KreachError.rule("engine", "name a host, such as " + _EXAMPLE, "none")
        self.host = parts.hostname
        self.user = unquote(parts.username) if parts.username else None
        self.database = unquote(parts.path.removeprefix("/")) or None
        self.options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        for name in self.options:
            if name not in options:
                rule = f"have no option but {', '.join(options)}"
                raise KreachError.rule("engine", rule, name)


_EXAMPLE = "clickhouse://user@host:8123/database"


def _clickhouse(address: str, password: str | None) -> WarehouseEngine:
    from kreach.adsystem.log.clickhouse_engine import ClickHouseEngine  # noqa: PLC0415 - an extra

    parts = _Parts(address, _CLICKHOUSE)
    secure = parts.options.get("secure", "false").lower()
    if secure not in ("true", "false", "1", "0"):
        raise KreachError.rule("engine", "have secure=true or secure=false", secure)
    return ClickHouseEngine(
        parts.host,
        parts.port,
        user=parts.user or "default",
        password=password or "",
        database=parts.database,
        secure=secure in ("true", "1"),
        ca_cert=parts.options.get("ca_cert"),
    )


def _postgres(address: str, password: str | None) -> WarehouseEngine:
    from kreach.adsystem.log.postgres_engine import PostgresEngine  # noqa: PLC0415 - an extra

    parts = _Parts(address, _POSTGRES)
    return PostgresEngine(
        host=parts.host,
        port=parts.port,
        user=parts.user,
        dbname=parts.database,
        password=password,
        **parts.options,
    )


_SCHEMES: dict[str, Callable[[str, str | None], WarehouseEngine]] = {
    "clickhouse": _clickhouse,
    "postgres": _postgres,
    "postgresql": _postgres,
}


def _password(environment: Mapping[str, str]) -> str | None:
    if environment.get(PASSWORD):
        return environment[PASSWORD]
    file = environment.get(PASSWORD_FILE)
    if not file:
        return None
    try:
        return Path(file).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        raise KreachError.rule(PASSWORD_FILE, "name a text file that can be read", file) from None
