"""Which shares of draws a prepared log holds, and whether a report may use them.

`prepare.py` writes a copy of a log whose rows carry what they lack of a draw. That is right only
among the very rows it was computed from: a row more or less changes the shares of those after it.
So the folder lists its files by size and by a digest of their footers, which name the offset, size
and range of every column chunk, and the shares of a folder that has other files are not used.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from kreach.boundary.duckdb import parquet_files
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel

__all__ = ["FILE", "KEY", "LOST", "StoredShares", "file_digests", "read_shares", "slot_heads"]

FILE = "_shares.json"  # engines skip names that begin with _
LOST = "draw_lost"
"""The column of what a row lacks of a draw, in units; null where the row does not count."""
KEY = "group_key"
"""The column of a number for the group, which engines count faster than text."""

_FORMAT = 1
_MAGIC = b"PAR1"
_MAX_HEADS = 0.5


@dataclass(frozen=True)
class StoredShares:
    """What the shares of a prepared log were computed for."""

    sessions: str  # `VisitModel.session_digest`
    catalogue: str | None  # version of the groups: rows of others have no shares
    campaigns: int  # in the log; rows without one are one more
    deduplicated: bool  # later copies of an id have no shares
    copies: int

    def fit(self, model: VisitModel, campaign: object, version: object, may_repeat: bool) -> bool:
        """Whether a report on this place with this model would compute the same shares."""
        same_rows = self.deduplicated == may_repeat or (self.deduplicated and not self.copies)
        return (
            same_rows
            and self.sessions == model.session_digest
            and self.catalogue == version
            and (campaign is not None or self.campaigns <= 1)
        )

    def save(self, folder: Path) -> None:
        """Write the list of a folder whose files are complete."""
        document = {"format": _FORMAT, **asdict(self), "files": file_digests(folder)}
        (folder / FILE).write_text(json.dumps(document) + "\n")


def read_shares(source: object) -> StoredShares | None:
    """The shares of a prepared folder; None where there are none, or files have changed.

    To be read after the engine has listed the files: one that is added in between is then noticed.
    """
    if not isinstance(source, (str, Path)) or not (Path(source) / FILE).is_file():
        return None
    try:
        document = json.loads((Path(source) / FILE).read_text())
        facts: Mapping[str, Any] = {name: document[name] for name in _FIELDS}
        listed, version = document["files"], document["format"]
        if version != _FORMAT or listed != file_digests(Path(source)):
            return None
        return StoredShares(**facts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # a report can always compute them


_FIELDS = ("sessions", "catalogue", "campaigns", "deduplicated", "copies")


def file_digests(folder: Path) -> dict[str, str]:
    """Size and digest of the footer of each Parquet file, by its path in the folder."""
    return {
        file.relative_to(folder).as_posix(): _digest(file)
        for file in parquet_files("impressions", folder)
    }


def _digest(file: Path) -> str:
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(size - 8, 0))
        tail = stream.read(8)
        if len(tail) < 8 or tail[4:] != _MAGIC:
            return f"{size}:no footer"
        length = min(struct.unpack("<I", tail[:4])[0] + 8, size)
        stream.seek(size - length)
        return f"{size}:{sha256(stream.read(length)).hexdigest()}"


def slot_heads(slots: list[Window], model: VisitModel) -> list[Window] | None:
    """The first rows of each slot, which may continue rows before it; their shares are computed.

    A share looks back as far as the model's last gap, and inside a slot it may not look out of it.
    None if heads are so much of the slots that computing everything is as quick.
    """
    reach_back = timedelta(microseconds=int(model.gap_edges_us[-1]))
    heads, covered, whole = [], timedelta(), timedelta()
    for slot in slots:
        if slot.start is None:
            continue
        try:
            end = slot.start + reach_back
        except OverflowError:
            return None
        if slot.end is not None:
            covered += min(end, slot.end) - slot.start
            whole += slot.end - slot.start
            end = min(end, slot.end)
        heads.append(Window(slot.start, end))
    if any(slot.start is None or slot.end is None for slot in slots):
        return heads
    return heads if covered <= _MAX_HEADS * whole else None
