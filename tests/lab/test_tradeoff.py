"""What anonymity costs: rows for every k, nothing lost at k = 1, and advice in words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab.evaluate import Row, StudyOptions
from kreach.lab.exhibits import write_study
from kreach.lab.site import Site
from kreach.lab.tradeoff import advice_of, exhibits_of, memory_name, summary_of, tradeoff
from tests.lab.logs_made import few_plans, write_prices, write_visits

pytestmark = pytest.mark.xdist_group("tradeoff")  # what takes long is done once

SIZES = [1, 4, 12]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> StudyOptions:
    folder = tmp_path_factory.mktemp("tradeoff")
    return StudyOptions(
        write_visits(folder / "visits.csv", 500),
        write_prices(folder / "prices.csv"),
        campaigns=2,
        campaign_size=240,
        seed=1,
        processes=1,
    )


@pytest.fixture(scope="module")
def study(options: StudyOptions) -> tuple[Site, list[Row]]:
    with few_plans():
        return tradeoff(options, SIZES)


@pytest.fixture(scope="module")
def summary(options: StudyOptions, study: tuple[Site, list[Row]]) -> dict[str, Any]:
    return summary_of(options, *study)


def test_every_row_is_there_once(study: tuple[Site, list[Row]]) -> None:
    found = [
        (row["kind"], row["campaign"], row["group_size"], row["strategy"], row["approach"])
        for row in study[1]
    ]
    kinds = [
        *(("reach", strategy, name) for strategy in ("random", "rates") for name in BUYERS),
        *(("error", "random", name) for name in ("uniform", "dispersed")),
        *(("error", "rates", name) for name in ("uniform", "dispersed")),
    ]
    expected = {
        (kind, f"campaign {at}", size, strategy, name)
        for at in (1, 2)
        for size in SIZES
        for kind, strategy, name in kinds
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


BUYERS = ("uniform", "planning_visitors")


def test_nothing_is_lost_at_one(summary: dict[str, Any]) -> None:
    for strategy in ("random", "rates"):
        reach = summary["relative_reach"][strategy]["uniform"]
        assert reach["1"]["mean"] == pytest.approx(1.0, abs=0.01)
        assert reach["12"]["mean"] < 1.0
        roas = summary["relative_roas"][strategy]["uniform"]["1"]
        assert roas["mean"] == pytest.approx(1.0, abs=0.01)
        for name in ("uniform", "dispersed"):
            error = summary["measurement_error"][strategy][name]["1"]
            assert error["mean"] == pytest.approx(0.0, abs=1e-6)


def test_the_uniform_error_grows_with_k(summary: dict[str, Any]) -> None:
    found = summary["measurement_error"]["random"]["uniform"]
    assert 0.0 < found["4"]["mean"] < found["12"]["mean"]


def test_bands_hold_their_means(study: tuple[Site, list[Row]], summary: dict[str, Any]) -> None:
    for title in ("relative_reach", "relative_roas", "measurement_error"):
        for approaches in summary[title].values():
            for by_size in approaches.values():
                assert list(by_size) == [str(size) for size in SIZES]
                for band in by_size.values():
                    assert band["low"] <= band["mean"] <= band["high"]
    mine = [
        row["relative_reach"]
        for row in study[1]
        if (row["kind"], row["strategy"], row["approach"]) == ("reach", "rates", "uniform")
        and row["group_size"] == 4
    ]
    assert summary["relative_reach"]["rates"]["uniform"]["4"]["mean"] == pytest.approx(
        np.mean(mine)
    )
    json.dumps(summary, allow_nan=False)


def test_advice_names_the_better_grouping_for_each_k(summary: dict[str, Any]) -> None:
    lines = advice_of(summary, SIZES)
    assert len(lines) == len(SIZES)
    for size, line in zip(SIZES, lines, strict=True):
        by_strategy = {
            name: found["planning_visitors"][str(size)]["mean"]
            / found["planning_visitors"].get("1", {"mean": 1.0})["mean"]
            for name, found in summary["relative_reach"].items()
        }
        best = max(by_strategy, key=lambda name: by_strategy[name])
        assert line.startswith(f"k = {size}: {best} groups keep {by_strategy[best]:.0%} of ")


def test_advice_with_one_way_of_grouping() -> None:
    made = {"relative_reach": {"random": {n: {"5": {"mean": m}} for n, m in MADE.items()}}}
    (line,) = advice_of(made, [5])
    assert line == (
        "k = 5: random groups keep 90% of what the paper's bidder reaches at k = 1 and equal "
        "budget; the paper's bidder keeps 80% of its own."
    )


def test_advice_compares_a_bidder_with_itself() -> None:
    reach = {"planning_visitors": (1.25, 1.0), "uniform": (1.0, 0.8)}
    made = {name: {"1": {"mean": one}, "5": {"mean": five}} for name, (one, five) in reach.items()}
    first, second = advice_of({"relative_reach": {"random": made}}, [1, 5])
    assert first.startswith("k = 1: random groups keep 100% of what the same bidder reaches")
    assert second == (
        "k = 5: random groups keep 80% of what the same bidder reaches at k = 1 and equal "
        "budget; the paper's bidder keeps 80% of its own."
    )


MADE = {"planning_visitors": 0.9, "uniform": 0.8}


def test_advice_with_memories_of_the_gateway() -> None:
    names = MADE | {memory_name(24.0): 0.97, memory_name(float("inf")): 1.05}
    made = {"relative_reach": {"random": {n: {"5": {"mean": m}} for n, m in names.items()}}}
    (line,) = advice_of(made, [5])
    assert line.endswith("its own; where the gateway remembers for 24h 97%, flight 105%.")


def test_a_gateway_that_remembers_reaches_more(tmp_path: Path) -> None:
    """Groups of 12 lose people, and the longer the publisher remembers, the fewer."""
    asked = StudyOptions(
        write_visits(tmp_path / "visits.csv", 1_500),
        write_prices(tmp_path / "prices.csv"),
        campaigns=1,
        campaign_size=240,
        others=(),
        seed=1,
        processes=1,
    )
    with few_plans():
        site, rows = tradeoff(asked, [12], memory_hours=[24.0, float("inf")])
    found = summary_of(asked, site, rows)["relative_reach"]["random"]
    reach = [found[name]["12"]["mean"] for name in ("planning_visitors", "memory_flight")]
    assert reach[1] > 1.02 * reach[0]
    assert "memory_24h" in found


def test_files_are_the_same_for_one_and_two_processes(
    options: StudyOptions, tmp_path: Path
) -> None:
    """With all the plans, in processes of their own."""
    written = []
    for processes in (1, 2):
        asked = replace(options, processes=processes, campaign_size=40, campaigns=1, others=())
        site, rows = tradeoff(asked, [2, 5])
        found = summary_of(asked, site, rows)
        out = tmp_path / str(processes)
        write_study(out, "Cost", exhibits_of(asked, found, rows), found)
        written.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert set(written[0]) == {
        *("summary.json", "report.html"),
        *(f"tradeoff_{name}.{kind}" for name in ("reach", "error") for kind in FILES),
    }
    assert written[0] == written[1]


FILES = ("csv", "png", "svg")


def test_groups_too_large(options: StudyOptions) -> None:
    with pytest.raises(KreachError, match=r"^group_size must be small enough"):
        tradeoff(options, [2, 121])


def test_a_campaign_in_which_nobody_can_be_bought(options: StudyOptions, tmp_path: Path) -> None:
    """Five people of a value of the column: a fifth of their price buys none of them."""
    lines = options.visits.read_text().splitlines()
    rows = sorted((line.split(",") for line in lines[1:]), key=lambda row: row[1])
    late = sorted({row[0] for row in rows[len(rows) // 2 :]})
    few = set(late[:5])
    changed = [",".join([*row[:2], "few" if row[0] in few else "many", row[3]]) for row in rows]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join([lines[0], *changed]) + "\n")
    asked = replace(options, visits=path, by_segment="town", others=())
    with few_plans():
        site, found = tradeoff(asked, [2])
    json.dumps(summary_of(asked, site, found), allow_nan=False)
