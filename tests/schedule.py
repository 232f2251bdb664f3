"""Which tests share a worker, and which of them workers get first.

A file's tests run in one worker: fixtures of the module are made once, not once in each worker.
Tests of several files that share a costly world name a group of their own. Groups that take long
are begun first, so that no worker is left alone with one of them at the end.
"""

import pytest

__all__ = ["LONGEST", "group_of", "longest_first", "share_worker"]

# Groups of twenty seconds or more, by the durations of a full run.
LONGEST = (
    "spark",
    "browser",
    "demo",
    "fleet",
    "simulations/test_spark_cluster",
    "faults/test_kill",
    "comparison",
    "lab/test_served_fleet",
    "lab/test_served",
    "integrations/test_dbt",
    "adsystem/api/test_flight_plans",
    "simulations/test_panel_attack",
    "lab/test_replay",
    "evaluate",
    "lab/test_reproduce",
    "lab/test_live",
    "attacks",
    "packaging",
    "browser/test_prebid",
    "faults/test_reporting_dies",
    "docs/test_notebooks",
    "simulations/test_money",
    "simulations/test_deployment",
    "publisher/test_replay",
    "contract/test_draws",
    "adsystem/log/test_truth",
    "fleet reach",
    "adsystem/api/test_keys_api",
    "studies",
    "adsystem/api/test_schemathesis",
    "adsystem/sharing/test_shared_bidders",
    "serve",
    "faults/test_faked_clock",
    "adsystem/bidding/test_board",
    "property/test_limits",
    "numeric/test_bounds",
)


def group_of(item: pytest.Item) -> str:
    """The name of the group whose tests run in one worker."""
    marker = item.get_closest_marker("xdist_group")
    if marker is None:
        return item.nodeid.partition("::")[0].removeprefix("tests/").removesuffix(".py")
    return str(marker.args[0])


def share_worker(item: pytest.Item) -> None:
    """Put a test without a group into that of its file."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by how long their groups take: the listed, those not quick, the others."""
    rank = {name: at for at, name in enumerate(LONGEST)}
    slow = {group_of(item) for item in items if item.get_closest_marker("quick") is None}
    for name in slow:
        rank.setdefault(name, len(LONGEST))
    items.sort(key=lambda item: rank.get(group_of(item), len(LONGEST) + 1))
