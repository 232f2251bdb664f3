"""The data that charts are drawn from."""

import json
from datetime import UTC, datetime
from typing import Any

from kreach.adsystem.console import charts
from kreach.adsystem.console.input_files import Band
from kreach.adsystem.reports.report import Outlook
from tests.adsystem.console.documents import cap_report

FLIGHT = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC))


def test_charts_are_plain_values_that_no_text_can_break_out_of() -> None:
    evil = "'); alert(1); ('"
    chart = charts.spend_over_time([(FLIGHT[0], 1.0)], 10.0, FLIGHT, evil)
    assert json.dumps(evil) in chart["tooltip"][":formatter"]
    assert json.loads(json.dumps(chart)) == chart
    assert chart["series"][0]["data"][-1][1] == 10.0


def test_the_band_lies_between_the_ends_of_the_interval() -> None:
    chart = charts.reach_over_time([(FLIGHT[0], 5.0, 4.0, 7.0)], None, FLIGHT, "people")
    low, width, line = chart["series"]
    assert low["data"][0][1] == 4.0
    assert width["data"][0][1] == 3.0
    assert line["data"][0][1:] == [5.0, 4.0, 7.0]
    assert [one["name"] for one in chart["series"] if not one["name"].startswith("_")] == [
        "reach to date"
    ]


def test_the_truth_adds_a_dashed_line_even_before_its_first_point() -> None:
    chart = charts.reach_over_time([], [], FLIGHT, "people", FLIGHT)
    assert chart["series"][-1]["name"] == charts.TRUTH
    assert chart["series"][-1]["lineStyle"]["type"] == "dashed"
    assert len(chart["series"][2]["markArea"]["data"]) == 1


def test_frequencies_above_the_cap_have_another_color() -> None:
    frequency = [100.0, 50.0, 20.0, 5.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0]
    bars = charts.frequency_bars(frequency, 2)["series"][0]["data"]
    assert [round(bar["value"], 2) for bar in bars] == [100, 50, 20, 5, 1, 1, 1, 0.75]
    colors = [bar["itemStyle"][":color"] for bar in bars]
    assert colors[1] == colors[2] != colors[3] == colors[7]


def test_bars_by_cap_carry_their_intervals_and_the_truth() -> None:
    bars, whiskers, truth = charts.reach_by_cap([cap_report()], [9, 12])["series"]
    assert bars["data"] == [[0, 6.5, 6.0, 7.0]]
    assert whiskers["data"] == [[0, 6.0, 7.0]]
    assert truth["data"] == [[0, 9]]


def test_plans_are_drawn_by_budget_and_those_for_other_groups_dashed() -> None:
    numbers: dict[str, Any] = dict.fromkeys(Outlook.__struct_fields__, 1.0)
    numbers |= {"band": (0.5, 1.5), "people": 7.0, "people_band": (6.0, 8.0)}
    plans = [Outlook(**numbers | {"budget": budget}) for budget in (20.0, 10.0)]
    series = charts.people_curve(plans, plans[:1], ("ours", "others"), "USD", plans[1])["series"]
    lines = {one["name"]: one for one in series if not one["name"].startswith("_")}
    assert [point[0] for point in lines["ours"]["data"]] == [10.0, 20.0]
    assert lines["others"]["lineStyle"]["type"] == "dashed"
    assert lines["your plan"]["data"] == [[10.0, 7.0, 6.0, 8.0]]


def test_curves_against_the_group_size_are_percentages() -> None:
    approaches = {"planning_visitors": {1: Band(1.0, 0.9, 1.1), 5: Band(0.5, 0.4, 0.6)}}
    chart = charts.group_size_curves(approaches, "%")
    assert chart["series"][-1]["name"] == "planning visitors"
    assert chart["series"][-1]["data"] == [
        [0, 100.0, 90.0, 110.00000000000001],
        [1, 50.0, 40.0, 60.0],
    ]
    assert "min" not in chart["yAxis"]
