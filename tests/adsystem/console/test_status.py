"""What pages say about a campaign: its state, pace, reach, and what is withheld."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kreach.adsystem.console.formatting import parse_time
from kreach.adsystem.console.status import (
    CampaignView,
    basis_note,
    data_note,
    further_cost,
    model_alarm,
    reach_line,
    spend_pace,
    title_of,
    visible_text,
    withheld_note,
)
from kreach.adsystem.reports.report import (
    CapReport,
    CorrectionInfo,
    ModelInfo,
    Pace,
    Suppressed,
    VisiblePeople,
)
from tests.adsystem.console.documents import (
    STATUS,
    campaign_status,
    cap_report,
    curve_point,
    reach_document,
)

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spend", "days", "share", "text"),
    [
        (5.0, 5.0, 0.5, "on pace"),
        (7.0, 5.0, 0.7, "20% ahead of even pace"),
        (2.0, 5.0, 0.2, "30% behind even pace"),
        (10.0, 5.0, 1.0, "budget spent"),
        (8.0, 20.0, 0.8, "80% of budget spent"),
        (0.0, -1.0, 0.0, "not started"),
        (None, 5.0, None, "spend is withheld"),
    ],
)
def test_pace(spend: float | None, days: float, share: float | None, text: str) -> None:
    pace = spend_pace(campaign_status(spend), START + timedelta(days=days))
    assert (pace.share, pace.text) == (share, text)
    assert 0.0 <= pace.even_share <= 1.0


def test_a_view_without_a_report_has_no_numbers() -> None:
    for view in (
        CampaignView.of(campaign_status()),
        CampaignView.of_window(campaign_status(), reach_document()),
    ):
        assert view.cap == 4
        assert (view.report, view.reached_share, view.over_exposed_share) == (None,) * 3
        assert view.cost_per_person is None


def test_a_view_is_that_of_the_largest_cap_and_of_one_document() -> None:
    report = cap_report(
        cap=4, unique_reach=50.0, unique_reach_interval=(40.0, 60.0), over_exposed=5.0, reach=80.0
    )
    status = STATUS | {"people": 200, "spend": 6.0, "impressions": report.impressions}
    status |= {"reach": (cap_report(cap=1), report)}
    view = CampaignView.of(campaign_status(status=status))
    assert view.report == report
    assert (view.reached_share, view.over_exposed_share) == (0.25, 0.025)
    assert view.cost_per_person == pytest.approx((0.12, 0.1, 0.15))
    several = CampaignView.of(campaign_status(status=status | {"impressions": 99}))
    assert several.several_catalogues  # money of all catalogues, people of one
    assert several.cost_per_person is None
    reach = reach_document(people=200, reports=(cap_report(cap=1), report), spend=3.0)
    assert CampaignView.of_window(campaign_status(), reach).cost_per_person == pytest.approx(
        (0.06, 0.05, 0.075)
    )


def test_model_correction_and_alarm_are_said_in_sentences() -> None:
    model = ModelInfo(name="visit model", error=0.03)
    text = basis_note(model, None, 0.95)
    assert text is not None
    assert "site's visit model" in text
    assert "off by about 3.0%" in text
    assert "with 95% probability" in text
    assert basis_note(None, None, 0.95) is None
    correction = CorrectionInfo(
        released="2026-11-01T05:00:00Z",
        panel_share=0.2,
        max_cap=2,
        model_unique_reach=900.0,
        panel_unique_reach=1_000.0,
        panel_std=20.0,
        weight=0.8,
        other_campaigns=0,
        rho=0.1,
    )
    text = basis_note(model, correction, 0.95)
    assert text is not None
    assert "says 900 people" in text
    assert "it is 1,000 ± 20" in text
    assert model_alarm(correction) is model_alarm(None) is None
    off = msgspec.structs.replace(correction, alarm="by 11% where 3% is stated")
    assert model_alarm(off) == (
        "The model is off on this site: by 11% where 3% is stated. "
        "Figures use the panel's correction."
    )


def test_people_read_the_name() -> None:
    assert title_of(campaign_status()) == "spring"
    assert title_of(campaign_status(name="Spring shoes")) == "Spring shoes"


def test_why_something_is_withheld_is_said_once() -> None:
    note = Suppressed(what="reach", reason="too few", why="figures appear in batches")
    assert withheld_note([note, note]) == "reach: figures appear in batches"
    assert withheld_note([]) is withheld_note(reach_document().suppressed) is None


def test_the_time_and_the_noise_of_data_are_said() -> None:
    assert data_note(campaign_status().status) is None
    noise = {
        "rho": 0.1,
        "max_per_person": 3,
        "std_people": 12.0,
        "std_impressions": 30.0,
        "std_spend_micros": 1.0,
    }
    status = STATUS | {"as_of": "2026-11-01T05:00:00Z", "noise": noise}
    assert data_note(campaign_status(status=status).status) == (
        "Data as of Sun 1 Nov 2026, 05:00 UTC. Noise is added to protect people: one standard "
        "deviation is 12 people and 30 impressions."
    )


def report(reach: float) -> CapReport:
    return cap_report(cap=2, reach=reach, interval=(reach - 1.0, reach + 1.0))


def test_the_line_of_reach_never_falls() -> None:
    start, last = START, parse_time("2026-11-01T02:30:00Z")
    points = [
        curve_point(1, 10, report(9.0)),
        curve_point(2, 20, report(16.0)),
        curve_point(3, 24, report(19.0)),  # the period has not ended
    ]
    newer = reach_document(impressions=24, reports=(report(19.0),))
    line = reach_line(start, last, points, newer, 2)
    assert [reach for _, reach, _, _ in line] == [0.0, 9.0, 16.0, 19.0]
    assert line[-1] == (last, 19.0, 18.0, 20.0)
    older = reach_document(impressions=19, reports=(report(15.0),))  # requested before
    line = reach_line(start, last, points, older, 2)
    assert [reach for _, reach, _, _ in line] == [0.0, 9.0, 16.0]
    assert reach_line(start, last, points, newer, 1)[-1][1] == 16.0  # of another cap
    assert reach_line(start, last, [], None, 2) == [(start, 0.0, 0.0, 0.0)]
    withheld = reach_document(impressions=None)
    line = reach_line(start, last, points[:1], withheld, 2)
    assert [reach for _, reach, _, _ in line] == [0.0, 9.0]


def test_reach_to_date_ends_the_line_where_its_data_ends() -> None:
    end = "2026-11-01T02:10:00Z"
    newer = reach_document(impressions=24, end=end, reports=(report(19.0),))
    line = reach_line(
        START, START + timedelta(hours=3), [curve_point(2, 20, report(16.0))], newer, 2
    )
    assert line[-1][0] == parse_time(end)


@pytest.mark.parametrize(
    ("cost", "limit", "own", "lines"),
    [
        (None, None, None, ("—",)),
        (0.004, None, None, ("0.0040 USD", "no limit yet")),
        (0.004, 0.02, None, ("0.0040 USD", "limit 0.0200 USD, by default")),
        (0.004, 0.5, 0.5, ("0.0040 USD", "limit 0.50 USD, set")),
    ],
)
def test_the_cost_of_a_further_person(
    cost: float | None, limit: float | None, own: float | None, lines: tuple[str, ...]
) -> None:
    ts = "2026-11-02T00:00:00Z"
    pace = Pace(ts=ts, spent_micros=0, cost_per_reach=cost, max_cost_per_reach=limit)
    shown = further_cost(campaign_status(max_cost_per_reach=own), pace, "USD")
    assert tuple(line.replace("\u00a0", " ") for line in shown) == lines


def test_visible_people() -> None:
    text = "Visible people per group: at least 5, median 7.5."
    for requests, more in (
        ("everyone", ""),
        ("targeted", " Only requests of targeted people arrive."),
    ):
        seen = VisiblePeople(
            audience="us", people=900, groups=100, min=5, median=7.5, requests=requests
        )
        assert visible_text(seen) == text + more
