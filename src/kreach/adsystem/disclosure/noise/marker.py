"""The mark beside the ledger of noise: which one was here, and how many answers it held."""

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mark", "Marked"]


class Marked(NamedTuple):
    """What a mark says."""

    ledger: str
    answers: int


@dataclass(frozen=True)
class Mark:
    """A small file of its own, so that a ledger that is lost or set back is missed.

    It is written after the ledger: one that is behind by a crash is still a mark.
    """

    path: Path

    def read(self) -> Marked | None:
        """What is marked, if anything; OSError where it cannot be made out."""
        if not self.path.exists():
            return None
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
            return Marked(str(told["ledger"]), int(told["answers"]))
        except (ValueError, TypeError, KeyError):
            raise OSError(f"{self.path.name} is not a mark") from None

    def write(self, now: Marked) -> None:
        """Say what is in the ledger now; a higher mark of another process stays."""
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
