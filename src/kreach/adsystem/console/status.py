"""What a page says of a campaign: read off documents of reporting, in which any number may lack."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kreach.adsystem.console.formatting import count, moment, moment_of, percent, utc_text

__all__ = [
    "Pace",
    "Standing",
    "how_told",
    "line_of",
    "pace_of",
    "standing_of",
    "state_of",
    "why_not",
]

_EVEN = 0.02  # of the budget: closer to the even pace than this is on it


@dataclass(frozen=True)
class Pace:
    """Spend against a budget that is spent evenly over the flight. Shares are of the budget."""

    share: float | None
    even_share: float
    words: str
    tone: str  # good, warn or plain


@dataclass(frozen=True)
class Standing:
    """A campaign's numbers at its largest cap, with None for what reporting does not tell."""

    cap: int
    level: float | None
    people: int | None
    unique: float | None
    unique_interval: list[float] | None
    reach: float | None
    reach_interval: list[float] | None
    over_exposed: float | None
    average_frequency: float | None
    average_frequency_interval: list[float] | None

    @property
    def share(self) -> float | None:
        """Of the audience that was reached at least once."""
        return None if not self.people or self.unique is None else self.unique / self.people

    @property
    def over_share(self) -> float | None:
        """Of the audience that saw more than the cap."""
        unknown = not self.people or self.over_exposed is None
        return None if unknown else self.over_exposed / self.people  # type: ignore[operator]


def standing_of(campaign: dict[str, Any], reach: dict[str, Any] | None) -> Standing:
    """The numbers of a reach document at the campaign's largest cap."""
    cap = max(one["limit"] for one in campaign["caps"])
    reports = {one["cap"]: one for one in (reach or {}).get("reports", [])}
    found = reports.get(cap, {})
    return Standing(
        cap,
        found.get("level"),
        (reach or {}).get("people"),
        found.get("unique_reach"),
        found.get("unique_reach_interval"),
        found.get("reach"),
        found.get("interval"),
        found.get("over_exposed"),
        found.get("average_frequency"),
        found.get("average_frequency_interval"),
    )


def state_of(campaign: dict[str, Any], now: datetime) -> str:
    """The state as people see it: a running campaign may be early or over."""
    state = str(campaign["state"])
    if state == "running" and now < moment_of(campaign["start"]):
        return "scheduled"
    if state != "ended" and now >= moment_of(campaign["end"]):
        return "over"
    return state


def pace_of(campaign: dict[str, Any], now: datetime) -> Pace:
    """How the spend of a campaign of the list compares with the even pace."""
    start, end = moment_of(campaign["start"]), moment_of(campaign["end"])
    even = min(max((now - start) / (end - start), 0.0), 1.0)
    spent = campaign["status"]["spend"]
    if spent is None:
        return Pace(None, even, "spend is not told yet", "plain")
    share = spent / campaign["budget"]
    off = share - even
    if now < start:
        return Pace(share, even, "not started", "plain")
    if now >= end:
        return Pace(share, 1.0, f"{percent(share, 0)} of the budget was spent", "plain")
    if share >= 0.999:
        return Pace(share, even, "the budget is spent", "warn")
    if abs(off) < _EVEN:
        return Pace(share, even, "on the even pace", "good")
    word = "ahead of" if off > 0 else "behind"
    return Pace(share, even, f"{percent(abs(off), 0)} {word} the even pace", "warn")


def how_told(document: dict[str, Any] | None) -> str | None:
    """Whether numbers are those of an earlier time, or have noise added."""
    found = document or {}
    lines = []
    if found.get("as_of"):
        lines.append(f"Numbers are as of {moment(found['as_of'])} UTC.")
    noise = found.get("noise")
    if noise is not None:
        people, shown = count(noise["std_people"]), count(noise["std_impressions"])
        lines.append(
            "Noise was added to protect people: one standard deviation is "
            f"{people} people and {shown} impressions."
        )
    return " ".join(lines) or None


def line_of(
    start: str,
    last: datetime,
    points: list[dict[str, Any]],
    so_far: dict[str, Any],
    cap: int | None,
) -> list[tuple[str, float, float, float]]:
    """Reach with its interval at the ends of periods that are over, and what is known now.

    The two were asked for one after the other. What is known "now" may be older than the last
    period, with fewer impressions: then it is left out, for reach does not fall.
    """
    over = [point for point in points if moment_of(point["ts"]) <= last]
    line = [(start, 0.0, 0.0, 0.0)]
    for point in over:
        line += [(point["ts"], one["reach"], *one["interval"]) for one in point["reports"]]
    known = (over[-1]["impressions"] or 0) if over else 0
    if (so_far.get("impressions") or 0) >= known:
        at = so_far.get("end") or utc_text(last)
        for one in so_far.get("reports", []):
            if one["cap"] == cap and at > line[-1][0]:
                line.append((at, one["reach"], *one["interval"]))
    return line


def why_not(document: dict[str, Any] | None) -> str | None:
    """Why numbers of a document are withheld, in the words of reporting."""
    notes = (document or {}).get("suppressed") or []
    said = [f"{note['what']}: {note['why']}" for note in notes]
    return "; ".join(dict.fromkeys(said)) or None
