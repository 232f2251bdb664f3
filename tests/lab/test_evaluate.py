"""The study of logs: every row there, budgets kept, and a summary in the promised shape."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab import evaluate as module
from kreach.lab.approaches import APPROACHES
from kreach.lab.buyers import BUYERS, buy_at_k1, full_reach_cost
from kreach.lab.evaluate import (
    BUDGET_SHARES,
    MEMORIES,
    OTHER_STRATEGY_BUYERS,
    Row,
    StudyOptions,
    evaluate,
)
from kreach.lab.evaluate_report import advice_of, exhibits_of, summary_of
from kreach.lab.exhibits import write_study
from kreach.lab.judge import CAPS, WIN_SHARES, WINDOWS, cells_of
from kreach.lab.patterns import PATTERNS
from kreach.lab.site import Site
from tests.lab.logs_made import few_plans, study_quickly, write_prices, write_visits

pytestmark = pytest.mark.xdist_group("evaluate")  # what takes long is done once

THE_PAPERS = {"impressions", "groups", "uniform", "profiled", "dispersed"}
LIMITS = {"gateway_cap", "planning_k1"}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> StudyOptions:
    folder = tmp_path_factory.mktemp("evaluate")
    return StudyOptions(
        write_visits(folder / "visits.csv", 1_000, sessions=5.0),
        write_prices(folder / "prices.csv"),
        group_size=10,
        campaigns=3,
        campaign_size=300,
        seed=2,
        processes=1,
    )


@pytest.fixture(scope="module")
def study(options: StudyOptions) -> tuple[Site, list[Row]]:
    with few_plans():
        return evaluate(options)


@pytest.fixture(scope="module")
def summary(options: StudyOptions, study: tuple[Site, list[Row]]) -> dict[str, Any]:
    return summary_of(options, *study)


def rows_of(study: tuple[Site, list[Row]], kind: str, **wanted: object) -> list[Row]:
    return [
        row
        for row in study[1]
        if row["kind"] == kind and all(row[key] == value for key, value in wanted.items())
    ]


def test_every_random_measurement_of_the_flight_is_there_once(
    study: tuple[Site, list[Row]],
) -> None:
    names = ("campaign", "strategy", "approach", "win_share", "cap")
    rows = rows_of(study, "measurement", pattern="random", window="flight")
    found = [tuple(row[name] for name in names) for row in rows]
    expected = {
        (f"campaign {at}", strategy, approach, share, cap)
        for at in (1, 2, 3)
        for strategy in ("random", "rates")
        for approach in APPROACHES
        for share in WIN_SHARES
        for cap in CAPS
    }
    assert len(found) == len(set(found))
    assert set(found) <= expected
    # the model of the rates groups would need more history: half of it formed the groups
    missing = expected - set(found)
    assert {entry[1:3] for entry in missing} <= {("rates", "model"), ("rates", "model_counted")}


def test_every_pattern_and_buyer_is_judged_in_several_windows(
    study: tuple[Site, list[Row]],
) -> None:
    rows = rows_of(study, "measurement", approach="model", cap=1)
    patterns = {str(row["pattern"]).partition(",")[0] for row in rows}
    assert set(PATTERNS) <= patterns
    assert {"buyer: uniform", "buyer: planning", "buyer: planning visitors"} <= patterns
    assert {"day", "3 days", "flight"} <= {row["window"] for row in rows} <= set(WINDOWS)
    for cell in cells_of(rows).values():
        assert 0.0 <= cell.coverage <= 1.0
        assert cell.width > 0.0


def test_measurements_err_on_their_side(study: tuple[Site, list[Row]]) -> None:
    for row in rows_of(study, "measurement"):
        assert row["error"] == pytest.approx(row["measured_reach"] / row["true_reach"] - 1.0)
        if row["approach"] == "impressions":
            assert row["error"] >= -1e-9
        if row["approach"] == "groups" and row["cap"] == 1:
            assert row["error"] <= 1e-9
    # the same requests are won under every approach and way of grouping
    wanted = {"pattern": "random", "window": "flight", "win_share": 1.0, "cap": 1}
    true = {(row["campaign"], row["true_reach"]) for row in rows_of(study, "measurement", **wanted)}
    assert len(true) == 3


def test_every_purchase_is_there_once(study: tuple[Site, list[Row]]) -> None:
    found = [
        (row["campaign"], row["strategy"], row["approach"], row["budget_share"])
        for row in rows_of(study, "optimisation")
    ]
    expected = {
        (f"campaign {at}", strategy, approach, share)
        for at in (1, 2, 3)
        for strategy in ("random", "rates")
        for approach in ({*BUYERS, *LIMITS} if strategy == "random" else OTHER_STRATEGY_BUYERS)
        for share in BUDGET_SHARES
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_no_buyer_spends_above_its_budget(study: tuple[Site, list[Row]]) -> None:
    for row in rows_of(study, "optimisation"):
        assert 0.0 < row["spend"] <= row["budget"]
        assert 0 < row["reach"] <= row["impressions"]
        assert row["relative_reach"] == pytest.approx(row["reach"] / row["reference_reach"])
        assert row["hindsight_reach"] > 0.0
        assert row["relative_own_k1"] == pytest.approx(row["reach"] / row["own_k1_reach"])
        assert row["share_of_hindsight"] == pytest.approx(row["reach"] / row["hindsight_reach"])
        if row["approach"] == "gateway_cap":
            assert row["reach"] == row["impressions"]  # every win is somebody new


def test_nobody_without_identities_gets_past_hindsight(study: tuple[Site, list[Row]]) -> None:
    """Means over campaigns: one flight may be lucky in whom its sessions are."""
    for strategy in ("random", "rates"):
        for approach in OTHER_STRATEGY_BUYERS:
            for share in BUDGET_SHARES:
                wanted = {"strategy": strategy, "approach": approach, "budget_share": share}
                rows = rows_of(study, "optimisation", **wanted)
                reach = np.mean([row["reach"] for row in rows])
                assert reach < np.mean([row["hindsight_reach"] for row in rows])


def test_the_second_reference_is_our_bidder_with_everybody_known(
    study: tuple[Site, list[Row]], summary: dict[str, Any]
) -> None:
    own = {
        (row["campaign"], row["budget_share"]): row["reach"]
        for row in rows_of(study, "optimisation", approach="planning_k1")
    }
    for row in rows_of(study, "optimisation"):
        assert row["own_k1_reach"] == own[row["campaign"], row["budget_share"]]
    found = summary["optimisation"]
    assert set(found["planning_k1"]["by_budget_own_k1"].values()) == {1.0}
    for result in found.values():
        for name in (
            "by_budget",
            "by_budget_own_k1",
            "by_budget_hindsight",
            "by_budget_of_hindsight",
        ):
            assert set(result[name]) == {f"{share:g}" for share in BUDGET_SHARES}
    # who enforces the cap, or knows everybody, counts right
    for name in ("planning_k1", "gateway_cap"):
        assert list(found[name]["reported_reach_error"].values()) == pytest.approx([0.0] * 3)
    rows = rows_of(study, "optimisation", approach="uniform", strategy="rates", budget_share=0.2)
    mean = np.mean([row["relative_own_k1"] for row in rows])
    assert found["uniform@rates"]["by_budget_own_k1"]["0.2"] == pytest.approx(mean)
    errors = [row["reported_reach"] / row["reach"] - 1.0 for row in rows]
    assert found["uniform@rates"]["reported_reach_error"]["0.2"] == pytest.approx(np.mean(errors))


def test_budgets_are_shares_of_everybodys_cheapest(options: StudyOptions) -> None:
    tasks = module.tasks_of(options, module.site_of(options), replays=False)
    campaign = tasks[0].campaign
    by_hand = sum(
        campaign.price[campaign.person == who].min() for who in np.unique(campaign.person)
    )
    assert full_reach_cost(campaign) == pytest.approx(by_hand)
    assert buy_at_k1(campaign, 0.2 * by_hand, 1).spend <= 0.2 * by_hand


def test_a_cap_at_the_gateway_costs_next_to_nothing(summary: dict[str, Any]) -> None:
    """The publisher enforces the cap: about the reach of knowing everybody."""
    found = summary["optimisation"]
    assert found["gateway_cap"]["relative_reach_mean"] == pytest.approx(1.0, abs=0.08)
    for name in ("impressions", "groups", "uniform"):
        assert found[name]["relative_reach_mean"] < found["gateway_cap"]["relative_reach_mean"]


def test_a_longer_memory_of_the_gateway_reaches_more(
    study: tuple[Site, list[Row]], summary: dict[str, Any]
) -> None:
    rows = rows_of(study, "gateway_memory", strategy="random")
    found = [(row["campaign"], row["memory"], row["budget_share"]) for row in rows]
    assert len(set(found)) == len(found) == 3 * len(MEMORIES) * len(BUDGET_SHARES)
    for row in rows:
        assert row["spend"] <= row["budget"]
        if row["memory"] == "flight":  # every win is somebody new, and the bidder knows it
            assert row["reach"] == row["impressions"]
            assert row["measured_reach"] == pytest.approx(row["reach"])
    cells = summary["gateway_memory"]["random"]
    assert list(cells) == list(MEMORIES)
    for few, many in (("none", "3 days"), ("3 days", "flight")):
        assert cells[few]["relative_reach_mean"] < cells[many]["relative_reach_mean"] + 0.01
    plain = summary["optimisation"]["planning_visitors"]["relative_reach_mean"]
    assert cells["none"]["relative_reach_mean"] == pytest.approx(plain)


def test_groups_of_one_lose_nothing(options: StudyOptions) -> None:
    """k = 1 is the reference: the paper's bidder with uniform visits is the same bidder."""
    with few_plans():
        site, rows = evaluate(replace(options, group_size=1, campaigns=1, others=()))
    bought = [row for row in rows if row["kind"] == "optimisation" and row["approach"] == "uniform"]
    for row in bought:
        assert row["relative_reach"] == pytest.approx(1.0, abs=0.01)
        assert row["relative_roas"] == pytest.approx(1.0, abs=0.01)
    found = summary_of(replace(options, group_size=1, campaigns=1, others=()), site, rows)
    for name in ("groups", "uniform", "profiled", "dispersed"):
        assert found["measurement"][name]["mean_absolute_error"] < 1e-6, name


