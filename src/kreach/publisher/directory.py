"""The users of a publisher and their visits. Only this module reads user ids from files.

Everybody has an index 0..N−1, in the order of their ids as text. DuckDB counts, joins and sorts;
nothing here loops over users.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.duckdb import columns_of, file_reader, new_engine, sql_name, translate_errors
from kreach.boundary.times import to_micros
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.people import Attribute, People

__all__ = ["Directory", "Visits"]


class Visits:
    """Visits in order of time: the user's index and the time (microseconds since 1970)."""

    def __init__(self, user: IntArray, at_us: IntArray) -> None:
        self.user = user
        self.at_us = at_us

    def __len__(self) -> int:
        return len(self.user)


class Directory:
    """Users from a visits file, and optionally from a file that lists them with attributes.

    Files are Parquet (also a directory of them) or CSV. The visits file has `user_id`, `ts` and
    attribute columns; the users file has one row per `user_id` and attribute columns. Without a
    users file the users are those who visit, and an attribute of a user is its most frequent
    value in the visits.
    """

    def __init__(self, visits: str | Path, users: str | Path | None = None) -> None:
        self._engine = new_engine()
        self._visit_columns = self._attach("visits", Path(visits), ("user_id", "ts"))
        self._user_columns: list[str] | None = None
        if users is not None:
            self._user_columns = self._attach("users", Path(users), ("user_id",))
        self._refuse_missing("visits", "user_id")
        self._refuse_missing("visits", "ts")
        self._refuse_infinite_times()
        source = "visits"
        if users is not None:
            source = "users"
            self._refuse_missing("users", "user_id")
            self._refuse_duplicates()
        self._run(
            f"""CREATE TABLE people AS
            SELECT row_number() OVER (ORDER BY id) - 1 AS person, id
            FROM (SELECT DISTINCT CAST(s.user_id AS VARCHAR) AS id FROM {source} s)"""
        )
        if users is not None:
            self._refuse_unknown_users()
        self._run(
            """CREATE TABLE visit AS
            SELECT p.person, epoch_us(CAST(v.ts AS TIMESTAMPTZ)) AS at_us
            FROM visits v JOIN people p ON CAST(v.user_id AS VARCHAR) = p.id"""
        )

    @property
    def user_count(self) -> int:
        """N."""
        return int(self._scalar("SELECT count(*) FROM people"))

    @property
    def attribute_names(self) -> list[str]:
        """Columns that may serve as attributes."""
        columns = self._user_columns if self._user_columns is not None else self._visit_columns
        return [name for name in columns if name not in {"user_id", "ts"}]

    def user_ids(self) -> list[str]:
        """All user ids as text, by index. For the gateway's lookup table only."""
        rows = self._run("SELECT id FROM people ORDER BY person").fetchnumpy()
        ids: list[str] = rows["id"].tolist()
        return ids

    def visits(self, start: datetime | None = None, end: datetime | None = None) -> Visits:
        """The visits in [start, end), in order of time."""
        where, bounds = _window(start, end)
        rows = self._run(
            f"SELECT person, at_us FROM visit {where} ORDER BY at_us, person", bounds
        ).fetchnumpy()
        return Visits(_as_ints(rows["person"]), _as_ints(rows["at_us"]))

    def last_seen(self, end: datetime | None = None) -> IntArray:
        """When everybody visited last before `end` (microseconds since 1970); −1 for never."""
        where, bounds = _window(None, end)
        rows = self._run(
            f"""SELECT coalesce(at_us, -1) AS at_us FROM people LEFT JOIN
            (SELECT person, max(at_us) AS at_us FROM visit {where} GROUP BY person) USING (person)
            ORDER BY person""",
            bounds,
        ).fetchnumpy()
        return _as_ints(rows["at_us"])

    def people(
        self,
        attributes: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> People:
        """Everybody by index, with visits counted in [start, end) and the named attributes."""
        where, bounds = _window(start, end)
        rows = self._run(
            f"""SELECT coalesce(n, 0) AS n FROM people LEFT JOIN
            (SELECT person, count(*) AS n FROM visit {where} GROUP BY person) USING (person)
            ORDER BY person""",
            bounds,
        ).fetchnumpy()
        return People(_as_ints(rows["n"]), {name: self._attribute(name) for name in attributes})

    def _attribute(self, name: str) -> Attribute:
        if name not in self.attribute_names:
            known = ", ".join(self.attribute_names) or "none"
            raise KreachError.rule("attribute", f"be a column of the file ({known})", name)
        column = sql_name(name)
        if self._user_columns is not None:
            query = f"""SELECT u.{column} AS v FROM people p
            JOIN users u ON CAST(u.user_id AS VARCHAR) = p.id ORDER BY p.person"""
        else:
            query = f"""SELECT value AS v FROM (
                SELECT p.person, f.{column} AS value, count(*) AS times
                FROM visits f JOIN people p ON CAST(f.user_id AS VARCHAR) = p.id GROUP BY ALL)
            QUALIFY row_number() OVER (PARTITION BY person ORDER BY times DESC, value) = 1
            ORDER BY person"""
        with translate_errors(f"attribute {name}", "be a readable column"):
            return Attribute.of(self._engine.execute(query).fetchnumpy()["v"])

    def _attach(self, name: str, path: Path, required: tuple[str, ...]) -> list[str]:
        """Make a file a view of the database and return its columns."""
        columns = columns_of(self._engine, name, path, required)
        reader = file_reader(name, path, text_columns=("user_id",))
        with translate_errors(name, "be a readable Parquet or CSV file"):
            self._engine.execute(f"CREATE VIEW {name} AS SELECT * FROM {reader}")
        return columns

    def _run(self, query: str, parameters: list[int] | None = None) -> Any:
        with translate_errors("visits", "be readable to the end"):
            return self._engine.execute(query, parameters or [])

    def _refuse_missing(self, table: str, column: str) -> None:
        value = f"CAST({column} AS TIMESTAMPTZ)" if column == "ts" else column
        rule = "be times like 2026-11-01T12:30:00Z" if column == "ts" else "be readable"
        with translate_errors(f"{table}.{column}", rule):
            missing = int(self._scalar(f"SELECT count(*) FROM {table} WHERE {value} IS NULL"))
        if missing:
            raise KreachError.rule(
                f"{table}.{column}",
                "not be missing",
                f"{missing:,} rows without",
                "leave these rows out",
            )

    def _refuse_infinite_times(self) -> None:
        infinite = int(
            self._scalar("SELECT count(*) FROM visits WHERE NOT isfinite(CAST(ts AS TIMESTAMPTZ))")
        )
        if infinite:
            raise KreachError.rule("visits.ts", "be finite times", f"{infinite:,} infinite ones")

    def _refuse_duplicates(self) -> None:
        distinct = "count(DISTINCT CAST(user_id AS VARCHAR))"
        duplicates = int(self._scalar(f"SELECT count(*) - {distinct} FROM users"))
        if duplicates:
            raise KreachError.rule("users.user_id", "be unique", f"{duplicates:,} duplicate rows")

    def _refuse_unknown_users(self) -> None:
        unknown = int(
            self._scalar(
                """SELECT count(DISTINCT v.user_id) FROM visits v
                WHERE CAST(v.user_id AS VARCHAR) NOT IN (SELECT id FROM people)"""
            )
        )
        if unknown:
            rule = "contain only users of the users file"
            advice = "add them to the users file, or leave their visits out"
            raise KreachError.rule("visits", rule, f"{unknown:,} other users", advice)

    def _scalar(self, query: str) -> Any:
        row = self._engine.execute(query).fetchone()
        return row[0] if row else 0


def _window(start: datetime | None, end: datetime | None) -> tuple[str, list[int]]:
    """A WHERE clause for [start, end) and its parameters."""
    conditions, bounds = [], []
    for name, moment, condition in (("start", start, "at_us >= ?"), ("end", end, "at_us < ?")):
        if moment is not None:
            if moment.tzinfo is None:
                raise KreachError.rule(name, "have a time zone", moment.isoformat())
            conditions.append(condition)
            bounds.append(to_micros(moment))
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), bounds


def _as_ints(column: Any) -> IntArray:
    return np.asarray(np.ma.getdata(column), dtype=np.int64)
