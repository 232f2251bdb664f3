"""Rows that share an id: of them the earliest counts.

    ranked_copies    rows, rank     rows whose ids repeat, ranked within their id
    search_copies    the log once it is known which ids repeat, or that none does

Nearly all ids come once. Most engines count rows by id and look again at those that repeat. An
engine that hashes text quickly reads the rows once, into a temporary table of numbers: a hash of 63
bits for the id (`mark`), one for the group, the time. It sorts the marks and looks only at rows
whose mark repeats. Rows of one mark and one group are taken for one impression: of n rows evenly
on G groups, two different ids are confused with a probability of n²/G/2⁶⁴, 5 in 10⁹ for 10⁹ rows on
10⁷ groups. If one mark is in two groups, copies were misfiled or two ids share a hash: the
rows are read again with a second hash of each id (`check`) and the names of groups.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.draw_queries import group_key, is_group_key
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.hashes import hash_of
from kreach.adsystem.log.tables import CHECK, MARK, LogTable

__all__ = ["mark_of", "ranked_copies", "same_impression", "search_copies"]

_SALT = "~"


def mark_of(ids: ir.Value) -> ir.Value:
    """The hash by which ids are searched."""
    return hash_of(ids)


def ranked_copies(
    log: LogTable, rows: ir.Table, keys: Sequence[str] = ()
) -> tuple[ir.Table, ir.Table]:
    """Rows whose ids may not be unique, each with its rank among those of its id; and these ids.

    An impression is identified by its id and the columns `keys`; the ids have them as columns
    repeated_.... All rows of an id that repeats are among them, so a rank above 0 is a copy.
    """
    identity = [*log.id_columns, *keys]
    names = {f"repeated_{key}": key for key in identity}
    if log.ranked is not None:
        return log.ranked, log.ranked.select(**names)
    whole = rows.filter(rows[identity[0]].notnull(), rows["group"].notnull())
    tally = whole.group_by(*identity).aggregate(times=whole.count())
    ids = tally.filter(tally["times"] > 1).select(**names)
    copies = whole.semi_join(ids, same_impression(whole, ids))
    return copies.mutate(rank=ibis.row_number().over(_by_time(copies, identity))), ids


def _by_time(rows: ir.Table, identity: Sequence[str]) -> Any:
    return ibis.window(group_by=list(identity), order_by=[rows["ts"], rows["group"]])


def same_impression(rows: ir.Table, ids: ir.Table) -> list[ir.Value]:
    """Conditions for a row to have one of the ids of `ranked_copies`."""
    return [rows[name.removeprefix("repeated_")] == ids[name] for name in ids.columns]


@contextmanager
def search_copies(
    engine: Engine, log: LogTable, rows: ir.Table, keys: Sequence[str] = (), *, keyed: bool = False
) -> Iterator[LogTable]:
    """The log with the ids that repeat among `rows`, for queries on these rows or earlier ones.

    Where the engine hashes ids the log is now a table of these rows: campaign, group, ts and two
    hashes of each id. With `keyed` it has no campaign, one hash, and a number for each group
    (`group_key`), unless rows of one hash are in several groups; `has_group_keys` says so. If no id
    repeats, the log has unique ids as far as these queries go. Logs of other engines stay as they
    are.
    """
    if not (log.may_repeat and log.hashes_ids):
        yield log
        return
    with ExitStack() as stack:
        searched, conflicts = stack.enter_context(_searched(engine, log, rows, keys, keyed=keyed))
        if keyed and conflicts:
            stack.close()  # frees the tables before there are others
            searched, _ = stack.enter_context(_searched(engine, log, rows, keys, keyed=False))
        yield searched


@contextmanager
def _searched(
    engine: Engine, log: LogTable, rows: ir.Table, keys: Sequence[str], *, keyed: bool
) -> Iterator[tuple[LogTable, int]]:
    """The log of hashes, and how many copies are of another group than the row before."""
    with (
        engine.temporary(_hashed(rows, engine.dialect, keyed=keyed)) as hashed,
        engine.temporary(_ranked(replace(log, rows=hashed), keys)) as ranked,
    ):
        found = engine.row(
            ranked.aggregate(rows=ranked.count(), moved=ranked.count(where=ranked["moved"]))
        )
        repeated = bool(found["rows"])
        searched = replace(
            log,
            rows=hashed,
            unique_ids=not repeated,
            hashes_ids=False,
            ranked=ranked if repeated else None,
            has_group_keys=keyed and not is_group_key(rows["group"]),
        )
        yield searched, int(found["moved"])


def _hashed(rows: ir.Table, dialect: str, *, keyed: bool) -> ir.Table:
    """mark, group, ts, and unless `keyed` check and campaign; mark is null where the id is."""
    ids, group = rows["impression_id"], rows["group"]
    mark = ids.isnull().ifelse(ibis.null(), mark_of(ids))
    if keyed:
        key = group.isnull().ifelse(ibis.null(), group_key(group, dialect))
        return rows.select("ts", group=key, **{MARK: mark})
    check = hash_of(ibis.literal(_SALT) + ids)
    return rows.select("ts", "group", "campaign", **{MARK: mark, CHECK: check})


def _ranked(log: LogTable, keys: Sequence[str]) -> ir.Table:
    """Rows whose mark others have too, with rank and moved: of another group than the one before.

    Only marks are sorted for all rows. A row without group is no copy.
    """
    rows = log.rows.filter(log.rows[MARK].notnull(), log.rows["group"].notnull())
    marks = rows.select(MARK).view()
    numbered = marks.mutate(number=ibis.row_number().over(group_by=MARK)).view()
    twice = numbered.filter(numbered["number"] == 1).select(repeated=MARK)  # counted from 0
    copies = rows.semi_join(twice, rows[MARK] == twice["repeated"])
    order = _by_time(copies, [*log.id_columns, *keys])
    moved = copies["group"].lag().over(order) != copies["group"]
    return copies.mutate(rank=ibis.row_number().over(order), moved=moved)
