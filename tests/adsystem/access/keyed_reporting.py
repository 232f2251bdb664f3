"""A reporting service that asks for keys, in this process, with a clock that the test sets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from kreach.adsystem.access.key import Key
from kreach.adsystem.access.keys import KeyStore
from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.settings import GuardSettings, ReportingSettings
from kreach.service.logs import Log
from tests.adsystem.api.live_stores import LiveStore

__all__ = ["NOW", "Keyed", "bearer", "keyed"]

NOW = 1_790_000_000.0


def bearer(text: str) -> dict[str, str]:
    """The header that carries a key."""
    return {"authorization": f"Bearer {text}"}


@dataclass
class Keyed:
    """A shop with keys, and what its service logged."""

    shop: LiveStore
    now: float = NOW
    lines: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    guard: GuardSettings = GuardSettings(enabled=False)  # noqa: RUF009 - it is frozen

    def clock(self) -> float:
        """The time that the test set."""
        return self.now

    def store(self) -> KeyStore:
        """The keys on disk, to be closed."""
        return KeyStore(self.shop.shared.store, self.clock)

    def add(self, role: str, advertiser: str | None = None, **more: Any) -> tuple[Key, str]:
        """A new key, and its text."""
        store = self.store()
        made = store.add(role, advertiser, **more)
        store.close()
        self.secrets.append(made.text.rpartition("_")[2])
        return made.key, made.text

    def app(self) -> FastAPI:
        """The service."""
        log = Log("reporting", self.lines.append)
        settings = ReportingSettings(keys=True)
        return reporting_app(self.shop.shared, settings, log, self.clock, self.guard)


@asynccontextmanager
async def keyed(made: Keyed) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service, without a key of its own."""
    app = made.app()
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 4711))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8403") as client,
    ):
        yield client
