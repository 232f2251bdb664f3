"""Plans for flights: those of campaigns, and those that no campaign has yet.

A campaign is a flight with dates, an audience, a cap and a budget. What it does not say itself is
what bidders observed, as for any flight: the same question has one answer.
"""

from dataclasses import replace

import msgspec

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.reports.observed import (
    ObservedInventory,
    observed_inventory,
    observed_prices,
)
from kreach.adsystem.reports.plans import PlanBasis, anonymity_cost, make_plan
from kreach.adsystem.reports.questions import FlightQuestion, PlanQuestion
from kreach.adsystem.reports.report import Inventory, PlanDocument
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import iso_optional
from kreach.errors import KreachError

__all__ = ["campaign_flight", "flight_plan", "inventory_info", "rounded"]

_ASSUMED_MARKET = (0.0, 1.0)  # mu and sigma of ln(price per thousand), while prices are unknown


def campaign_flight(campaign: Campaign, question: PlanQuestion) -> FlightQuestion:
    """The flight of a campaign: what the question leaves open is the campaign's own."""
    asks = question.budgets or question.reach is not None or question.people is not None
    market = None
    if campaign.market_mu is not None and campaign.market_sigma is not None:
        market = (campaign.market_mu, campaign.market_sigma)
    own = replace(
        question,
        requests=campaign.expected_requests if question.requests is None else question.requests,
        cap=campaign.largest_cap if question.cap is None else question.cap,
        budgets=question.budgets if asks else (campaign.budget,),
        max_cost_per_reach=question.max_cost_per_reach or campaign.max_cost_per_reach,
    )
    return FlightQuestion(
        own,
        campaign.start,
        campaign.end,
        campaign.audience,
        market,
        assumed_market=_ASSUMED_MARKET,
    )


def rounded(value: float) -> float:
    """Two significant digits.

    >>> rounded(123_456.0), rounded(0.0)
    (120000.0, 0.0)
    """
    return float(f"{value:.2g}")


def inventory_info(found: ObservedInventory, *, coarse: bool) -> Inventory:
    """Inventory as it is shown; coarse for who must not know the site's exact traffic."""
    numbers = (found.requests_per_day, found.days, found.eligible_share)
    per_day, days, share = (rounded(one) if coarse else one for one in numbers)
    return Inventory(requests_per_day=per_day, observed_days=days, eligible_share=share)


def flight_plan(
    question: FlightQuestion,
    audience: Audience,
    catalogue: Catalogue,
    settings: AdSystemSettings,
    *,
    rounds: bool,
) -> PlanDocument:
    """A plan on a catalogue; with `rounds`, what was observed enters with two digits."""
    asked, version = question.plan, catalogue.version
    if not asked.budgets and asked.people is None and asked.reach is None:
        raise KreachError(
            "give a budget or people: what to spend, or how many people to reach",
            field="budgets",
            code="required",
        )
    requests, inventory = _requests(question, settings, version, rounds=rounds)
    market, market_source = _market(question, settings, version, rounds=rounds)
    disjoint = isinstance(audience, DisjointAudience)
    basis = PlanBasis(
        audience,
        requests,
        asked.cap or 1,
        market,
        asked.budgets,
        asked.max_cost_per_reach,
        catalogue.model if disjoint else None,
    )
    document = make_plan(
        basis,
        asked,
        version,
        settings.currency,
        campaign=None,
        audience=question.audience,
        start=iso_optional(question.start),
        end=iso_optional(question.end),
        requests_source="given" if inventory is None else "observed",
        market_source=market_source,
        inventory=inventory,
    )
    if not question.with_ids:
        return document
    budget = asked.budgets[0] if asked.budgets else document.plans[-1].budget
    return msgspec.structs.replace(document, anonymity=anonymity_cost(basis, asked, budget))


def _requests(
    question: FlightQuestion, settings: AdSystemSettings, version: str, *, rounds: bool
) -> tuple[int, Inventory | None]:
    """Eligible requests of the flight, and the inventory if they come from it."""
    if question.plan.requests is not None:
        return question.plan.requests, None
    missing = [name for name in ("start", "end") if getattr(question, name) is None]
    if question.start is None or question.end is None:
        message = f"{missing[0]} is required unless requests are given"
        raise KreachError(message, field=missing[0], code="required")
    found = observed_inventory(settings.store, version)
    if found is None:
        rule = "be given: bidders have seen less than an hour of traffic on this catalogue"
        raise KreachError.rule("requests", rule, None)
    info = inventory_info(found, coarse=rounds)
    days = ObservedInventory(info.requests_per_day, info.observed_days, info.eligible_share)
    return days.in_flight(question.start, question.end), info


def _market(
    question: FlightQuestion, settings: AdSystemSettings, version: str, *, rounds: bool
) -> tuple[tuple[float, float], str]:
    """Mean and deviation of ln of the price per thousand, and where they come from."""
    if question.market is not None:
        return question.market, "given"
    found = observed_prices(settings.store, version, question.plan.auction)
    if found is None and question.assumed_market is not None:
        return question.assumed_market, "assumed"
    if found is None:
        rule = "be given with market_sigma: bidders have seen too few prices on this catalogue"
        raise KreachError.rule("market_mu", rule, None)
    market = (found.mu, found.sigma)
    return (rounded(market[0]), rounded(market[1])) if rounds else market, "observed"
