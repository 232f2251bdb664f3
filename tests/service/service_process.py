"""Services in processes of their own: started by the command, waited for, ended in any case."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kreach.lab.processes import StartWatch

__all__ = ["Service", "raw", "serving", "until"]

ROOT = Path(__file__).resolve().parents[2]


def until(true: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait for something that must come; how long it takes does not matter."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of kreach."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
    return {**inherited, **(more or {})}


class Service:
    """`kreach serve …` in a process of its own, its output in files."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], more: Mapping[str, str] | None = None
    ) -> None:
        stamp = time.monotonic_ns()
        self.out_path, self.err_path = folder / f"out-{stamp}", folder / f"err-{stamp}"
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kreach", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment(more),
            )
        self.port = 0

    def wait_ready(self) -> None:
        """Until it answers, or has ended."""
        watch = StartWatch(self.pid)
        while not self.events("ready") and self.alive:
            assert not watch.is_over(), f"it does not start: {self.err_path.read_text()}"
            time.sleep(0.02)
        assert self.events("ready"), self.err_path.read_text()
        self.port = int(self.events("ready")[0]["port"])

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was logged under a name."""
        lines = self.err_path.read_text(errors="replace").splitlines()
        logged = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return [event for event in logged if event["event"] == name]

    def output(self) -> bytes:
        """All that it wrote to its outputs."""
        return self.out_path.read_bytes() + self.err_path.read_bytes()

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        if self.alive:
            self.send_signal(number)
        return self._process.wait(30)

    def stop_code(self) -> int:
        """The exit code of a process that ends by itself."""
        return self._process.wait(30)

    def end(self) -> None:
        """End it whatever it does."""
        if self.alive:
            self._process.kill()
        self._process.wait(30)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = 20.0,
    ) -> tuple[int, bytes, bytes]:
        """One request on a connection of its own: status, head, body."""
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body:
            lines.append(f"content-length: {len(body)}")
        got = raw(self.port, "\r\n".join(lines).encode() + b"\r\n\r\n" + body, seconds)
        head, _, rest = got.partition(b"\r\n\r\n")
        return int(head[9:12]), head, rest


def raw(port: int, sent: bytes, seconds: float = 10.0, *, half_close: bool = False) -> bytes:
    """Send bytes and read until the other side closes, or nothing comes for so long."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while part := connection.recv(65_536):
                got += part
    return got


@contextlib.contextmanager
def serving(
    folder: Path, *arguments: str, more: Mapping[str, str] | None = None
) -> Iterator[Service]:
    """A service that is ready, ended in any case."""
    service = Service(folder, arguments, more)
    try:
        service.wait_ready()
        yield service
    finally:
        service.end()
