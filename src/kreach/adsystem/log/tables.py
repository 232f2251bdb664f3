"""The columns of impressions and groups in an engine, under the names and types that queries use.

A source has whatever columns it has. Here it gets the shape below, or an error that says which
column is missing. Text stays text: a group 007 is not the number 7.

    impressions: campaign, group, ts, and where the source has them impression_id, catalogue
                 (version of the groups), price_micros, received (when the row arrived),
                 filed (the day whose folder holds the row), zoned (the time names a zone),
                 draw_lost and group_key of a prepared log (`prepare.py`)
    groups:      group, size, targeted, and dispersion (infinite: uniform) or visit_shares; where
                 requests are those of targeted people only, size is how many they are
    members:     class, headcount, group: a row per membership class and group of it
"""

from dataclasses import dataclass, replace
from datetime import datetime

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.stored_shares import KEY, LOST, StoredShares
from kreach.boundary.duckdb import rename_advice
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

__all__ = [
    "CHECK",
    "MARK",
    "GroupTable",
    "LogTable",
    "count_rows",
    "group_rows",
    "log_columns",
    "log_rows",
    "log_table",
    "member_rows",
    "require",
]

MARK, CHECK = "mark", "check"
"""Columns of two hashes in place of an id."""

_FILED = ("day", "date", "dt")
_DATE = r"^\s*\d{4}-\d\d-\d\d"
_ZONE = r":\d\d(\.\d+)?\s*([+-]\d\d(:?\d\d)?|[A-Za-z]+(/[A-Za-z0-9_+-]+)+)$"
_UTC = r"([+-]00(:?00)?|Etc/UTC)$"


