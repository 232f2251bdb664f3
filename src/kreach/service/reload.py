"""Takes up changed settings while a service runs, or goes on with those it has and says so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["SettingsReload"]

S = TypeVar("S")
T = TypeVar("T")
_MAX_DOUBLINGS = 5  # of the wait after a refusal: a large release is not read again all the time


class SettingsReload(Generic[S, T]):
    """Reads settings again on SIGHUP and, with `seconds`, by itself when they have changed.

    `read` returns the settings and is cheap; `prepare` fetches and checks what they name, in a
    thread. What the service does with the result is `apply`: it takes up all of it or raises. After
    a refusal the service has what it had, and without a signal it is tried again.
    """

    def __init__(
        self,
        read: Callable[[], S],
        prepare: Callable[[S], T],
        in_use: S,
        log: Log,
        seconds: float = 0.0,
    ) -> None:
        self._read, self._prepare, self._in_use = read, prepare, in_use
        self._log, self.seconds = log, seconds
        self._apply: Callable[[T], Awaitable[None]] | None = None
        self._lock = asyncio.Lock()
        self._refusals = 0  # in a row
        self.failure: str | None = None
        """Why the newest settings are not in use; None while they are."""

    def attach(self, apply: Callable[[T], Awaitable[None]], metrics: Metrics) -> None:
        """Say how settings are taken up, and show in the metrics whether they were."""
        self._apply = apply
        what = "1 while changed settings are refused and former ones are in use"
        metrics.gauge("reload_refused", what, lambda: {"": float(self.failure is not None)})

    @property
    def wait_seconds(self) -> float:
        """Until the settings are looked at again."""
        return self.seconds * float(2 ** min(self._refusals, _MAX_DOUBLINGS))

    async def watch(self) -> None:
        """Look at the settings again and again; returns at once if only a signal is to count."""
        while self.seconds > 0.0:
            await asyncio.sleep(self.wait_seconds)
            await self.reload(forced=False)

    async def reload(self, *, forced: bool = True) -> None:
        """Take up the settings; unless `forced`, only if they are not those in use."""
        async with self._lock:
            before = self.failure
            try:
                found = await asyncio.to_thread(self._read)
                if forced or found != self._in_use:
                    prepared = await asyncio.to_thread(self._prepare, found)
                    if self._apply is not None:
                        await self._apply(prepared)
                    self._in_use = found
                    self._log.info("settings taken up")
                elif before is not None:
                    self._log.info("settings are those in use again")
            except Exception as error:  # whatever it is: the service goes on
                known = isinstance(error, KreachError)  # the text of others may quote input
                self.failure = str(error) if known else type(error).__name__
                self._refusals += 1
                if forced or self.failure != before:
                    self._log.error("reload refused", reason=self.failure)
                return
            self.failure, self._refusals = None, 0
