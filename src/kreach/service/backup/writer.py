"""Takes a backup while services run: databases by SQLite's backup API, other files as they are.

The caller decides the order, which keeps what stores say about each other true (see the backup of
each side). Everything is written under another name and moved to its own at the end, so that a
backup that was not finished is never taken for one.
"""

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from kreach.errors import KreachError
from kreach.service.backup.manifest import FILES, FORMAT, MANIFEST, BackupFile, Manifest
from kreach.service.sqlite import Schema, check_intact, connect_source, create_private, file_version

__all__ = ["BackupWriter", "copy_file", "make_private_folder", "sync_folder"]

_CHUNK = 1 << 20


class BackupWriter:
    """A backup that is being written, as a context: what is not finished is removed again."""

    def __init__(self, out: Path, roots: tuple[Path, ...], *, link: bool = False) -> None:
        """Refuses a folder that exists, and one inside what is to be copied (`roots`).

        With `link`, files that never change are hard links where the file system allows it.
        """
        self.out = out.absolute()
        if self.out.exists() or self.out.is_symlink():
            raise KreachError.rule("out", "be a folder that does not exist yet", str(out))
        for root in roots:
            if self.out.is_relative_to(root.absolute()):
                raise KreachError.rule("out", f"be outside {root}", str(out))
        self._draft = self.out.with_name(f".{self.out.name}.unfinished")
        self._link = link
        self._files: list[BackupFile] = []

    def __enter__(self) -> "BackupWriter":
        self.out.parent.mkdir(parents=True, exist_ok=True)
        if self._draft.exists():  # of a backup that was killed
            shutil.rmtree(self._draft)
        self._draft.mkdir(mode=0o700)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._draft.exists():
            shutil.rmtree(self._draft, ignore_errors=True)

    def database(self, source: Path, path: str, store: str, schema: Schema) -> Path | None:
        """Copy a database as it is at one instant; the copy, or None if there is no such file."""
        if not source.exists():
            return None
        target = self._target(path)
        create_private(target)
        try:
            with closing(connect_source(source)) as live, closing(sqlite3.connect(target)) as copy:
                file_version(live, schema, source)  # ours, and not newer
                live.backup(copy, pages=-1)  # in one step: one instant, and writers go on
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, without side files
                check_intact(copy)
                version = file_version(copy, schema, source)
        except KreachError:
            raise
        except sqlite3.Error as error:
            raise KreachError.rule(
                "store", "hold databases that can be read", f"{source} ({error})"
            ) from None
        self._note(target, path, store, version)
        return target

    def file(self, source: Path, path: str, *, immutable: bool = False) -> None:
        """Copy a file that is complete; one that is `immutable` may become a link."""
        target = self._target(path)
        try:
            if not (immutable and self._link and _linked(source, target)):
                copy_file(source, target)
        except FileNotFoundError:
            raise KreachError(
                f"{source} was removed while the backup was taken: take it again"
            ) from None
        self._note(target, path)

    def finish(self, side: str, version: str, taken: str, facts: dict[str, Any]) -> Manifest:
        """Write the manifest and give the folder its name."""
        manifest = Manifest(
            format=FORMAT,
            kreach=version,
            side=side,
            taken=taken,
            files=tuple(self._files),
            facts=facts,
        )
        path = self._draft / MANIFEST
        create_private(path)
        with path.open("wb") as file:
            file.write(manifest.encode())
            file.flush()
            os.fsync(file.fileno())
        for folder in (*(one for one in self._draft.rglob("*") if one.is_dir()), self._draft):
            sync_folder(folder)
        if self.out.exists():  # made meanwhile: a rename would replace an empty one
            raise KreachError.rule("out", "be a folder that does not exist yet", str(self.out))
        self._draft.rename(self.out)
        sync_folder(self.out.parent)
        return manifest

    def _target(self, path: str) -> Path:
        target = self._draft / FILES / path
        make_private_folder(target.parent)
        return target

    def _note(
        self, target: Path, path: str, store: str | None = None, version: int | None = None
    ) -> None:
        size, digest = _digest(target)
        self._files.append(
            BackupFile(path=path, size_bytes=size, sha256=digest, store=store, version=version)
        )


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy for the owner only, durably; how many bytes, and their SHA-256."""
    digest, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as read, os.fdopen(handle, "wb") as write:
        while chunk := read.read(_CHUNK):
            digest.update(chunk)
            write.write(chunk)
            size += len(chunk)
        write.flush()
        os.fsync(write.fileno())
    return size, digest.hexdigest()


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it, that only its owner can look into."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        return False
    return True


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
        os.fsync(file.fileno())
    return size, digest.hexdigest()
