"""Which columns of a group-level log would still tell people apart.

A group id hides a person among k only if nothing beside it does the opposite. Two tests, on the
rows of some groups:

*The id itself.* A column that equals the user id of its row, or holds it inside (a URL, an id made
of it), counted against how often it holds the id of another row.

*Linkage.* Of two rows of one group with the same value, how often are they one person's? For a
device id or a session that is always; for a country hardly more often than for any two rows.

    same_person = Σ_{g,v} Σ_u n_gvu (n_gvu − 1) / Σ_{g,v} n_gv (n_gv − 1)

`linked` is the share of all pairs of rows of one person that the value joins. A column that is
different in every row joins none; it can still be joined with another copy of the log.

What a build keeps about people is judged by `columns.py`, by people per value. That test is not for
a log: values change from row to row, and only some groups are looked at, in which many a harmless
value has one or two people.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kreach.boundary.duckdb import sql_name, translate_errors

__all__ = [
    "CONTRACT_COLUMNS",
    "TOGETHER",
    "ColumnView",
    "Verdict",
    "base_same_person",
    "column_views",
    "verdicts",
]

CONTRACT_COLUMNS = ("impression_id", "campaign", "ts", "price")  # what a group-level log has
_IDENTIFIERS = """
    ip ipv6 ip_address ifa idfa gaid aaid adid device_id deviceid cookie cookie_id email email_hash
    phone phone_hash buyeruid eids uid uid2 userid visitor_id visitorid person_id customer_id
    account_id login didsha1 didmd5 dpidsha1 dpidmd5 macsha1 macmd5 fingerprint
"""
_KNOWN_IDENTIFIERS = frozenset(_IDENTIFIERS.split())
_SAME_PERSON = 0.9  # of pairs of rows with one value: from here on the value is a name
_SAME_PERSON_OFTEN = 0.5
_MIN_LINKED = 0.01  # of a person's pairs of rows; chance meetings are fewer
_MIN_ID_LENGTH = 5  # a shorter id is inside many texts by chance
_HOLDS_ID = 0.001  # of rows, above those that hold another row's id
_CHANCE_SIGMAS = 4.0
_LASTING = 0.5  # of a person's pairs of rows: the column hardly changes for a person
_DIFFERENT = 0.99  # of rows: different in (almost) every one
_ONE_ROW_EACH = 1.1  # rows per user: what is different in every row is so for every user
TOGETHER = "lasting columns together"


@dataclass(frozen=True)
class ColumnView:
    """What one column gives away, on the rows that were looked at."""

    column: str
    equals_id: float  # share of rows, above chance
    holds_id: float  # share of rows, above chance
    same_person: float | None  # None where no two rows of a group share a value
    linked: float
    different: float  # distinct values over rows


@dataclass(frozen=True)
class Verdict:
    """A column that must not pass (`level` "refused"), or that somebody must look at."""

    column: str
    level: str
    text: str
    may_be_allowed: bool = True


def column_views(engine: Any, table: str, columns: Sequence[str]) -> list[ColumnView]:
    """Every further column of `table`, which has kreach_user, kreach_group and kreach_row too.

    A last view, TOGETHER, is that of all columns at once that hardly change for a person.
    """
    rows = _first(engine, f"SELECT count(*) FROM {table}")[0] or 1
    pairs_of_people = _pairs(engine, table, "1")[0] or 0
    views = []
    for column in columns:
        name = sql_name(column)
        equal, other, inside, other_inside, distinct = _first(engine, _holding_id(table, name))
        same, pairs = _pairs(engine, table, name)
        views.append(
            ColumnView(
                column,
                _above_chance(equal, other) / rows,
                _above_chance(inside, other_inside) / rows,
                same / pairs if pairs else None,
                same / pairs_of_people if pairs_of_people else 0.0,
                distinct / rows,
            )
        )
    lasting = [
        sql_name(view.column)
        for view in views
        if view.linked >= _LASTING and view.column not in CONTRACT_COLUMNS
    ]
    if len(lasting) > 1:
        same, pairs = _pairs(engine, table, f"({', '.join(lasting)})")
        linked = same / pairs_of_people if pairs_of_people else 0.0
        view = ColumnView(TOGETHER, 0.0, 0.0, same / pairs if pairs else None, linked, 0.0)
        views.append(view)
    return views


def verdicts(views: Sequence[ColumnView], base: float, rows_per_user: float) -> Iterator[Verdict]:
    """What to say of each column. `base` is `same_person` of any two rows of a group."""
    for view in views:
        verdict = _about_the_id(view)
        if verdict is None and view.column not in CONTRACT_COLUMNS:
            verdict = _about_linkage(view, base) or _about_rows(view, rows_per_user)
        if verdict is not None:
            yield verdict


def _about_the_id(view: ColumnView) -> Verdict | None:
    name = view.column
    if view.equals_id > _HOLDS_ID:
        text = f"{name} equals the user id in {view.equals_id:.1%} of rows"
        return Verdict(name, "refused", text, may_be_allowed=False)
    if view.holds_id > _HOLDS_ID:
        text = f"{name} holds the user id inside it in {view.holds_id:.1%} of rows"
        return Verdict(name, "refused", text)
    if name.lower() in _KNOWN_IDENTIFIERS:
        return Verdict(name, "refused", f"{name} is the name of an identifier")
    return None


def _about_linkage(view: ColumnView, base: float) -> Verdict | None:
    if view.same_person is None or view.linked < _MIN_LINKED:
        return None
    together = view.column == TOGETHER
    what = "the same values in all lasting columns" if together else f"the same {view.column}"
    clearer = 1.0 - view.same_person <= 0.5 * (1.0 - base)  # than the group alone
    if not clearer or view.same_person < _SAME_PERSON_OFTEN:
        return None
    level = "refused" if view.same_person >= _SAME_PERSON and not together else "warning"
    text = (
        f"two rows of a group with {what} are one person's in {view.same_person:.0%} of cases "
        f"(any two rows: {base:.0%})"
    )
    return Verdict(view.column, level, text)


def _about_rows(view: ColumnView, rows_per_user: float) -> Verdict | None:
    name = view.column
    if view.different < _DIFFERENT:
        return None
    if rows_per_user < _ONE_ROW_EACH:
        return Verdict(name, "refused", f"{name} is different for almost every user")
    text = f"{name} is different in almost every row: it joins this log with any other copy"
    return Verdict(name, "warning", text)


def base_same_person(engine: Any, table: str) -> float:
    """How often two rows of one group are one person's."""
    same, _ = _pairs(engine, table, "1")
    total = _first(
        engine,
        f"""SELECT sum(n * (n - 1)) FROM
        (SELECT count(*)::DOUBLE AS n FROM {table} GROUP BY kreach_group)""",
    )[0]
    return float(same / total) if total else 0.0


