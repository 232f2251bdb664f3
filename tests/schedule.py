"""Which tests share a worker, and which of them workers get first.

A file's tests run in one worker: fixtures of the module are made once, not once in each worker.
Tests of several files that share a costly world name a group of their own. Groups that take long
are begun first, so that no worker is left alone with one of them at the end.
"""

import pytest

__all__ = ["LONGEST", "group_of", "longest_first", "share_worker"]

# Groups of eight seconds or more of CPU time, or of waiting, by the durations of a full run.
LONGEST = (
    "spark",
    "browser",
    "demo",
    "clickhouse",
    "postgres",
    "docs/test_tutorial",
    "comparison",
    "fleet",
    "evaluate",
    "lab/test_reproduce",
    "packaging",
    "lab/test_live",
    "simulations/test_spark_cluster",
    "faults/test_restored_bidder",
    "simulations/test_money",
    "lab/test_served",
    "lab/test_served_fleet",
    "plans",
    "adsystem/bidding/test_bidders",
    "monitoring",
    "attacks",
    "adsystem/bidding/test_outlook",
    "faults/test_kill",
    "browser/test_prebid",
    "canaries",
    "simulations/test_panel_attack",
    "simulations/test_deployment",
    "serve",
    "fleet reach",
    "publisher/test_replay",
    "adsystem/api/test_flight_plans",
    "cli/test_groups",
    "adsystem/api/test_reach",
    "torn log",
    "adsystem/api/test_process",
    "faults/test_full_disk",
    "adsystem/bidding/test_board",
    "cli/test_measure",
    "adsystem/disclosure/noise/test_policy",
    "adsystem/log/test_truth",
    "contract/test_draws",
    "site",
    "adsystem/api/test_schemathesis",
    "adsystem/bidserver/test_fuzz",
    "sides apart",
    "studies",
    "docs/test_notebooks",
    "adsystem/sharing/test_shared_bidders",
    "adsystem/api/test_keys_api",
    "lab/test_live_panel",
    "faults/test_faked_clock",
    "contract/test_reports",
    "integrations/test_dbt",
    "faults/test_reporting_dies",
    "lab/test_replay",
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
