"""Output that is there whole or not at all: drafts, one exchange of folders, one run at a time.

An output is a folder with Parquet files and a manifest. It is written as a draft beside the others,
synchronised, and put in its place by one rename; what was there before is exchanged in the same
step, where the system can do that. Elsewhere it is set aside first: then a kill between two renames
leaves a gap, which the next run closes by putting the old folder back.
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

from kreach.errors import KreachError

__all__ = ["LOG_FACTS", "MANIFEST", "REACH_FACTS", "SOURCE_FACTS", "Places", "read_manifest"]

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
    """What a run said of a folder; None if there is no such folder, refused if nobody did."""
    if not folder.exists():
        return None
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not facts <= found.keys():
        rule = f"hold only what jobs wrote (folders with a {MANIFEST} of theirs)"
        raise KreachError.rule("out", rule, str(folder))
    return found


class Places:
    """Where one job puts its output. Holds the lock that keeps a second run out."""

    def __init__(self, out: Path, job: str) -> None:
        self.out = out
        try:
            out.mkdir(parents=True, exist_ok=True)
            self._lock = _opened(out / f".{job}.lock")
            self._log_lock = _opened(out / ".log.lock")
        except OSError as error:
            told = f"{out} ({error.strerror})"
            raise KreachError.rule("out", "be a folder that can be written", told) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._close()
            rule = f"be used by one {job} run at a time"
            raise KreachError.rule("out", rule, f"{out} (taken)") from None
        self._drafts = out / _DRAFTS / job
        self._aside = self._drafts / "aside"
        self._sweep()

    def _close(self) -> None:
        os.close(self._lock)
        os.close(self._log_lock)

    def close(self) -> None:
        """Let the next run in."""
        try:
            self._sweep()
        finally:
            self._close()

    def __enter__(self) -> "Places":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sweep(self) -> None:
        """Whoever had drafts here is done or dead: put back what it had set aside, if nothing came
        in its place, and forget the rest."""
        for manifest in sorted(self._aside.rglob(MANIFEST)):
            place = self.out / manifest.parent.relative_to(self._aside)
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                manifest.parent.rename(place)
                sync(place.parent)
        shutil.rmtree(self._drafts, ignore_errors=True)

    @contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """An empty folder on the disk of the output, gone afterwards."""
        folder = self._drafts / name
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, draft: Path, name: str, manifest: dict[str, Any]) -> None:
        """Make a draft the folder `name` of the output, in one step and for good."""
        place = self.out / name
        read_manifest(place)  # refuses to replace what is not ours
        text = json.dumps(manifest, indent=1, sort_keys=True)
        (draft / MANIFEST).write_text(text + "\n", encoding="utf-8")
        for file in draft.iterdir():
            sync(file)
        sync(draft)
        for folder in _missing(place.parent):
            folder.mkdir()
            sync(folder.parent)
        if not place.exists():
            draft.rename(place)
        elif not exchanged(draft, place):
            old = self._aside / name
            old.parent.mkdir(parents=True, exist_ok=True)
            place.rename(old)
            draft.rename(place)
        sync(place.parent)
        sync(self._drafts)

    @contextmanager
    def log_locked(self, *, alone: bool) -> Iterator[None]:
        """While files of OUT/log are read (by many) or exchanged (alone); waits for its turn."""
        fcntl.flock(self._log_lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._log_lock, fcntl.LOCK_UN)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _missing(folder: Path) -> list[Path]:
    """Folders to be made, the outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def exchanged(one: Path, other: Path) -> bool:
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
