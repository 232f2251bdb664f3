"""What leaves the pages as CSV, and what charts are drawn from."""

import csv
import io
import json
from typing import Any

from kreach.adsystem.console import charts
from kreach.adsystem.console.tables import csv_of, frequency_rows, plan_rows, report_rows

REPORT: dict[str, Any] = {
    "cap": 2,
    "impressions": 7,
    "reach": 6.5,
    "interval": [6.0, 7.0],
    "level": 0.95,
    "unique_reach": 5.0,
    "unique_reach_interval": [4.0, 6.0],
    "average_frequency": 1.4,
    "over_exposed": 0.25,
    "frequency": [5.0, 3.0, 1.5, 0.5],
    "at_least": [5.0, 2.0, 0.5],
    "at_least_intervals": [[4.0, 6.0], [1.0, 3.0], [0.0, 1.0]],
}
DOCUMENT = {"campaign": "spring", "start": None, "end": None, "catalogue": "v1", "people": 10}


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_text_cannot_become_a_formula_and_nothing_stays_empty() -> None:
    rows = read(csv_of([{"a": "=1+1", "b": None, "c": -2.5}, {"a": "x,\ny", "d": 1}]))
    assert rows[0] == {"a": "'=1+1", "b": "", "c": "-2.5", "d": ""}
    assert rows[1]["a"] == "x,\ny"


def test_reports_and_frequencies() -> None:
    rows = report_rows(DOCUMENT | {"reports": [REPORT]})
    assert (rows[0]["reach_low"], rows[0]["reach"], rows[0]["cap"]) == (6.0, 6.5, 2)
    often = frequency_rows(DOCUMENT | {"reports": [REPORT]})
    assert [row["times"] for row in often] == [0, 1, 2, "3+"]
    assert [row["people_at_least"] for row in often] == [10, 5.0, 2.0, 0.5]
    assert often[1]["people_at_least_high"] == 6.0
    assert report_rows(DOCUMENT | {"reports": []}) == frequency_rows(DOCUMENT) == []


def test_plans() -> None:
    names = "group_size budget spend reach level impressions average_frequency multiplier"
    plan = dict.fromkeys(names.split(), 1.0) | {"band": [0.5, 1.5]}
    assert plan_rows([plan])[0]["reach_high"] == 1.5


def test_charts_are_plain_values_that_no_name_of_others_can_break_out_of() -> None:
    evil = "'); alert(1); ('"
    flight = ("2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    chart = charts.spend([(flight[0], 1.0)], 10.0, flight, evil)
    assert json.dumps(evil) in chart["tooltip"][":formatter"]
    assert json.loads(json.dumps(chart)) == chart
    assert chart["series"][0]["data"][-1][1] == 10.0


def test_the_band_lies_between_the_ends_of_the_interval() -> None:
    flight = ("2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    chart = charts.cumulative([(flight[0], 5.0, 4.0, 7.0)], None, flight, "people")
    low, width, line = chart["series"]
    assert low["data"][0][1] == 4.0
    assert width["data"][0][1] == 3.0
    assert line["data"][0][1:] == [5.0, 4.0, 7.0]
    assert [one["name"] for one in chart["series"] if not one["name"].startswith("_")] == [
        "reach so far"
    ]


def test_a_truth_that_has_begun_to_be_known_adds_a_dashed_line() -> None:
    flight = ("2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    chart = charts.cumulative([], [], flight, "people", flight)
    assert chart["series"][-1]["name"] == charts.TRUTH
    assert chart["series"][-1]["lineStyle"]["type"] == "dashed"
    assert len(chart["series"][2]["markArea"]["data"]) == 1


def test_frequencies_beyond_the_cap_have_another_colour() -> None:
    chart = charts.frequencies([100.0, 50.0, 20.0, 5.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0], 2)
    bars = chart["series"][0]["data"]
    assert [round(bar["value"], 2) for bar in bars] == [100, 50, 20, 5, 1, 1, 1, 0.75]
    colours = [bar["itemStyle"][":color"] for bar in bars]
    assert colours[1] == colours[2] != colours[3] == colours[7]
