"""Open the groups of a report in an engine, and check there what `Audience` checks in memory."""

import json
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.engine import Engine, Source, source_name
from kreach.adsystem.log.tables import GroupTable, group_rows, member_rows
from kreach.boundary.audience import REQUESTS, SHARE_TOLERANCE
from kreach.boundary.checks import LARGEST_COUNT
from kreach.boundary.times import as_instant
from kreach.boundary.visit_model import FILE, VisitModel
from kreach.errors import KreachError

__all__ = ["open_groups"]


def open_groups(engine: Engine, groups: Source, classes: Source = None) -> GroupTable:
    """The groups of a file or table, or of a folder that a publisher released.

    Disjoint groups differ by size, targeted people and dispersion, profiled ones by their shares;
    with `classes` groups overlap. The visit model of a release comes with its folder, and with a
    groups file in it.

    >>> import kreach as kr
    >>> with kr.EmbeddedEngine() as engine:
    ...     kr.open_groups(engine, {"group": ["a", "b"], "size": [20, 25]}).people
    45
    """
    version, created = None, None
    folder = _released(groups)
    if folder is not None:
        version, created, overlapping = _facts(folder)
        groups = folder / "groups.parquet"
        if overlapping and classes is None:
            classes = folder / "classes.parquet"
    read = engine.load("groups", groups, partial(group_rows, source=source_name(groups)))
    rows = engine.materialize(read, "groups", "have readable sizes, targeting and visits")
    table = _checked(engine, rows, classes is not None)
    table = replace(table, version=version, created=created)
    if classes is not None:
        return _overlapping(engine, table, classes)
    return table.with_model(_model(groups)) if table.takes_model else table


def _model(groups: Source) -> VisitModel | None:
    """The visit model beside a groups file, if there is one."""
    if not isinstance(groups, (str, Path)) or "://" in str(groups):
        return None
    folder = Path(groups).parent
    return VisitModel.load(folder) if (folder / FILE).is_file() else None


def _released(groups: Source) -> Path | None:
    if not isinstance(groups, (str, Path)) or "://" in str(groups):
        return None
    for folder in (Path(groups), Path(groups) / "release"):
        if (folder / "catalogue.json").is_file():
            return folder
    return None


