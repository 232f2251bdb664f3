"""Campaigns together: the address of a choice, and what tiles, bars and tables say."""

import json
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from kreach.adsystem.console import comparison_charts as charts
from kreach.adsystem.console.comparison import Choice, Comparison, unique_titles
from kreach.adsystem.console.pages.compare_inputs import family_text
from kreach.adsystem.reports.report import FamilyDefinition, FrequencyCap
from tests.adsystem.console.documents import campaign_status, combined_document

NOW = datetime(2026, 11, 4, 12, tzinfo=UTC)


def comparison(names: tuple[str, ...] = ("spring", "summer"), cap: int = 1) -> Comparison:
    result = Comparison.of(combined_document(names, cap))
    assert result is not None
    return result


@pytest.mark.parametrize(
    "choice",
    [
        Choice(),
        Choice(("a",)),
        Choice(("b", "a/../c", "x&cap=3", "ü"), 4),
        Choice(("a", "b"), 1, "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "custom"),
        Choice(("a", "b"), 2, None, "2026-11-02T00:00:00Z", "custom"),
        Choice(("a", "b"), preset="last-7-days"),
    ],
)
def test_an_address_says_all_of_a_choice(choice: Choice) -> None:
    parts = urlsplit(choice.url)
    assert parts.path == "/compare"
    assert Choice.of_query(parse_qsl(parts.query)) == choice


@pytest.mark.parametrize("cap", ["", "0", "-1", "1.5", "x", "1001", "9" * 5_000, "²"])
def test_a_cap_that_is_none_is_one(cap: str) -> None:
    assert Choice.of_query([("cap", cap)]).cap == 1


def test_reporting_is_asked_from_two_campaigns_on() -> None:
    assert Choice(("a",)).query(NOW) is None
    query = Choice(("b", "a"), 3, start="2026-11-01", preset="custom").query(NOW)
    assert query is not None
    assert query.parameters == (
        ("campaign", "b"),
        ("campaign", "a"),
        ("start", "2026-11-01"),
        ("cap", "3"),
    )


def test_tiles_of_two_campaigns() -> None:
    both = comparison()
    assert both.together_tile() == ("70", "69 to 71 (95%)", "35.0% of 200")
    share = "14.3% of people reached together"
    assert both.overlap_tile() == ("10", "9 to 11 (95%)", share)
    assert both.sum_tile() == ("80", "counted twice: 10 people")
    assert both.frequency_tile() == ("1.50", "per person reached", "120 impressions in all")


def test_tiles_of_three_campaigns_and_a_cap() -> None:
    three = comparison(("a", "b", "c"), cap=2)
    assert three.sum_tile()[:2] == ("120", "20 more than together")
    assert three.cap_tile() == (
        "150",
        "149 to 151 (95%)",
        "cap 2 over all campaigns",
        "180 with that cap in each",
    )


def test_campaigns_that_reached_nobody_divide_by_nothing() -> None:
    document = combined_document(overlap_matrix=((0.0, 0.0), (0.0, 5.0)), people=0)
    empty = Comparison.of(document)
    assert empty is not None
    assert empty.pairs()[0][1].share is None
    assert empty.pairs()[1][0].share == 0.0
    assert empty.together_tile()[2] == "0.0% of 0"


def test_bars_add_up_to_people_or_to_impressions_within_the_cap() -> None:
    for cap, unit in ((1, "people"), (2, "impressions within the cap")):
        both = comparison(cap=cap)
        assert both.unit == unit
        together, *each = both.bars()
        union = both.combined.union.reach
        assert (together.total, together.several) == (union, both.combined.overlap.reach)
        assert [bar.total for bar in each] == [
            part.reports[0].reach for part in both.document.parts
        ]


def test_the_table_has_a_column_for_the_cap_only_above_one() -> None:
    assert comparison().rows() == [
        ("spring", "60", "40", "4 to 6", "1.40", "30", "+40"),
        ("summer", "60", "40", "4 to 6", "1.40", "30", "+30"),
        ("all together", "120", "70", "69 to 71", "1.50", "60", "70"),
    ]
    capped = comparison(cap=2)
    at = capped.heads().index("within the cap")
    assert [row[at] for row in capped.rows()] == ["60", "60", "105"]
    for one in (comparison(), capped):
        assert {len(row) for row in one.rows()} == {len(one.heads())}


def test_a_withheld_report_has_no_comparison() -> None:
    assert Comparison.of(combined_document(combined=None, impressions=None)) is None


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (None, None, "to date"),
        ("2026-11-01T00:00:00Z", None, "since Sun 1 Nov 2026, 00:00"),
        (None, "2026-11-01T06:00:00Z", "up to Sun 1 Nov 2026, 06:00"),
        (
            "2026-11-01T00:00:00Z",
            "2026-11-02T00:00:00Z",
            "Sun 1 Nov 2026, 00:00 to Mon 2 Nov 2026, 00:00",
        ),
    ],
)
def test_the_window_in_words(start: str | None, end: str | None, text: str) -> None:
    shown = Comparison.of(combined_document(start=start, end=end))
    assert shown is not None
    assert shown.span == text


