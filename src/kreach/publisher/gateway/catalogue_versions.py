"""The version of the catalogue that is served, and how a new one takes its place."""

import asyncio
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kreach.errors import KreachError
from kreach.publisher.group_lookup import Gateway
from kreach.publisher.store import FILES, read_gateway
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["Edition", "Editions", "read_edition"]

_MAX_PAUSE_SECONDS = 300.0
_Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Edition:
    """One version, ready to answer.

    An answer is the group's id between two constant halves. Ready-made answers for all groups would
    save a fifth of a microsecond and cost 160 bytes a group.
    """

    gateway: Gateway
    version: str
    groups: bytes  # a digest of the group ids
    head: bytes
    tail: bytes

    def answer(self, user_id: str) -> bytes:
        """The OpenRTB user object for a visit of this user."""
        return self.head + _json(self.gateway.identify(user_id).group) + self.tail


_json = msgspec.json.Encoder().encode


def read_edition(build: Path, choice: str, provider: str) -> Edition:
    """Read a build, or raise a KreachError that says what is wrong with it."""
    gateway = read_gateway(build, choice)
    digest = hashlib.blake2b(digest_size=16)
    for group in gateway.groups:
        digest.update(group.encode() + b"\0")
    head = b'{"data":[{"name":%b,"segment":[{"id":' % _json(provider)
    tail = b'}],"ext":{"catalogue":%b}}]}' % _json(gateway.version)
    return Edition(gateway, gateway.version, digest.digest(), head, tail)


class Editions:
    """The current edition, and a look from time to time whether there is another build.

    A new build is read in a thread and swapped in whole; requests take `current` once and finish
    with it. A build that cannot be read, or that gives a known version other groups, is refused and
    the old edition goes on; it is tried again when it changes or, ever more rarely, as it is.
    """

    def __init__(self, build: Path, choice: str, provider: str, log: Log, metrics: Metrics) -> None:
        self._build, self._choice, self._provider = build, choice, provider
        self._log = log
        self._reloads = metrics.count("reloads", "New builds read, by result", "result")
        self._reading = asyncio.Lock()
        self._refused: _Mark | None = None
        self._pause_seconds, self._again_at = 0.0, 0.0
        self._mark, self.current = self._read()
        self._known = {self.current.version: self.current.groups}
        self.loaded_at = time.time()
        metrics.gauge(
            "catalogue", "The version served now", lambda: {self.current.version: 1.0}, "catalogue"
        )
        metrics.gauge("people", "People in the build", lambda: {"": len(self.current.gateway)})
        metrics.gauge("loaded_time_seconds", "When it was loaded", lambda: {"": self.loaded_at})
        metrics.gauge(
            "build_refused",
            "1 while the build in place is refused and an older one is served",
            lambda: {"": float(self._refused is not None)},
        )
        self._say_loaded()

    async def look(self, *, force: bool = False) -> bool:
        """Read the build if it is another one than before; True if a new edition is served."""
        async with self._reading:
            mark = await asyncio.to_thread(_mark, self._build)
            if mark == self._mark:
                self._refused = None  # a refused build was taken back
            waiting = mark == self._refused and time.monotonic() < self._again_at
            if (mark == self._mark or waiting) and not force:
                return False
            try:
                mark, edition = await asyncio.to_thread(self._read)
                self._refuse_other_groups(edition)
            except Exception as error:
                self._refuse(mark, error)
                return False
            self._known[edition.version] = edition.groups
            self._mark, self.current = mark, edition
            self._refused, self._pause_seconds = None, 0.0
            self.loaded_at = time.time()
            self._reloads.add("ok")
            self._say_loaded()
            return True

    def _read(self) -> tuple[_Mark, Edition]:
        """The edition in place: all of it from one folder, which did not change meanwhile."""
        mark = _mark(self._build)
        edition = read_edition(Path(os.path.realpath(self._build)), self._choice, self._provider)
        if _mark(self._build) != mark:
            raise KreachError.rule("build", "not change while it is read", str(self._build))
        return mark, edition

    def _refuse_other_groups(self, edition: Edition) -> None:
        if self._known.get(edition.version, edition.groups) != edition.groups:
            rule = "have a version of its own: buyers know another catalogue by this one"
            raise KreachError.rule("build", rule, edition.version)

    def _refuse(self, mark: _Mark, error: Exception) -> None:
        if mark != self._refused:
            self._pause_seconds = 0.0
        self._refused = mark
        self._pause_seconds = min(max(2.0 * self._pause_seconds, 1.0), _MAX_PAUSE_SECONDS)
        self._again_at = time.monotonic() + self._pause_seconds
        self._reloads.add("failed")
        why = str(error) if isinstance(error, KreachError) else type(error).__name__
        self._log.error("build refused", why=why, serving=self.current.version)

    def _say_loaded(self) -> None:
        people, groups = len(self.current.gateway), len(self.current.gateway.groups)
        self._log.info(
            "catalogue loaded", catalogue=self.current.version, people=people, groups=groups
        )


def _mark(build: Path) -> _Mark:
    """What changes when another build is in place: where it is, and its files' identity."""
    folder = os.path.realpath(build)
    found: list[object] = [folder]
    for name in FILES:
        try:
            facts = os.stat(os.path.join(folder, name))
            found.append((facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))
        except OSError:
            found.append(None)
    return tuple(found)
