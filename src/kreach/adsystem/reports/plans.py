"""Plans: what budgets will reach before a flight, with limits on the computation.

All plans of reporting are made here, from a `PlanBasis`. `flight_plans.py` says what the basis of a
campaign is, and of a flight that no campaign has yet.
"""

import time
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE
from kreach.adsystem.reports.group_visits import visits_by_group
from kreach.adsystem.reports.questions import PlanQuestion
from kreach.adsystem.reports.report import AnonymityCost, Market, Outlook, PlanDocument
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.bidding.outlook import OutlookMaker

__all__ = ["PlanBasis", "anonymity_cost", "make_plan", "regrouped"]

_MAX_GROUPS = 20_000_000
_MAX_PROFILES = 500  # each flight is measured group by group
_MAX_KINDS = 500
_MAX_PER_GROUP = 5_000
_MAX_SECONDS = 60.0
_COARSE_GROUPS = 5_000


@dataclass(frozen=True, eq=False)
class PlanBasis:
    """What a plan rests on: whom it can reach, how often, for what, and at which prices."""

    audience: Audience
    requests: int
    cap: int
    market: tuple[float, float]
    budgets: tuple[float, ...] = ()
    max_cost_per_reach: float | None = None
    model: VisitModel | None = None


def make_plan(
    basis: PlanBasis, question: PlanQuestion, version: str, currency: str, **more: Any
) -> PlanDocument:
    """The plans of all budgets, of the wanted reach and of the wanted people."""
    audience = basis.audience
    if question.group_size is not None:
        audience = regrouped(audience, question.group_size)
    _check_work(audience, basis.requests)
    maker = _maker(replace(basis, audience=audience), question)
    level = question.level
    deadline = time.monotonic() + _MAX_SECONDS
    outlooks = []
    for budget in basis.budgets:
        if time.monotonic() > deadline:
            rule = f"be so few that they take at most {_MAX_SECONDS:g} seconds"
            raise KreachError.rule("budget", rule, f"{len(basis.budgets)} budgets")
        outlooks.append(maker.for_budget(budget, level=level))
    if question.reach is not None:
        outlooks.append(maker.for_reach(question.reach, level=level))
    if question.people is not None:
        outlooks.append(maker.for_people(question.people, level=level))
    mu, sigma = basis.market
    return PlanDocument(
        catalogue=version,
        currency=currency,
        people=audience.targeted_user_count,
        groups=audience.group_count,
        group_size=question.group_size,
        cap=basis.cap,
        requests=basis.requests,
        market=Market(mu=mu, sigma=sigma, auction=question.auction),
        plans=tuple(
            Outlook(**{name: getattr(one, name) for name in Outlook.__struct_fields__})
            for one in outlooks
        ),
        precision="coarse" if question.coarse else "fine",
        **more,
    )


def _maker(basis: PlanBasis, question: PlanQuestion, **more: Any) -> "OutlookMaker":
    # SciPy loads with these, which would slow down the start of reporting
    from kreach.adsystem.bidding.market import LogNormalMarket  # noqa: PLC0415
    from kreach.adsystem.bidding.outlook import OutlookMaker  # noqa: PLC0415

    mu, sigma = basis.market
    market = LogNormalMarket(mu - log(1_000), sigma, question.auction)  # of one impression
    if question.coarse:
        more["simulated_groups"] = _COARSE_GROUPS
    return OutlookMaker(
        basis.audience,
        market,
        basis.requests,
        basis.cap,
        model=basis.model,
        max_cost_per_reach=basis.max_cost_per_reach,
        max_cost_multiple=MAX_COST_MULTIPLE,
        **more,
    )


def anonymity_cost(basis: PlanBasis, question: PlanQuestion, budget: float) -> AnonymityCost:
    """What the same bidder reaches with these groups, and with groups of one person.

    Both plans are of people who visit as unevenly as the visit model has it, or else the
    audience's dispersion: `visits_by_group`.
    """
    alone = regrouped(basis.audience, 1)
    people = []
    for audience in (basis.audience, alone):
        maker = _maker(
            replace(basis, audience=audience),
            replace(question, coarse=True),
            traffic=visits_by_group(audience, basis.model),
        )
        people.append(maker.for_budget(budget, level=question.level).people)
    return AnonymityCost(budget=budget, people=people[0], people_with_ids=people[1])


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
