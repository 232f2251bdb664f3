"""Plans: what budgets will reach before a flight, with limits on the computation."""

import time
from math import log
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE, Campaign
from kreach.adsystem.reports.questions import PlanQuestion
from kreach.adsystem.reports.report import Market, Outlook, PlanDocument
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.errors import KreachError

__all__ = ["MARKET", "plan", "regrouped"]

MARKET = (0.0, 1.0)  # default mu and sigma of ln(price per thousand)
_MAX_GROUPS = 50_000
_MAX_PROFILES = 500  # each flight is measured group by group
_MAX_KINDS = 500
_MAX_PER_GROUP = 5_000
_MAX_SECONDS = 60.0


def plan(
    campaign: Campaign, audience: Audience, question: PlanQuestion, version: str, currency: str
) -> PlanDocument:
    """Budget to reach and back; without either, what the campaign's own budget will reach."""
    # SciPy loads with these, which would slow down the start of reporting
    from kreach.adsystem.bidding.market import LogNormalMarket  # noqa: PLC0415
    from kreach.adsystem.bidding.outlook import OutlookMaker  # noqa: PLC0415

    expected = campaign.expected_requests if question.requests is None else question.requests
    cap = campaign.largest_cap if question.cap is None else question.cap
    if expected is None:
        rule = "be given, since the campaign has no expected_requests"
        raise KreachError.rule("requests", rule, None)
    if question.group_size is not None:
        audience = regrouped(audience, question.group_size)
    _check_work(audience, expected)
    mu, sigma = MARKET
    if campaign.market_mu is not None and campaign.market_sigma is not None:
        mu, sigma = campaign.market_mu, campaign.market_sigma
    market = LogNormalMarket(mu - log(1_000), sigma, question.auction)  # of one impression
    most = question.max_cost_per_reach or campaign.max_cost_per_reach
    limits: dict[str, Any] = {"max_cost_per_reach": most, "max_cost_multiple": MAX_COST_MULTIPLE}
    maker = OutlookMaker(audience, market, expected, cap, **limits)
    budgets, reach, level = question.budgets, question.reach, question.level
    if not budgets and reach is None:
        budgets = (campaign.budget,)
    deadline = time.monotonic() + _MAX_SECONDS
    outlooks = []
    for budget in budgets:
        if time.monotonic() > deadline:
            rule = f"be so few that they take at most {_MAX_SECONDS:g} seconds"
            raise KreachError.rule("budget", rule, f"{len(budgets)} budgets")
        outlooks.append(maker.for_budget(budget, level=level))
    if reach is not None:
        outlooks.append(maker.for_reach(reach, level=level))
    return PlanDocument(
        campaign=campaign.id,
        catalogue=version,
        currency=currency,
        people=audience.targeted_user_count,
        groups=audience.group_count,
        group_size=question.group_size,
        cap=cap,
        requests=expected,
        market=Market(mu=mu, sigma=sigma, auction=question.auction),
        plans=tuple(
            Outlook(**{name: getattr(one, name) for name in Outlook.__struct_fields__})
            for one in outlooks
        ),
    )


def regrouped(audience: Audience, group_size: int) -> Audience:
    """The same people in groups of about this size, as even as can be; visits stay as uneven.

    Targeted people are spread evenly too. Only for disjoint groups with one dispersion.
    """
    if isinstance(audience, DisjointAudience) and audience.requests != "everyone":
        rule = "be left out: only requests of targeted people arrive, in any groups"
        raise KreachError.rule("group_size", rule, group_size)
    if not isinstance(audience, DisjointAudience):
        rule = "be left out: these groups overlap, or have visit shares"
        raise KreachError.rule("group_size", rule, group_size)
    people, targeted = int(audience.group_sizes.sum()), audience.targeted_user_count
    if group_size > people:
        raise KreachError.rule("group_size", f"be at most all people ({people})", group_size)
    groups = people // group_size  # each has at least so many
    edges = np.arange(groups + 1)
    sizes, aimed_at = (np.diff(edges * total // groups) for total in (people, targeted))
    dispersion = audience.kinds.dispersion
    if (dispersion != dispersion[0]).any():
        rule = "be left out: groups differ in how unevenly their people visit"
        raise KreachError.rule("group_size", rule, group_size)
    return Audience.disjoint(sizes, aimed_at, float(dispersion[0]))


def _check_work(audience: Audience, requests: int) -> None:
    groups = audience.group_count
    limit = _MAX_PROFILES if isinstance(audience, ProfiledAudience) else _MAX_GROUPS
    if groups > limit:
        raise KreachError.rule("audience", f"have at most {limit} groups to plan on", groups)
    if isinstance(audience, DisjointAudience) and len(audience.kinds) > _MAX_KINDS:
        rule = f"have at most {_MAX_KINDS} kinds of groups to plan on"
        raise KreachError.rule("audience", rule, len(audience.kinds))
    if requests > groups * _MAX_PER_GROUP:
        rule = f"be at most {_MAX_PER_GROUP} per group, {groups * _MAX_PER_GROUP} in all"
        raise KreachError.rule("requests", rule, requests)