def _pairs(engine: Any, table: str, value: str) -> tuple[float, float]:
    """Pairs of rows of one group with the same value: those of one person, and all."""
    same, pairs = _first(
        engine,
        f"""WITH people AS (
            SELECT kreach_group, {value} AS v, kreach_user, count(*)::DOUBLE AS n
            FROM {table} GROUP BY ALL),
        cells AS (
            SELECT sum(n) AS n, sum(n * (n - 1)) AS same FROM people
            WHERE v IS NOT NULL GROUP BY kreach_group, v)
        SELECT sum(same), sum(n * (n - 1)) FROM cells""",
    )
    return float(same or 0.0), float(pairs or 0.0)


def _above_chance(own: int, other: int) -> float:
    """Rows with their own id in a column, less those with a foreign one; 0 if chance may do it."""
    excess = own - other
    return float(excess) if excess > _CHANCE_SIGMAS * (own + other) ** 0.5 else 0.0


def _holding_id(table: str, name: str) -> str:
    """Rows that equal the id, or another row's; that hold the one or the other; values."""
    long_enough = f"length(kreach_user) >= {_MIN_ID_LENGTH}"
    other_too = f"kreach_user <> other AND length(other) >= {_MIN_ID_LENGTH}"
    return f"""SELECT count(*) FILTER (WHERE value = kreach_user),
        count(*) FILTER (WHERE kreach_user <> other AND value = other),
        count(*) FILTER (WHERE {long_enough} AND contains(value, kreach_user)),
        count(*) FILTER (WHERE {other_too} AND contains(value, other)),
        count(DISTINCT value)
        FROM (SELECT CAST({name} AS VARCHAR) AS value, kreach_user,
            lag(kreach_user, 1, '') OVER (ORDER BY hash(kreach_row)) AS other FROM {table})"""


def _first(engine: Any, query: str) -> tuple[Any, ...]:
    with translate_errors("log", "be readable to the end"):
        rows: list[tuple[Any, ...]] = engine.execute(query).fetchall()
    return rows[0]
