"""Tests that share a costly world run in one process: pytest and its workers still agree on how."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_worker_knows_the_group(request: pytest.FixtureRequest) -> None:
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@groups")
