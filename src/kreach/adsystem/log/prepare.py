"""Writes a copy of a log whose rows hold their shares of draws, so that reports only add them up.

A report with a visit model sorts the rows of each group to see how long after each other they
came. The copy has that done once, for one model and one version of the groups:

    draw_lost   what the row lacks of a draw, in units of 1/2³⁶; null where the row does not count
    group_key   a number for the group

beside all columns of the log. Reports from the copy are those from the log, to the last unit. What
does not fit (another model or traffic, other groups, files added or gone) is computed as before.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.draw_queries import lost_of_rows
from kreach.adsystem.log.engine import Engine, Source, source_name
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.queries import inside
from kreach.adsystem.log.share_queries import DIALECTS, key_of
from kreach.adsystem.log.stored_shares import KEY, LOST, StoredShares
from kreach.adsystem.log.tables import GroupTable, log_columns
from kreach.boundary.times import DAY_SECONDS, MICROS, Window, from_seconds
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

__all__ = ["PreparedLog", "prepare_log"]

_DAY_US = DAY_SECONDS * MICROS
_OWN = "kreach_"  # prefix of columns that do not leave this module


@dataclass(frozen=True)
class PreparedLog:
    """What was written."""

    folder: Path
    rows: int
    copies: int  # later rows of an impression id that an earlier one has
    files: int


def prepare_log(
    engine: Engine,
    source: Source,
    groups: GroupTable,
    out: str | Path,
    *,
    unique_ids: bool = False,
) -> PreparedLog:
    """Write a copy of a log with shares of draws, for the visit model and version of the groups.

    `out` is a new folder; it appears when it is complete. Rows are in the order of time. With
    `unique_ids` duplicates are not searched for, and the copy serves reports that do not either.

    >>> import kreach as kr, tempfile
    >>> model = kr.VisitModel.flat(group_size=2)
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-11-01", "2026-11-02"]}
    >>> with kr.EmbeddedEngine() as engine, tempfile.TemporaryDirectory() as folder:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]}).with_model(model)
    ...     copy = kr.prepare_log(engine, rows, groups, f"{folder}/copy")
    ...     report = kr.measure_window(kr.ImpressionLog.open(engine, copy.folder), groups, [1])
    >>> copy.rows, round(report.report(cap=1).reach, 6)
    (2, 1.5)
    """
    if groups.model is None:
        rule = "have a visit model, for shares of draws to be stored"
        raise KreachError.rule("groups", rule, "none")
    if engine.dialect not in DIALECTS:
        raise KreachError.rule("engine", f"be one of {', '.join(DIALECTS)}", engine.dialect)
    raw = engine.read("impressions", source)
    work = _Preparation(engine, raw, source_name(source), groups, groups.model, unique_ids)
    with _new_folder(out) as draft, ExitStack() as stack:
        facts, rows = work.write(draft, stack)
        facts.save(draft)
        files = len(list(draft.rglob("*.parquet")))
    return PreparedLog(Path(out), rows, facts.copies, files)


@contextmanager
def _new_folder(out: object) -> Iterator[Path]:
    """A draft beside `out` that takes its name at the end, or vanishes."""
    if not isinstance(out, (str, Path)) or not str(out) or "://" in str(out):
        raise KreachError.rule("out", "be a path on this machine", out)
    target = Path(out)
    if target.exists():
        raise KreachError.rule("out", "be a new folder", f"{target}, which exists")
    draft = target.parent / f".{target.name}.{uuid4().hex[:12]}.draft"
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        rule = "be in a folder that can be written"
        raise KreachError.rule("out", rule, f"{target} ({error.strerror})") from None
    try:
        yield draft
        if target.exists():
            raise KreachError.rule("out", "be a new folder", f"{target}, which exists")
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class _Preparation:
    """One copy: rows with the columns that shares need beside those of the source."""

    def __init__(
        self,
        engine: Engine,
        raw: ir.Table,
        name: str,
        groups: GroupTable,
        model: VisitModel,
        unique_ids: bool,
    ) -> None:
        raw = raw.drop(*(column for column in (LOST, KEY) if column in raw.columns))
        columns = log_columns(raw, name)
        for column in raw.columns:
            if column.startswith(_OWN):
                rule = f"have no column that begins with {_OWN}"
                raise KreachError.rule("impressions", rule, column)
        group, ts = columns["group"], columns["ts"]
        counts = group.notnull() & ts.notnull()
        if groups.version is not None and "catalogue" in columns:
            version = columns["catalogue"]
            counts &= (version.isnull() | (version == groups.version)).fill_null(False)
        own = {
            "campaign": columns["campaign"],
            "group": group,
            "ts": ts,
            "us": micros(ts, engine.dialect),
            "counts": counts,
            "key": key_of(group, engine.dialect),
        }
        self._ids = "impression_id" in columns and not unique_ids
        if self._ids:
            own["id"] = columns["impression_id"]
        self._engine, self._model, self._version = engine, model, groups.version
        self._columns = raw.columns
        self._rows = raw.mutate(**{f"{_OWN}{name}": value for name, value in own.items()}).view()

    def write(self, folder: Path, stack: ExitStack) -> tuple[StoredShares, int]:
        """Write all rows; returns what the shares are for, and the number of rows."""
        engine, rows, copies = self._engine, self._rows, 0
        campaigns = self._check()
        repeated = stack.enter_context(engine.temporary(self._repeated())) if self._ids else None
        if repeated is not None:
            surplus = (repeated["times"] - 1).sum().fill_null(0)
            copies = int(engine.row(repeated.aggregate(copies=surplus))["copies"])
        timed = rows.filter(rows[f"{_OWN}ts"].notnull())
        days = timed.mutate(day=timed[f"{_OWN}us"] // _DAY_US)
        by_day = engine.columns(days.group_by("day").aggregate(n=days.count()))
        dated = dict(zip(by_day["day"].tolist(), by_day["n"].tolist(), strict=True))
        timeless = rows.filter(rows[f"{_OWN}ts"].isnull())
        undated = int(engine.row(timeless.aggregate(n=timeless.count()))["n"])
        for at, window in enumerate(_stretches(dated, engine.rows_per_file)):
            query = self._with_shares(window, repeated if copies else None)
            with engine.translate_errors("out", "be a folder that can be written"):
                engine.write_rows(engine.sql(query), folder, f"rows-{at:05d}")
        if undated:
            query = self._output(timeless.mutate(lost=ibis.null("int64")))
            with engine.translate_errors("out", "be a folder that can be written"):
                engine.write_rows(engine.sql(query), folder, "undated")
        facts = StoredShares(
            self._model.session_digest, self._version, campaigns, self._ids, copies
        )
        return facts, undated + int(sum(dated.values()))

    def _check(self) -> int:
        """The number of campaigns; refuses groups that share a key."""
        rows, engine = self._rows, self._engine
        named = rows.filter(rows[f"{_OWN}group"].notnull())
        each = named.group_by(key=named[f"{_OWN}key"], name=named[f"{_OWN}group"].cast("string"))
        names = each.aggregate(n=named.count())
        facts = engine.row(names.aggregate(names=names.count(), keys=names["key"].nunique()))
        if facts["names"] != facts["keys"]:
            rule = "have groups with different keys; rename one of those that share theirs"
            raise KreachError.rule("impressions", rule, f"{facts['names'] - facts['keys']} shared")
        campaigns = rows.group_by(campaign=rows[f"{_OWN}campaign"]).aggregate(n=rows.count())
        return int(engine.row(campaigns.aggregate(n=campaigns.count()))["n"])

    def _repeated(self) -> ir.Table:
        """campaign, id, times, first: ids that several rows of a campaign have."""
        rows = self._rows
        whole = rows.filter(rows[f"{_OWN}counts"], rows[f"{_OWN}id"].notnull())
        tally = whole.group_by(
            of_campaign=whole[f"{_OWN}campaign"], of_id=whole[f"{_OWN}id"]
        ).aggregate(times=whole.count(), first=whole[f"{_OWN}ts"].min())
        return tally.filter(tally["times"] > 1)

    def _with_shares(self, window: Window, repeated: ir.Table | None) -> ir.Table:
        """The rows of a window in the order of time; those shortly before it are read with it."""
        rows, reach_back = self._rows, timedelta(microseconds=int(self._model.gap_edges_us[-1]))
        ts = rows[f"{_OWN}ts"]
        early = None if window.start is None else window.start - reach_back
        rows = rows.filter(inside(ts, Window(early, window.end))).view()
        if repeated is not None:
            rows = _without_copies(rows, repeated)
        keys = [f"{_OWN}counts", f"{_OWN}campaign", f"{_OWN}key"]
        drawn = lost_of_rows(rows.mutate(us=rows[f"{_OWN}us"]), keys, self._model)
        lost = drawn[f"{_OWN}counts"].ifelse(drawn["lost"], ibis.null("int64"))
        drawn = drawn.mutate(lost=lost)
        drawn = drawn.filter(inside(drawn[f"{_OWN}ts"], window))
        return self._output(drawn.order_by(f"{_OWN}us"))

    def _output(self, rows: ir.Table) -> ir.Table:
        """All columns of the source, and those of a prepared log."""
        return rows.select(*self._columns, **{KEY: rows[f"{_OWN}key"], LOST: rows["lost"]})


def _without_copies(rows: ir.Table, repeated: ir.Table) -> ir.Table:
    """Rows of which later copies of an id do not count: the earliest does, the least group first.

    `repeated` has the time of the first row of each such id, which may lie in another window.
    """
    same = [
        rows[f"{_OWN}campaign"].identical_to(repeated["of_campaign"]),
        rows[f"{_OWN}id"] == repeated["of_id"],
        rows[f"{_OWN}counts"],
    ]
    once = rows.anti_join(repeated, same).select(*rows.columns)
    several = rows.inner_join(repeated, same).select(*rows.columns, "first").view()
    order = [several[f"{_OWN}ts"], several[f"{_OWN}group"]]
    rank = ibis.row_number().over(
        group_by=[several[f"{_OWN}campaign"], several[f"{_OWN}id"]], order_by=order
    )
    several = several.mutate(rank=rank).view()
    counts = (several["rank"] == 0) & (several[f"{_OWN}ts"] == several["first"])
    several = several.mutate(**{f"{_OWN}counts": counts}).select(*rows.columns)
    return once.union(several).view()


def _stretches(rows_by_day: dict[int, int], rows_per_file: int | None) -> Iterator[Window]:
    """Whole days that hold about so many rows together; one window if None, or without rows."""
    if rows_per_file is None or not rows_by_day:
        yield Window()
        return
    start, held = None, 0
    for day in sorted(rows_by_day):
        if held >= rows_per_file:
            end = from_seconds(day * DAY_SECONDS)
            yield Window(start, end)
            start, held = end, 0
        held += rows_by_day[day]
    yield Window(start, None)
