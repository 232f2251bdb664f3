"""Scratch connections: on one engine, and nobody sees another's tables or settings."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kreach.boundary.duckdb import scratch_connection, translate_errors
from kreach.errors import KreachError


def test_connections_do_not_see_each_other() -> None:
    with scratch_connection() as one, scratch_connection() as other:
        one.register("numbers", {"n": np.arange(3)})
        one.execute("CREATE TEMP TABLE private AS SELECT 1")
        one.execute("SET TimeZone = 'Asia/Tokyo'")
        for name in ("numbers", "private"):
            with pytest.raises(duckdb.CatalogException):
                other.execute(f"FROM {name}")
        assert other.execute("SELECT current_setting('TimeZone')").fetchone() == ("UTC",)
    with scratch_connection() as later:
        assert later.execute("SELECT current_setting('TimeZone')").fetchone() == ("UTC",)
        assert later.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    """Also where neither its size nor its time tells."""
    file = tmp_path / "one.parquet"
    for number in (1, 2, 3):
        with scratch_connection() as engine:
            engine.execute(f"COPY (SELECT {number} AS n) TO '{file}' (FORMAT parquet)")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        with scratch_connection() as engine:
            assert engine.execute(f"FROM '{file}'").fetchall() == [(number,)]


def use_after_close(engine: Any) -> None:
    with translate_errors("file", "be readable"):
        engine.close()  # afterwards it fails as after a fatal error
        engine.execute("SELECT 1")


def test_only_a_fatal_error_replaces_the_database() -> None:
    with scratch_connection() as engine:
        engine.execute("CREATE TABLE marker AS SELECT 1")
    with pytest.raises(duckdb.Error), scratch_connection() as engine:
        engine.execute("SELECT * FROM nothing")
    with scratch_connection() as engine:
        assert engine.execute("FROM marker").fetchone() == (1,)
    with pytest.raises(KreachError), scratch_connection() as engine:
        use_after_close(engine)
    with scratch_connection() as engine, pytest.raises(duckdb.CatalogException):
        engine.execute("FROM marker")


def test_each_thread_has_its_own_connection() -> None:
    numbers: list[int] = []

    def ask(number: int) -> None:
        with scratch_connection() as engine:
            engine.execute(f"CREATE TEMP TABLE mine AS SELECT {number} AS n")
            numbers.extend(n for (n,) in engine.execute("FROM mine").fetchall())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(20))


FORKS = """
import os, sys
from kreach.boundary.duckdb import scratch_connection

def summed():
    with scratch_connection() as engine:
        return engine.execute("SELECT sum(n)::BIGINT FROM range(1000000) r(n)").fetchone()

before = summed()
child = os.fork()
if child == 0 and sys.argv[1] == "used":
    sys.exit(0 if summed() == before else 1)
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert summed() == before
"""


@pytest.mark.parametrize("child", ["used", "not used"])
def test_a_forked_process_has_an_engine_of_its_own_and_ends(child: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, child]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