@dataclass(frozen=True)
class LogTable:
    """The impressions of a log. With `unique_ids` duplicates are not searched for."""

    rows: ir.Table
    unique_ids: bool
    shares: StoredShares | None = None  # that its rows hold
    hashes_ids: bool = False  # the engine hashes ids faster than it compares them
    ranked: ir.Table | None = None  # `ranked_copies`, once searched for
    has_group_keys: bool = False  # its groups are numbers for those of the log (`copies.py`)
    counted_seconds: int | None = None  # rows are counts of such periods (`count_tables.py`)

    @property
    def may_repeat(self) -> bool:
        """Whether to search for duplicate impressions."""
        return bool(self.id_columns) and not self.unique_ids

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that identify an impression: its id, or hashes of it (`copies.py`)."""
        hashes = tuple(name for name in (MARK, CHECK) if name in self.rows.columns)
        if hashes or "impression_id" not in self.rows.columns:
            return hashes
        return ("impression_id",)


@dataclass(frozen=True, repr=False)
class GroupTable:
    """The groups of a report, checked, and the version and time of their release."""

    rows: ir.Table
    members: ir.Table | None  # overlapping groups only
    kind: tuple[str, ...]  # the columns by which groups differ
    people: int  # targeted
    sizes: tuple[int, ...]
    memberships: int
    version: str | None = None
    created: datetime | None = None
    model: VisitModel | None = None  # of the release; disjoint groups without visit_shares only
    people_behind_request: float | None = None  # where only those of targeted people arrive

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version={self.version!r}"
        model = "none" if self.model is None else repr(self.model)
        return f"GroupTable(people={self.people:,}{version}, model={model})"

    def with_model(self, model: VisitModel | None) -> "GroupTable":
        """The same with a visit model; refuses groups that models are not made for."""
        if model is not None and not self.takes_model:
            rule = "be None for overlapping groups and for groups with visit_shares"
            raise KreachError.rule("model", rule, "a visit model")
        if model is not None and self.people_behind_request is not None:
            model = model.in_groups_of(self.people_behind_request)
        return replace(self, model=model)

    @property
    def takes_model(self) -> bool:
        """Whether a visit model can describe these groups."""
        return self.members is None and self.kind != ("visit_shares",)


def require(name: str, table: ir.Table, source: str, columns: tuple[str, ...]) -> None:
    """Refuse a source that lacks a column, and list those it has."""
    for column in columns:
        if column not in table.columns:
            columns_here = ", ".join(table.columns) or "no columns"
            listed, advice = f"{source} with {columns_here}", rename_advice(column, table.columns)
            raise KreachError.rule(name, f"have a column {column}", listed, advice)


def log_table(
    rows: ir.Table,
    *,
    unique_ids: bool = False,
    shares: StoredShares | None = None,
    dialect: str | None = None,
) -> LogTable:
    """Impressions in the shape of `log_rows`, with the shares that they hold."""
    stored = [name for name in (LOST, KEY) if name in rows.columns]
    hashes_ids = dialect == "duckdb"
    if shares is not None and len(stored) == 2:
        return LogTable(rows, unique_ids, shares, hashes_ids)
    return LogTable(rows.drop(*stored) if stored else rows, unique_ids, None, hashes_ids)


def log_rows(raw: ir.Table, source: str) -> ir.Table:
    """A source of impressions in the shape that queries expect."""
    columns = log_columns(raw, source)
    for name in (LOST, KEY):
        if name in raw.columns and raw[name].type().is_integer():
            columns[name] = raw[name].cast("int64")
    return raw.select(**columns)


def log_columns(raw: ir.Table, source: str) -> dict[str, ir.Value]:
    """The columns of a source of impressions under the names and types that queries use."""
    require("impressions", raw, source, ("campaign", "group", "ts"))
    columns: dict[str, ir.Value] = {
        "campaign": _text("campaign", raw["campaign"]),
        "group": raw["group"] if raw["group"].type().is_integer() else _text("group", raw["group"]),
        "ts": _time("ts", raw["ts"]),
    }
    if "impression_id" in raw.columns:
        columns["impression_id"] = _text("impression_id", raw["impression_id"])
    if "catalogue" in raw.columns:
        columns["catalogue"] = _text("catalogue", raw["catalogue"])
    if "price_micros" in raw.columns:
        columns["price_micros"] = raw["price_micros"]
    if "received" in raw.columns:
        columns["received"] = _time("received", raw["received"])
    filed = next((c for c in _FILED if c in raw.columns and raw[c].type().is_date()), None)
    if filed is not None:
        columns["filed"] = raw[filed]
    if raw["ts"].type().is_string():
        columns["zoned"] = raw["ts"].re_search(_ZONE) & ~raw["ts"].re_search(_UTC)
    return columns


def _text(name: str, column: ir.Value, source: str = "impressions") -> ir.Value:
    kind = column.type()
    if kind.is_string():
        return column
    if kind.is_integer() or kind.is_uuid():
        return column.cast("string")
    raise KreachError.rule(source, f"hold text or whole numbers in {name}", str(kind))


def _time(name: str, column: ir.Value, source: str = "impressions") -> ir.Value:
    """An instant, in UTC unless it names a zone; null where it cannot be parsed."""
    kind = column.type()
    if kind.is_timestamp():  # of another zone, an engine would cut hours and days there
        return column if kind.timezone in (None, "UTC") else column.cast("timestamp('UTC', 6)")
    if kind.is_date():
        return column.cast("timestamp")
    if kind.is_string():
        dated = column.re_search(_DATE).ifelse(column, ibis.null("string"))
        return dated.try_cast("timestamp('UTC')")
    raise KreachError.rule(source, f"hold times in {name}", str(kind))


def count_rows(raw: ir.Table, source: str) -> ir.Table:
    """A source of counts in the shape that queries expect; names in any case."""
    raw = raw.rename({name.lower(): name for name in raw.columns if name != name.lower()})
    require("counts", raw, source, ("campaign", "period", "group", "impressions"))
    columns: dict[str, ir.Value] = {
        "campaign": _text("campaign", raw["campaign"], "counts"),
        "group": _text("group", raw["group"], "counts"),
        "ts": _time("period", raw["period"], "counts"),
        "impressions": _whole(raw["impressions"]),
        "duplicates": ibis.literal(0, type="int64"),
    }
    if "duplicates" in raw.columns:
        columns["duplicates"] = _whole(raw["duplicates"])
    return raw.select(**columns)


def group_rows(raw: ir.Table, source: str) -> ir.Table:
    """A source of groups in the shape that queries expect; `open_groups` checks the values."""
    require("groups", raw, source, ("group", "size"))
    size = _whole(raw["size"])
    targeted = _whole(raw["targeted"]) if "targeted" in raw.columns else size
    columns: dict[str, ir.Value] = {
        "group": raw["group"].cast("string"),
        "size": size,
        "targeted": targeted,
    }
    if "requests" in raw.columns:  # those of targeted people only: nobody else is behind one
        only = (raw["requests"] == "targeted") & (targeted > 0) & (targeted <= size)
        columns["size"] = only.ifelse(targeted, size)
        columns["requests"] = raw["requests"].cast("string")
    if "dispersion" in raw.columns:
        number = raw["dispersion"].try_cast("float64")
        unreadable = raw["dispersion"].notnull() & number.isnull()
        columns["dispersion"] = unreadable.ifelse(-1.0, number.fill_null(float("inf")))
    if "visit_shares" in raw.columns:
        columns["visit_shares"] = _numbers(raw["visit_shares"])
    return raw.select(**columns)


def _whole(column: ir.Value) -> ir.Value:
    """Whole numbers; null for text or fractions."""
    if column.type().is_integer():
        return column.cast("int64")
    number = column.try_cast("float64")
    return (number == number.floor()).ifelse(number, ibis.null("float64")).cast("int64")


def _numbers(column: ir.Value) -> ir.Value:
    """A list of numbers; in CSV like [0.5, 0.5] or 0.5;0.5."""
    if not column.type().is_string():
        return column.cast("array<float64>")
    bare = column.re_replace(r"[\[\]\s]", "").replace(";", ",")
    return bare.split(",").map(lambda share: share.try_cast("float64"))


def member_rows(raw: ir.Table, source: str) -> ir.Table:
    """Membership classes: class, headcount, groups, listed (how many groups), different (of them).

    Its groups identify a class: one that a file lists twice is one class of all its people.
    """
    require("classes", raw, source, ("groups", "headcount"))
    groups = raw["groups"]
    listed = groups.split(";") if groups.type().is_string() else groups.cast("array<string>")
    listed = listed.map(lambda group: group.strip()) if groups.type().is_string() else listed
    rows = raw.select(groups=listed, headcount=_whole(raw["headcount"]))
    # with the length of each id before it, so that different lists never join to the same text
    spelled = rows["groups"].sort().map(lambda group: group.length().cast("string") + ":" + group)
    rows = rows.mutate(
        **{"class": spelled.join("")},
        different=rows["groups"].unique().length(),
        listed=rows["groups"].length(),
    )
    return rows.select("class", "headcount", "groups", "different", "listed")
