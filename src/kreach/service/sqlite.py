"""The one way to open a SQLite store: WAL, durable commits, busy time-out, a versioned schema.

The schema's version is in `PRAGMA user_version`. A file of an older schema is upgraded when it is
opened for writing; a file of a newer one, or of another program, is refused. A file with tables
and without a version was written before there were versions: it counts as version 1.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kreach.errors import KreachError

__all__ = [
    "OtherSchema",
    "Schema",
    "check_intact",
    "connect_source",
    "create_private",
    "file_version",
    "open_empty",
    "open_read_only",
    "open_store",
    "store_errors",
    "transaction",
]

_BUSY_SECONDS = 10.0

Upgrade = Callable[[sqlite3.Connection], None]


class OtherSchema(KreachError, sqlite3.DatabaseError):
    """A file of another program, or of a schema that this version does not know.

    It is a database error too: a service that meets it while it runs has a failing store.
    """


@dataclass(frozen=True)
class Schema:
    """The tables of a store.

    `tables` creates those that do not exist. `upgrades[n]` turns version n into n + 1; it runs in
    a transaction and must not begin or commit one. `application_id` marks the files of a store
    that is not to be mixed up with others.
    """

    version: int
    tables: str
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)
    application_id: int = 0


def open_store(
    path: Path,
    schema: Schema,
    *,
    busy_seconds: float = _BUSY_SECONDS,
    secure_delete: str | None = None,
) -> sqlite3.Connection:
    """Open a store for writing; create or upgrade its tables where needed.

    Commits are durable when they return (WAL with synchronous = FULL). Transactions are explicit:
    see `transaction`. The connection may be used by several threads, one at a time.
    """
    connection = _connect(path, busy_seconds)
    try:
        file_version(connection, schema, path)  # refuse before anything is changed
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if secure_delete is not None:
            connection.execute(f"PRAGMA secure_delete = {secure_delete}")
        if _user_version(connection) != schema.version:
            _upgrade(connection, schema, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(
    path: Path,
    schema: Schema,
    *,
    busy_seconds: float = _BUSY_SECONDS,
    immutable: bool = False,
    older: bool = False,
) -> sqlite3.Connection:
    """Open an existing store for reading. `immutable`: nobody has it open, leave no side files.

    A file of an older schema is refused unless `older` says that the caller can read it.
    """
    connection = _connect(path, busy_seconds, "&immutable=1" if immutable else "")
    try:
        version = file_version(connection, schema, path)
        if 0 < version < schema.version and not older:
            raise OtherSchema(
                f"{path} has the schema of an older kreach ({version}, not {schema.version}): "
                "upgrade it with `kreach migrate`"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def open_empty(schema: Schema) -> sqlite3.Connection:
    """A store in memory, with the tables and without rows."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(schema.tables)
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit at the end, roll back on any error. Other writers wait from the beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def store_errors(rule: str, place: Path) -> Iterator[None]:
    """Raise errors of disk and database as: store must RULE, got PLACE (reason)."""
    try:
        yield
    except OtherSchema:
        raise
    except (OSError, sqlite3.Error) as error:
        raise KreachError.rule("store", rule, f"{place} ({error})") from None


def check_intact(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if the file is damaged."""
    result = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result is None or result[0] != "ok":
        detail = "" if result is None else " ".join(result[0].split())
        raise sqlite3.DatabaseError(f"damaged: {detail}")


def create_private(path: Path, *, create: bool = True) -> os.stat_result:
    """Create a file that only its owner can read: SQLite would let everybody. Its status."""
    handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def connect_source(path: Path, busy_seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
    """A connection to an existing file that copies it or looks at it, and writes nothing.

    It may be open elsewhere or not: one that can only read could not open a file that was left
    with a write-ahead log.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=busy_seconds, isolation_level=None
    )
    connection.execute("PRAGMA query_only = 1")
    return connection


def _connect(path: Path, busy_seconds: float, read_only: str | None = None) -> sqlite3.Connection:
    address = str(path) if read_only is None else f"{path.absolute().as_uri()}?mode=ro{read_only}"
    return sqlite3.connect(
        address,
        uri=read_only is not None,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def file_version(connection: sqlite3.Connection, schema: Schema, path: Path) -> int:
    """The version of a file's schema, 0 if it has no tables; refuses what is not ours or newer."""
    version = _user_version(connection)
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return 0
    if mark != schema.application_id:
        raise OtherSchema(f"{path} is the database of another program: name another file")
    if version > schema.version:
        raise OtherSchema(
            f"{path} has the schema of a newer kreach ({version}, this one knows {schema.version}):"
            " upgrade kreach, or restore a backup that this one took (`kreach restore`)"
        )
    return version or 1


def _upgrade(connection: sqlite3.Connection, schema: Schema, path: Path) -> None:
    with transaction(connection):  # which another process may have won
        version = file_version(connection, schema, path)
        for statement in filter(str.strip, schema.tables.split(";")):
            connection.execute(statement)
        for step in range(version or schema.version, schema.version):
            if step not in schema.upgrades:
                raise OtherSchema(
                    f"{path} has the schema of an older kreach ({version}, not {schema.version}) "
                    "and cannot be upgraded: move it away to begin a new one"
                )
            schema.upgrades[step](connection)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {schema.version}")
