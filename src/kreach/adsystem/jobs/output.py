"""Atomic output of jobs: drafts, one swap of folders, one run at a time.

An output is a folder with Parquet files and a manifest. It is written as a draft, synchronized, and
published by one rename; an existing folder is swapped in the same step, where the system supports
it. Elsewhere it is set aside first: then a kill between two renames leaves a gap, which the next
run closes by putting the old folder back.
"""

import ctypes
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kreach.adsystem.store_layout import sync_path
from kreach.errors import KreachError

__all__ = ["LOG_FACTS", "MANIFEST", "REACH_FACTS", "SOURCE_FACTS", "OutputFolder", "read_manifest"]

MANIFEST = "_manifest.json"  # engines that read a folder skip names that begin with _ or .
SOURCE_FACTS = frozenset({"job", "start", "end", "digest", "source_rows", "bidders"})
LOG_FACTS = SOURCE_FACTS | {"parts"}
REACH_FACTS = SOURCE_FACTS | {
    *("complete", "complete_until", "level", "campaigns", "rows"),
    *("impressions", "spend_micros", "not_measured"),
}
_DRAFTS = ".drafts"
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def read_manifest(folder: Path, facts: frozenset[str] = SOURCE_FACTS) -> dict[str, Any] | None:
    """The manifest of a folder; None without the folder. Refuses a folder that no job wrote."""
    if not folder.exists():
        return None
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict) or not facts <= manifest.keys():
        rule = f"hold only what jobs wrote (folders with a {MANIFEST} of theirs)"
        raise KreachError.rule("out", rule, str(folder))
    return manifest


class OutputFolder:
    """The output folder of one job, locked against a second run."""

    def __init__(self, out: Path, job: str) -> None:
        self.out = out
        try:
            out.mkdir(parents=True, exist_ok=True)
            self._lock = _opened(out / f".{job}.lock")
            self._log_lock = _opened(out / ".log.lock")
        except OSError as error:
            problem = f"{out} ({error.strerror})"
            raise KreachError.rule("out", "be a folder that can be written", problem) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._close()
            rule = f"be used by one {job} run at a time"
            raise KreachError.rule("out", rule, f"{out} (locked)") from None
        self._drafts = out / _DRAFTS / job
        self._aside = self._drafts / "aside"
        self._sweep()

    def _close(self) -> None:
        os.close(self._lock)
        os.close(self._log_lock)

    def close(self) -> None:
        """Remove drafts and release the lock."""
        try:
            self._sweep()
        finally:
            self._close()

    def __enter__(self) -> "OutputFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sweep(self) -> None:
        """Remove the drafts of an earlier run; restore folders that it set aside."""
        for manifest in sorted(self._aside.rglob(MANIFEST)):
            target = self.out / manifest.parent.relative_to(self._aside)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                manifest.parent.rename(target)
                sync_path(target.parent)
        shutil.rmtree(self._drafts, ignore_errors=True)

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """An empty temporary folder on the disk of the output."""
        folder = self._drafts / name
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, draft: Path, name: str, manifest: dict[str, Any]) -> None:
        """Publish a draft as the folder `name` of the output, atomically and durably."""
        target = self.out / name
        read_manifest(target)  # refuses to replace what is not ours
        text = json.dumps(manifest, indent=1, sort_keys=True)
        (draft / MANIFEST).write_text(text + "\n", encoding="utf-8")
        for file in draft.iterdir():
            sync_path(file)
        sync_path(draft)
        for folder in _missing(target.parent):
            folder.mkdir()
            sync_path(folder.parent)
        if not target.exists():
            draft.rename(target)
        elif not swap_folders(draft, target):
            old = self._aside / name
            old.parent.mkdir(parents=True, exist_ok=True)
            target.rename(old)
            draft.rename(target)
        sync_path(target.parent)
        sync_path(self._drafts)

    @contextmanager
    def log_locked(self, *, alone: bool) -> Iterator[None]:
        """Lock OUT/log for reading (shared) or replacing (alone); waits for the lock."""
        fcntl.flock(self._log_lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._log_lock, fcntl.LOCK_UN)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _missing(folder: Path) -> list[Path]:
    """Folders that do not exist yet, the outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def swap_folders(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
