"""The dbt package: dbt itself builds its model, and reports on it are those on the rows.

dbt lives in an environment of its own, because it pins older packages.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
from simulations.environments import program

from tests.cli.command import kreach
from tests.contract.reference_logs import write_groups, write_log
from tests.contract.test_count_queries import GROUPS, ROWS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "integrations" / "dbt"
REQUIREMENTS = PACKAGE / "requirements.txt"


@pytest.fixture(scope="module")
def dbt() -> Path:
    """The command, of the versions that the package names."""
    return program("dbt", REQUIREMENTS)


def build(dbt: Path, folder: Path, variables: dict[str, Any]) -> None:
    """Build and test the model on the database of a folder."""
    profile = {"type": "duckdb", "path": str(folder / "ads.duckdb"), "threads": 1}
    profile["settings"] = {"TimeZone": "UTC"}
    profiles = {"kreach": {"target": "here", "outputs": {"here": profile}}}
    (folder / "profiles.yml").write_text(json.dumps(profiles))  # JSON is YAML
    command = [str(dbt), "--no-send-anonymous-usage-stats", "--quiet", "build"]
    command += ["--project-dir", str(PACKAGE), "--profiles-dir", str(folder), "--profile", "kreach"]
    command += ["--target-path", str(folder / "target"), "--log-path", str(folder / "logs")]
    command += ["--vars", json.dumps(variables)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_reports_on_the_model_are_those_on_the_rows(dbt: Path, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.parquet", ROWS)
    groups = write_groups(tmp_path / "groups.parquet", **GROUPS)
    with duckdb.connect(str(tmp_path / "ads.duckdb")) as base:
        base.execute(f"CREATE SCHEMA raw; CREATE TABLE raw.shown AS SELECT * FROM '{log}'")
    build(dbt, tmp_path, {"kreach_schema": "raw", "kreach_table": "shown"})
    counts = tmp_path / "counts.csv"
    with duckdb.connect(str(tmp_path / "ads.duckdb")) as base:
        base.execute(f"SET TimeZone = 'UTC'; COPY kreach_counts TO '{counts}' (HEADER)")
    for campaign in ("c", "it's"):
        asked = ["measure", "--groups", groups, "--cap", "1", "--cap", "3", "--by", "day", "--json"]
        asked += ["--campaign", campaign, "--start", "2026-11-01", "--end", "2026-11-03"]
        ours = kreach(*asked, "--counts", str(counts))
        theirs = kreach(*asked, "--impressions", log)
        assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
        assert json.loads(ours.out) | {"warnings": {}} == json.loads(theirs.out) | {"warnings": {}}
