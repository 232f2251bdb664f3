"""Run the command as a user would, in this process or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from kreach.cli import main

__all__ = ["Result", "kreach", "kreach_process", "write_visits"]


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


def kreach(*arguments: str) -> Result:
    """Run in this process. What nobody catches is a traceback, as the interpreter prints it."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["kreach", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except Exception:
            traceback.print_exc()
            code = 1
    return Result(code, out.getvalue(), err.getvalue())


def kreach_process(*arguments: str, before: str = "", after: str = "") -> Result:
    """Run in a new process, with statements before and after (even if it exits)."""
    program = f"{before}\nfrom kreach.cli import main\ntry:\n    main()\nfinally:\n    pass\n"
    if after:
        program = program.replace("    pass\n", f"    {after}\n")
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return Result(done.returncode, done.stdout, done.stderr)


def write_visits(path: Path, people: int = 200) -> Path:
    """Visits of people in three towns, from one to nine each."""
    lines = ["user_id,ts,town,device"]
    for who in range(people):
        lines.extend(
            f"user-{who},2026-01-{1 + day:02}T10:00:00Z,{'ABC'[who % 3]},{'xy'[who // 3 % 2]}"
            for day in range(1 + who * 7 % 9)
        )
    path.write_text("\n".join(lines) + "\n")
    return path
