"""The manifest of a backup: what is in it, of which versions, with which checksums.

BACKUP/manifest.json     written last; a folder without it is no backup
BACKUP/files/ROOT/...    the files, by the root that they belong to (a store, a build)
"""

import hashlib
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from kreach.errors import KreachError

__all__ = ["FILES", "FORMAT", "MANIFEST", "BackupFile", "Manifest", "read_manifest"]

FORMAT = 1
MANIFEST = "manifest.json"
FILES = "files"
_MAX_BYTES = 1 << 30


class BackupFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file: its path under `files/`, and for a database which store it is of which version."""

    path: str
    size_bytes: int
    sha256: str
    store: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\\" in self.path:
            raise ValueError("path must be relative and inside the backup")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup of one side. `kreach` is the version that took it, `facts` are for people."""

    format: int
    kreach: str
    side: str
    taken: str
    files: tuple[BackupFile, ...]
    facts: dict[str, Any] = {}

    def encode(self) -> bytes:
        """As the file has it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def digest(self) -> str:
        """What tells this backup from every other: kept elsewhere, it shows any change."""
        return hashlib.sha256(self.encode()).hexdigest()


class _Head(msgspec.Struct):
    format: int


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup; a folder that is none, or was written by a newer kreach, raises."""
    path = folder / MANIFEST
    if not path.is_file():
        rule = f"be a finished backup with a {MANIFEST}"
        raise KreachError.rule("backup", rule, str(folder))
    if path.stat().st_size > _MAX_BYTES:
        raise KreachError.rule("backup", f"have a {MANIFEST} of at most 1 GiB", str(path))
    raw = path.read_bytes()
    try:
        head = msgspec.json.decode(raw, type=_Head)
        if head.format > FORMAT:
            raise KreachError(
                f"backup {folder} has format {head.format}, this kreach knows {FORMAT}: "
                "restore it with the kreach that took it, or a newer one"
            )
        return msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # validation errors too
        raise KreachError(f"backup {folder} has a damaged {MANIFEST} ({error})") from None
