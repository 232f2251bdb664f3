"""Processes that end with the one that started them."""

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

__all__ = ["Child", "Process"]

_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Have the kernel end this process when the one that started it has died."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """A Python module in a process of its own, whose words go into a file.

    What a terminal tells this process it does not hear; should this one die, it ends too.
    """

    def __init__(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> None:
        """`more` goes into its environment, from which settings of this process are taken out."""
        self.log = log
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
        environment |= more or {}
        with log.open("ab") as file:
            self._begins = file.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        """The process's number, for signals."""
        return self._process.pid

    def stop(self, how: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """End it and wait; the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGKILL)


class Process(Child):
    """A service, on a free port or a given one."""

    def __init__(
        self,
        service: str,
        config: Path,
        log: Path,
        port: int = 0,
        more: Mapping[str, str] | None = None,
    ) -> None:
        serve = ["kreach", "serve", service, "--config", str(config), "--port", str(port)]
        super().__init__(serve, log, more)

    def address(self, seconds: float = 60.0) -> str:
        """Where it answers, once it does."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for event in self.events():
                if event["event"] == "ready":
                    return f"http://127.0.0.1:{event['port']}"
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the service did not start: {self.log.read_text()[-2_000:]}")

    def events(self) -> list[dict[str, Any]]:
        """What this process has logged."""
        lines = self.log.read_bytes()[self._begins :].splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[:1] == b"{" and line[-1:] == b"\n"]
