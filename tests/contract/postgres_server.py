"""A Postgres server for the tests: Debian's, on a folder of its own, as a user that is not root."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.contract.other_time_zone import ZONE

__all__ = ["PASSWORD", "postgres_server"]

PASSWORD = "secret"
_ROLES = """
    CREATE ROLE ads LOGIN PASSWORD 'secret';
    CREATE ROLE reader LOGIN PASSWORD 'secret';
    ALTER ROLE reader SET default_transaction_read_only = on;
    GRANT CREATE ON DATABASE postgres TO ads;
    GRANT CREATE ON SCHEMA public TO ads;
"""


def _program(name: str) -> str:
    """Debian keeps them out of the path."""
    there = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    result = str(there[-1]) if there else shutil.which(name)
    assert result, f"no {name}: run tools/find_postgres.sh"
    return result


def _user() -> dict[str, Any]:
    """Postgres refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise AssertionError("no user but root, which Postgres refuses")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, "Postgres ended"
        try:
            options: dict[str, Any] = {"user": "owner", "password": PASSWORD, "dbname": "postgres"}
            with psycopg.connect(host="127.0.0.1", port=port, autocommit=True, **options) as one:
                one.execute(_ROLES)
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "Postgres does not answer"
            time.sleep(0.05)


@contextmanager
def postgres_server() -> Iterator[int]:
    """The port of a server that runs until the block ends; `ads` and `reader` may log in."""
    user = _user()
    with tempfile.TemporaryDirectory(prefix="kreach-postgres-") as made:
        folder = Path(made)
        (folder / "password").write_text(PASSWORD)
        (folder / "data").mkdir()
        if user:
            for path in (folder, folder / "password", folder / "data"):
                os.chown(path, user["user"], user["group"])
        quick = ["--no-sync", "--no-instructions", "--auth=scram-sha-256", "--locale=C"]
        quick += ["-U", "owner", "-E", "UTF8", f"--pwfile={folder / 'password'}"]
        subprocess.run(
            [_program("initdb"), "-D", str(folder / "data"), *quick],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **user,
        )
        port = _free_port()
        settings = ["-c", "fsync=off", "-c", f"unix_socket_directories={folder}", "-c", "jit=off"]
        settings += ["-c", "listen_addresses=127.0.0.1", "-c", f"timezone={ZONE}"]
        command = [_program("postgres"), "-D", str(folder / "data"), "-p", str(port), *settings]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder, **user) as process:
            try:
                _wait(port, process)
                yield port
            finally:
                process.terminate()
