"""Settings that make Spark start and run quickly on small logs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.other_time_zone import ZONE

__all__ = ["on", "on_engines", "spark_arguments"]

# No answer depends on them: few tasks, no compiling of queries that run once, little optimising,
# no second look at classes that are known to be sound. `simulations/spark_cluster.py` runs reports
# with Spark's own settings.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.shuffle.compress": "false",
    "spark.sql.adaptive.enabled": "false",
}
_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    f"-Duser.timezone={ZONE}"  # exposes code that uses the zone of the machine
)


def spark_arguments(warehouse: Path) -> str:
    """What to put into PYSPARK_SUBMIT_ARGS before Spark starts."""
    settings = _SETTINGS | {"spark.sql.warehouse.dir": str(warehouse)}
    given = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    return f"{given} --driver-java-options '{_JAVA}' pyspark-shell"


def on(*engines: str) -> list[Any]:
    """Names of engines as parameters; each but DuckDB has a worker of its own."""
    return [
        name if name == "duckdb" else pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in engines
    ]


def on_engines(
    cases: Iterable[str], not_on_spark: Iterable[str] = (), others: Iterable[str] = ("spark",)
) -> list[Any]:
    """For ("engine", "case"): every case on DuckDB; on others those that their words could change.

    Files are read by DuckDB for a database, so what is wrong with a file is not asked again there.
    """
    left_out = set(not_on_spark)
    listed = list(cases)
    assert left_out <= set(listed)
    return [pytest.param("duckdb", case, id=f"duckdb-{case}") for case in listed] + [
        pytest.param(engine, case, id=f"{engine}-{case}", marks=pytest.mark.xdist_group(engine))
        for engine in others
        for case in listed
        if case not in left_out
    ]
