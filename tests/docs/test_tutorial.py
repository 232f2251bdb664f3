"""The tutorial, command by command, in a folder of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.shell import commands_of
from tests.docs.test_docs import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.md"
INSTALLS = re.compile(r"^python3 -m venv |^venv/bin/")  # tests/packaging does so


def test_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    commands = [one for one in commands_of(TUTORIAL) if not INSTALLS.match(one)]
    assert [one.split()[1] for one in commands if one.startswith("kreach")] == [
        *("demo", "measure", "measure", "groups", "groups", "plan"),
    ]
    (tmp_path / "kreach").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kreach "$@"\n')
    (tmp_path / "kreach").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
    environment = {**kept, "PATH": f"{tmp_path}:{kept['PATH']}", "COLUMNS": "120"}
    said = {}
    for command in commands:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        said[command.split(" --")[0]] = done.stdout
    assert "spring-shoes" in said["kreach demo"]
    assert "truth" in said["kreach demo"]
    days = json.loads((tmp_path / "days.json").read_text())
    assert days["series"]
    assert days["impressions"] > 0
    assert (tmp_path / "audit.html").stat().st_size > 0
    assert "95% band" in said["kreach plan"]
