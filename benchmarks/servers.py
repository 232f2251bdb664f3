"""Real processes for benchmarks and tests: started, waited for, ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Server"]


class Server:
    """A service in a process of its own, on a free port of 127.0.0.1."""

    def __init__(
        self, *command: str, log: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[dict[str, object]] = []
        self.port = self._wait()

    def _wait(self) -> int:
        assert self._process.stderr is not None
        text = []
        for line in self._process.stderr:
            text.append(line)
            try:
                event = json.loads(line)
            except ValueError:
                continue
            self.lines.append(event)
            if event.get("event") == "ready":
                return int(event["port"])
        raise RuntimeError("the server did not start: " + "".join(text))

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def memory_bytes(self) -> int:
        """Resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it and wait."""
        self._process.send_signal(how)
        assert self._process.stderr is not None
        rest = self._process.stderr.read()
        self.lines += [json.loads(line) for line in rest.splitlines() if line.startswith("{")]
        return self._process.wait(60)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGKILL)
