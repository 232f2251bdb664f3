"""API keys in memory: a check reads no disk; changes of the file are loaded within a second."""

import hmac
import secrets
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kreach.adsystem.access.key import Key, digest_of, parts_of
from kreach.adsystem.access.keys import KeyStore, OwnLimits, StoredKey
from kreach.adsystem.settings import AdvertiserLimits
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["POLL_SECONDS", "Checked", "KeyRing", "KeysFailing"]

POLL_SECONDS = 0.25
_MAX_STALE_SECONDS = 10.0  # then revocations may have been missed, and every key is refused


class KeysFailing(RuntimeError):
    """The keys cannot be read: a failure of the service, not of the client."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The key if it is valid, else the reason, for counters and logs only.

    `known` is the public id in the text, if there is such a key.
    """

    key: Key | None
    reason: str
    known: str | None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key with its digests; a random digest stands for a missing one."""

    key: Key | None
    digest: bytes
    former: bytes
    former_until_ts: float


class KeyRing:
    """The keys of a store, read again when they change."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        log: Log,
        monotonic: Clock = time.monotonic,
    ) -> None:
        self._folder, self._clock, self._log = folder, clock, log
        self._monotonic = monotonic
        self._no_digest = secrets.token_bytes(32)
        self._no_entry = _Entry(None, self._no_digest, self._no_digest, 0.0)
        self._store = KeyStore(folder)
        self._version: int | None = None
        self._failing = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._entries: Mapping[str, _Entry] = {}
        self._limits: Mapping[str, OwnLimits] = {}
        self._fresh_at = monotonic()
        try:
            self._read()
        except BaseException:
            self._store.close()
            raise

    def start(self) -> None:
        """Poll for changes, four times a second."""
        self._thread = threading.Thread(target=self._watch, name="keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling and close the file."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._store.close()

    def __len__(self) -> int:
        """How many keys there are, expired and revoked ones too."""
        return len(self._entries)

    @property
    def failing(self) -> bool:
        """Whether the keys in memory are too old to be trusted."""
        return self._monotonic() - self._fresh_at > _MAX_STALE_SECONDS

    def check(self, text: str) -> Checked:
        """Whether a key is valid now.

        Whatever is wrong, the work is the same: one digest, one look-up, two constant-time
        comparisons. So response times do not reveal which ids exist.
        """
        if self.failing:
            raise KeysFailing("the keys cannot be read")
        key_id, secret = parts_of(text)
        digest = digest_of(key_id, secret)
        entry = self._entries.get(key_id, self._no_entry)
        now = self._clock()
        current = hmac.compare_digest(digest, entry.digest)
        former = hmac.compare_digest(digest, entry.former) and now < entry.former_until_ts
        return _checked(entry.key, current or former, now)

    def limits(self, advertiser: str, default: AdvertiserLimits) -> AdvertiserLimits:
        """What an advertiser may have."""
        own = self._limits.get(advertiser)
        return default if own is None else own.over(default)

    def refresh(self) -> None:
        """Load changes. If the file cannot be read, the keys stay as they were."""
        try:
            if self._store.replaced():
                fresh = KeyStore(self._folder, create=False)
                self._store.close()
                self._store, self._version = fresh, None
            self._read()
        except (KreachError, sqlite3.Error, OSError) as error:
            if not self._failing:
                self._log.error("keys cannot be read", kind=type(error).__name__)
            self._failing = True
            return
        if self._failing:
            self._log.info("keys can be read again")
        self._failing = False

    def _read(self) -> None:
        begun = self._monotonic()
        version = self._store.version()  # before the rows: a change in between is seen next time
        if version != self._version:
            self._entries = {stored.key.id: self._entry(stored) for stored in self._store.all()}
            self._limits = {own.advertiser: own for own in self._store.limits()}
            self._version = version
        self._fresh_at = begun

    def _entry(self, stored: StoredKey) -> _Entry:
        until = stored.key.former_until_ts or 0.0
        return _Entry(stored.key, stored.digest, stored.former or self._no_digest, until)

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.refresh()


def _checked(key: Key | None, matches: bool, now: float) -> Checked:
    if key is None:
        return Checked(None, "unknown key", None)
    if not matches:
        return Checked(None, "wrong secret", key.id)
    state = key.state(now)
    return Checked(key, "", key.id) if state == "valid" else Checked(None, f"{state} key", key.id)
