"""Tables for CSV downloads."""

import csv
import io
from typing import Any

from kreach.adsystem.console.status import CampaignView
from kreach.adsystem.console.tables import (
    campaign_row,
    comparison_rows,
    csv_bytes,
    curve_rows,
    frequency_rows,
    overlap_rows,
    plan_rows,
    report_rows,
)
from kreach.adsystem.reports.report import CurveDocument, Outlook
from tests.adsystem.console.documents import (
    STATUS,
    campaign_status,
    cap_report,
    combined_document,
    curve_point,
    reach_document,
)


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_text_cannot_become_a_formula_and_nothing_stays_empty() -> None:
    rows = read(csv_bytes([{"a": "=1+1", "b": None, "c": -2.5}, {"a": "x,\ny", "d": 1}]))
    assert rows[0] == {"a": "'=1+1", "b": "", "c": "-2.5", "d": ""}
    assert rows[1]["a"] == "x,\ny"


def test_reports_and_frequencies() -> None:
    reach = reach_document(reports=(cap_report(),))
    rows = report_rows(reach)
    assert (rows[0]["reach_low"], rows[0]["reach"], rows[0]["cap"]) == (6.0, 6.5, 2)
    frequencies = frequency_rows(reach)
    assert [row["times"] for row in frequencies] == [0, 1, 2, "3+"]
    assert [row["people_at_least"] for row in frequencies] == [10, 5.0, 2.0, 0.5]
    assert frequencies[1]["people_at_least_high"] == 6.0
    assert report_rows(reach_document()) == frequency_rows(reach_document()) == []
    assert report_rows(None) == frequency_rows(None) == curve_rows(None) == []


def test_a_campaign_has_the_same_columns_with_and_without_reach() -> None:
    delivery = {"impressions": 7, "spend": 1.5, "delivery": "completed"}
    campaign = campaign_status(status=STATUS | delivery, name="Spring shoes")
    full = campaign_row(campaign, CampaignView(2, 10, cap_report(), 1.5), "USD")
    empty = campaign_row(campaign, CampaignView(2), "USD")
    assert list(full) == list(empty)
    assert (full["state"], full["spend"], full["unique_reach_high"]) == ("completed", 1.5, 6.0)
    assert (full["name"], full["cost_per_person"]) == ("Spring shoes", 0.3)
    assert (empty["unique_reach_high"], empty["reach"], empty["cap"]) == (None, None, 2)


def test_curves() -> None:
    points = (curve_point(1, 7, cap_report()), curve_point(2, 9, cap_report(reach=8.0)))
    curve = CurveDocument(campaign="spring", catalogue="v1", people=10, by="hour", points=points)
    assert [(row["until"], row["reach_to_date"]) for row in curve_rows(curve)] == [
        ("2026-11-01T01:00:00Z", 6.5),
        ("2026-11-01T02:00:00Z", 8.0),
    ]


def test_plans() -> None:
    bands = {"band": (0.5, 1.5), "people_band": (0.25, 1.25)}
    numbers: dict[str, Any] = dict.fromkeys(Outlook.__struct_fields__, 1.0) | bands
    row = plan_rows([(5, Outlook(**numbers))])[0]
    assert (row["group_size"], row["reach_high"], row["people_high"]) == (5, 1.5, 1.25)
    assert not {"band", "people_band"} & set(row)


def test_campaigns_together() -> None:
    rows = comparison_rows(combined_document(cap=2))
    assert [row["campaign"] for row in rows] == ["spring", "summer", "(together)", "(two or more)"]
    assert (rows[1]["only_this"], rows[1]["adds"], rows[1]["people_so_far"]) == (30.0, 30.0, 70.0)
    assert (rows[1]["adds_low"], rows[1]["reach"], rows[1]["impressions"]) == (29.0, 60.0, 60)
    assert (rows[2]["unique_reach"], rows[2]["reach_high"], rows[2]["impressions"]) == (
        70,
        106,
        120,
    )
    assert (rows[3]["unique_reach"], rows[3]["impressions"]) == (10.0, None)
    assert comparison_rows(None) == comparison_rows(combined_document(combined=None)) == []


def test_pairs_of_campaigns() -> None:
    rows = overlap_rows(combined_document(("a", "b", "c")))
    assert [(row["campaign"], row["also"]) for row in rows][:3] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "a"),
    ]
    assert (rows[0]["people_of_both"], rows[0]["share_of_campaign"]) == (10.0, 0.25)
    nobody = overlap_rows(combined_document(overlap_matrix=((0.0, 0.0), (0.0, 5.0))))
    assert [row["share_of_campaign"] for row in nobody] == [None, 0.0]
    assert overlap_rows(None) == overlap_rows(combined_document(overlap_matrix=())) == []
