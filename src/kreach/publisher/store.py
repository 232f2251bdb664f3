"""The folder of a build.

DIR/release/     the catalogue for a buyer (see boundary/files.py)
DIR/publisher/   people.parquet, key, build.json: for the gateway and the audit only. They never
                 leave the publisher.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.duckdb import (
    file_reader,
    scratch_connection,
    sql_name,
    sql_text,
    translate_errors,
)
from kreach.boundary.files import read_catalogue, write_catalogue
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.group_lookup import GroupLookup
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.people import Attribute, People
from kreach.publisher.release import Release

__all__ = [
    "FILES",
    "Build",
    "PanelBuild",
    "check_folder",
    "read_build",
    "read_facts",
    "read_group_lookup",
    "read_panel_build",
    "read_private_columns",
    "write_build",
]

FILES = (  # the files that a gateway reads
    "publisher/build.json",
    "publisher/key",
    "publisher/people.parquet",
    "release/catalogue.json",
    "release/groups.parquet",
)
_BATCH = 2_000  # people between two pauses
_PAUSE_SECONDS = 0.001


@dataclass(frozen=True, eq=False)
class Build:
    """The publisher's part of a build."""

    user_ids: list[str]
    people: People
    assignment: Assignment
    group_indices: IntArray  # in the catalogue, (people, partitions)
    key: bytes
    facts: dict[str, Any]
    folder: Path

    def group_lookup(self, choice: str = "sticky") -> GroupLookup:
        """The lookup table for this build's catalogue."""
        catalogue = read_catalogue(self.folder / "release")
        table = self.group_indices
        return GroupLookup(catalogue, self.user_ids, table, key=self.key, choice=choice)


