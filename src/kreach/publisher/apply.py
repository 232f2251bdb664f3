"""A user-level log made group-level: same rows and columns, `group` in place of `user_id`.

DuckDB does the work in passes over the log: count rows per user; look at some groups' rows for
columns that identify people (`identifying.py`); write. Rows keep their order because each carries
its number through the join and is sorted by it, on disk where memory does not suffice. A hash join
alone would not keep them in order.

Users that the build does not know are named as the gateway names them (`group_lookup.py`).
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.duckdb import (
    TEXT_FILES,
    columns_of,
    file_reader,
    new_engine,
    parquet_files,
    sql_name,
    sql_text,
    translate_errors,
)
from kreach.boundary.files import read_catalogue
from kreach.errors import KreachError
from kreach.publisher.group_lookup import sticky_partition, substitute_row
from kreach.publisher.identifying import ColumnView, base_same_person, column_views, verdicts
from kreach.publisher.store import read_facts

__all__ = ["Applied", "apply_groups"]

_MEMORY = "1GB"
_BATCH = 50_000  # users hashed at a time
_SAMPLE_ROWS = 200_000  # at least so many are looked at for columns that identify, if there are
_TEXTS = ("user_id", "campaign", "impression_id")  # of a CSV: the id 007 is not the number 7


@dataclass(frozen=True)
class Applied:
    """What was written, and what was seen on the way."""

    out: str
    version: str
    rows: int
    users: int
    unknown_users: int  # that the build does not know; named as the gateway names them
    unknown_rows: int
    groups: int
    same_person: float  # how often two rows of one group are one person's
    columns: tuple[ColumnView, ...]
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def apply_groups(
    folder: Path,
    log: Path,
    out: Path,
    *,
    allow: tuple[str, ...] = (),
    refuse_unknown: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Applied:
    """Write `log` with groups of the build in `folder` instead of user ids.

    `log` and `out` are Parquet, CSV or a folder of Parquet, by name. `out` appears when it is
    complete. Columns that would identify people are refused unless `allow` names them; a copy of
    the user id is refused in any case.
    """
    out = _check_out(out, log)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        engine = new_engine()
        engine.execute(f"SET memory_limit = '{_MEMORY}'")
        engine.execute(f"SET temp_directory = '{sql_text(Path(scratch) / 'spill')}'")
        engine.execute("SET preserve_insertion_order = true")
        source = _Log(engine, log, out)
        progress("counting users")
        rows = _count_users(engine, source.reader)
        version, group_count = _load_build(engine, folder)
        unknown_users, unknown_rows = _name_groups(engine, folder)
        if refuse_unknown and unknown_users:
            rule = "hold only users of the build"
            raise KreachError.rule("log", rule, f"{unknown_users:,} others")
        users = _scalar(engine, "SELECT count(*) FROM log_user")
        progress("looking for columns that identify people")
        views, base = _views(engine, source)
        warnings = _judge(views, base, rows / max(users, 1), source.further, allow)
        progress(f"writing {rows:,} rows")
        written = source.write(Path(scratch) / "result")
        if written != rows:
            rule = "not change while it is read"
            raise KreachError.rule("log", rule, f"{written:,} rows after {rows:,}")
        _publish(Path(scratch) / "result", out)
    return Applied(
        str(out),
        version,
        rows,
        users,
        unknown_users,
        unknown_rows,
        group_count,
        base,
        tuple(views),
        warnings,
    )


def _check_out(out: Path, log: Path) -> Path:
    """The absolute path of a result that can be written; refused otherwise."""
    out = out.absolute()
    if out.suffix.lower() not in ("", ".parquet", *TEXT_FILES):
        rule = "end in .parquet, .csv, .tsv or .txt, or have no ending for a folder of Parquet"
        raise KreachError.rule("out", rule, out.name)
    if out.exists() or out.is_symlink():
        raise KreachError.rule("out", "be a new file or folder", str(out))
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise KreachError.rule("out", "be in a folder that can be written", str(out))
    if log.is_dir() and log.resolve() in out.resolve().parents:
        raise KreachError.rule("out", "not be inside the log", str(out))
    return out


class _Log:
    """The log to read, and how its rows are written."""

    def __init__(self, engine: Any, path: Path, out: Path) -> None:
        self._engine, self._path, self._out = engine, path, out
        columns = columns_of(engine, "log", path, ("user_id",))
        taken = [name for name in columns if name.lower() == "group"]
        if taken:
            raise KreachError.rule("log", "have no column group yet", taken[0])
        for name in columns:
            if name.lower().startswith("kreach_"):
                raise KreachError.rule("log", "have no column that starts with kreach_", name)
        self.columns = columns
        self.further = tuple(name for name in columns if name != "user_id")
        self.reader = self._reader_of(path)

    def _reader_of(self, file: Path) -> str:
        """How to read a file: as text where text is written, so that nothing changes its form."""
        texts = tuple(name for name in _TEXTS if name in self.columns)
        text_out = self._out.suffix.lower() in TEXT_FILES
        return file_reader("log", file, text_columns=texts, all_text=text_out)

    def write(self, result: Path) -> int:
        """Write all rows in order; how many."""
        if self._out.suffix:
            return self._copy(self.reader, self.columns, result)
        result.mkdir()
        if not self._path.is_dir():
            return self._copy(self.reader, self.columns, result / "part-00000.parquet")
        rows = 0
        for file in parquet_files("log", self._path):  # one for one: folders stay partitions
            target = result / file.relative_to(self._path)
            target.parent.mkdir(parents=True, exist_ok=True)
            own = columns_of(self._engine, "log", file, ("user_id",))
            rows += self._copy(self._reader_of(file), own, target)
        return rows

    def _copy(self, reader: str, columns: list[str], target: Path) -> int:
        listed = ", ".join(
            'u.kreach_group AS "group"' if name == "user_id" else f"l.{sql_name(name)}"
            for name in columns
        )
        query = f"""SELECT {listed} FROM
            (SELECT *, row_number() OVER () AS kreach_row FROM {reader}) l
            JOIN log_user u ON u.id = CAST(l.user_id AS VARCHAR) ORDER BY l.kreach_row"""
        suffix = self._out.suffix.lower()
        kind = "FORMAT parquet"
        if suffix in TEXT_FILES:
            delimiter = "\\t" if suffix == ".tsv" else ","
            kind = f"FORMAT csv, HEADER, DELIMITER E'{delimiter}'"
        with translate_errors("log", "be readable to the end"):
            copied = self._engine.execute(f"COPY ({query}) TO '{sql_text(target)}' ({kind})")
            return int(copied.fetchall()[0][0])


def _count_users(engine: Any, reader: str) -> int:
    """Table log_row_count (id, rows) of the log's users; how many rows there are."""
    with translate_errors("log", "be readable to the end"):
        engine.execute(
            f"""CREATE TEMP TABLE log_row_count AS
            SELECT CAST(user_id AS VARCHAR) AS id, count(*) AS n FROM {reader} GROUP BY 1"""
        )
    missing = _scalar(engine, "SELECT sum(n) FROM log_row_count WHERE id IS NULL OR id = ''")
    if missing:
        raise KreachError.rule(
            "log.user_id", "not be missing", f"{missing:,} rows without", "leave them out"
        )
    return _scalar(engine, "SELECT sum(n) FROM log_row_count")


