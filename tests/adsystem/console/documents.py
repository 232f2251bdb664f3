"""Reports as reporting answers them, for tests of pages and tables."""

from typing import Any, TypeVar

import msgspec

from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.report import (
    CampaignStatus,
    CapReport,
    CurvePoint,
    CurveReport,
    ReachDocument,
)

T = TypeVar("T")

CAP_REPORT: dict[str, Any] = {
    "cap": 2,
    "impressions": 7,
    "reach": 6.5,
    "std": 0.25,
    "interval": (6.0, 7.0),
    "level": 0.95,
    "interval_method": "normal",
    "bounds": None,
    "bounds_attained": None,
    "over_exposed": 0.25,
    "unique_reach": 5.0,
    "unique_reach_interval": (4.0, 6.0),
    "average_frequency": 1.4,
    "average_frequency_interval": (1.3, 1.5),
    "frequency": (5.0, 3.0, 1.5, 0.5),
    "at_least": (5.0, 2.0, 0.5),
    "at_least_intervals": ((4.0, 6.0), (1.0, 3.0), (0.0, 1.0)),
}
REACH: dict[str, Any] = {
    "campaign": "spring",
    "start": None,
    "end": None,
    "catalogue": "v1",
    "impressions": 7,
    "rejected": {},
    "warnings": {},
    "people": 10,
    "basis": "Theorem 1",
    "reports": (),
}
STATUS: dict[str, Any] = {
    "impressions": None,
    "spend_micros": None,
    "spend": None,
    "budget_left_micros": None,
    "budget_left": None,
}
CAMPAIGN: dict[str, Any] = {
    "id": "spring",
    "budget": 10.0,
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-11-11T00:00:00Z",
    "caps": ({"limit": 1, "span_seconds": 3600.0}, {"limit": 4, "span_seconds": None}),
    "daily_budget": None,
    "audience": "everyone",
    "bidder": "planning",
    "min_cpm": 0.0,
    "max_cpm": 5.0,
    "market_mu": None,
    "market_sigma": None,
    "expected_requests": None,
    "max_cost_per_reach": None,
    "creative": {"id": None, "markup": "ad", "width": 300, "height": 250, "domains": ()},
    "state": "running",
    "status": STATUS,
}


def _set(cap: int, reach: float, people: float) -> dict[str, Any]:
    """Figures of a set of people, with an interval of one on either side."""
    return {
        "cap": cap,
        "reach": reach,
        "std": 0.5,
        "interval": (reach - 1.0, reach + 1.0),
        "level": 0.95,
        "bounds": None,
        "bounds_attained": None,
        "over_exposed": 0.0,
        "unique_reach": people,
        "unique_reach_interval": (people - 1.0, people + 1.0),
        "average_frequency": 1.5,
        "frequency": (),
        "at_least": (),
    }


def combined(names: tuple[str, ...] = ("spring", "summer"), cap: int = 1) -> dict[str, Any]:
    """Campaigns that reached 40 people each, 10 of them reached by all; 1.5 times as much at cap 2.

    With two campaigns the union is 70 people: 30 only by each, and 10 by both.
    """
    often, count = (1.0 if cap == 1 else 1.5), len(names)
    alone = CAP_REPORT | {"cap": cap, "reach": 40.0 * often, "unique_reach": 40.0}
    part = {"start": None, "end": None, "impressions": 60, "reports": (alone,)}
    steps, so_far = [], 0.0
    for at, name in enumerate(names):
        adds = 40.0 if at == 0 else 30.0
        so_far += adds
        step = {"part": name, "adds": _set(cap, adds * often, adds), "unique_reach_so_far": so_far}
        steps.append(step)
    together = {
        "cap": cap,
        "union": _set(cap, so_far * often, so_far),
        "overlap": _set(cap, 10.0 * often, 10.0),
        "only": {name: _set(cap, 30.0 * often, 30.0) for name in names},
        "incremental": steps,
    }
    return {
        "start": None,
        "end": None,
        "catalogue": "v1",
        "impressions": 60 * count,
        "rejected": {},
        "people": 200,
        "basis": "Theorem 1",
        "parts": [part | {"name": name, "campaign": name} for name in names],
        "combined": together,
        "overlap_matrix": [[40.0 if i == j else 10.0 for j in range(count)] for i in range(count)],
    }


def _document(kind: type[T], fields: dict[str, Any], changes: dict[str, Any]) -> T:
    return msgspec.convert(msgspec.to_builtins(fields | changes), kind)


def cap_report(**changes: Any) -> CapReport:
    return _document(CapReport, CAP_REPORT, changes)


def reach_document(**changes: Any) -> ReachDocument:
    return _document(ReachDocument, REACH, changes)


def campaign_status(spend: float | None = 0.0, **changes: Any) -> CampaignStatus:
    return _document(CampaignStatus, CAMPAIGN, {"status": STATUS | {"spend": spend}} | changes)


def curve_point(hour: int, impressions: int, report: CapReport) -> CurvePoint:
    ts = f"2026-11-01T{hour:02d}:00:00Z"
    return CurvePoint(ts=ts, impressions=impressions, reports=(CurveReport.short(report),))


def combined_document(
    names: tuple[str, ...] = ("spring", "summer"), cap: int = 1, **changes: Any
) -> CombinedDocument:
    return _document(CombinedDocument, combined(names, cap), changes)
