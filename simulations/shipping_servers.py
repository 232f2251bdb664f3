"""Real servers that a log is shipped through: a NATS with JetStream, and an object store.

Each can be killed and started again with what it stored. The object store is moto's, over HTTP; a
door in front of it can answer with errors or not at all.
"""

import asyncio
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import nats

from kreach.errors import KreachError
from simulations.environments import program
from simulations.fleet import free_port

__all__ = [
    "NatsCluster",
    "NatsServer",
    "ObjectServer",
    "nats_server_command",
    "object_server_command",
]

BUCKET = "kreach-log"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}


def nats_server_command() -> str:
    """The nats-server of this machine."""
    found = shutil.which("nats-server")
    if found is None:
        raise KreachError.rule("nats-server", "be installed (tools/find_nats.sh)", "missing")
    return found


def object_server_command(host: str, port: int) -> list[str]:
    """The command of an object store."""
    moto = program("moto_server", Path(__file__).with_name("object_store.txt"))
    return [str(moto), "-H", host, "-p", str(port)]


class NatsServer:
    """A nats-server that can be killed and started again, with what it stored or without."""

    def __init__(
        self,
        folder: Path,
        host: str = "127.0.0.1",
        prefix: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
    ) -> None:
        """`prefix`: of its command, to run it in a network namespace."""
        self._folder, self._host, self._prefix, self._options = folder, host, prefix, options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"nats://{self._host}:{self.port}"

    def start(self) -> None:
        """Start it, with what it stored."""
        command = [*self._prefix, nats_server_command(), "-a", self._host, "-p", str(self.port)]
        command += ["-js", "-sd", str(self._folder), *self._options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _wait_for(self._host, self.port)

    def kill(self) -> None:
        """As the power would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def wipe(self) -> None:
        """Lose its disk; only while it is dead."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def signal(self, number: int) -> None:
        """Hold it up (SIGSTOP, until no thread of it runs) or let it go on (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(number)
        tasks = Path(f"/proc/{self._process.pid}/task")
        until = time.monotonic() + 20.0
        while number == signal.SIGSTOP and not all(map(_is_held, tasks.iterdir())):
            if time.monotonic() > until:
                raise RuntimeError("nats-server is not held up")
            time.sleep(0.005)

    def __enter__(self) -> "NatsServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


class NatsCluster:
    """Three servers that hold a copy each of a stream with `replicas = 3`."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(3)]
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
        self.servers: dict[str, NatsServer] = {}
        try:
            for name, port in zip("abc", ports, strict=True):
                place = folder / name
                place.mkdir()
                cluster = ("-cluster", f"nats://127.0.0.1:{port}", "-cluster_name", "log")
                options = ("-n", name, *cluster, "-routes", routes)
                self.servers[name] = NatsServer(place, options=options)
        except BaseException:
            self.__exit__()
            raise

    @property
    def url(self) -> str:
        """Where they are: for `stream` of `[shipping]`."""
        return ",".join(server.url for server in self.servers.values())

    def leader(self, stream: str) -> str:
        """The server that a stream is written to."""
        return asyncio.run(self._leader(stream))

    async def _leader(self, stream: str) -> str:
        client = await nats.connect(self.url.split(","))
        try:
            info = await client.jetstream().stream_info(stream)
        finally:
            await client.close()
        assert info.cluster is not None
        return str(info.cluster.leader)

    def __enter__(self) -> "NatsCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.__exit__()


def _is_held(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"


def _wait_for(host: str, port: int) -> None:
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        try:
            socket.create_connection((host, port), 1.0).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nothing listens on port {port}")


class ObjectServer:
    """An S3 in a process of its own, behind a door: `failing` answers 503, `down` hangs up."""

    def __init__(self) -> None:
        self._to = free_port()
        self._process = subprocess.Popen(
            object_server_command("127.0.0.1", self._to),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _wait_for("127.0.0.1", self._to)
        self.failing = self.down = False
        self.requests = 0
        self._door = _Door(("127.0.0.1", 0), self)
        threading.Thread(target=self._door.serve_forever, args=(0.05,), daemon=True).start()
        self.port = int(self._door.server_address[1])
        made = urllib.request.Request(f"http://127.0.0.1:{self._to}/{BUCKET}", method="PUT")
        urllib.request.urlopen(made, timeout=20).close()

    @property
    def behind(self) -> int:
        """The port behind the door."""
        return self._to

    def settings(self, name: str) -> dict[str, Any]:
        """`files` and `files_options` of `[shipping]`."""
        options = {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "region": "us-east-1",
            "allow_http": "true",
        }
        return {"files": f"s3://{BUCKET}/{name}", "files_options": options}

    def close(self) -> None:
        """End it."""
        self._door.shutdown()
        self._door.server_close()
        self._process.kill()
        self._process.wait(20)


class _Door(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], owner: ObjectServer) -> None:
        self.owner = owner
        super().__init__(address, _Visit)


class _Visit(socketserver.BaseRequestHandler):
    """One connection, passed on byte by byte unless the door is shut."""

    def handle(self) -> None:
        owner: ObjectServer = self.server.owner  # type: ignore[attr-defined]
        here: socket.socket = self.request
        if owner.down:
            return
        with socket.create_connection(("127.0.0.1", owner.behind)) as there:
            back = threading.Thread(target=_pass, args=(there, here), daemon=True)
            back.start()
            while True:
                try:
                    data = here.recv(65_536)
                    owner.requests += 1
                    if not data or owner.down:
                        break
                    if owner.failing:
                        here.sendall(
                            b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n"
                            b"connection: close\r\n\r\n"
                        )
                        break
                    there.sendall(data)
                except OSError:
                    break
            _hang_up(here)


def _hang_up(connection: socket.socket) -> None:
    """End a connection in both directions."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _pass(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        return
