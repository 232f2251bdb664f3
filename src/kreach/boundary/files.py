"""Catalogue files: `catalogue.json`, `groups.parquet`, `classes.parquet`, `visit_model.json`."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.duckdb import (
    columns_of,
    file_reader,
    scratch_connection,
    sql_text,
    translate_errors,
)
from kreach.boundary.visit_model import FILE, VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["groups_file", "read_catalogue", "read_groups", "write_catalogue", "write_groups"]


def write_catalogue(catalogue: Catalogue, folder: Path) -> None:
    """Write a catalogue to a folder, in the file formats that `kreach measure` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    write_groups(catalogue, folder / "groups.parquet")
    if catalogue.classes is not None:
        _write_classes(catalogue, folder / "classes.parquet")
    facts: dict[str, Any] = {
        "version": catalogue.version,
        "created": catalogue.created.isoformat(),
        "group_size": catalogue.group_size,
        "class_floor": catalogue.class_floor,
        "min_visible": catalogue.min_visible,
        "groups": len(catalogue),
        "overlapping": catalogue.classes is not None,
    }
    if catalogue.memory_hours is not None:
        facts["memory_hours"] = catalogue.memory_hours
    if catalogue.model is not None:
        catalogue.model.save(folder)
    (folder / "catalogue.json").write_text(json.dumps(facts, indent=2) + "\n")


def write_groups(
    catalogue: Catalogue,
    path: Path,
    targeted_counts: IntArray | None = None,
    requests: str = "everyone",
) -> None:
    """The groups file: group, size, targeted, and visit_shares or dispersion where released.

    Where a campaign is sent only the requests of targeted people, a column `requests` says so.
    `path` is Parquet, or CSV by its name.
    """
    targeted = catalogue.sizes if targeted_counts is None else targeted_counts
    group_table = {
        "place": np.arange(len(catalogue)),
        "group_id": np.array(catalogue.groups, dtype=object),
        "size": catalogue.sizes,
        "targeted": targeted,
    }
    columns = 'group_id AS "group", size, targeted'
    source = "group_table"
    share_table: dict[str, Any] = {}
    if catalogue.dispersion is not None:
        columns += f", {float(catalogue.dispersion)!r}::DOUBLE AS dispersion"
    if requests != "everyone":
        columns += f", '{sql_text(requests)}' AS requests"
    if catalogue.visit_shares is not None and targeted_counts is None:
        lengths = [len(shares) for shares in catalogue.visit_shares]
        share_table = {
            "place": np.repeat(np.arange(len(catalogue)), lengths),
            "share": np.concatenate(catalogue.visit_shares),
        }
        source = """group_table JOIN
            (SELECT place, list(share ORDER BY share) AS visit_shares
             FROM share_table GROUP BY place) USING (place)"""
        columns += ", visit_shares"
    with scratch_connection() as engine:
        engine.register("group_table", group_table)
        if share_table:
            engine.register("share_table", share_table)
        query = f"SELECT {columns} FROM {source} ORDER BY place"
        kind = "csv, header" if path.suffix == ".csv" else "parquet"
        engine.execute(f"COPY ({query}) TO '{sql_text(path)}' (FORMAT {kind})")


def _write_classes(catalogue: Catalogue, path: Path) -> None:
    classes = catalogue.classes or ()
    names = np.array(catalogue.groups, dtype=object)
    class_table = {
        "place": np.repeat(np.arange(len(classes)), [len(groups) for groups, _ in classes]),
        "group_id": names[[g for groups, _ in classes for g in groups]],
        "headcount": np.repeat(
            np.array([headcount for _, headcount in classes], dtype=np.int64),
            [len(groups) for groups, _ in classes],
        ),
    }
    with scratch_connection() as engine:
        engine.register("class_table", class_table)
        query = """SELECT list(group_id ORDER BY group_id) AS groups, any_value(headcount) AS
            headcount FROM class_table GROUP BY place ORDER BY place"""
        engine.execute(f"COPY ({query}) TO '{sql_text(path)}' (FORMAT parquet)")


