"""Tests that share a costly world run in one process: pytest and its workers still agree on how."""

from pathlib import Path

import pytest

from tests.schedule import LONGEST


@pytest.mark.xdist_group("groups")
def test_a_worker_knows_the_group(request: pytest.FixtureRequest) -> None:
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@groups")


def test_other_tests_share_the_worker_of_their_file(request: pytest.FixtureRequest) -> None:
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@test_groups")


@pytest.mark.parametrize("name", [name for name in LONGEST if "/" in name])
def test_listed_files_exist(name: str) -> None:
    assert (Path(__file__).parent / f"{name}.py").is_file()
