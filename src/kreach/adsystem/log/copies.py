"""Rows that share an id: of them the earliest counts.

    repeated_marks   mark                    hashes of ids that more than one row has
    ranked_copies    rows, rank              rows whose ids may repeat, ranked within their id
    search_copies    the log once it is known which hashes repeat, or that none does

Nearly all ids come once. An engine that hashes text quickly sorts hashes of 64 bits instead of ids
and then ranks only rows whose hash repeats, by their ids: two ids of one hash are ranked in vain
and never confused. Where no hash repeats nothing is ranked, and ids are read once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.tables import LogTable

__all__ = ["mark_of", "ranked_copies", "repeated_marks", "search_copies"]


def mark_of(ids: ir.Value) -> ir.Value:
    """The hash by which ids are searched; ids that share one are compared."""
    return ids.hash()


def repeated_marks(rows: ir.Table) -> ir.Table:
    """mark: hashes of ids that more than one row has, each once.

    It reads no column but the ids and those that choose the rows: a row without group is no copy,
    and at most makes its id a candidate in vain.
    """
    known = rows.filter(rows["impression_id"].notnull())
    marks = known.select(mark=mark_of(known["impression_id"])).view()
    numbered = marks.mutate(number=ibis.row_number().over(group_by="mark")).view()
    return numbered.filter(numbered["number"] == 1).select("mark")  # counted from 0: the second


def ranked_copies(
    log: LogTable, rows: ir.Table, keys: Sequence[str] = ("impression_id",)
) -> tuple[ir.Table, ir.Table]:
    """Rows whose ids may not be unique, each with its rank among those of its id; and these ids.

    `keys` identify an impression; the ids have them as columns repeated_.... All rows of an id that
    repeats are among them, so a rank above 0 is a copy.
    """
    whole = rows.filter(rows["impression_id"].notnull(), rows["group"].notnull())
    if log.hashes_ids:
        marks = repeated_marks(rows) if log.repeated_marks is None else log.repeated_marks
        copies = whole.semi_join(marks, mark_of(whole["impression_id"]) == marks["mark"])
        ids = copies.select(**{f"repeated_{key}": key for key in keys})
    else:
        tally = whole.group_by(*keys).aggregate(times=whole.count())
        ids = tally.filter(tally["times"] > 1).select(**{f"repeated_{key}": key for key in keys})
        copies = whole.semi_join(ids, [whole[key] == ids[f"repeated_{key}"] for key in keys])
    rank = ibis.row_number().over(
        group_by=[copies[key] for key in keys], order_by=[copies["ts"], copies["group"]]
    )
    return copies.mutate(rank=rank), ids


@contextmanager
def search_copies(engine: Engine, log: LogTable, rows: ir.Table) -> Iterator[LogTable]:
    """The log with the hashes that repeat among `rows`, for queries on these rows or fewer.

    The search runs once, whatever the number of queries; if it finds none, the log has unique ids
    as far as these queries go. Logs of engines that compare ids stay as they are.
    """
    if not (log.may_repeat and log.hashes_ids):
        yield log
        return
    with engine.temporary(repeated_marks(rows)) as marks:
        repeated = int(engine.row(marks.aggregate(n=marks.count()))["n"])
        yield replace(log, repeated_marks=marks) if repeated else replace(log, unique_ids=True)
