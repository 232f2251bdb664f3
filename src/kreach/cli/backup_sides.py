"""The two sides as backup commands see them: whose stores, where they are, what fences them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kreach.cli.common import ConfigFile
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.service.backup.stores import StoreFile
    from kreach.service.backup.writer import BackupWriter
    from kreach.service.sqlite import Schema

__all__ = ["Side", "side_of"]

_PUBLISHER = "gateway"
_AD_SYSTEM = (
    *("adsystem", "bidder", "redis", "shipping", "releases"),
    *("reporting", "guard", "noise"),
)


class Side(Protocol):
    """One party's stores."""

    name: str
    file: ConfigFile
    roots: Mapping[str, Path]
    schemas: "Mapping[str, Schema]"
    after_restore: tuple[str, ...]

    def copy(self, writer: "BackupWriter") -> dict[str, Any]:
        """Copy all of it; facts for the manifest."""

    def fence(self, places: Mapping[str, Path], now: float) -> None:
        """Fence restored stores before they are in place."""

    def files(self) -> "Iterable[StoreFile]":
        """Its databases."""

    def locked(self) -> AbstractContextManager[None]:
        """A context in which no bidder writes to the stores."""


def side_of(config: Path) -> Side:
    """The side that settings are of; settings of both, or of none, are refused."""
    file = ConfigFile(config)
    ads = [name for name in _AD_SYSTEM if name in file.document]
    if _PUBLISHER in file.document and ads:
        raise KreachError(
            f"config {config} has both sides ([{_PUBLISHER}] and [{ads[0]}]): publisher and ad "
            "system keep their stores apart, give each its own file"
        )
    if _PUBLISHER in file.document:
        return _Publisher(file)
    if not ads:
        raise KreachError.rule("config", "have a section [adsystem] or [gateway]", str(config))
    return _AdSystem(file)


class _AdSystem:
    def __init__(self, file: ConfigFile) -> None:
        from kreach.adsystem.backup import stores
        from kreach.adsystem.backup.take import ROOT
        from kreach.adsystem.settings import AdSystemSettings

        self.name, self.file = stores.SIDE, file
        self._store = file.load(AdSystemSettings, "adsystem").store
        self.roots: Mapping[str, Path] = {ROOT: self._store}
        self.schemas: Mapping[str, Schema] = stores.SCHEMAS
        self.after_restore: tuple[str, ...] = (
            "bidders do not start before `kreach settle` has said what was spent since",
            "keys that were revoked since the backup are valid again: revoke them",
            "several bidders: restart Redis with no data",
        )

    def copy(self, writer: "BackupWriter") -> dict[str, Any]:
        from kreach.adsystem.backup.take import copy_adsystem

        return copy_adsystem(self._store, writer)

    def fence(self, places: Mapping[str, Path], now: float) -> None:
        from kreach.adsystem.backup.restored import fence_adsystem

        fence_adsystem(places, now)

    def files(self) -> "Iterable[StoreFile]":
        from kreach.adsystem.backup.stores import store_files

        return store_files(self._store)

    @contextmanager
    def locked(self) -> Iterator[None]:
        from kreach.adsystem.ledger.journal import FILE, lock_store
        from kreach.adsystem.store_layout import log_folders

        locks: list[int] = []
        try:
            folders = [one for one in log_folders(self._store) if (one / FILE).exists()]
            locks.extend(map(lock_store, folders))
            yield
        finally:
            for lock in locks:
                os.close(lock)


class _Publisher:
    def __init__(self, file: ConfigFile) -> None:
        from kreach.publisher.gateway import backup
        from kreach.publisher.gateway.settings import GatewaySettings

        self.name, self.file = backup.SIDE, file
        self._settings = file.load(GatewaySettings, "gateway")
        self.roots: Mapping[str, Path] = backup.roots(self._settings)
        self.schemas: Mapping[str, Schema] = backup.SCHEMAS
        self.after_restore: tuple[str, ...] = (
            "hard caps do not know what was shown since the backup",
            "panels make no more releases of campaigns that the backup knows",
        )

    def copy(self, writer: "BackupWriter") -> dict[str, Any]:
        from kreach.publisher.gateway.backup import copy_gateway

        return copy_gateway(self._settings, writer)

    def fence(self, places: Mapping[str, Path], now: float) -> None:
        from kreach.publisher.gateway.backup import fence_gateway

        fence_gateway(places, now)

    def files(self) -> "Iterable[StoreFile]":
        from kreach.publisher.gateway.backup import store_files

        return store_files(self._settings)

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield
