"""Run something in processes that are killed at their n-th step. A program of its own:

    python -m tests.adsystem.jobs.kill_points output|nightly FOLDER

It forks while no engine has threads. A step is whatever leaves a trace on the disk, or is about
to. On standard output: one JSON object a line, for each death.
"""

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kreach.adsystem.jobs import output
from kreach.adsystem.jobs.output import OutputFolder

__all__ = ["DEATHS"]

DEATHS = 5  # of the nightly job; each takes a second


def trace(last: int, owner: Any, name: str) -> None:
    """Have this process killed before its `last` step; steps of all traced functions count."""
    original = getattr(owner, name)

    def step(*arguments: Any, **named: Any) -> Any:
        trace.steps += 1  # type: ignore[attr-defined]
        if trace.steps == last:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(owner, name, step)


def died(last: int, work: Callable[[], object], *more: tuple[Any, str]) -> bool:
    """Whether the work was killed; False if it had fewer steps."""
    child = os.fork()
    if child == 0:
        trace.steps = 0  # type: ignore[attr-defined]
        disk = [(os, "fsync"), (os, "open"), (shutil, "rmtree"), (output, "swap_folders")]
        for owner, name in (*disk, (Path, "rename"), (Path, "mkdir"), *more):
            trace(last, owner, name)
        code = 1
        try:
            work()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(1)
    return os.WIFSIGNALED(status)


def in_output(folder: Path) -> None:
    """Put a folder in place of another, killed before each step in turn."""
    out = folder / "out"
    for able in (True, False):
        step = 0
        while True:
            step += 1
            shutil.rmtree(out, ignore_errors=True)
            put(out, "old")
            if not died(step, lambda able=able: put(out, "new", able)):  # type: ignore[misc]
                break
            left = visible_texts(out)
            OutputFolder(out, "job").close()  # the next run
            drafts = list((out / ".drafts").rglob("*"))
            print(json.dumps([able, step, left, visible_texts(out), len(drafts)]))


def put(out: Path, text: str, able: bool = True) -> None:
    if not able:
        output.swap_folders = lambda *_: False
    with OutputFolder(out, "job") as target, target.draft("draft") as draft:
        for name in ("a.parquet", "b.parquet"):
            (draft / name).write_text(text)
        facts = dict.fromkeys(output.SOURCE_FACTS, text)
        target.put(draft, "kind/day=1", facts)


def visible_texts(out: Path) -> list[str]:
    """What readers find: the different texts of the files, or nothing."""
    folder = out / "kind" / "day=1"
    files = sorted(folder.iterdir()) if folder.exists() else []
    texts = {f.read_text() for f in files if f.suffix == ".parquet"}
    facts = {v for f in files if f.suffix == ".json" for v in json.loads(f.read_text()).values()}
    return sorted(texts | facts) if len(files) in {0, 3} else ["torn"]


def in_nightly(folder: Path) -> None:
    """Make a day anew that has changed, killed at steps drawn by chance."""
    from kreach.adsystem.jobs import merge, nightly, options
    from kreach.adsystem.jobs.engines import EmbeddedJobs
    from kreach.adsystem.settings import AdSystemSettings
    from tests.adsystem.jobs.sample_stores import NOW, START, days, tree

    out = folder / "out"
    settings = AdSystemSettings(store=folder / "store", catalogues=(folder / "v1",))
    chosen = options.JobOptions(settings=settings, out=out)

    def work() -> None:
        nightly.run_nightly(chosen, days(START), NOW)

    work()  # all is loaded now; what threads are left have nothing to do
    more = ((EmbeddedJobs, "write_sorted"), (nightly, "write_reach"), (merge, "_sums"))
    chance = random.Random(3)
    steps = [*chance.sample(range(1, 45), DEATHS), 10_000]
    for step in sorted(steps):
        shutil.rmtree(out)
        shutil.copytree(folder / "old", out)
        killed = died(step, work, *more)
        left = tree(out)
        if killed:
            died(0, work)
        print(json.dumps([killed, step, left, tree(out)]))


if __name__ == "__main__":
    {"output": in_output, "nightly": in_nightly}[sys.argv[1]](Path(sys.argv[2]))