def read_catalogue(folder: Path) -> Catalogue:
    """Read a catalogue folder; the size floors are checked again."""
    try:
        facts = json.loads((folder / "catalogue.json").read_text())
        created = datetime.fromisoformat(facts["created"])
        version, group_size = str(facts["version"]), int(facts["group_size"])
        class_floor, overlapping = int(facts["class_floor"]), bool(facts["overlapping"])
        stated = facts.get("memory_hours")
        memory_hours = None if stated is None else float(stated)
        min_visible = int(facts.get("min_visible", 1))  # releases before it did not promise one
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise KreachError.rule("catalogue", "be a released folder", f"{folder} ({error})") from None
    with scratch_connection() as engine:
        columns_of(engine, "catalogue", folder / "groups.parquet", ("group", "size"))
        with translate_errors("catalogue", "hold readable groups files"):
            reader = file_reader("catalogue", folder / "groups.parquet")
            rows = engine.execute(f"SELECT * FROM {reader}").fetchnumpy()
            classes = None
            if overlapping:
                columns_of(engine, "catalogue", folder / "classes.parquet", ("groups", "headcount"))
                reader = file_reader("catalogue", folder / "classes.parquet")
                classes = engine.execute(f"SELECT groups, headcount FROM {reader}").fetchall()
    groups = tuple(str(g) for g in rows["group"])
    index = {group: at for at, group in enumerate(groups)}
    return Catalogue(
        version,
        created,
        group_size,
        groups,
        np.ma.filled(rows["size"], -1),
        float(rows["dispersion"][0]) if "dispersion" in rows and groups else None,
        tuple(np.asarray(s) for s in rows["visit_shares"]) if "visit_shares" in rows else None,
        None if classes is None else tuple(_class_row(index, *row) for row in classes),
        class_floor,
        VisitModel.load(folder) if (folder / FILE).exists() else None,
        memory_hours,
        min_visible,
    )


def _class_row(
    index: dict[str, int], groups: list[str], headcount: int
) -> tuple[tuple[int, ...], int]:
    try:
        return tuple(index[group] for group in groups), int(headcount)
    except (KeyError, TypeError, ValueError):
        raise KreachError.rule("classes", "name groups of the catalogue", groups) from None


def groups_file(path: str | Path) -> Path:
    """The groups file itself, of a release or a build if its folder is named."""
    named = Path(path)
    for folder in (named, named / "release"):
        if (folder / "catalogue.json").is_file():
            if (folder / "classes.parquet").is_file():
                raise KreachError.rule("groups", "be disjoint", f"{folder}, whose groups overlap")
            return folder / "groups.parquet"
    return named


def read_groups(path: str | Path) -> tuple[list[str], Audience]:
    """Group ids and audience of a groups file (Parquet or CSV), or of a release.

    Columns: group, size, and optionally targeted, dispersion, visit_shares (a list; in CSV written
    like [0.5, 0.5]), requests.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "groups.csv"
    ...     _ = file.write_text("group,size,targeted\\na,20,20\\nb,25,5\\n")
    ...     read_groups(file)
    (['a', 'b'], DisjointAudience(groups=2, targeted=25, visits=uniform))
    """
    path = groups_file(path)
    with scratch_connection() as engine:
        columns = columns_of(engine, "groups", path, ("group", "size"))
        reader = file_reader("groups", path, text_columns=("group",))
        shares = "CAST(visit_shares AS DOUBLE[])" if "visit_shares" in columns else "NULL"
        requests = "requests" if "requests" in columns else "'everyone'"
        with translate_errors("groups", "be a readable Parquet or CSV file"):
            rows = engine.execute(
                f"""SELECT CAST("group" AS VARCHAR) AS id, size,
                {"targeted" if "targeted" in columns else "size"} AS targeted,
                {"CAST(dispersion AS DOUBLE)" if "dispersion" in columns else "NULL"} AS dispersion,
                {shares} AS visit_shares, {requests} AS requests FROM {reader}"""
            ).fetchall()
    ids = [row[0] for row in rows]
    if None in ids or len(set(ids)) != len(ids):
        raise KreachError.rule("groups", "name each group once", f"{path} repeats or misses one")
    if rows and all(row[4] is not None for row in rows):
        if any(row[2] != row[1] for row in rows):
            rule = "target everybody where visit_shares are given"
            raise KreachError.rule("groups", rule, "targeted below size")
        return ids, Audience.profiled([row[4] for row in rows])
    dispersion = [np.inf if row[3] is None else row[3] for row in rows]
    sizes, targeted = [row[1] for row in rows], [row[2] for row in rows]
    requests = _one_of({row[5] for row in rows})
    return ids, Audience.disjoint(sizes, targeted, dispersion if rows else None, requests)


def _one_of(stated: set[object]) -> str:
    """Whose requests a campaign is sent: one answer for all groups."""
    if len(stated) > 1:
        raise KreachError.rule("groups", "state the same requests for all groups", "several")
    return str(next(iter(stated), "everyone"))
