"""The databases of the ad system, by the store that each one is."""

from collections.abc import Iterator
from pathlib import Path

from kreach.adsystem.access import keys
from kreach.adsystem.campaigns import store as campaigns
from kreach.adsystem.disclosure.chapters import store as chapters
from kreach.adsystem.disclosure.noise import ledger as noise
from kreach.adsystem.ledger import journal
from kreach.adsystem.store_layout import log_folders
from kreach.service.backup.stores import StoreFile

__all__ = ["SCHEMAS", "SIDE", "store_files"]

SIDE = "adsystem"
SCHEMAS = {
    "noise": noise.SCHEMA,
    "chapters": chapters.SCHEMA,
    "keys": keys.SCHEMA,
    "journal": journal.SCHEMA,
    "campaigns": campaigns.SCHEMA,
}
_SHARED = {"noise": noise.FILE, "chapters": chapters.FILE, "keys": keys.FILE}
_OF_A_BIDDER = {"journal": journal.FILE, "campaigns": campaigns.FILE}


def store_files(store: Path) -> Iterator[StoreFile]:
    """The databases of a store that exist."""
    found = [StoreFile(store / name, kind) for kind, name in _SHARED.items()]
    for folder in log_folders(store):
        found += [StoreFile(folder / name, kind) for kind, name in _OF_A_BIDDER.items()]
    return (file for file in found if file.path.exists())
