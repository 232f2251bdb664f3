"""The publisher's own folder: who is in which group, with which traits. It never leaves.

DIR/release/     what may be handed to a buyer (see boundary/files.py)
DIR/publisher/   people.parquet, key, build.json: for the gateway and the audit only
"""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.engine import file_reader, new_engine, no_complaints, sql_text
from kreach.boundary.files import read_catalogue, write_catalogue
from kreach.errors import KreachError
from kreach.publisher.gateway import Gateway
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.people import Attribute, People
from kreach.publisher.release import Release

__all__ = ["Build", "check_folder", "read_build", "write_build"]


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
    import duckdb  # noqa: PLC0415 - slow to import

    table: dict[str, Any] = {"user_id": np.array(user_ids, dtype=object), "visits": people.visits}
    for layer in range(assignment.groups.shape[1]):
        table[f"group_{layer}"] = np.ascontiguousarray(assignment.groups[:, layer])
        table[f"placed_{layer}"] = np.ascontiguousarray(released.placed[:, layer])
    for name, attribute in people.attributes.items():
        labels = np.array([None if v is None else str(v) for v in attribute.labels], dtype=object)
        table[f"attribute_{name}"] = labels[attribute.codes]
    with duckdb.connect() as engine:
        engine.register("people_table", table)
        query = "SELECT * FROM people_table"
        engine.execute(f"COPY ({query}) TO '{sql_text(path)}' (FORMAT parquet)")


def read_build(folder: Path) -> Build:
    """Read what `write_build` wrote."""
    private = folder / "publisher"
    try:
        facts = json.loads((private / "build.json").read_text())
        key = bytes.fromhex((private / "key").read_text().strip())
        group_size, strategy = int(facts["group_size"]), str(facts["strategy"])
    except (OSError, ValueError, KeyError) as error:
        rule = "be a folder made by `kreach groups build`"
        raise KreachError.rule("folder", rule, f"{folder} ({error})") from None
    with no_complaints("folder", "hold a readable people.parquet"):
        reader = file_reader("folder", private / "people.parquet")
        rows = new_engine().execute(f"SELECT * FROM {reader}").fetchnumpy()

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
