"""Tests get the marker of what they start, and slow files exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import SLOW

ROOT = Path(__file__).resolve().parents[1]


def start_python() -> int:
    return subprocess.run([sys.executable, "-c", ""], check=False).returncode


def test_a_test_that_starts_a_process_through_a_helper_is_marked(
    request: pytest.FixtureRequest,
) -> None:
    assert request.node.get_closest_marker("process") is not None
    assert request.node.get_closest_marker("quick") is None
    assert start_python() == 0


def test_a_test_that_starts_nothing_is_quick(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("quick") is not None


def test_a_quick_test_cannot_start_a_process(request: pytest.FixtureRequest) -> None:
    hidden = globals()["start_" + "python"]
    with pytest.raises(RuntimeError, match="is a quick test and must not start python"):
        hidden()


@pytest.mark.parametrize("path", SLOW)
def test_slow_files_exist(path: str) -> None:
    assert (ROOT / path).is_file()