def check_folder(folder: Path) -> Path:
    """The absolute path of a new build; refused if it is not empty or cannot be created."""
    folder = folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KreachError.rule("out", "be a new or empty folder", str(folder))
    above = next(parent for parent in folder.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise KreachError.rule("out", "be a path where a folder can be created", str(folder))
    return folder


def write_build(
    folder: Path,
    user_ids: list[str],
    people: People,
    assignment: Assignment,
    released: Release,
    key: bytes,
    facts: dict[str, Any],
    private_columns: Mapping[str, IntArray] | None = None,
) -> None:
    """Write both parts of a build, or nothing. `private_columns` stand beside people's groups."""
    folder = check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    unfinished.chmod(0o755)
    try:
        write_catalogue(released.catalogue, unfinished / "release")
        private = unfinished / "publisher"
        private.mkdir(mode=0o700)
        columns = private_columns or {}
        _write_people(private / "people.parquet", user_ids, people, assignment, released, columns)
        secret = private / "key"
        secret.touch(mode=0o600)
        secret.write_text(key.hex() + "\n")
        recorded = private / "build.json"
        recorded.touch(mode=0o600)  # it holds the seed
        recorded.write_text(json.dumps(facts, indent=2) + "\n")
        if folder.exists():
            folder.rmdir()
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_people(
    path: Path,
    user_ids: list[str],
    people: People,
    assignment: Assignment,
    released: Release,
    columns: Mapping[str, IntArray],
) -> None:
    table: dict[str, Any] = {"user_id": np.array(user_ids, dtype=object), "visits": people.visits}
    table |= columns
    for layer in range(assignment.groups.shape[1]):
        table[f"group_{layer}"] = np.ascontiguousarray(assignment.groups[:, layer])
        table[f"placed_{layer}"] = np.ascontiguousarray(released.group_indices[:, layer])
    for name, attribute in people.attributes.items():
        table[f"attribute_{name}"] = _labels(attribute)[attribute.codes]
    with scratch_connection() as engine:
        engine.register("people_table", table)
        query = "SELECT * FROM people_table"
        engine.execute(f"COPY ({query}) TO '{sql_text(path)}' (FORMAT parquet)")


def _labels(attribute: Attribute) -> Any:
    """Labels as they are stored: numbers stay numbers, which have an order."""
    if attribute.numeric:
        return np.array([np.nan if v is None else v for v in attribute.labels])
    return np.array([None if v is None else str(v) for v in attribute.labels], dtype=object)


def read_build(folder: Path) -> Build:
    """Read a folder that `write_build` wrote."""
    facts, key = read_facts(folder)
    group_size, strategy = int(facts["group_size"]), str(facts["strategy"])
    with (
        scratch_connection() as engine,
        translate_errors("folder", "hold a readable people.parquet"),
    ):
        reader = file_reader("folder", folder / "publisher" / "people.parquet")
        rows = engine.execute(f"SELECT * FROM {reader}").fetchnumpy()

    def layers(prefix: str) -> IntArray:
        columns = sorted(name for name in rows if name.startswith(prefix))
        return np.stack([np.asarray(rows[name], dtype=np.int64) for name in columns], axis=1)

    prefix = "attribute_"
    attributes = {
        name[len(prefix) :]: Attribute.of(rows[name]) for name in rows if name.startswith(prefix)
    }
    return Build(
        rows["user_id"].tolist(),
        People(np.asarray(rows["visits"], dtype=np.int64), attributes),
        Assignment(layers("group_"), group_size, strategy),
        layers("placed_"),
        key,
        facts,
        folder,
    )


def read_private_columns(folder: Path, prefix: str) -> dict[str, IntArray]:
    """The columns of a build's people that start with `prefix`, as they were written."""
    with (
        scratch_connection() as engine,
        translate_errors("folder", "hold a readable people.parquet"),
    ):
        reader = file_reader("folder", folder / "publisher" / "people.parquet")
        described = engine.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()
        names = [str(row[0]) for row in described if str(row[0]).startswith(prefix)]
        if not names:
            return {}
        listed = ", ".join(map(sql_name, names))
        rows = engine.execute(f"SELECT {listed} FROM {reader}").fetchnumpy()
    return {name: np.asarray(rows[name], dtype=np.int64) for name in names}


def read_facts(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The facts of a build, and its key."""
    private = folder / "publisher"
    try:
        facts = json.loads((private / "build.json").read_text())
        key = bytes.fromhex((private / "key").read_text().strip())
        int(facts["group_size"]), str(facts["strategy"]), str(facts["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        rule = "be a folder made by `kreach groups build`"
        why = error.strerror if isinstance(error, OSError) else error
        raise KreachError.rule("folder", rule, f"{folder} ({why})") from None
    return facts, key


@dataclass(frozen=True, eq=False)
class PanelBuild:
    """What a panel needs of a build: the catalogue, visits by group, the key."""

    catalogue: Catalogue
    visits: IntArray
    key: bytes


def read_panel_build(folder: Path) -> PanelBuild:
    """Read it without the ids of people."""
    _, key = read_facts(folder)
    catalogue = read_catalogue(folder / "release")
    with (
        scratch_connection() as engine,
        translate_errors("folder", "hold a readable people.parquet"),
    ):
        reader = file_reader("folder", folder / "publisher" / "people.parquet")
        rows = engine.execute(
            f"SELECT placed_0 AS place, sum(visits)::BIGINT AS visits FROM {reader} GROUP BY 1"
        ).fetchnumpy()
    visits = np.zeros(len(catalogue), dtype=np.int64)
    visits[np.asarray(rows["place"], dtype=np.int64)] = np.asarray(rows["visits"], dtype=np.int64)
    return PanelBuild(catalogue, visits, key)


def read_group_lookup(folder: Path, choice: str = "sticky") -> GroupLookup:
    """The lookup table of a build, for a service that answers requests while it reads.

    It reads only the columns that it needs, in small batches with pauses for other threads, and
    checks that both parts of the folder belong to one build.
    """
    facts, key = read_facts(folder)
    catalogue = read_catalogue(folder / "release")
    if facts["version"] != catalogue.version:
        rule = f"be one build (publisher {facts['version']})"
        raise KreachError.rule("folder", rule, f"release {catalogue.version}")
    ids, group_indices = _read_group_indices(folder / "publisher" / "people.parquet")
    if set(map(type, ids)) - {str}:
        raise KreachError.rule("folder", "have text user ids", "others in people.parquet")
    lookup = GroupLookup(catalogue, ids, group_indices, key=key, choice=choice)
    sizes = np.bincount(group_indices.ravel(), minlength=len(catalogue))
    if not np.array_equal(sizes, catalogue.sizes):
        rule = "have as many people in each group as the release says"
        raise KreachError.rule("folder", rule, "other prefix-counts")
    return lookup


def _read_group_indices(path: Path) -> tuple[list[str], IntArray]:
    """User ids, and the catalogue's group indices of each."""
    ids: list[str] = []
    batches = []
    with (
        scratch_connection() as engine,
        translate_errors("folder", "hold a readable people.parquet"),
    ):
        reader = file_reader("folder", path)
        columns = [row[0] for row in engine.execute(f"DESCRIBE SELECT * FROM {reader}").fetchall()]
        layers = sorted(name for name in columns if name.startswith("placed_"))
        if "user_id" not in columns or not layers:
            raise KreachError.rule("folder", "hold people with their groups", str(path))
        rows = engine.execute(f"SELECT user_id, {', '.join(map(sql_name, layers))} FROM {reader}")
        while batch := rows.fetchmany(_BATCH):
            user_ids, *groups = zip(*batch, strict=True)
            ids.extend(user_ids)
            batches.append(_as_indices(groups, path).T)
            time.sleep(_PAUSE_SECONDS)
    empty = np.zeros((0, len(layers)), dtype=np.int64)
    return ids, np.concatenate(batches) if batches else empty


def _as_indices(groups: list[tuple[Any, ...]], path: Path) -> IntArray:
    table = np.array(groups)
    if table.dtype.kind not in "iu":  # a missing one makes it float or object
        raise KreachError.rule("folder", "hold group indices that are whole numbers", str(path))
    return table.astype(np.int64)
