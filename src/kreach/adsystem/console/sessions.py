"""Sessions of browsers: a random cookie stands for an API key, which never leaves this process.

People with the same key share one poller. Only digests of cookies are stored, in memory: a restart
signs everybody out.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from kreach.adsystem.console.state import Console
from kreach.adsystem.reports.report import ViewerInfo
from kreach.service.clock import Clock

__all__ = ["SESSION_COOKIE", "Session", "Sessions", "cookie_header"]

SESSION_COOKIE = "kreach-session"
_MAX_SESSIONS = 10_000
_SWEEP_SECONDS = 30.0


@dataclass(eq=False)
class Session:
    """One browser that signed in. `ended` is set by signing out, by expiry or by reporting."""

    console: Console
    viewer: ViewerInfo
    name: str
    expires: float
    clock: Clock
    ended: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the browser is still signed in."""
        if self.ended is None and self.clock() >= self.expires:
            self.ended = "expired"
        return self.ended is None


def cookie_header(name: str, value: str, seconds: int, *, secure: bool) -> str:
    """A cookie that scripts cannot read and other sites cannot send with their requests.

    >>> cookie_header("a", "b", 60, secure=True)
    'a=b; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure'
    """
    text = f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"
    return f"{text}; Secure" if secure else text


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Sessions:
    """All sessions, and one `Console` per key. For use on one event loop."""

    def __init__(
        self,
        make_console: Callable[[str], Console],
        session_seconds: float,
        clock: Clock = time.monotonic,
    ) -> None:
        self._make, self._seconds, self._clock = make_console, session_seconds, clock
        self._sessions: dict[bytes, Session] = {}
        self._consoles: dict[bytes, Console] = {}
        self._past_requests = 0  # of consoles that nobody uses any more

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    @property
    def consoles(self) -> list[Console]:
        """One for every key that somebody is signed in with."""
        return list(self._consoles.values())

    @property
    def request_count(self) -> int:
        """Requests to reporting since the start."""
        return self._past_requests + sum(one.poller.request_count for one in self.consoles)

    async def start(self, key: str, viewer: ViewerInfo, name: str) -> str:
        """Sign in; returns the value of the cookie."""
        await self.sweep()
        digest = _digest(key)
        console = self._consoles.get(digest)
        if console is None:
            console = self._consoles[digest] = self._make(key)
            await console.start()
        token = secrets.token_urlsafe(32)
        while len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions))).ended = "too many sessions"
        self._sessions[_digest(token)] = Session(
            console, viewer, name, self._clock() + self._seconds, self._clock
        )
        return token

    def get(self, token: str | None) -> Session | None:
        """The session of a cookie, if it has not ended."""
        if not token:
            return None
        session = self._sessions.get(_digest(token))
        return session if session is not None and session.valid else None

    def end(self, token: str | None) -> None:
        """Sign out."""
        session = self._sessions.pop(_digest(token or ""), None)
        if session is not None:
            session.ended = "signed out"

    async def sweep(self) -> None:
        """Forget sessions that ended, and stop polling with keys that nobody uses any more."""
        for digest, session in list(self._sessions.items()):
            if not session.valid:
                del self._sessions[digest]
        used = {id(session.console) for session in self._sessions.values()}
        for digest, console in list(self._consoles.items()):
            if id(console) not in used:
                del self._consoles[digest]
                self._past_requests += console.poller.request_count
                await console.stop()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self.sweep()

    async def stop(self) -> None:
        """End everything."""
        for session in self._sessions.values():
            session.ended = session.ended or "the console stopped"
        self._sessions.clear()
        await self.sweep()
