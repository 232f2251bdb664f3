"""DuckDB connections and file readers. Its error messages quote rows, so they are replaced."""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kreach.errors import KreachError

__all__ = [
    "TEXT_FILES",
    "columns_of",
    "file_reader",
    "new_engine",
    "parquet_files",
    "rename_advice",
    "scratch_connection",
    "sql_name",
    "sql_text",
    "translate_errors",
]

TEXT_FILES = (".csv", ".tsv", ".txt")


def new_engine(database: Path | str | None = None) -> Any:
    """A new database, in memory or on a file, that reads times without a zone as UTC."""
    import duckdb  # noqa: PLC0415 - slow to import

    engine = duckdb.connect(":memory:" if database is None else str(database))
    engine.execute("SET TimeZone = 'UTC'")
    with suppress(duckdb.InvalidInputException):  # in Jupyter without ipywidgets: there is no bar
        engine.execute("SET enable_progress_bar = false")  # it would stand in a command's output
    return engine


_lock = threading.Lock()
_shared: list[Any] = []  # the database of all scratch connections, once there is one


@contextmanager
def scratch_connection() -> Iterator[Any]:
    """A connection for reading and writing files, closed at the end of the block.

    All share one database in memory, because opening another one is slow. Only the connection
    itself sees its temporary tables and registered arrays.
    """
    with _lock:
        if not _shared:
            _shared.append(new_engine())
        connection = _shared[0].cursor()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    except BaseException:
        if not _is_sound(connection):
            with _lock:
                _shared.clear()
        raise
    finally:
        connection.close()


def _is_sound(connection: Any) -> bool:
    """Whether the database still answers; after a fatal error none of its connections does."""
    import duckdb  # noqa: PLC0415

    try:
        return bool(connection.execute("SELECT 1").fetchone())
    except duckdb.Error:
        return False


def _before_fork() -> None:
    """Close the database: a child process would have it without its threads, and hang."""
    _lock.acquire()
    _shared.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextmanager
def translate_errors(name: str, rule: str) -> Iterator[None]:
    """Raise a KreachError in place of DuckDB's, with the kind of error and without its text."""
    import duckdb  # noqa: PLC0415

    try:
        yield
    except duckdb.Error as error:
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        raise KreachError.rule(name, rule, kind.replace("exception", "problem")) from None


def file_reader(
    name: str, path: Path, text_columns: tuple[str, ...] = (), *, all_text: bool = False
) -> str:
    """The SQL expression that reads a Parquet file, a folder of them, or a CSV file.

    `text_columns` of a CSV (or all columns) are read as text: the id 007 is not the number 7.
    """
    if not path.exists():
        raise KreachError.rule(name, "name a file that exists", str(path))
    if path.is_dir():
        files = ", ".join(_literal(file) for file in parquet_files(name, path))
        return f"read_parquet([{files}], hive_partitioning = true, union_by_name = true)"
    literal = sql_text(_no_wildcards(path))
    if path.suffix.lower() in TEXT_FILES:
        if all_text:
            delimiter = "\\t" if path.suffix.lower() == ".tsv" else ","
            options = f"delim = '{delimiter}', quote = '\"', escape = '\"', skip = 0, header = true"
            return f"read_csv('{literal}', {options}, all_varchar = true)"
        types = ", ".join(f"'{column}': 'VARCHAR'" for column in text_columns)
        typed = f", types = {{{types}}}" if text_columns else ""
        return f"read_csv('{literal}', sample_size = -1{typed})"
    return f"read_parquet('{literal}')"


def parquet_files(name: str, folder: Path) -> list[Path]:
    """The Parquet files of a folder tree; names that start with _ or . are unfinished files."""
    files = sorted(
        file
        for file in folder.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    )
    if not files:
        raise KreachError.rule(name, "hold Parquet files", str(folder))
    return files


def _no_wildcards(path: Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _literal(path: Path) -> str:
    return f"'{sql_text(_no_wildcards(path))}'"


def columns_of(engine: Any, name: str, path: Path, required: tuple[str, ...]) -> list[str]:
    """The columns of a file; refuses one that lacks a required one."""
    with translate_errors(name, "be a readable Parquet or CSV file"):
        rows = engine.execute(f"DESCRIBE SELECT * FROM {file_reader(name, path)}").fetchall()
    columns = [str(row[0]) for row in rows]
    for column in required:
        if column not in columns:
            listed = f"{path} with {', '.join(columns)}"
            advice = rename_advice(column, columns)
            raise KreachError.rule(name, f"have a column {column}", listed, advice)
    return columns


def rename_advice(column: str, columns: Sequence[str]) -> str:
    """What to do about a column that is missing, by the columns that are there.

    >>> rename_advice("user_id", ["User ID", "ts"]), rename_advice("ts", ["time"])
    ("rename 'User ID' to user_id", 'rename the column that holds it')
    >>> rename_advice("group", ["user_id", "ts"])
    'kreach groups apply makes a log of groups from one of user ids'
    """
    for name in columns:
        if re.sub(r"[\W_]", "", name).lower() == column.replace("_", ""):
            return f"rename {name!r} to {column}"
    if column == "group" and "user_id" in columns:
        return "kreach groups apply makes a log of groups from one of user ids"
    return "rename the column that holds it"


def sql_name(name: str) -> str:
    """A name inside double quotes."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(value: object) -> str:
    """A value inside single quotes."""
    return str(value).replace("'", "''")