def test_charts_are_plain_values_with_the_numbers_at_the_bars() -> None:
    three = comparison(("a", "b", "c"))
    chart = charts.one_or_several(three.bars(), three.unit)
    assert json.loads(json.dumps(chart)) == chart
    only, several, total = (one["data"] for one in chart["series"])
    assert only[0] == [0, 90.0]
    assert several[0] == [0, 10.0]
    assert total[0] == [0, 0, 100.0]
    assert chart["legend"]["data"] == ["one campaign only", "two or more"]
    assert chart["yAxis"]["data"] == ["all together", "a", "b", "c"]


def test_presets_are_dates_of_now_and_of_all_flights() -> None:
    flights = [("a", "2026-11-01", "2026-11-05"), ("b", "2026-10-20", "2026-11-03")]
    campaigns = [
        campaign_status(id=name, start=f"{start}T00:00:00Z", end=f"{end}T00:00:00Z")
        for name, start, end in [*flights, ("c", "2026-01-01", "2026-12-31")]
    ]
    expected = {
        "today": ("2026-11-04T00:00:00Z", "2026-11-05T00:00:00Z"),
        "flight": ("2026-10-20T00:00:00Z", "2026-11-05T00:00:00Z"),
    }
    for preset, (start, end) in expected.items():
        choice = Choice(("a", "b"), preset=preset)
        assert choice.query(NOW) is None  # flights are not known yet
        query = choice.query(NOW, campaigns)
        assert query is not None
        assert [one for one in query.parameters if one[0] in ("start", "end")] == [
            ("start", start),
            ("end", end),
        ]
    to_date = Choice(("a", "b")).query(NOW)
    assert to_date is not None
    assert "start" not in dict(to_date.parameters)


def test_campaigns_are_called_what_people_call_them() -> None:
    titles = unique_titles(
        campaign_status(id=name, name=title)
        for name, title in (("a", "Spring shoes"), ("b", "Sale"), ("c", "Sale"), ("d", None))
    )
    assert titles == {"a": "Spring shoes", "b": "Sale (b)", "c": "Sale (c)", "d": "d"}
    shown = Comparison.of(combined_document(("a", "b")), titles)
    assert shown is not None
    assert [bar.name for bar in shown.bars()] == ["all together", "Spring shoes", "Sale (b)"]
    assert [row[0] for row in shown.rows()] == ["Spring shoes (a)", "Sale (b)", "all together"]


def test_each_step_stands_on_those_before_it() -> None:
    three = comparison(("a", "b", "c"))
    chart = charts.what_each_adds(three.combined.incremental, three.part_titles)
    before, adds, ends = (one["data"] for one in chart["series"])
    assert [row[1] for row in before] == [0.0, 40.0, 70.0]
    assert adds[1] == [1, 30.0, 29.0, 31.0]
    assert [row[2:] for row in ends] == [[40.0, 40.0], [70.0, 30.0], [100.0, 30.0]]
    assert charts.chart_height(3) > charts.chart_height(2)


def test_a_family_is_described_by_its_caps_and_budget() -> None:
    caps = (FrequencyCap(limit=3, span_seconds=None), FrequencyCap(limit=1, span_seconds=86_400.0))
    whole = FamilyDefinition(id="brand", caps=caps, budget=800.0, campaigns=("a", "b"))
    assert family_text(whole, "EUR") == (
        "3 per person per flight and 1 per person in 1 day, budget 800.00\xa0EUR"
    )
    bare = FamilyDefinition(id="brand", caps=(), budget=None, campaigns=())
    assert family_text(bare, "EUR") == "no cap of its own, no budget of its own"
