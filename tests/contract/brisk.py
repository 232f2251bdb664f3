"""Spark is made for large logs; these settings make it bearable for small ones."""

from pathlib import Path

__all__ = ["brisk_spark"]

# No answer depends on them: few tasks, no compiling of queries that run once, little optimising.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.shuffle.compress": "false",
}
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def brisk_spark(warehouse: Path) -> str:
    """What to put into PYSPARK_SUBMIT_ARGS before Spark starts."""
    settings = _SETTINGS | {"spark.sql.warehouse.dir": str(warehouse)}
    given = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    return f"{given} --driver-java-options '{_JAVA}' pyspark-shell"
