"""The same jobs on Spark: the same rows, and the same reach to the last digit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.adsystem.jobs.hourly import run_hourly
from kreach.adsystem.jobs.nightly import run_nightly
from kreach.adsystem.jobs.options import JobOptions
from tests.adsystem.api.live_stores import make_catalogue
from tests.adsystem.jobs.sample_stores import DAY, HOUR, NOW, START, SampleStore, days, hours, tree
from tests.contract.fast_spark import spark_arguments

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning"),
]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spark on this machine; one that is running is used, and others may use this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", spark_arguments(tmp_path_factory.mktemp("warehouse")))
        engine = kr.SparkEngine("local[2]")
    with engine:
        yield


def test_both_engines_write_the_same(tmp_path: Path, spark: None) -> None:
    sample = SampleStore(tmp_path, make_catalogue("dispersed"), bidders=("", "b [1]*"))
    sample.add("spring")
    sample.write_random(200, seed=31, span=2 * DAY)
    sample.move()
    output: dict[str, Any] = {}
    for engine in ("duckdb", "spark"):
        out = tmp_path / engine
        options: JobOptions = sample.options(out=out, engine=engine, rows_per_file=60)
        run_nightly(options, days(START), NOW)
        run_hourly(options, hours(START + 30 * HOUR), NOW)  # one day merged, one of the bidders'
        files = tree(out)
        parts = sorted((out / "log").rglob("part-*.parquet"))
        rows = [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]
        reach = {name: digest for name, digest in files.items() if not name.startswith("log")}
        output[engine] = (rows, reach)
        assert len(parts) > 1
    assert output["spark"] == output["duckdb"]