def _facts(folder: Path) -> tuple[str, datetime | None, bool]:
    try:
        facts = json.loads((folder / "catalogue.json").read_text())
        created = as_instant("created", facts["created"])
        return str(facts["version"]), created, bool(facts["overlapping"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KreachError.rule("groups", "be a released folder", f"{folder} ({error})") from None


def _refuse(name: str, facts: dict[str, Any], rules: dict[str, str]) -> None:
    for broken, rule in rules.items():
        rows = int(facts.get(broken) or 0)
        if rows:
            wrong = "a row that does not" if rows == 1 else f"{rows} rows that do not"
            raise KreachError.rule(name, rule, wrong)


def _checked(engine: Engine, rows: ir.Table, overlapping: bool) -> GroupTable:
    size, targeted = rows["size"], rows["targeted"]
    checks: dict[str, ir.Value] = {
        "groups": rows.count(),
        "people": targeted.sum().fill_null(0),
        "nameless": rows.count(where=rows["group"].isnull()),
        "repeated": rows.count() - rows["group"].nunique(),
        "sizes": rows.count(where=size.isnull() | (size < 1) | (size > LARGEST_COUNT)),
        "targeting": rows.count(where=targeted.isnull() | (targeted < 0) | (targeted > size)),
    }
    if "requests" in rows.columns:
        stated = rows["requests"]
        checks["requests"] = rows.count(where=stated.isnull() | ~stated.isin(REQUESTS))
        checks["answers"] = stated.nunique() - 1
        only = (stated == "targeted").ifelse(targeted.cast("float64"), 0.0)
        checks["squares"] = (only * only).sum()
    if "dispersion" in rows.columns:
        number = rows["dispersion"]
        checks["dispersions"] = rows.count(where=number.isnan() | (number <= 0.0))
        checks["finite"] = rows.count(where=number < float("inf"))
    if "visit_shares" in rows.columns:
        shares = rows["visit_shares"]
        checks["profiles"] = shares.count()
        checks["lengths"] = rows.count(where=shares.length() != size)
        checks["partial"] = rows.count(where=shares.notnull() & (targeted != size))
    facts = engine.row(rows.aggregate(**checks))
    _refuse(
        "groups",
        facts,
        {
            "nameless": "name every group",
            "repeated": "name each group once",
            "sizes": "have sizes that are whole numbers ≥ 1",
            "targeting": "target from 0 people up to the size of the group",
            "dispersions": "have a dispersion above 0, or none",
            "requests": f"have {' or '.join(REQUESTS)} in the column requests",
            "answers": "state the same requests for all groups",
        },
    )
    profiles = int(facts.get("profiles") or 0)
    if profiles:
        if profiles != int(facts["groups"]):
            rule = "have visit_shares for every group or for none"
            raise KreachError.rule("groups", rule, f"{profiles} of {facts['groups']}")
        _refuse(
            "groups",
            facts,
            {
                "lengths": "have as many visit_shares as members",
                "partial": "target everybody where visit_shares are given",
            },
        )
        _check_shares(engine, rows)
    if overlapping and (profiles or int(facts.get("finite") or 0)):
        rule = "have neither dispersion nor visit_shares where classes are given"
        raise KreachError.rule("groups", rule, "one of them")
    kind: tuple[str, ...] = ("size", "targeted")
    if profiles:
        kind = ("visit_shares",)
    elif "dispersion" in rows.columns:
        kind = (*kind, "dispersion")
    table = GroupTable(rows, None, kind, int(facts["people"]), (), 0)
    squares = float(facts.get("squares") or 0.0)
    return replace(table, people_behind_request=squares / table.people) if squares else table


def _check_shares(engine: Engine, rows: ir.Table) -> None:
    each = rows.select("group", share=rows["visit_shares"].unnest())
    share = each["share"]
    odd = share.isnull() | share.isnan() | (share < 0.0)
    sums = each.group_by("group").aggregate(total=share.sum(), odd=each.count(where=odd))
    off = (sums["total"] - 1.0).abs() > SHARE_TOLERANCE
    facts = engine.row(
        sums.aggregate(odd=sums["odd"].sum(), off=sums.count(where=off | sums["total"].isnull()))
    )
    rules = {"odd": "have visit_shares ≥ 0", "off": "have visit_shares that sum to 1"}
    _refuse("groups", facts, rules)


def _overlapping(engine: Engine, table: GroupTable, classes: Source) -> GroupTable:
    read = engine.load("classes", classes, partial(member_rows, source=source_name(classes)))
    rows = engine.materialize(read, "classes", "have readable groups and head-counts")
    facts = engine.row(
        rows.aggregate(
            empty=rows.count(where=rows["listed"].isnull() | (rows["listed"] < 1)),
            heads=rows.count(where=rows["headcount"].isnull() | (rows["headcount"] < 1)),
            twice=rows.count(where=rows["different"] != rows["listed"]),
        )
    )
    listed = engine.materialize(rows.select("class", "headcount", group=rows["groups"].unnest()))
    unknown = listed.anti_join(table.rows, listed["group"] == table.rows["group"])
    facts |= engine.row(unknown.aggregate(unknown=unknown.count()))
    _refuse(
        "classes",
        facts,
        {
            "empty": "name at least one group in every class",
            "heads": "have head-counts that are whole numbers ≥ 1",
            "twice": "name each group of a class once",
            "unknown": "name groups of the groups file",
        },
    )
    members = listed.group_by("class", "group").aggregate(headcount=listed["headcount"].sum())
    members = engine.materialize(members)
    heads = members.group_by("group").aggregate(targeted=members["headcount"].sum())
    sizes = table.rows.select("group", "size")
    joined = sizes.left_join(heads, "group").select(
        "group", "size", targeted=ibis._["targeted"].fill_null(0).cast("int64")
    )
    rows = engine.materialize(joined)
    crowded = engine.row(rows.aggregate(crowded=rows.count(where=rows["targeted"] > rows["size"])))
    _refuse("classes", crowded, {"crowded": "hold no more people than a group has members"})
    one = members.group_by("class").aggregate(headcount=members["headcount"].max())
    people = engine.row(one.aggregate(people=one["headcount"].sum().fill_null(0)))["people"]
    in_classes = rows.semi_join(members, "group").select("size").distinct()
    group_sizes = engine.columns(in_classes)["size"]
    count = engine.row(members.aggregate(memberships=members.count()))["memberships"]
    return replace(
        table,
        rows=rows,
        members=members,
        people=int(people),
        sizes=tuple(sorted(int(size) for size in group_sizes)),
        memberships=int(count),
    )