def _load_build(engine: Any, folder: Path) -> tuple[str, int]:
    """Tables member (row, id, partition, place) and released_group (place, id)."""
    facts, _ = read_facts(folder)
    catalogue = read_catalogue(folder / "release")
    if facts["version"] != catalogue.version:
        rule = f"be one build (publisher {facts['version']})"
        raise KreachError.rule("folder", rule, f"release {catalogue.version}")
    groups = {
        "place": np.arange(len(catalogue)),
        "name": np.array(catalogue.groups, dtype=object),
    }
    engine.register("groups_array", groups)
    engine.execute("CREATE TEMP TABLE released_group AS SELECT * FROM groups_array")
    reader = file_reader("folder", folder / "publisher" / "people.parquet")
    with translate_errors("folder", "hold a readable people.parquet"):
        described = engine.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()
        layers = sorted(str(row[0]) for row in described if str(row[0]).startswith("placed_"))
        places = ", ".join(map(sql_name, layers))
        engine.execute(
            f"""CREATE TEMP TABLE member AS SELECT row_number() OVER () - 1 AS member_row,
            user_id AS id, [{places}] AS places FROM {reader}"""
        )
    return catalogue.version, len(catalogue)


def _name_groups(engine: Any, folder: Path) -> tuple[int, int]:
    """Table log_user (id, n, kreach_group), as the gateway names groups; unknown users and rows.

    A user that is not a member gets a substitute member by keyed hash, and of overlapping groups
    everybody gets the one that a keyed hash picks.
    """
    _, key = read_facts(folder)
    people = _scalar(engine, "SELECT count(*) FROM member")
    partitions = _scalar(engine, "SELECT max(len(places)) FROM member")
    engine.execute(
        "CREATE TEMP TABLE choice (id VARCHAR, member_row BIGINT, layer BIGINT, known BOOLEAN)"
    )
    hashed = "SELECT c.id, m.member_row FROM log_row_count c LEFT JOIN member m USING (id)"
    if partitions == 1:  # a member's only group needs no hash
        engine.execute(
            """INSERT INTO choice SELECT id, member_row, 0, true
            FROM log_row_count JOIN member USING (id)"""
        )
        hashed += " WHERE m.member_row IS NULL"
    for ids, rows in _batches(engine, hashed):
        choice = {
            "id": np.array(ids, dtype=object),
            "member_row": np.array(
                [
                    substitute_row(key, user, people) if row is None else row
                    for user, row in zip(ids, rows, strict=True)
                ],
                dtype=np.int64,
            ),
            "layer": np.array([sticky_partition(key, user, partitions) for user in ids]),
            "known": np.array([row is not None for row in rows]),
        }
        engine.register("choice_array", choice)
        engine.execute("INSERT INTO choice SELECT * FROM choice_array")
        engine.unregister("choice_array")
    engine.execute(
        """CREATE TEMP TABLE log_user AS
        SELECT c.id, n, known, g.name AS kreach_group
        FROM choice c JOIN log_row_count USING (id) JOIN member m USING (member_row)
        JOIN released_group g ON g.place = m.places[c.layer + 1]"""
    )
    users, named = (
        _scalar(engine, f"SELECT count(*) FROM {table}") for table in ("log_row_count", "log_user")
    )
    if users != named:
        raise KreachError.rule("folder", "place everybody in a released group", "other numbers")
    unknown = "FROM log_user WHERE NOT known"
    return _scalar(engine, f"SELECT count(*) {unknown}"), _scalar(
        engine, f"SELECT sum(n) {unknown}"
    )


