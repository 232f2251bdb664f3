"""The embedded engine and how it reads files. Its complaints stay inside: they quote rows."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kreach.errors import KreachError

__all__ = [
    "TEXT_FILES",
    "columns_of",
    "file_reader",
    "new_engine",
    "no_complaints",
    "parquet_files",
    "scratch",
    "sql_name",
    "sql_text",
]

TEXT_FILES = (".csv", ".tsv", ".txt")


def new_engine(database: Path | str | None = None) -> Any:
    """A fresh engine, in memory or on a file, that reads times without a zone as UTC."""
    import duckdb  # noqa: PLC0415 - slow to import

    engine = duckdb.connect(":memory:" if database is None else str(database))
    engine.execute("SET TimeZone = 'UTC'")
    return engine


_lock = threading.Lock()
_shared: list[Any] = []  # the one engine of scratch connections, or none yet


@contextmanager
def scratch() -> Iterator[Any]:
    """A connection to read and write files with: nothing in memory but what is temporary.

    All are on one engine of this process, since a new one takes far longer to make. Temporary
    tables and registered arrays are seen by their own connection only.
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
    """Whether the engine still answers: after a fatal error none of its connections does."""
    import duckdb  # noqa: PLC0415

    try:
        return bool(connection.execute("SELECT 1").fetchone())
    except duckdb.Error:
        return False


def _before_fork() -> None:
    """A child would have the engine without its threads, and hang or die when it lets go of it."""
    _lock.acquire()
    _shared.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release
)


@contextmanager
def no_complaints(name: str, rule: str) -> Iterator[None]:
    """Turn an error of the engine into ours, which names the kind of error and quotes no row."""
    import duckdb  # noqa: PLC0415

    try:
        yield
    except duckdb.Error as error:
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        raise KreachError.rule(name, rule, kind.replace("exception", "problem")) from None


def file_reader(
    name: str, path: Path, text_columns: tuple[str, ...] = (), *, all_text: bool = False
) -> str:
    """The engine's expression for a Parquet file, a folder of them, or a CSV file.

    `text_columns` of a CSV, or all, are read as they are written: an id 007 is not the number 7.
    """
    if not path.exists():
        raise KreachError.rule(name, "name a file that exists", str(path))
    if path.is_dir():
        files = ", ".join(_literal(file) for file in parquet_files(name, path))
        return f"read_parquet([{files}], hive_partitioning = true, union_by_name = true)"
    literal = sql_text(_no_wildcards(path))
    if path.suffix.lower() in TEXT_FILES:
        if all_text:
            mark = "\\t" if path.suffix.lower() == ".tsv" else ","
            plain = f"delim = '{mark}', quote = '\"', escape = '\"', skip = 0, header = true"
            return f"read_csv('{literal}', {plain}, all_varchar = true)"
        types = ", ".join(f"'{column}': 'VARCHAR'" for column in text_columns)
        kept = f", types = {{{types}}}" if text_columns else ""
        return f"read_csv('{literal}', sample_size = -1{kept})"
    return f"read_parquet('{literal}')"


def parquet_files(name: str, folder: Path) -> list[Path]:
    """The Parquet files of a folder and its folders; what starts with _ or . is not finished."""
    found = sorted(
        file
        for file in folder.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    )
    if not found:
        raise KreachError.rule(name, "hold Parquet files", str(folder))
    return found


def _no_wildcards(path: Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _literal(path: Path) -> str:
    return f"'{sql_text(_no_wildcards(path))}'"


def columns_of(engine: Any, name: str, path: Path, required: tuple[str, ...]) -> list[str]:
    """The columns of a file; refuses one that lacks what is required."""
    with no_complaints(name, "be a readable Parquet or CSV file"):
        described = engine.execute(f"DESCRIBE SELECT * FROM {file_reader(name, path)}").fetchall()
    columns = [str(row[0]) for row in described]
    for column in required:
        if column not in columns:
            held = ", ".join(columns)
            raise KreachError.rule(name, f"have a column {column}", f"{path} with {held}")
    return columns


def sql_name(name: str) -> str:
    """A name inside double quotes."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(value: object) -> str:
    """A value inside single quotes."""
    return str(value).replace("'", "''")
