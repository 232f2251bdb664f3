"""The engines of the log, extended to write sorted rows into Parquet files."""

import shutil
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis.expr.types as ir

from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
from kreach.adsystem.log.engine import Engine, Source
from kreach.adsystem.log.spark_engine import SparkEngine, no_wildcards
from kreach.boundary.duckdb import sql_name, sql_text
from kreach.errors import KreachError

__all__ = ["ENGINES", "EmbeddedJobs", "JobEngine", "SparkJobs", "open_engine"]

ENGINES = ("duckdb", "spark")


class JobEngine(Engine):
    """An engine that can also write the result of a query."""

    @abstractmethod
    def write_sorted(self, query: ir.Table, by: Sequence[str], folder: Path, files: int) -> None:
        """Write the rows into part-0000.parquet, part-0001.parquet, ..., at most so many files.

        Rows are in order within a file, and files follow each other.
        """


class EmbeddedJobs(EmbeddedEngine, JobEngine):
    """DuckDB."""

    def __init__(self, memory: str = "1500MB") -> None:
        super().__init__(memory=memory)
        with self.translate_errors("engine", "support parquet_metadata_cache"):
            self._engine.execute("SET parquet_metadata_cache = true")  # files never change

    def write_sorted(self, query: ir.Table, by: Sequence[str], folder: Path, files: int) -> None:
        order = ", ".join(sql_name(column) for column in by)
        sql = f"SELECT * FROM ({self.sql(query)}) ORDER BY {order}"
        with self.translate_errors("log", "be readable, and the output writable, to the end"):
            if files == 1:
                self._copy(sql, folder / "part-0000.parquet")
                return
            table = self.unused_name("sorted")
            self._engine.execute("SET preserve_insertion_order = true")
            self._engine.execute(f"CREATE TEMP TABLE {table} AS {sql}")
            self._engine.execute("SET preserve_insertion_order = false")
            rows = self._engine.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for at in range(files):
                low, high = rows * at // files, rows * (at + 1) // files
                here = f"SELECT * FROM {table} WHERE rowid >= {low} AND rowid < {high}"
                self._copy(f"{here} ORDER BY {order}", folder / f"part-{at:04d}.parquet")
            self._engine.execute(f"DROP TABLE {table}")

    def _copy(self, sql: str, file: Path) -> None:
        self._engine.execute(f"COPY ({sql}) TO '{sql_text(file)}' (FORMAT parquet)")


class SparkJobs(SparkEngine, JobEngine):
    """Spark; sources and folders must be on a disk that all its workers see."""

    def _frame(self, name: str, source: Source) -> Any:
        if not isinstance(source, list):
            return super()._frame(name, source)
        # files from anywhere: their folders are not partitions
        reader = self._spark.read.option("recursiveFileLookup", "true")
        return reader.parquet(*(no_wildcards(str(path)) for path in source))

    def write_sorted(self, query: ir.Table, by: Sequence[str], folder: Path, files: int) -> None:
        draft = folder / "_spark"
        with self.translate_errors("log", "be readable, and the output writable, to the end"):
            frame = self._spark.sql(self.sql(query))
            parts = frame.repartitionByRange(files, *by).sortWithinPartitions(*by)
            parts.write.parquet(str(draft))
        for at, file in enumerate(sorted(draft.glob("part-*.parquet"))):
            file.rename(folder / f"part-{at:04d}.parquet")
        shutil.rmtree(draft)


def open_engine(name: str, master: str = "local[*]", memory: str = "1500MB") -> JobEngine:
    """The engine of a job, by name."""
    if name == "duckdb":
        return EmbeddedJobs(memory)
    if name == "spark":
        return SparkJobs(master)
    raise KreachError.rule("engine", f"be {' or '.join(ENGINES)}", name)
