"""What to plan: an audience, dates, a cap, and a budget or wanted people. The address has all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from kreach.adsystem.console.form_fields import CAP_LIMIT, local_text, number_text, request_body
from kreach.adsystem.reports.report import Outlook, PlanDocument

__all__ = ["FIELDS", "FlightChoice", "as_campaign", "curve_budgets", "plan_body"]

FIELDS = ("audience", "start", "end", "cap", "goal", "amount", "requests", "auction", "group_size")
_SHARES = (0.25, 0.5, 0.75, 1.5, 2.0)  # of the budget that is planned
_FLIGHT = timedelta(days=14)


@dataclass(frozen=True)
class FlightChoice:
    """The inputs as text, as they were typed. `goal` is budget or people."""

    audience: str = "everyone"
    start: str = ""
    end: str = ""
    cap: str = "3"
    goal: str = "budget"
    amount: str = ""
    requests: str = ""
    auction: str = "second_price"
    group_size: str = ""

    @classmethod
    def of_query(cls, parameters: Iterable[tuple[str, str]], now: datetime) -> "FlightChoice":
        """Read an address; what is missing has its default: two weeks from tomorrow.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 11, 4, 12, tzinfo=UTC)
        >>> choice = FlightChoice.of_query([("cap", "2"), ("goal", "x")], noon)
        >>> choice.start, choice.cap, choice.goal
        ('2026-11-05T00:00', '2', 'budget')
        """
        tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        values = {"start": local_text(tomorrow), "end": local_text(tomorrow + _FLIGHT)}
        values |= {name: value for name, value in parameters if name in FIELDS and value}
        if values.get("goal") not in ("budget", "people"):
            values.pop("goal", None)
        if values.get("auction") not in ("second_price", "first_price"):
            values.pop("auction", None)
        return cls(**values)

    @property
    def url(self) -> str:
        """The address that shows this choice."""
        given = {name: getattr(self, name) for name in FIELDS if getattr(self, name)}
        return f"/planner?{urlencode(given, safe=':')}"


def curve_budgets(budget: float) -> list[float]:
    """Budgets around the planned one."""
    return [float(f"{share * budget:.6g}") for share in _SHARES]


def plan_body(choice: FlightChoice) -> dict[str, object]:
    """The body of a request for the chosen point. What is no number stays text: it is refused."""
    texts: Mapping[str, str] = {
        "audience": choice.audience,
        "start": choice.start,
        "end": choice.end,
        "budget": choice.amount,
        CAP_LIMIT: choice.cap,
        "expected_requests": choice.requests,
    }
    given = request_body(texts)
    body: dict[str, object] = {"auction": choice.auction, "audience": given.get("audience")}
    body |= {name: given[name] for name in ("start", "end") if name in given}
    caps = given.get("caps")
    if isinstance(caps, list):
        body["cap"] = caps[0]["limit"]
    if "expected_requests" in given:
        body["requests"] = given["expected_requests"]
    amount = given.get("budget")
    if amount is not None and choice.goal == "people":
        body["people"] = amount
    elif amount is not None:
        body["budgets"] = [amount]
    return body


def as_campaign(choice: FlightChoice, plan: PlanDocument, chosen: Outlook) -> dict[str, str]:
    """The inputs of a new campaign that is to fly as planned."""
    most = chosen.budget / max(chosen.impressions, 1.0) * 1_000.0 * 5.0
    return {
        "budget": number_text(round(chosen.budget, 2)),
        "start": choice.start,
        "end": choice.end,
        CAP_LIMIT: choice.cap,
        "audience": choice.audience,
        "max_cpm": number_text(round(most, 2)),
        "expected_requests": str(plan.requests),
        "market_mu": number_text(plan.market.mu),
        "market_sigma": number_text(plan.market.sigma),
    }