def test_the_summary_has_the_promised_shape(summary: dict[str, Any]) -> None:
    campaigns = {"campaign 1", "campaign 2", "campaign 3"}
    measured, bought = summary["measurement"], summary["optimisation"]
    assert set(measured) >= THE_PAPERS
    assert set(bought) >= THE_PAPERS
    for found in measured.values():
        assert set(found) >= {"mean_error", "mean_absolute_error", "by_campaign"}
        assert set(found["by_campaign"]) == campaigns
        assert found["mean_absolute_error"] >= abs(found["mean_error"]) - 1e-12
    for found in bought.values():
        assert set(found) >= {
            *("relative_roas_mean", "relative_roas_variance", "relative_reach_mean"),
            "by_campaign",
        }
        assert set(found["by_campaign"]) == campaigns
        assert found["relative_roas_variance"] >= 0.0
    assert {"uniform@rates", "planning_visitors@rates"} <= set(bought)
    json.dumps(summary, allow_nan=False)


def test_the_summary_is_the_mean_of_its_rows(
    study: tuple[Site, list[Row]], summary: dict[str, Any]
) -> None:
    wanted = {"approach": "uniform", "strategy": "random", "pattern": "random", "cap": 1}
    errors = [row["error"] for row in rows_of(study, "measurement", window="flight", **wanted)]
    found = summary["measurement"]["uniform"]
    assert found["mean_error"] == pytest.approx(np.mean(errors))
    assert found["mean_absolute_error"] == pytest.approx(np.mean(np.abs(errors)))
    rows = rows_of(study, "optimisation", approach="dispersed", strategy="random")
    found = summary["optimisation"]["dispersed"]
    assert found["relative_roas_mean"] == pytest.approx(
        np.mean([row["relative_roas"] for row in rows])
    )
    first = [row["relative_reach"] for row in rows if row["campaign"] == "campaign 1"]
    assert found["by_campaign"]["campaign 1"] == pytest.approx(np.mean(first))
    steps = summary["ingredients"]
    total = sum(steps[key] for key in ("paper_bidder_uniform", "dispersion", "planning_ahead"))
    reach = summary["optimisation"]["planning"]["relative_reach_mean"]
    assert total == pytest.approx(reach)
    assert summary["setting"]["people"] == study[0].people.count
    assert summary["setting"]["flight_requests"] == len(study[0].after)


