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
    CurvePoint,
    ModelInfo,
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
    "basis_note",
    "data_note",
    "flight_of",
    "further_cost",
    "max_cap",
    "model_alarm",
    "reach_line",
    "spend_pace",
    "title_of",
    "visible_text",
    "withheld_note",
]

LinePoint = tuple[datetime, float, float, float]
"""Time, reach, and the low and high end of its interval."""

_MODELS = {
    "visit model": "Estimated with the site's visit model: how often people come, and when.",
    "dispersion": "Estimated from how unevenly people of a group visit, without times of visits.",
    "visit shares": "Estimated from the shares of visits of each group's people.",
    "uniform": "Estimated as if all people of a group visit equally often, which is too many.",
}
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


def title_of(campaign: CampaignDefinition) -> str:
    """What people call a campaign."""
    return campaign.name or campaign.id


@dataclass(frozen=True)
class CampaignView:
    """A campaign's reach at its largest cap and its money, all of one document and so one instant.

    `report` is None where it is withheld. `spend` is None where it is withheld, or where it is
    not that of the report's impressions.
    """

    cap: int
    people: int | None = None
    report: CapReport | None = None
    spend: float | None = None
    impressions: int | None = None
    several_catalogues: bool = False

    @classmethod
    def of(cls, campaign: CampaignStatus) -> "CampaignView":
        """Reach to date."""
        cap, status = max_cap(campaign), campaign.status
        report = _at_cap(status.reach, cap)
        several = report is not None and report.impressions != status.impressions
        spend = None if several else status.spend
        return cls(cap, status.people, report, spend, status.impressions, several)

    @classmethod
    def of_window(cls, campaign: CampaignDefinition, reach: ReachDocument) -> "CampaignView":
        """Reach in a window."""
        cap = max_cap(campaign)
        spend = reach.spend if isinstance(reach.spend, float) else None
        report = _at_cap(reach.reports, cap)
        return cls(cap, reach.people, report, spend, reach.impressions)

    @property
    def reached_share(self) -> float | None:
        """Share of the audience that saw the ad."""
        return self._share(None if self.report is None else self.report.unique_reach)

    @property
    def over_exposed_share(self) -> float | None:
        """Share of the audience that saw the ad more often than the cap."""
        return self._share(None if self.report is None else self.report.over_exposed)

    @property
    def cost_per_person(self) -> tuple[float, float, float] | None:
        """Spend per person reached, and its lowest and highest by the interval of people."""
        if self.report is None or self.spend is None or self.report.unique_reach <= 0.0:
            return None
        low, high = self.report.unique_reach_interval
        spend = self.spend
        most = spend / low if low > 0.0 else float("inf")
        return spend / self.report.unique_reach, spend / max(high, 1e-9), most

    def _share(self, people: float | None) -> float | None:
        return None if people is None or not self.people else people / self.people


def _at_cap(reports: Sequence[CapReport], cap: int) -> CapReport | None:
    return next((report for report in reports if report.cap == cap), None)


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
    return " ".join(notes) or None


def basis_note(
    model: ModelInfo | None, correction: CorrectionInfo | None, level: float | None
) -> str | None:
    """Model, correction and interval in a few plain sentences."""
    notes = []
    if correction is not None:
        notes.append(
            f"The model of this site says {count(correction.model_unique_reach)} people. The "
            f"publisher counted the truth in a secret {percent(correction.panel_share, 0)} of the "
            f"groups, up to {date_time(correction.released)} UTC: with that it is "
            f"{count(correction.panel_unique_reach)} ± {count(correction.panel_std)}. "
            f"{percent(correction.weight, 0)} of the correction is applied."
        )
    elif model is not None:
        notes.append(_MODELS.get(model.name, f"Estimated with the model {model.name}."))
        if model.error is not None:
            off = percent(model.error)
            notes.append(f"When the publisher replayed its history it was off by about {off}.")
    if level is not None and notes:
        notes.append(f"The true number lies in the interval with {percent(level, 0)} probability.")
    return " ".join(notes) or None


def model_alarm(correction: CorrectionInfo | None) -> str | None:
    """A warning where the publisher's panel says that the model is off."""
    if correction is None or correction.alarm is None:
        return None
    return f"The model is off on this site: {correction.alarm}. Figures use the panel's correction."


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
