"""The databases of one side: of which version each is, and how they are brought to this one."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kreach.errors import KreachError
from kreach.service.sqlite import Schema, connect_source, file_version, open_store

__all__ = ["StoreFile", "StoreVersion", "migrate", "store_versions"]


@dataclass(frozen=True)
class StoreFile:
    """A database on disk, and which store it is."""

    path: Path
    store: str


@dataclass(frozen=True)
class StoreVersion:
    """The version of a database, and the one that this kreach writes."""

    path: Path
    store: str
    version: int
    current: int

    @property
    def is_older(self) -> bool:
        """Whether it must be migrated."""
        return self.version < self.current


def store_versions(files: Iterable[StoreFile], schemas: Mapping[str, Schema]) -> list[StoreVersion]:
    """The version of each file; one of a newer kreach or another program is refused."""
    found = []
    for file in files:
        schema = schemas[file.store]
        try:
            with closing(connect_source(file.path)) as connection:
                version = file_version(connection, schema, file.path)
        except KreachError:
            raise
        except sqlite3.Error as error:
            rule = "hold databases that can be read"
            raise KreachError.rule("store", rule, f"{file.path} ({error})") from None
        found.append(StoreVersion(file.path, file.store, version or schema.version, schema.version))
    return found


def migrate(versions: Iterable[StoreVersion], schemas: Mapping[str, Schema]) -> None:
    """Bring each older file to this version, in a transaction of its own."""
    for one in versions:
        if one.is_older:
            try:
                open_store(one.path, schemas[one.store]).close()
            except KreachError:
                raise
            except sqlite3.Error as error:
                rule = "hold databases that can be written"
                raise KreachError.rule("store", rule, f"{one.path} ({error})") from None
