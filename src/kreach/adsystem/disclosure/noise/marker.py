"""The marker file beside the privacy ledger: the ledger's id and its number of answers."""

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Marker", "MarkerContent"]


class MarkerContent(NamedTuple):
    """The id of a ledger, and how many answers it had."""

    ledger: str
    answers: int


@dataclass(frozen=True)
class Marker:
    """A separate small file that reveals a ledger that was lost or restored from a backup.

    It is written after the ledger, so a crash may leave it behind the ledger, never ahead.
    """

    path: Path

    def read(self) -> MarkerContent | None:
        """The content, if the file exists; OSError where it cannot be parsed."""
        if not self.path.exists():
            return None
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            return MarkerContent(str(content["ledger"]), int(content["answers"]))
        except (ValueError, TypeError, KeyError):
            raise OSError(f"{self.path.name} is not a ledger marker") from None

    def write(self, now: MarkerContent) -> None:
        """Record the state of the ledger; a higher count of another process stays."""
        before = self.read()
        if before is not None and before.answers >= now.answers:
            return
        writer = f"{os.getpid()}-{threading.get_ident()}"  # several may write at once
        draft = self.path.with_suffix(f".{writer}.draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(now._asdict(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
