"""The engines under contract. Each is started once per worker, and a test fails where it cannot.

Nothing here skips: an engine that does not start is an engine that does not keep the contract.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.clickhouse_server import clickhouse_server
from tests.contract.fast_spark import on, spark_arguments
from tests.contract.postgres_server import postgres_server


@pytest.fixture(scope="session")
def duckdb() -> Iterator[Engine]:
    """The embedded engine."""
    with kr.EmbeddedEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Spark on this machine, with room for catalog tables outside the repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", spark_arguments(tmp_path_factory.mktemp("warehouse")))
        engine = kr.SparkEngine("local[2]")
    with engine:
        yield engine


@pytest.fixture(scope="session")
def clickhouse_port() -> Iterator[int]:
    """A ClickHouse server."""
    with clickhouse_server() as port:
        yield port


@pytest.fixture(scope="session")
def clickhouse(clickhouse_port: int) -> Iterator[Engine]:
    """An engine on it."""
    with kr.ClickHouseEngine("127.0.0.1", clickhouse_port, user="ads", password="secret") as engine:
        yield engine


@pytest.fixture(scope="session")
def postgres_port() -> Iterator[int]:
    """A Postgres server."""
    with postgres_server() as port:
        yield port


@pytest.fixture(scope="session")
def postgres(postgres_port: int) -> Iterator[Engine]:
    """An engine on it."""
    where: dict[str, Any] = {"host": "127.0.0.1", "port": postgres_port, "dbname": "postgres"}
    with kr.PostgresEngine(**where, user="ads", password="secret") as engine:
        yield engine


@pytest.fixture(scope="session", params=on("duckdb", "spark", "clickhouse", "postgres"))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Any engine: what a test of this fixture states holds for all."""
    chosen: Engine = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="session", params=on("spark", "clickhouse", "postgres"))
def other(request: pytest.FixtureRequest) -> Engine:
    """Any engine but DuckDB, to be compared with it."""
    chosen: Engine = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="session", params=on("duckdb", "spark"))
def writer(request: pytest.FixtureRequest) -> Engine:
    """An engine that writes logs: the others write nothing into a database."""
    chosen: Engine = request.getfixturevalue(request.param)
    return chosen


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sockets between Python and Java are closed when Python gets to it."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning"))
