"""API keys on disk: created, rotated and revoked by operators, read by reporting.

Keys have a file of their own (`keys.sqlite3`, readable by its owner only). It holds digests of
secrets, never secrets.
"""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from kreach.adsystem.access.key import (
    RATE_PER_MINUTE,
    ROLES,
    Draw,
    Key,
    as_advertiser,
    as_key_id,
    digest_of,
    iso_of,
    new_id,
    new_secret,
    text_of,
)
from kreach.adsystem.settings import AdvertiserLimits
from kreach.boundary.times import DAY_SECONDS
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.sqlite import (
    Schema,
    create_private,
    open_store,
    store_errors,
    transaction,
)

__all__ = [
    "FILE",
    "SCHEMA",
    "KeyStore",
    "NewKey",
    "OwnLimits",
    "StoredKey",
    "UnknownKey",
    "count_keys",
]

FILE = "keys.sqlite3"
MAX_GRACE_SECONDS = 30.0 * DAY_SECONDS
_LAST_TS = 253_402_300_799.0  # the end of the year 9999
_FIELDS = (
    *("id", "role", "advertiser", "rate_per_minute"),
    *("created_ts", "expires_ts", "revoked_ts", "rotated_ts", "former_until_ts"),
)
_TABLES = """
CREATE TABLE IF NOT EXISTS keys (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, role TEXT NOT NULL,
    advertiser TEXT, rate_per_minute INTEGER NOT NULL, created_ts REAL NOT NULL, expires_ts REAL,
    revoked_ts REAL, rotated_ts REAL, former_until_ts REAL, digest BLOB NOT NULL, former BLOB
);
CREATE TABLE IF NOT EXISTS limits (
    advertiser TEXT PRIMARY KEY, max_campaigns INTEGER, credit_limit REAL
);
"""


def _add_limits(connection: sqlite3.Connection) -> None:
    """From version 1: the table of limits, which is there by now."""


SCHEMA = Schema(2, _TABLES, {1: _add_limits})


