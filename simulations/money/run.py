"""Runs schedules by their seeds, and cuts down those that fail."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simulations.money.disk import empty_journal
from simulations.money.schedule import Op, Schedule, draw_ops

__all__ = ["Failure", "fast_folder", "run_schedules", "run_seed"]

_MAX_FAILURES = 3
_MAX_TRIES = 400  # of cutting down


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder in memory, where the system has one: thousands of logs are made in it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Failure:
    """A schedule whose books are wrong, and the least of its steps that suffice."""

    seed: int
    reason: str
    trace: tuple[str, ...]

    def text(self) -> str:
        """For people: what, by which seed, and how."""
        steps = "\n".join(f"    {line}" for line in self.trace)
        return (
            f"seed {self.seed}: {self.reason}\n{steps}\n"
            f"    again: python -m simulations.money --seed {self.seed}"
        )


def run_seed(
    seed: int, folder: Path, ops: Sequence[Op] | None = None
) -> tuple[str | None, list[str]]:
    """Run one schedule; why it failed, if it did, and what happened."""
    template = folder / "template"
    if not template.exists():
        empty_journal(template)
    room = folder / f"seed-{seed}"
    schedule = Schedule(seed, room, next(template.glob("*.sqlite3")))
    try:
        schedule.run(draw_ops(seed) if ops is None else ops)
    except AssertionError as error:
        return str(error).splitlines()[0] if str(error) else "assertion", schedule.trace
    finally:
        schedule.close()
        shutil.rmtree(room)
    return None, schedule.trace


def run_schedules(seeds: Iterable[int], folder: Path) -> list[Failure]:
    """Run schedules until some have failed."""
    failures = []
    for seed in seeds:
        reason, _ = run_seed(seed, folder)
        if reason is not None:
            failures.append(_cut_down(seed, reason, folder))
            if len(failures) == _MAX_FAILURES:
                break
    return failures


def _cut_down(seed: int, reason: str, folder: Path) -> Failure:
    """Leave out steps, by halves at first, as long as it fails for the same reason."""
    ops = draw_ops(seed)
    size, tries = len(ops) // 2, 0
    while size and tries < _MAX_TRIES:
        at = 0
        while at < len(ops) and tries < _MAX_TRIES:
            fewer = ops[:at] + ops[at + size :]
            tries += 1
            if run_seed(seed, folder, fewer)[0] == reason:
                ops = fewer
            else:
                at += size
        size //= 2
    return Failure(seed, reason, tuple(run_seed(seed, folder, ops)[1]))
