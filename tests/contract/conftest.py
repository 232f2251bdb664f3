"""The engines under contract. Spark is started once per worker, and a test fails where it cannot.

Nothing here skips: an engine that does not start is an engine that does not keep the contract.
"""

import os
from collections.abc import Iterator

import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.fast_spark import spark_arguments


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


@pytest.fixture(
    scope="session",
    params=["duckdb", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))],
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Either engine: what a test of this fixture states holds for both."""
    chosen: Engine = request.getfixturevalue(request.param)
    return chosen


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sockets between Python and Java are closed when Python gets to it."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning"))
