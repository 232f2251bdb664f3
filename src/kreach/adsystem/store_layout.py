"""Where things lie in a store: folders of bidders, keys that are made at the first start."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from kreach.adsystem.settings import AdSystemSettings, BidderSettings, key_bytes

__all__ = [
    "BIDDERS_FOLDER",
    "GUARD_KEY",
    "MIRRORS_FOLDER",
    "RELEASES_FOLDER",
    "TOKEN_KEY",
    "bidder_store",
    "guard_key",
    "link_mirror",
    "log_folders",
    "mirror_of",
    "sync_path",
    "token_key",
]

BIDDERS_FOLDER = "bidders"
MIRRORS_FOLDER = "mirrors"
RELEASES_FOLDER = "releases"  # that were fetched
GUARD_KEY = "guard.key"
TOKEN_KEY = "token.key"


def bidder_store(shared: AdSystemSettings, name: str | None) -> AdSystemSettings:
    """The settings with the folder that one of several bidders has to itself."""
    if name is None:
        return shared
    return msgspec.structs.replace(shared, store=shared.store / BIDDERS_FOLDER / name)


def log_folders(store: Path) -> list[Path]:
    """The folders that hold logs: that of a bidder without a name, and those of the named."""
    named = (store / BIDDERS_FOLDER).iterdir() if (store / BIDDERS_FOLDER).is_dir() else ()
    return [store, *sorted(folder for folder in named if folder.is_dir())]


def mirror_of(store: Path, folder: Path) -> Path | None:
    """Where the mirror of a remote bidder's log lies that a folder of logs links to, if it does."""
    if folder == store or not folder.is_symlink():
        return None
    target = folder.resolve()
    return target if target.is_relative_to((store / MIRRORS_FOLDER).resolve()) else None


def link_mirror(store: Path, bidder: str, target: Path) -> None:
    """Have a bidder's folder of logs be a mirror, in one step."""
    link = store / BIDDERS_FOLDER / bidder
    link.parent.mkdir(parents=True, exist_ok=True)
    draft = store / MIRRORS_FOLDER / bidder / "link"
    draft.unlink(missing_ok=True)
    draft.symlink_to(os.path.relpath(target, link.parent))
    draft.rename(link)
    sync_path(link.parent)


def sync_path(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def token_key(settings: BidderSettings, store: Path) -> bytes:
    """The key that signs notices: as set, or one made at the first start and kept."""
    if settings.token_key is not None:
        return key_bytes(settings.token_key)
    return _stored_key(store / TOKEN_KEY)


def guard_key(store: Path) -> bytes:
    """The key of the guard's margins: made at the first start and kept."""
    return _stored_key(store / GUARD_KEY)


def _stored_key(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first
            os.link(draft, path)
        draft.unlink()
    return key_bytes(path.read_text().strip())
