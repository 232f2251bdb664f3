"""Numbers and times as text, and the word for what is withheld."""

from datetime import UTC, datetime, timedelta

import pytest

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.reports.report import FrequencyCap

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "withheld"), (0, "0"), (0.04, "0"), (0.4, "0.4"), (9.96, "10"), (12_345.6, "12,346")],
)
def test_counts(value: float | None, text: str) -> None:
    assert fmt.count(value) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "withheld"), (0.0, "0.00 USD"), (0.0312, "0.0312 USD"), (1234.5, "1,234.50 USD")],
)
def test_money(amount: float | None, text: str) -> None:
    assert fmt.money(amount, "USD").replace("\u00a0", " ") == text


def test_shares_and_intervals() -> None:
    assert fmt.percent(-0.00001) == "0.0%"
    assert fmt.percent(0.4567) == "45.7%"
    assert fmt.interval([10.0, 20.0], 0.95) == "10 to 20 (95%)"
    assert fmt.interval([10.0, 10.0], 0.9) == "10 (90%)"
    assert fmt.interval([1.0, 2.0], write=fmt.decimal) == "1.00 to 2.00"
    assert fmt.interval(None, 0.95) == fmt.interval([]) == fmt.decimal(None) == "withheld"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (None, "3 per person per flight"),
        (604_800.0, "3 per person in 1 week"),
        (172_800.0, "3 per person in 2 days"),
        (90.0, "3 per person in 90 seconds"),
    ],
)
def test_caps(span: float | None, text: str) -> None:
    assert fmt.cap_text(FrequencyCap(limit=3, span_seconds=span)) == text


def test_times() -> None:
    moment = datetime(2026, 11, 1, 5, 4, 3, tzinfo=UTC)
    assert fmt.date_time(moment) == "Sun 1 Nov 2026, 05:04"
    assert fmt.date_time("2026-11-01T05:04:03Z") == "Sun 1 Nov 2026, 05:04"
    assert fmt.date_time(None) == "withheld"
    assert fmt.flight_text(START, START + timedelta(days=7)) == "1 to 8 Nov 2026"
    assert fmt.flight_text(START, START + timedelta(days=40)) == "1 Nov to 11 Dec 2026"
    assert fmt.flight_text(START, START + timedelta(days=70)) == "1 Nov 2026 to 10 Jan 2027"


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-1.0, "starts Sun 1 Nov 2026, 00:00"),
        (0.0, "day 1 of 7"),
        (6.9, "day 7 of 7"),
        (9.0, "ended 8 Nov 2026"),
    ],
)
def test_phases_of_a_flight(days: float, text: str) -> None:
    end = START + timedelta(days=7)
    assert fmt.flight_phase(START, end, START + timedelta(days=days)) == text
