"""Test tiers, decided in one place: what a test starts, and whether it is slow.

`browser`, `redis`, `spark` and `process` are found by what a test and its fixtures use, so no test
carries them by hand. `quick` is every test without one of these markers and without `slow`. A quick
test that starts a process all the same fails, which keeps the tiers honest.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

__all__ = ["SLOW", "guard_quick_tests", "mark_tier", "running"]

_STARTERS = {
    "NatsServer": "process",
    "NotebookClient": "process",
    "Popen": "process",
    "ProcessPoolExecutor": "process",
    "RedisServer": "redis",
    "SparkEngine": "spark",
    "SparkSession": "spark",
    "multiprocessing": "process",
    "subprocess": "process",
    "sync_playwright": "browser",
}
_ENGINES = {"spark": "spark", "clickhouse": "process", "postgres": "process"}  # of the contract
_OWN = ("tests.", "simulations.", "kreach.lab.processes")
_PROGRAMS = (
    "python",
    "java",
    "redis-server",
    "nats-server",
    "chrom",
    "firefox",
    "kreach",
    "postgres",
    "initdb",
)  # libraries may start others

# Files whose other tests take nine seconds or more in all, by the durations of a full run.
SLOW = (
    "tests/adsystem/api/test_campaigns.py",
    "tests/adsystem/api/test_flight_plans.py",
    "tests/adsystem/api/test_keys_api.py",
    "tests/adsystem/api/test_keys_fuzz.py",
    "tests/adsystem/api/test_reach.py",
    "tests/adsystem/api/test_schemathesis.py",
    "tests/adsystem/api/test_together.py",
    "tests/adsystem/bidding/test_bidders.py",
    "tests/adsystem/bidding/test_board.py",
    "tests/adsystem/bidding/test_comparison.py",
    "tests/adsystem/bidding/test_hindsight.py",
    "tests/adsystem/bidding/test_market_hours.py",
    "tests/adsystem/bidding/test_offline.py",
    "tests/adsystem/bidding/test_outlook.py",
    "tests/adsystem/bidding/test_session_bidder.py",
    "tests/adsystem/bidserver/test_campaigns.py",
    "tests/adsystem/bidserver/test_families.py",
    "tests/adsystem/bidserver/test_fuzz.py",
    "tests/adsystem/bidserver/test_planned_bids.py",
    "tests/adsystem/bidserver/test_under_delivery.py",
    "tests/adsystem/disclosure/chapters/test_differencing.py",
    "tests/adsystem/disclosure/chapters/test_policy.py",
    "tests/adsystem/disclosure/chapters/test_writer.py",
    "tests/adsystem/disclosure/noise/test_consistency.py",
    "tests/adsystem/disclosure/noise/test_policy.py",
    "tests/adsystem/jobs/test_hourly.py",
    "tests/adsystem/jobs/test_nightly.py",
    "tests/adsystem/ledger/test_compaction.py",
    "tests/adsystem/ledger/test_ledger_machine.py",
    "tests/adsystem/log/test_copies.py",
    "tests/adsystem/log/test_snapshot.py",
    "tests/adsystem/log/test_truth.py",
    "tests/adsystem/measurement/test_memory_filter.py",
    "tests/adsystem/measurement/test_tallied.py",
    "tests/cli/test_plan.py",
    "tests/cli/test_reproduce.py",
    "tests/cli/test_studies.py",
    "tests/contract/test_draws.py",
    "tests/contract/test_policies.py",
    "tests/contract/test_prepared.py",
    "tests/contract/test_reports.py",
    "tests/contract/test_times.py",
    "tests/docs/test_shell.py",
    "tests/faults/test_clock.py",
    "tests/lab/test_evaluate.py",
    "tests/lab/test_reproduce.py",
    "tests/lab/test_served.py",
    "tests/lab/test_tradeoff.py",
    "tests/numeric/test_bounds.py",
    "tests/numeric/test_overlap.py",
    "tests/numeric/test_variance.py",
    "tests/property/test_limits.py",
    "tests/property/test_one_kernel.py",
    "tests/property/test_order.py",
    "tests/property/test_theorems.py",
    "tests/publisher/grouping/test_laws.py",
    "tests/publisher/panel/test_privacy.py",
    "tests/publisher/test_build.py",
    "tests/publisher/test_release_canaries.py",
    "tests/publisher/test_replay.py",
    "tests/simulations/test_attacks.py",
    "tests/simulations/test_model_attack.py",
    "tests/simulations/test_money.py",
    "tests/simulations/test_panel_attack.py",
    "tests/simulations/test_spark_cluster.py",
)

_found: dict[int, frozenset[str]] = {}
_quick_test: list[str] = []


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _functions(value: Any) -> list[FunctionType]:
    """A function of the tests, or the methods of one of their classes."""
    value = getattr(value, "__wrapped__", value)
    if not str(getattr(value, "__module__", "")).startswith(_OWN):
        return []
    if isinstance(value, type):
        methods = [member for kind in value.__mro__ for member in vars(kind).values()]
        return [method for method in methods if isinstance(method, FunctionType)]
    return [value] if isinstance(value, FunctionType) else []


def _starts(function: Callable[..., object]) -> frozenset[str]:
    """The markers of all that a function of the tests may start, itself or through others."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not isinstance(function, FunctionType):
        return frozenset()
    if id(code) not in _found:
        _found[id(code)] = frozenset()  # ends recursion
        markers = set()
        for name in _names(code):
            if name in _STARTERS:
                markers.add(_STARTERS[name])
            for used in _functions(function.__globals__.get(name)):
                markers |= _starts(used)
        _found[id(code)] = frozenset(markers)
    return _found[id(code)]


def mark_tier(item: pytest.Item) -> None:
    """Add the markers of a test."""
    markers: set[str] = set()
    info = getattr(item, "_fixtureinfo", None)
    fixtures = {} if info is None else info.name2fixturedefs
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    sources = [getattr(item, "function", None)]
    sources += [definition.func for definitions in fixtures.values() for definition in definitions]
    for source in sources:
        function = getattr(source, "__wrapped__", source)
        if function is not None:
            markers |= _starts(getattr(function, "__func__", function))
    for value in parameters.values():
        if isinstance(value, str) and value in _ENGINES:
            markers.add(_ENGINES[value])
    if item.nodeid.partition("::")[0] in SLOW:
        markers.add("slow")
    for name in markers or {"quick"}:
        item.add_marker(name)


def guard_quick_tests() -> None:
    """From now on, a quick test that starts one of these programs fails."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and _quick_test:
            program = Path(os.fsdecode(arguments[0])).name
            if program.startswith(_PROGRAMS):
                raise RuntimeError(
                    f"{_quick_test[-1]} is a quick test and must not start {program}"
                )

    sys.addaudithook(refuse)


@contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """While a test runs."""
    if item.get_closest_marker("quick"):
        _quick_test.append(item.nodeid)
    try:
        yield
    finally:
        _quick_test.clear()
