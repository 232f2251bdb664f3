"""How numbers, times and standings are written, and what is written for none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kreach.adsystem.console import formatting as words
from kreach.adsystem.console.status import (
    how_told,
    line_of,
    pace_of,
    standing_of,
    state_of,
    why_not,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
GAP = "\u00a0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "not told"), (0, "0"), (0.04, "0"), (0.4, "0.4"), (9.96, "10"), (12_345.6, "12,346")],
)
def test_counts(value: float | None, text: str) -> None:
    assert words.count(value) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "not told"), (0.0, "0.00 USD"), (0.0312, "0.0312 USD"), (1234.5, "1,234.50 USD")],
)
def test_money(amount: float | None, text: str) -> None:
    assert words.money(amount, "USD").replace(GAP, " ") == text


def test_shares_and_intervals() -> None:
    assert words.percent(-0.00001) == f"0.0{GAP}%"
    assert words.percent(0.4567) == f"45.7{GAP}%"
    assert words.interval([10.0, 20.0], 0.95) == f"10 to 20 (95{GAP}%)"
    assert words.interval([10.0, 10.0], 0.9) == f"10 (90{GAP}%)"
    assert words.interval(None, None) == words.between([]) == "not told"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (None, "at most 3 in the flight"),
        (604_800.0, "at most 3 in 1 week"),
        (172_800.0, "at most 3 in 2 days"),
        (90.0, "at most 3 in 90 seconds"),
    ],
)
def test_caps(span: float | None, text: str) -> None:
    assert words.cap_words({"limit": 3, "span_seconds": span}) == text


def test_times() -> None:
    moment = datetime(2026, 11, 1, 5, 4, 3, tzinfo=UTC)
    assert words.moment(moment) == "Sun 1 Nov 2026, 05:04"
    assert words.moment("2026-11-01T05:04:03Z") == "Sun 1 Nov 2026, 05:04"
    assert words.utc_text(moment) == "2026-11-01T05:04:03Z"
    assert words.flight_words(START, START + timedelta(days=7)) == "1 to 8 Nov 2026"
    assert words.flight_words(START, START + timedelta(days=40)) == "1 Nov to 11 Dec 2026"
    assert words.flight_words(START, START + timedelta(days=70)) == "1 Nov 2026 to 10 Jan 2027"


@pytest.mark.parametrize(
    ("days", "text"),
    [(-1.0, "starts Sun 1 Nov 2026, 00:00"), (0.0, "day 1 of 7"), (6.9, "day 7 of 7")],
)
def test_where_a_flight_stands(days: float, text: str) -> None:
    end = START + timedelta(days=7)
    assert words.phase(START, end, START + timedelta(days=days)) == text


def campaign(spend: float | None, **more: Any) -> dict[str, Any]:
    given = {
        "budget": 10.0,
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-11T00:00:00Z",
        "state": "running",
        "caps": [{"limit": 1, "span_seconds": 3600.0}, {"limit": 4, "span_seconds": None}],
        "status": {"spend": spend},
    }
    return given | more


@pytest.mark.parametrize(
    ("spend", "days", "share", "words_"),
    [
        (5.0, 5.0, 0.5, "on the even pace"),
        (7.0, 5.0, 0.7, "20 % ahead of the even pace"),
        (2.0, 5.0, 0.2, "30 % behind the even pace"),
        (10.0, 5.0, 1.0, "the budget is spent"),
        (8.0, 20.0, 0.8, "80 % of the budget was spent"),
        (0.0, -1.0, 0.0, "not started"),
        (None, 5.0, None, "spend is not told yet"),
    ],
)
def test_pace(spend: float | None, days: float, share: float | None, words_: str) -> None:
    pace = pace_of(campaign(spend), START + timedelta(days=days))
    assert pace.share == share
    assert pace.words.replace(GAP, " ") == words_
    assert 0.0 <= pace.even_share <= 1.0


@pytest.mark.parametrize(
    ("state", "days", "shown"),
    [
        ("running", 1, "running"),
        ("running", -1, "scheduled"),
        ("running", 11, "over"),
        ("paused", 1, "paused"),
        ("paused", 11, "over"),
        ("ended", 11, "ended"),
    ],
)
def test_states(state: str, days: int, shown: str) -> None:
    assert state_of(campaign(0.0, state=state), START + timedelta(days=days)) == shown


def test_a_standing_without_numbers_has_none() -> None:
    documents: list[dict[str, Any] | None] = [None, {}, {"reports": [], "people": None}]
    for document in documents:
        found = standing_of(campaign(0.0), document)
        assert found.cap == 4
        assert (found.unique, found.share, found.over_share, found.reach) == (None,) * 4
        assert words.count(found.unique) == "not told"


def test_a_standing_is_that_of_the_largest_cap() -> None:
    report = {
        "cap": 4,
        "level": 0.95,
        "unique_reach": 50.0,
        "unique_reach_interval": [40.0, 60.0],
        "reach": 80.0,
        "interval": [70.0, 90.0],
        "over_exposed": 5.0,
        "average_frequency": 2.0,
        "average_frequency_interval": [1.9, 2.1],
    }
    found = standing_of(campaign(0.0), {"people": 200, "reports": [{"cap": 1}, report]})
    assert (found.reach, found.share, found.over_share) == (80.0, 0.25, 0.025)


def test_why_something_is_withheld_is_said_once() -> None:
    note = {"what": "reach", "reason": "too few", "why": "numbers are shown by chapters"}
    assert why_not({"suppressed": [note, note]}) == "reach: numbers are shown by chapters"
    assert why_not({"suppressed": []}) is None
    assert why_not(None) is None


def test_when_and_how_numbers_were_told() -> None:
    assert how_told(None) is how_told({"as_of": None}) is None
    noise = {"std_people": 12.0, "std_impressions": 30.0}
    assert how_told({"as_of": "2026-11-01T05:00:00Z", "noise": noise}) == (
        "Numbers are as of Sun 1 Nov 2026, 05:00 UTC. Noise was added to protect people: one "
        "standard deviation is 12 people and 30 impressions."
    )


def _reach(reach: float) -> dict[str, Any]:
    return {"cap": 2, "reach": reach, "interval": [reach - 1.0, reach + 1.0]}


def _point(hour: int, impressions: int | None, reach: float) -> dict[str, Any]:
    ts = f"2026-11-01T{hour:02d}:00:00Z"
    return {"ts": ts, "impressions": impressions, "reports": [_reach(reach)]}


def test_the_line_of_reach_never_falls() -> None:
    start, last = "2026-11-01T00:00:00Z", datetime(2026, 11, 1, 2, 30, tzinfo=UTC)
    points = [_point(1, 10, 9.0), _point(2, 20, 16.0), _point(3, 24, 19.0)]  # the last is not over
    newer = {"impressions": 24, "end": None, "reports": [_reach(19.0)]}
    line = line_of(start, last, points, newer, 2)
    assert [reach for _, reach, _, _ in line] == [0.0, 9.0, 16.0, 19.0]
    assert line[-1] == ("2026-11-01T02:30:00Z", 19.0, 18.0, 20.0)
    older = {"impressions": 19, "end": None, "reports": [_reach(15.0)]}  # asked for before
    assert [reach for _, reach, _, _ in line_of(start, last, points, older, 2)] == [0.0, 9.0, 16.0]
    assert line_of(start, last, points, newer, 1)[-1][1] == 16.0  # of another cap
    assert line_of(start, last, [], {}, 2) == [(start, 0.0, 0.0, 0.0)]
    untold = line_of(start, last, [_point(1, None, 9.0)], {}, 2)
    assert [reach for _, reach, _, _ in untold] == [0.0, 9.0]