class UnknownKey(KreachError):
    """No key has this id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key {key_id!r}")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with the digests of its secret and, after a rotation with grace, of the former one."""

    key: Key
    digest: bytes
    former: bytes | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key, and the string for its holder, which cannot be shown again."""

    key: Key
    text: str

    def __repr__(self) -> str:
        """Without the secret, which must not be printed by accident."""
        return f"NewKey({self.key!r})"


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """What an operator set for one advertiser; None where the settings decide."""

    advertiser: str
    max_campaigns: int | None = None
    credit_limit: float | None = None

    def over(self, default: AdvertiserLimits) -> AdvertiserLimits:
        """The limits that hold."""
        own = {"max_campaigns": self.max_campaigns, "credit_limit": self.credit_limit}
        given = {name: value for name, value in own.items() if value is not None}
        return msgspec.structs.replace(default, **given)


class KeyStore:
    """All keys. Every change is durable when the call returns. For use by several threads."""

    def __init__(
        self,
        folder: Path,
        clock: Clock = time.time,
        draw: Draw = secrets.token_bytes,
        *,
        create: bool = True,
    ) -> None:
        self._clock, self._draw = clock, draw
        self._lock = Lock()
        self._path = folder / FILE
        if not create and not self._path.exists():
            raise KreachError(f"store {folder} has no keys: create one first")
        with store_errors(f"be a folder where {FILE} can be read and written", folder):
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            self._inode = _private_file(self._path, create=create)
            # no digest outlives its secret
            self._connection = open_store(self._path, SCHEMA, secure_delete="ON")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(
        self,
        role: str,
        advertiser: str | None = None,
        expires_ts: float | None = None,
        rate_per_minute: int = RATE_PER_MINUTE,
    ) -> NewKey:
        """Create a key; advertisers have a name, other roles do not."""
        now = self._clock()
        if expires_ts is not None and not now < expires_ts <= _LAST_TS:
            value = iso_of(expires_ts) if 0.0 <= expires_ts <= _LAST_TS else expires_ts
            raise KreachError.rule("expires", "be in the future", value)
        key_id, secret = new_id(self._draw), new_secret(self._draw)
        key = Key(key_id, role, advertiser, rate_per_minute, now, expires_ts)
        names = ", ".join((*_FIELDS, "digest"))
        values = (*(getattr(key, name) for name in _FIELDS), digest_of(key.id, secret))
        with self._transaction() as connection:
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO keys ({names}) VALUES ({marks})", values)
        return NewKey(key, text_of(key.id, secret))

    def rotate(self, key_id: str, grace_seconds: float = 0.0) -> NewKey:
        """Give a key a new secret. The former one stays valid for `grace_seconds`.

        Only one former secret is valid at a time: a second rotation ends the grace of the first.
        """
        if not 0.0 <= grace_seconds <= MAX_GRACE_SECONDS:
            rule = f"lie between 0 and {MAX_GRACE_SECONDS:.0f}"
            raise KreachError.rule("grace_seconds", rule, grace_seconds)
        now, secret = self._clock(), new_secret(self._draw)
        until = now + grace_seconds if grace_seconds else None
        with self._transaction() as connection:
            before = self._get(key_id)
            state = before.key.state(now)
            if state != "valid":
                raise KreachError(
                    f"key {key_id} is {state} and cannot be rotated: create a new one"
                )
            connection.execute(
                """UPDATE keys SET digest = ?, former = ?, rotated_ts = ?, former_until_ts = ?
                WHERE id = ?""",
                (digest_of(key_id, secret), before.digest if until else None, now, until, key_id),
            )
        key = replace(before.key, rotated_ts=now, former_until_ts=until)
        return NewKey(key, text_of(key_id, secret))

    def revoke(self, key_id: str) -> Key:
        """Revoke a key; one that was revoked before stays as it is."""
        now = self._clock()
        with self._transaction() as connection:
            before = self._get(key_id).key
            if before.revoked_ts is not None:
                return before
            connection.execute("UPDATE keys SET revoked_ts = ? WHERE id = ?", (now, key_id))
        return replace(before, revoked_ts=now)

    def set_limits(
        self, advertiser: str, max_campaigns: int | None, credit_limit: float | None
    ) -> OwnLimits:
        """Limit an advertiser; None is the limit of all who have none of their own."""
        own = OwnLimits(as_advertiser(advertiser), max_campaigns, credit_limit)
        own.over(AdvertiserLimits())  # which checks them
        with self._transaction() as connection:
            values = (own.advertiser, max_campaigns, credit_limit)
            connection.execute("INSERT OR REPLACE INTO limits VALUES (?, ?, ?)", values)
        return own

    def limits(self) -> list[OwnLimits]:
        """All advertisers with limits of their own."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT advertiser, max_campaigns, credit_limit FROM limits ORDER BY advertiser"
            )
            return [OwnLimits(*row) for row in rows]

    def all(self) -> list[StoredKey]:
        """All keys in the order of creation, expired and revoked ones too."""
        with self._lock:
            return self._rows("", ())

    def version(self) -> int:
        """A number that changes with every commit of another connection."""
        with self._lock:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def replaced(self) -> bool:
        """Whether the file was replaced since it was opened."""
        return os.stat(self._path).st_ino != self._inode

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, transaction(self._connection) as connection:
            yield connection

    def _get(self, key_id: str) -> StoredKey:
        rows = self._rows("WHERE id = ?", (as_key_id(key_id),))
        if not rows:
            raise UnknownKey(key_id)
        return rows[0]

    def _rows(self, where: str, values: tuple[Any, ...]) -> list[StoredKey]:
        rows = self._connection.execute(
            f"SELECT {', '.join(_FIELDS)}, digest, former FROM keys {where} ORDER BY number",
            values,
        )
        return [StoredKey(Key(*row[:-2]), row[-2], row[-1]) for row in rows]


def count_keys(folder: Path) -> dict[str, int]:
    """How many keys are valid now, by role; a store without keys has none."""
    if not (folder / FILE).exists():
        return dict.fromkeys(ROLES, 0)
    with closing(KeyStore(folder, create=False)) as store:
        now = time.time()
        keys = [stored.key for stored in store.all()]
        valid = [key.role for key in keys if key.state(now) == "valid"]
    return {role: valid.count(role) for role in ROLES}


def _private_file(path: Path, *, create: bool) -> int:
    """The inode of the file, which nobody but its owner may read or write."""
    facts = create_private(path, create=create)
    if facts.st_mode & 0o077:
        rule = "be for its owner only (chmod 600)"
        raise KreachError.rule(FILE, rule, f"mode {facts.st_mode & 0o777:o}")
    return facts.st_ino