def test_advice_says_what_the_numbers_say(options: StudyOptions, summary: dict[str, Any]) -> None:
    lines = advice_of(options, summary)
    assert len(lines) == 5
    assert lines[0].startswith("Measure with “model”")
    kept = summary["optimisation"]["uniform"]["relative_reach_mean"]
    assert f"the paper's bidder keeps {kept:.0%} of the reach" in lines[1]
    assert "rates groups" in lines[2]
    assert lines[3].startswith("What anonymity costs: ")
    assert "of what the same bidder reaches with everybody known (" in lines[3]
    best = summary["optimisation"]["planning_visitors@rates"]
    assert lines[4].startswith("How much is left to gain without identities, ")
    assert f"{best['by_budget_of_hindsight']['0.6']:.0%} of it, at a budget of 60%" in lines[4]
    assert not any("lose -" in line or "groups -" in line for line in lines)  # a gain is no loss


def test_one_and_two_processes_write_the_same_bytes(
    options: StudyOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures too: they hold no date."""
    monkeypatch.setattr(module, "study_campaign", study_quickly)
    written = []
    smaller = replace(options, campaigns=2, campaign_size=60, others=())
    for at, processes in enumerate((1, 2)):
        asked = replace(smaller, processes=processes)
        site, rows = evaluate(asked)
        found = summary_of(asked, site, rows)
        out = tmp_path / str(at)
        write_study(out, "A study", exhibits_of(asked, found, rows), found)
        written.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert set(written[0]) == {
        *("summary.json", "report.html"),
        *(f"{name}.{kind}" for name in EXHIBITS for kind in FILES),
    }
    for name in written[0]:
        assert written[0][name] == written[1][name], name


EXHIBITS = ("measurement", "optimisation", "gateway_memory")
FILES = ("csv", "png", "svg")


def test_another_seed_is_another_study(options: StudyOptions) -> None:
    site = module.site_of(options)
    first, other = (
        module.tasks_of(replace(options, seed=seed), site, replays=False)[0].campaign.price
        for seed in (2, 3)
    )
    assert first.tolist()[:50] != other.tolist()[:50]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"group_size": 0}, "group_size"),
        ({"campaigns": 0}, "campaigns"),
        ({"campaigns": 1001}, "campaigns"),
        ({"campaign_size": 9}, "campaign_size"),
        ({"seed": -1}, "seed"),
        ({"strategy": "overlapping"}, "strategy"),
        ({"others": ("rates", "overlapping")}, "strategy"),
    ],
)
def test_bad_options(options: StudyOptions, wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(KreachError, match=f"^{name} must"):
        replace(options, **wrong)


def test_groups_larger_than_half_a_campaign(options: StudyOptions) -> None:
    with pytest.raises(KreachError, match=r"^group_size must be small enough"):
        evaluate(replace(options, group_size=151))


def test_a_campaign_that_nobody_visits_is_named(tmp_path: Path, options: StudyOptions) -> None:
    """A value of the column whose people all left before the flight: whose fault, in one line."""
    lines = options.visits.read_text().splitlines()
    rows = sorted((line.split(",") for line in lines[1:]), key=lambda row: row[1])
    late = {row[0] for row in rows[len(rows) // 2 - 5 :]}
    changed = [",".join([*row[:2], "stayed" if row[0] in late else "left", row[3]]) for row in rows]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join([lines[0], *changed]) + "\n")
    asked = replace(options, visits=path, by_segment="town", campaigns=2, others=(), group_size=5)
    try:
        with few_plans():
            site, rows_found = evaluate(asked)
    except KreachError as error:
        assert "town" in str(error) or "campaign" in str(error), str(error)  # noqa: PT017
    else:
        json.dumps(summary_of(asked, site, rows_found), allow_nan=False)
