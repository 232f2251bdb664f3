"""Plans: what budgets will reach before a flight, with limits on the computation.

All plans of reporting are made here, from a `PlanBasis`. `flight_plans.py` says what the basis of a
campaign is, and of a flight that no campaign has yet.
"""

import time
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE
from kreach.adsystem.reports.questions import PlanQuestion
from kreach.adsystem.reports.report import AnonymityCost, Market, Outlook, PlanDocument
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.bidding.outlook import OutlookMaker

__all__ = ["PlanBasis", "SampledGroups", "anonymity_cost", "make_plan", "sample_groups"]

_MAX_GROUPS = 20_000_000
_MAX_PROFILES = 500  # each flight is measured group by group
_MAX_KINDS = 500
_MAX_PER_GROUP = 5_000
_MAX_SECONDS = 60.0
_COARSE_GROUPS = 5_000
_MAX_REGROUPED = 300_000  # groups that are made; as many as a fine plan draws visits of
_MIN_TARGETED = 1_000  # people in them, if there are more


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
    groups = _groups(basis.audience, question.group_size)
    _check_work(groups, basis.requests)
    maker = _maker(basis, groups, question)
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
        people=basis.audience.targeted_user_count,
        groups=groups.count,
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


def _maker(basis: PlanBasis, groups: "SampledGroups", question: PlanQuestion) -> "OutlookMaker":
    # SciPy loads with these, which would slow down the start of reporting
    from kreach.adsystem.bidding.market import LogNormalMarket  # noqa: PLC0415
    from kreach.adsystem.bidding.outlook import OutlookMaker  # noqa: PLC0415

    mu, sigma = basis.market
    market = LogNormalMarket(mu - log(1_000), sigma, question.auction)  # of one impression
    return OutlookMaker(
        groups.audience,
        market,
        basis.requests,
        basis.cap,
        model=basis.model,
        max_cost_per_reach=basis.max_cost_per_reach,
        max_cost_multiple=MAX_COST_MULTIPLE,
        simulated_groups=_COARSE_GROUPS if question.coarse else None,
        stands_for=groups.stands_for,
    )


def anonymity_cost(basis: PlanBasis, question: PlanQuestion, budget: float) -> AnonymityCost:
    """What the same bidder reaches with these groups, and with groups of one person.

    Both are what plans say: the second one that of `group_size` 1.
    """
    people = [
        _maker(basis, _groups(basis.audience, size), question)
        .for_budget(budget, level=question.level)
        .people
        for size in (question.group_size, 1)
    ]
    return AnonymityCost(budget=budget, people=people[0], people_with_ids=people[1])


@dataclass(frozen=True, eq=False)
class SampledGroups:
    """People in `count` groups; `audience` has all of them, or one in `stands_for`."""

    audience: Audience
    count: int
    stands_for: float = 1.0


def _groups(audience: Audience, group_size: int | None) -> SampledGroups:
    if group_size is None:
        return SampledGroups(audience, audience.group_count)
    return sample_groups(audience, group_size)


def sample_groups(
    audience: Audience, group_size: int, max_groups: int = _MAX_REGROUPED
) -> SampledGroups:
    """The same people in groups of about this size, as even as can be; visits stay as uneven.

    Targeted people are spread evenly too. Only for disjoint groups with one dispersion. Of more
    than `max_groups` groups a part is made, with groups, people and targeted ones in proportion.
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
    dispersion = audience.kinds.dispersion
    if (dispersion != dispersion[0]).any():
        rule = "be left out: groups differ in how unevenly their people visit"
        raise KreachError.rule("group_size", rule, group_size)
    count = people // group_size  # each has at least so many
    few = -(-_MIN_TARGETED * count // max(targeted, 1))
    made = min(count, max(max_groups, few))
    ends = np.arange(made + 1) * -(-people * made // count) // made
    sizes = np.diff(ends)
    aimed_at = np.diff(ends * targeted // people)
    groups = Audience.disjoint(sizes, aimed_at, float(dispersion[0]))
    return SampledGroups(groups, count, count / made)


def _check_work(groups: SampledGroups, requests: int) -> None:
    audience, count = groups.audience, groups.count
    limit = _MAX_PROFILES if isinstance(audience, ProfiledAudience) else _MAX_GROUPS
    if audience.group_count > limit:
        rule = f"have at most {limit} groups to plan on"
        raise KreachError.rule("audience", rule, audience.group_count)
    if isinstance(audience, DisjointAudience) and len(audience.kinds) > _MAX_KINDS:
        rule = f"have at most {_MAX_KINDS} kinds of groups to plan on"
        raise KreachError.rule("audience", rule, len(audience.kinds))
    if requests > count * _MAX_PER_GROUP:
        rule = f"be at most {_MAX_PER_GROUP} per group, {count * _MAX_PER_GROUP} in all"
        raise KreachError.rule("requests", rule, requests)
