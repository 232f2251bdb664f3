"""Backups of a scheduler: folders named by their time, of which the newest are kept."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from kreach.errors import KreachError
from kreach.service.backup.manifest import read_manifest
from kreach.service.backup.writer import sync_folder

__all__ = ["dated_folder", "remove_older"]

_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")


def dated_folder(into: Path, now: float) -> Path:
    """The folder of a backup that is taken now; names sort as times do."""
    return into / datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


def remove_older(into: Path, side: str, keep: int) -> list[Path]:
    """Delete all but the newest backups of a side; those that were deleted.

    What has another name, no readable manifest, or is of the other side stays.
    """
    own = [path for path in sorted(into.iterdir()) if _is_of(path, side)]
    older = own[: max(len(own) - keep, 0)]
    for path in older:
        gone = path.with_name(f".{path.name}.unfinished")  # half of a backup is none
        path.rename(gone)
        sync_folder(into)
        shutil.rmtree(gone)
    return older


def _is_of(path: Path, side: str) -> bool:
    if not _NAME.fullmatch(path.name) or path.is_symlink():
        return False
    try:
        return read_manifest(path).side == side
    except (KreachError, OSError):
        return False
