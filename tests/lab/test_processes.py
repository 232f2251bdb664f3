"""A process that starts is waited for as long as it works."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kreach.lab.processes import StartWatch


@contextmanager
def running(program: str) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_work_of_a_child_counts_and_idleness_ends_the_wait() -> None:
    busy = "import os, time\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(9999))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with running(child) as working, running("import time; time.sleep(3600)") as idle:
        watches = [StartWatch(process.pid, 3.0) for process in (working, idle)]
        while not watches[1].is_over():
            assert not watches[0].is_over()
            time.sleep(0.05)
        assert not watches[0].is_over()
