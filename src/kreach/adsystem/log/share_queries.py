"""Queries on logs that hold shares of draws (`prepare.py` writes them), for any engine.

    stored_counts   group, n0, n1, ...                  as `queries.counts`
    stored_losses   key, slot, lost, doubt, ...         as `draw_queries.losses`
    stored_parts    slot, part, n, first, last, lost    draws by part of the day
    head_changes    key, slot, part, lost, doubt        what the first rows of slots lack instead

Inside a slot a share may not look out of it, so the stored ones of its first rows, up to the last
gap of the model, do not hold. They are computed from the slot's own rows, and the difference to
what is stored is added to the sums. `draw_queries.py` has the shares themselves.
"""

from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from kreach.adsystem.log.draw_queries import doubt_of, losses, near_rows, part_of, slot_of
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import count_where, inside, place_rows, slot_columns, slot_counts
from kreach.adsystem.log.stored_shares import KEY, LOST
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel

__all__ = [
    "DIALECTS",
    "changed_parts",
    "head_changes",
    "key_of",
    "keyed_groups",
    "stored_counts",
    "stored_losses",
    "stored_parts",
    "stored_rows",
]

DIALECTS = ("duckdb", "pyspark")
"""Engines on which `key_of` gives the same numbers."""

_DIGITS = 15  # of 4 bits: two of a million groups share a key with a probability of 4 in 10⁷


@ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
def _md5(text: str) -> str:  # type: ignore[empty-body]
    """Hexadecimal digits."""


@ibis.udf.scalar.builtin(name="conv")  # type: ignore[untyped-decorator]
def _conv(digits: str, base: int, to: int) -> str:  # type: ignore[empty-body]
    """Digits of one base in another, on Spark."""


def key_of(group: ir.Value, dialect: str) -> ir.Value:
    """A number for a group, the same on every engine and in every version of it."""
    digits = _md5(group.cast("string")).substr(0, _DIGITS)
    if dialect == "duckdb":
        return (ibis.literal("0x") + digits).cast("int64")
    return _conv(digits, 16, 10).cast("int64")


def keyed_groups(groups: GroupTable, dialect: str) -> ir.Table:
    """The rows of a group table under the keys of their groups."""
    rows = groups.rows.mutate(key=key_of(groups.rows["group"], dialect)).view()
    return rows.mutate(group=rows["key"].cast("string"))


def stored_counts(log: LogTable, place: Place, slots: Sequence[Window], copies: int) -> ir.Table:
    """group (its key), n0, n1, ..., and copies if there are any: as `queries.counts`."""
    rows = place_rows(log, place)
    rows = rows.mutate(group=rows[KEY])
    if not copies:
        return slot_columns(rows, slots, slot_counts)

    def columns(rows: ir.Table, slots: Sequence[Window], first: int) -> dict[str, ir.Value]:
        counts, result = rows[LOST].notnull() | rows["group"].isnull(), {}
        for at, slot in enumerate(slots, first):
            here = ibis.and_(*inside(rows["ts"], slot))
            result[f"n{at}"] = count_where(rows, counts & here)
            result[f"m{at}"] = count_where(rows, ~counts & here)
        return result

    counted = slot_columns(rows, slots, columns)
    repeated = [counted[f"m{at}"] for at in range(len(slots))]
    return counted.mutate(copies=sum(repeated[1:], repeated[0]))


def stored_rows(
    log: LogTable, place: Place, windows: Sequence[Window], dialect: str, known: ir.Table | None
) -> ir.Table:
    """key, us, stored: rows in one of the windows that count, of `known` groups if given."""
    rows = place_rows(log, place)
    times = ibis.or_(*(ibis.and_(*inside(rows["ts"], window)) for window in windows))
    rows = rows.filter(times, rows[LOST].notnull())
    if known is not None:
        rows = rows.semi_join(known, rows[KEY] == known["key"])
    return rows.select(key=rows[KEY], us=micros(rows["ts"], dialect), stored=rows[LOST])


def head_changes(heads: ir.Table, model: VisitModel, slots: Sequence[Window]) -> ir.Table:
    """key, slot, part, lost, doubt: what rows of heads lack inside their slot, less what is stored.

    All rows before one that matter lie in its own head, so heads are computed alone.
    """
    columns = ("key", "slot", "part", "lost", "doubt")
    computed = losses(near_rows(heads.select("key", "us"), ["key"], model), ["key"], model, slots)
    lacking = heads.filter(heads["stored"] > 0)
    us, lost = lacking["us"], lacking["stored"]
    stored = lacking.select(
        key="key", slot=slot_of(us, slots), part=part_of(us), lost=-lost, doubt=-doubt_of(lost)
    )
    typed = {"slot": "int64", "part": "int64"}
    return computed.select(*columns).cast(typed).union(stored.select(*columns).cast(typed))


def stored_losses(rows: ir.Table, changes: ir.Table | None, slots: Sequence[Window]) -> ir.Table:
    """key, slot, lost, doubt, running_lost, running_doubt: of `stored_rows` and what changes.

    What changes at the start of a slot is no change of everything so far, but for the first slot.
    """
    names = ("lost", "doubt", "running_lost", "running_doubt")
    lacking = rows.filter(rows["stored"] > 0)
    lost, slot = lacking["stored"], slot_of(lacking["us"], slots).cast("int64")
    doubt = doubt_of(lost)
    sums = dict(zip(names, (lost, doubt, lost, doubt), strict=True))
    if len(slots) == 1:
        sums = {"lost": lost, "doubt": doubt}
    stored = lacking.select(key="key", slot=slot, **sums)
    if changes is None:
        return stored
    first = (changes["slot"] == 0).ifelse(1, 0)
    change = {name: changes[name.removeprefix("running_")] for name in sums}
    change = {
        name: (value * first if name.startswith("running_") else value).cast("int64")
        for name, value in change.items()
    }
    return stored.union(changes.select(key="key", slot="slot", **change))


def stored_parts(rows: ir.Table, slots: Sequence[Window], dialect: str) -> ir.Table:
    """slot, part, n, first, last, lost of `stored_rows`."""
    flat = rows.mutate(slot=slot_of(rows["us"], slots), part=part_of(rows["us"]))
    return flat.group_by("slot", "part").aggregate(
        n=flat.count(),
        first=flat["us"].min(),
        last=flat["us"].max(),
        lost=_wide_sum(flat["stored"], dialect),
    )


def _wide_sum(column: ir.Value, dialect: str) -> ir.Value:
    """A sum that may exceed 64 bits; DuckDB's own are that wide, and quicker."""
    wide: Any = dt.Decimal(38, 0)
    return column.sum().cast(wide) if dialect == "duckdb" else column.cast(wide).sum().cast(wide)


def changed_parts(parts: ir.Table, changes: ir.Table | None, dialect: str) -> ir.Table:
    """slot, part, lost, running_lost: sums of what is stored, with what changes in heads."""
    stored = parts.select("slot", "part", lost="lost", running_lost="lost")
    if changes is not None:
        sums = changes.group_by("slot", "part").aggregate(lost=_wide_sum(changes["lost"], dialect))
        none = ibis.literal(0).cast(dt.Decimal(38, 0))
        running = (sums["slot"] == 0).ifelse(sums["lost"], none)
        more = sums.select("slot", "part", lost="lost", running_lost=running)
        stored = stored.union(more.cast(dict(stored.schema().items())))
    return stored.group_by("slot", "part").aggregate(
        lost=stored["lost"].sum().cast("float64"),
        running_lost=stored["running_lost"].sum().cast("float64"),
    )
