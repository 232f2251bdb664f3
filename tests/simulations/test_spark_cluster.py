"""A report on a Spark cluster survives a worker that is killed in the middle of it."""

import json
import subprocess
import sys
from pathlib import Path


def test_a_killed_worker_changes_nothing() -> None:
    """In a process of its own: this one may have a Spark already."""
    command = [
        sys.executable,
        "-m",
        "simulations.spark_cluster",
        "--rows",
        "50000",
        "--workers",
        "2",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["same"]
    assert outcome["killed_in_stage"] is not None
    assert outcome["executors_before"] == 2
    assert outcome["executors_after"] == 1
    assert outcome["duplicates"] > 0
