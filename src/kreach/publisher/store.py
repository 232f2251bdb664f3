"""The publisher's own folder: who is in which group, with which traits. It never leaves.

DIR/release/     what may be handed to a buyer (see boundary/files.py)
DIR/publisher/   people.parquet, key, build.json: for the gateway and the audit only
"""

import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.duckdb import (
    file_reader,
    scratch_connection,
    sql_name,
    sql_text,
    translate_errors,
)
from kreach.boundary.files import read_catalogue, write_catalogue
from kreach.errors import KreachError
from kreach.publisher.group_lookup import Gateway
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.people import Attribute, People
from kreach.publisher.release import Release

__all__ = ["FILES", "Build", "check_folder", "read_build", "read_gateway", "write_build"]

FILES = (  # what a gateway reads: while these stay the same files, so does the build
    "publisher/build.json",
    "publisher/key",
    "publisher/people.parquet",
    "release/catalogue.json",
    "release/groups.parquet",
)
_STEP = 2_000  # people between two pauses
_PAUSE_SECONDS = 0.001


@dataclass(frozen=True, eq=False)
class Build:
    """What the publisher keeps of a build."""

    user_ids: list[str]
    people: People
    assignment: Assignment
    placed: np.ndarray[Any, np.dtype[np.int64]]  # the catalogue's groups of each person
    key: bytes
    facts: dict[str, Any]
    folder: Path

    def gateway(self, choice: str = "sticky") -> Gateway:
        """The gateway for this build's catalogue."""
        catalogue = read_catalogue(self.folder / "release")
        return Gateway(catalogue, self.user_ids, self.placed, key=self.key, choice=choice)


def check_folder(folder: Path) -> Path:
    """The folder of a build to come, absolute; refused if something is there or cannot be."""
    folder = folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KreachError.rule("out", "be a new or empty folder", str(folder))
    above = next(parent for parent in folder.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise KreachError.rule("out", "be a place where a folder can be made", str(folder))
    return folder


def write_build(
    folder: Path,
    user_ids: list[str],
    people: People,
    assignment: Assignment,
    released: Release,
    key: bytes,
    facts: dict[str, Any],
) -> None:
    """Write both halves of a build: all of it, or nothing."""
    folder = check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    unfinished.chmod(0o755)
    try:
        write_catalogue(released.catalogue, unfinished / "release")
        private = unfinished / "publisher"
        private.mkdir(mode=0o700)
        _write_people(private / "people.parquet", user_ids, people, assignment, released)
        secret = private / "key"
        secret.touch(mode=0o600)
        secret.write_text(key.hex() + "\n")
        (private / "build.json").write_text(json.dumps(facts, indent=2) + "\n")
        if folder.exists():
            folder.rmdir()
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_people(
    path: Path, user_ids: list[str], people: People, assignment: Assignment, released: Release
) -> None:
    table: dict[str, Any] = {"user_id": np.array(user_ids, dtype=object), "visits": people.visits}
    for layer in range(assignment.groups.shape[1]):
        table[f"group_{layer}"] = np.ascontiguousarray(assignment.groups[:, layer])
        table[f"placed_{layer}"] = np.ascontiguousarray(released.placed[:, layer])
    for name, attribute in people.attributes.items():
        labels = np.array([None if v is None else str(v) for v in attribute.labels], dtype=object)
        table[f"attribute_{name}"] = labels[attribute.codes]
    with scratch_connection() as engine:
        engine.register("people_table", table)
        query = "SELECT * FROM people_table"
        engine.execute(f"COPY ({query}) TO '{sql_text(path)}' (FORMAT parquet)")


def read_build(folder: Path) -> Build:
    """Read what `write_build` wrote."""
    facts, key = _read_facts(folder)
    group_size, strategy = int(facts["group_size"]), str(facts["strategy"])
    with (
        scratch_connection() as engine,
        translate_errors("folder", "hold a readable people.parquet"),
    ):
        reader = file_reader("folder", folder / "publisher" / "people.parquet")
        rows = engine.execute(f"SELECT * FROM {reader}").fetchnumpy()

    def layers(head: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        columns = sorted(name for name in rows if name.startswith(head))
        return np.stack([np.asarray(rows[name], dtype=np.int64) for name in columns], axis=1)

    head = "attribute_"
    attributes = {
        name[len(head) :]: Attribute.of(rows[name]) for name in rows if name.startswith(head)
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


def _read_facts(folder: Path) -> tuple[dict[str, Any], bytes]:
    private = folder / "publisher"
    try:
        facts = json.loads((private / "build.json").read_text())
        key = bytes.fromhex((private / "key").read_text().strip())
        int(facts["group_size"]), str(facts["strategy"]), str(facts["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        rule = "be a folder made by `kreach groups build`"
        raise KreachError.rule("folder", rule, f"{folder} ({error})") from None
    return facts, key


def read_gateway(folder: Path, choice: str = "sticky") -> Gateway:
    """The gateway of a build, for a service that answers while it reads.

    Only the columns that a gateway needs, in small steps with pauses, so that other threads hardly
    notice; and checked as a whole, because nobody looks on: both halves must be of one build.
    """
    facts, key = _read_facts(folder)
    catalogue = read_catalogue(folder / "release")
    if facts["version"] != catalogue.version:
        rule = f"be one build (publisher {facts['version']})"
        raise KreachError.rule("folder", rule, f"release {catalogue.version}")
    ids, placed = _read_placed(folder / "publisher" / "people.parquet")
    if set(map(type, ids)) - {str}:
        raise KreachError.rule("folder", "hold user ids that are texts", "others in people.parquet")
    made = Gateway(catalogue, ids, placed, key=key, choice=choice)
    sizes = np.bincount(placed.ravel(), minlength=len(catalogue))
    if not np.array_equal(sizes, catalogue.sizes):
        rule = "have as many people in each group as the release says"
        raise KreachError.rule("folder", rule, "other head-counts")
    return made


def _read_placed(path: Path) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """User ids and the catalogue's groups of each."""
    ids: list[str] = []
    parts = []
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
        while part := rows.fetchmany(_STEP):
            who, *groups = zip(*part, strict=True)
            ids.extend(who)
            parts.append(_as_numbers(groups, path).T)
            time.sleep(_PAUSE_SECONDS)
    empty = np.zeros((0, len(layers)), dtype=np.int64)
    return ids, np.concatenate(parts) if parts else empty


def _as_numbers(groups: list[tuple[Any, ...]], path: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    table = np.array(groups)
    if table.dtype.kind not in "iu":  # also where one is missing
        raise KreachError.rule("folder", "hold whole numbers of groups", str(path))
    return table.astype(np.int64)
