"""What pages say about a campaign, derived from the reports on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import UnsetType

from kreach.adsystem.console.formatting import count, date_time, money, parse_time, percent
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CampaignStatus,
    CampaignSummary,
    CapReport,
    CorrectionInfo,
    Creative,
    CurvePoint,
    Pace,
    ReachDocument,
    Status,
    Summary,
    Suppressed,
    VisiblePeople,
)

__all__ = [
    "CampaignView",
    "LinePoint",
    "SpendPace",
    "data_note",
    "display_state",
    "flight_of",
    "further_cost",
    "max_cap",
    "reach_line",
    "spend_pace",
    "visible_text",
    "withheld_note",
]

LinePoint = tuple[datetime, float, float, float]
"""Time, reach, and the low and high end of its interval."""

_ON_PACE = 0.02  # of the budget: closer to the even pace than this is on pace


def flight_of(campaign: CampaignDefinition) -> tuple[datetime, datetime]:
    """When a campaign starts and ends."""
    return parse_time(campaign.start), parse_time(campaign.end)


def max_cap(campaign: CampaignDefinition) -> int:
    """The largest frequency cap of a campaign."""
    return max(cap.limit for cap in campaign.caps)


def visible_text(visible: VisiblePeople) -> str:
    """How many people of a group a campaign on the audience can see."""
    few, median = count(visible.min), f"{visible.median:,g}"
    text = f"Visible people per group: at least {few}, median {median}."
    if visible.requests == "targeted":
        text += " Only requests of targeted people arrive."
    return text


def display_state(campaign: CampaignDefinition, now: datetime) -> str:
    """The state for people: a running campaign may be scheduled, completed or lack a creative
    that may be shown."""
    lacks = _lacks(campaign)
    start, end = flight_of(campaign)
    if campaign.state == "running" and now < start:
        return lacks or "scheduled"
    if campaign.state != "ended" and now >= end:
        return "completed"
    return lacks if campaign.state == "running" and lacks else campaign.state


def _lacks(campaign: CampaignDefinition) -> str:
    """What keeps a running campaign from bidding; empty if nothing does."""
    complete = [one for one in campaign.creatives or (campaign.creative,) if _is_complete(one)]
    reviews = {one.review for one in complete}
    if "approved" in reviews:
        return ""
    if "pending" in reviews:
        return "creative in review"
    return "creative rejected" if reviews else "no creative"


def _is_complete(creative: Creative) -> bool:
    if creative.kind == "native":
        return creative.native is not None
    sized = creative.width is not None or bool(creative.sizes)
    return creative.markup is not None and (creative.kind != "banner" or sized)


@dataclass(frozen=True)
class CampaignView:
    """A campaign's reach at its largest cap; `report` is None where it is withheld."""

    cap: int
    people: int | None = None
    report: CapReport | None = None

    @classmethod
    def of(cls, campaign: CampaignDefinition, reach: ReachDocument | None) -> "CampaignView":
        """The view of a campaign in a reach report."""
        cap = max_cap(campaign)
        if reach is None:
            return cls(cap)
        report = next((report for report in reach.reports if report.cap == cap), None)
        return cls(cap, reach.people, report)

    @property
    def reached_share(self) -> float | None:
        """Share of the audience that saw the ad."""
        return self._share(None if self.report is None else self.report.unique_reach)

    @property
    def over_exposed_share(self) -> float | None:
        """Share of the audience that saw the ad more often than the cap."""
        return self._share(None if self.report is None else self.report.over_exposed)

    def _share(self, people: float | None) -> float | None:
        return None if people is None or not self.people else people / self.people


@dataclass(frozen=True)
class SpendPace:
    """Spend against a budget that is spent evenly over the flight. Shares are of the budget."""

    share: float | None
    even_share: float
    text: str


def spend_pace(campaign: CampaignStatus | CampaignSummary, now: datetime) -> SpendPace:
    """How the spend of a campaign compares with the even pace."""
    start, end = flight_of(campaign)
    even = min(max((now - start) / (end - start), 0.0), 1.0)
    if campaign.status.spend is None:
        return SpendPace(None, even, "spend is withheld")
    share = campaign.status.spend / campaign.budget
    ahead = share - even
    if now < start:
        text = "not started"
    elif now >= end:
        text = f"{percent(share, 0)} of budget spent"
    elif share >= 0.999:
        text = "budget spent"
    elif abs(ahead) < _ON_PACE:
        text = "on pace"
    else:
        text = f"{percent(abs(ahead), 0)} {'ahead of' if ahead > 0 else 'behind'} even pace"
    return SpendPace(share, even, text)


def further_cost(campaign: CampaignDefinition, pace: Pace, currency: str) -> tuple[str, ...]:
    """What the bidder pays for a further person at most, and the limit of that with its source."""
    if not isinstance(pace.cost_per_reach, float):
        return ("—",)
    cost = money(pace.cost_per_reach, currency)
    if not isinstance(pace.max_cost_per_reach, float):
        return (cost, "no limit yet")
    source = "by default" if campaign.max_cost_per_reach is None else "set"
    return (cost, f"limit {money(pace.max_cost_per_reach, currency)}, {source}")


def data_note(status: Summary) -> str | None:
    """Whether numbers are those of an earlier time, or have noise added."""
    notes = []
    if status.as_of is not None:
        notes.append(f"Data as of {date_time(status.as_of)} UTC.")
    noise = status.noise if isinstance(status, Status) else None
    if noise is not None:
        people, impressions = count(noise.std_people), count(noise.std_impressions)
        notes.append(
            "Noise is added to protect people: one standard deviation is "
            f"{people} people and {impressions} impressions."
        )
    correction = status.correction if isinstance(status, Status) else None
    if correction is not None:
        notes.append(_correction_note(correction))
    return " ".join(notes) or None


def _correction_note(correction: CorrectionInfo) -> str:
    """Model and panel, and which of them the numbers rest on."""
    model, panel = count(correction.model_unique_reach), count(correction.panel_unique_reach)
    note = (
        f"Reach is corrected by the publisher's panel of {percent(correction.panel_share, 0)} of "
        f"the groups, up to {date_time(correction.released)} UTC: the model says {model} people, "
        f"model and panel {panel} ± {count(correction.panel_std)}; "
        f"{percent(correction.weight, 0)} of the difference is applied."
    )
    if correction.alarm is not None:
        note += f" Alarm: {correction.alarm}."
    return note


def withheld_note(suppressed: Sequence[Suppressed] | UnsetType) -> str | None:
    """Why numbers of a report are withheld."""
    notes = [f"{one.what}: {one.why}" for one in suppressed or ()]
    return "; ".join(dict.fromkeys(notes)) or None


def reach_line(
    start: datetime,
    last: datetime,
    points: Sequence[CurvePoint],
    to_date: ReachDocument | None,
    cap: int,
) -> list[LinePoint]:
    """Reach and its interval at the ends of past periods, and to date.

    The two come from different requests. Reach to date may be older than the last period, with
    fewer impressions: then it is left out, because reach does not fall.
    """
    past = [point for point in points if parse_time(point.ts) <= last]
    line: list[LinePoint] = [(start, 0.0, 0.0, 0.0)]
    for point in past:
        line += [(parse_time(point.ts), one.reach, *one.interval) for one in point.reports]
    impressions = past[-1].impressions if past else 0
    if to_date is not None and (to_date.impressions or 0) >= impressions:
        at = parse_time(to_date.end) if to_date.end else last
        for report in to_date.reports:
            if report.cap == cap and at > line[-1][0]:
                line.append((at, report.reach, *report.interval))
    return line
