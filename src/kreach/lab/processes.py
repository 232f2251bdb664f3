"""Child processes that end with their parent."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

__all__ = ["ModuleProcess", "ServiceProcess", "StartWatch"]

_PR_SET_PDEATHSIG = 1
_MAX_START_SECONDS = 1_800.0
_LOOK_SECONDS = 1.0  # between looks at all processes, which cost more than the caller's own


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class StartWatch:
    """How long to wait for a process that starts: as long as it works, however slow the machine.

    It works while it, or one of its children, uses the CPU. Where the system does not say, what
    counts is the time.
    """

    def __init__(self, pid: int, idle_seconds: float = 60.0) -> None:
        self._pid, self._idle_seconds = pid, idle_seconds
        self._begun = self._worked_at = self._looked_at = time.monotonic()
        self._ticks = 0

    def is_over(self) -> bool:
        """Whether nothing has happened for too long. May be asked as often as one likes."""
        now = time.monotonic()
        if now - self._looked_at < min(_LOOK_SECONDS, self._idle_seconds / 4.0):
            return False
        self._looked_at = now
        ticks = _cpu_ticks(self._pid)
        if ticks > self._ticks:
            self._ticks, self._worked_at = ticks, now
        idle = now - self._worked_at > self._idle_seconds
        return idle or now - self._begun > _MAX_START_SECONDS


def _cpu_ticks(pid: int) -> int:
    """The CPU time of a process and its descendants, in ticks; 0 where the system has no /proc."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        parents[number] = int(fields[1])
        ticks[number] = sum(map(int, fields[11:15]))  # of its own, and of children that ended
    family = {pid}
    while more := {number for number, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(number, 0) for number in family)


class ModuleProcess:
    """`python -m ...` in a process that logs to a file.

    It runs in its own session, so Ctrl-C in the terminal does not reach it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`environment` is added to this process's, without its KREACH_ settings.

        `prefix` is a command that becomes this one, such as `ip netns exec NAME`.
        """
        self.log = log
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
        with log.open("ab") as file:
            self._log_start = file.tell()
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", *command],
                stdout=file,
                stderr=file,
                env=inherited | dict(environment or {}),
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def port(self, seconds: float = 60.0) -> int:
        """The port of a service, as soon as it logs that it is ready.

        `seconds` is how long it may do nothing before that.
        """
        watch = StartWatch(self.pid, seconds)
        while not watch.is_over():
            for event in self.events():
                if event["event"] == "ready":
                    return int(event["port"])
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"the service did not start: {self.log.read_text()[-2_000:]}")

    def address(self, seconds: float = 60.0) -> str:
        """The URL of a service, as soon as it is ready."""
        return f"http://127.0.0.1:{self.port(seconds)}"

    def events(self) -> list[dict[str, Any]]:
        """The events that this process has logged."""
        lines = self.log.read_bytes()[self._log_start :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[:1] == b"{" and line[-1:] == b"\n"]

    def stop(self, signal_number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Signal the process and wait. Returns the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal_number)
        return self._process.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGKILL)


class ServiceProcess(ModuleProcess):
    """`kreach serve SERVICE`; port 0 picks a free port."""

    def __init__(
        self,
        service: str,
        config: Path,
        log: Path,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        command = ["kreach", "serve", service, "--config", str(config), "--port", str(port)]
        super().__init__(command, log, environment, prefix)