def _batches(engine: Any, query: str) -> Iterator[tuple[list[str], list[int | None]]]:
    """The rows of a query in batches."""
    engine.execute(f"CREATE OR REPLACE TEMP TABLE to_hash AS {query}")
    count = _scalar(engine, "SELECT count(*) FROM to_hash")
    for start in range(0, count, _BATCH):
        rows = engine.execute(
            f"SELECT * FROM to_hash WHERE rowid >= {start} AND rowid < {start + _BATCH}"
        ).fetchall()
        ids, members = zip(*rows, strict=True)
        yield list(ids), list(members)


def _views(engine: Any, source: _Log) -> tuple[list[ColumnView], float]:
    """What further columns give away, on all rows of some groups."""
    listed = ", ".join(f"l.{sql_name(name)}" for name in source.further)
    with translate_errors("log", "be readable to the end"):
        engine.execute(
            f"""CREATE TEMP TABLE looked_at AS
            WITH sizes AS (
                SELECT kreach_group, sum(n) AS n FROM log_user GROUP BY 1),
            chosen AS (
                SELECT kreach_group FROM sizes QUALIFY
                sum(n) OVER (ORDER BY hash(kreach_group), kreach_group) - n < {_SAMPLE_ROWS})
            SELECT u.id AS kreach_user, kreach_group, row_number() OVER () AS kreach_row
            {"," if listed else ""} {listed}
            FROM {source.reader} l JOIN log_user u ON u.id = CAST(l.user_id AS VARCHAR)
            WHERE kreach_group IN (SELECT kreach_group FROM chosen)"""
        )
    base = base_same_person(engine, "looked_at")
    return column_views(engine, "looked_at", source.further), base


def _judge(
    views: list[ColumnView],
    base: float,
    rows_per_user: float,
    columns: tuple[str, ...],
    allow: tuple[str, ...],
) -> tuple[str, ...]:
    """Refuse columns that identify people, all at once; what remains are warnings."""
    for name in allow:
        if name not in columns:
            rule = f"name further columns of the log ({', '.join(columns) or 'none'})"
            raise KreachError.rule("allow", rule, name)
    refused, warnings = [], []
    for verdict in verdicts(views, base, rows_per_user):
        passes = verdict.column in allow and verdict.may_be_allowed
        if verdict.level == "refused" and not passes:
            refused.append(verdict)
        else:
            warnings.append(verdict.text + (", allowed" if passes else ""))
    if refused:
        names = [verdict.column for verdict in refused if verdict.may_be_allowed]
        advice = "leave these columns out of the log"
        if names:
            advice += f", or pass --allow {','.join(names)} on purpose"
        texts = "; ".join(verdict.text for verdict in refused)
        raise KreachError(f"log identifies people: {texts}. {advice}", field="log")
    if base > 0.5:
        warnings.append(
            f"two rows of one group are one person's in {base:.0%} of cases: few members of a "
            "group are in this log"
        )
    return tuple(warnings)


def _publish(result: Path, out: Path) -> None:
    if out.exists():
        raise KreachError.rule("out", "be a new file or folder", str(out))
    try:
        os.replace(result, out)
    except OSError:
        shutil.rmtree(result, ignore_errors=True)
        raise


def _scalar(engine: Any, query: str) -> int:
    (row,) = engine.execute(query).fetchall()
    return int(row[0] or 0)
