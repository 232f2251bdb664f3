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

from kreach.boundary import duckdb as module
from kreach.boundary.duckdb import scratch_connection, translate_errors
from kreach.errors import KreachError


def test_one_does_not_see_what_another_has() -> None:
    with scratch_connection() as one, scratch_connection() as other:
        one.register("numbers", {"n": np.arange(3)})
        one.execute("CREATE TEMP TABLE told AS SELECT 1")
        one.execute("SET TimeZone = 'Asia/Tokyo'")
        for name in ("numbers", "told"):
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


def ask_the_dead(engine: Any) -> None:
    with translate_errors("file", "be readable"):
        engine.close()  # it answers as little as after a fatal error
        engine.execute("SELECT 1")


def test_an_error_leaves_the_next_one_in_order() -> None:
    with scratch_connection():
        first = module._shared[0]
    with pytest.raises(duckdb.Error), scratch_connection() as engine:
        engine.execute("SELECT * FROM nothing")
    assert module._shared[0] is first
    with pytest.raises(KreachError), scratch_connection() as engine:
        ask_the_dead(engine)
    assert module._shared == []
    with scratch_connection() as engine:
        assert engine.execute("SELECT 1").fetchone() == (1,)


def test_threads_have_their_own() -> None:
    found: list[int] = []

    def ask(number: int) -> None:
        with scratch_connection() as engine:
            engine.execute(f"CREATE TEMP TABLE mine AS SELECT {number} AS n")
            found.extend(n for (n,) in engine.execute("FROM mine").fetchall())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(20))


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
