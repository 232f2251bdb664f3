"""ClickHouse's HTTP interface over chDB, which is ClickHouse as a library: `python -m` with a port.

A server cannot be had as a package. Queries, sessions, temporary tables, formats and errors are
ClickHouse's own here, and clickhouse-connect talks to it as to a server; only sockets and users are
Python's. `reader` may not write (readonly = 1); the others have a password, which is `secret`.
"""

import base64
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from tests.contract.other_time_zone import ZONE

__all__ = ["PASSWORD", "clickhouse_server"]

PASSWORD = "secret"
USERS = ("ads", "reader")
_NOT_SETTINGS = {"query", "session_id", "database", "query_id", "client_protocol_version"}
_NOT_SETTINGS |= {"session_timeout", "session_check", "wait_end_of_query"}
_FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)


class _Sessions:
    """A connection for each session; they share one database."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: dict[str, Any] = {}
        self._applied: dict[str, dict[str, str]] = {}

    def run(self, user: str, parameters: dict[str, str], body: bytes) -> bytes:
        """The answer to one request, as bytes of the format it asks for."""
        import chdb  # 500 MB, and in the process of the server only

        session = f"{user}/{parameters.get('session_id', '')}"
        if session not in self._open:
            self._open[session] = chdb.connect(self._folder)
            self._applied[session] = {}
        connection, applied = self._open[session], self._applied[session]
        if "database" in parameters:
            connection.query(f'USE "{parameters["database"]}"', "TabSeparated")
        for name, value in parameters.items():
            if name not in _NOT_SETTINGS and applied.get(name) != value:
                connection.query(f"SET {name} = '{value}'", "TabSeparated")
                applied[name] = value
        if user == "reader" and "readonly" not in applied:
            connection.query("SET readonly = 1", "TabSeparated")
            applied["readonly"] = "1"
        if "query" in parameters and parameters["query"].upper().startswith("INSERT"):
            return self._insert(connection, parameters["query"], body)
        sql = parameters.get("query", "") + body.decode()
        found = _FORMAT.search(sql)
        kind = found.group(1) if found else "TabSeparated"
        result = connection.query(sql[: found.start()] if found else sql, kind)
        return bytes(result.bytes() or b"")

    @staticmethod
    def _insert(connection: Any, query: str, body: bytes) -> bytes:
        into, _, kind = query.rpartition(" FORMAT ")
        with tempfile.NamedTemporaryFile(suffix=".rows") as rows:
            rows.write(body)
            rows.flush()
            sql = f"{into} FROM INFILE '{rows.name}' FORMAT {kind.strip()}"
            connection.query(sql, "TabSeparated")
        return b""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions: _Sessions

    def do_GET(self) -> None:
        self._answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        parameters = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        body = self._body()
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        if kind != "Basic" or user not in USERS or password != PASSWORD:
            return self._fail(516, f"{user}: Authentication failed. (AUTHENTICATION_FAILED)")
        try:
            return self._answer(200, self.sessions.run(user, parameters, body))
        except Exception as error:
            text = str(error)
            code = re.search(r"Code: (\d+)", text)
            return self._fail(int(code.group(1)) if code else 1002, text)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().strip(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _fail(self, code: int, text: str) -> None:
        self._answer(500, f"Code: {code}. DB::Exception: {text}\n".encode(), code)

    def _answer(self, status: int, body: bytes, code: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Nothing: the tests read the answers."""


@contextmanager
def clickhouse_server() -> Iterator[int]:
    """The port of a server that runs until the block ends."""
    command = [sys.executable, "-m", "tests.contract.clickhouse_server"]
    elsewhere = {**os.environ, "TZ": ZONE}  # exposes code that uses the zone of the machine
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2], env=elsewhere
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with urlopen(f"http://127.0.0.1:{port}/ping", timeout=30) as answer:
                    if answer.status == 200:
                        break
            yield port
        finally:
            process.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kreach-clickhouse-") as made:
        _Handler.sessions = _Sessions(made)
        with HTTPServer(("127.0.0.1", 0), _Handler) as server:
            print(server.server_port, flush=True)
            server.serve_forever()
