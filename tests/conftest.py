"""Settings shared by all tests: chance is seeded, and nothing depends on how fast a machine is."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.schedule import longest_first, share_worker
from tests.tiers import guard_quick_tests, mark_tier, running

# Tests start hundreds of processes. On a machine that is told to write no bytecode beside the
# sources each of them would compile every module anew, which takes longer than most tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# The same examples on every run and machine; no stored failures, no deadlines.
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# On demand: other examples on every run, and many more of them.
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    derandomize=False,
    max_examples=2_000,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Quick tests start no process."""
    guard_quick_tests()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Ten thousand tests and all that they import stay: the collector need not scan them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Objects of DuckDB that are never collected are reported as leaks at the end.

    The names of failed tests come last: a CI that shows only the end of its output shows them.
    """
    gc.unfreeze()
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        for report in (*terminal.getreports("failed"), *terminal.getreports("error")):
            terminal.write_line(f"{report.outcome.upper()} {report.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its tier, before `-m` chooses, and workers their order."""
    for item in items:
        mark_tier(item)
        share_worker(item)
    if hasattr(config, "workerinput"):
        longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tell the guard which test runs."""
    with running(item):
        return (yield)
