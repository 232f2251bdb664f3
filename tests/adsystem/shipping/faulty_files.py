"""An object store whose answers get lost."""

import random

from kreach.adsystem.shipping.file_store import FileStore, FilesUnavailable
from kreach.adsystem.shipping.settings import ShippingSettings


class FaultyFiles(FileStore):
    """A folder; some calls fail before they do anything, some after."""

    def __init__(self, settings: ShippingSettings, chance: random.Random, faults: float) -> None:
        super().__init__(settings)
        self._chance, self._faults = chance, faults

    def _fail(self) -> None:
        if self._chance.random() < self._faults:
            raise FilesUnavailable("the object store failed (no answer)")

    def put_once(self, name: str, data: bytes) -> None:
        self._fail()
        super().put_once(name, data)
        self._fail()

    def get(self, name: str) -> bytes:
        self._fail()
        return super().get(name)

    def list_names(self, folder: str, after: str = "") -> list[str]:
        self._fail()
        return super().list_names(folder, after)
