"""The paper's real-world study (Section 5.3) on the user's visits and prices.

History and flight are split in time, and people in two halves: the visit model is fitted on the
history of one, campaigns are people of the other, drawn at random or by the largest values of a
column. Measurement: requests of the flight are won by several patterns and by the buyers, and reach
is measured in windows from an hour to the flight under every approach (`judge.py`). Optimisation:
every buyer gets the same budget in the same auctions; reach and reach per spend are relative to
k = 1 with the paper's bidder, reach also to k = 1 with ours, and both stand beside the hindsight
limit. Our buyer buys again beside a gateway that enforces the cap and forgets after some hours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Outcome
from kreach.lab.buyers import (
    BUYERS,
    buy,
    buy_at_k1,
    buy_with_gateway_cap,
    buy_with_memory,
    full_reach_cost,
    hindsight_reach,
)
from kreach.lab.judge import judge_campaign
from kreach.lab.site import (
    Site,
    StudyCampaign,
    draw_campaigns,
    open_site,
    read_markets,
    restricted_site,
)
from kreach.lab.trials import Progress, generator_for, run_trials, silent
from kreach.numeric.types import IntArray
from kreach.publisher.build import BuildOptions, strategy_named
from kreach.publisher.grouping import Strategy
from kreach.publisher.grouping.base import form_groups
from kreach.publisher.site_model import fit_site_model

__all__ = [
    "BUDGET_SHARES",
    "MEMORIES",
    "StudyOptions",
    "evaluate",
    "site_of",
    "strategies_of",
    "tasks_of",
]

BUDGET_SHARES = (0.05, 0.2, 0.6)  # of what reaching everybody costs in hindsight at k = 1
OTHER_STRATEGY_BUYERS = (
    "uniform",
    "planning_visitors",
)  # run on the other strategies
JUDGED_BUYERS = ("uniform", "planning", "planning_visitors")  # whose own wins are measured
MEMORIES = {  # hours for which the gateway remembers whom it showed the ad
    "none": 0.0,
    "30 minutes": 0.5,
    "4 hours": 4.0,
    "day": 24.0,
    "3 days": 72.0,
    "flight": inf,
}
_CAP = 1

Row = dict[str, Any]
_Bought = dict[float, dict[str, Outcome]]  # by share of the budget and buyer


@dataclass(frozen=True)
class StudyOptions:
    """All options of a study of logs."""

    visits: Path
    prices: Path
    group_size: int = 20
    strategy: str = "random"
    others: tuple[str, ...] = ("rates",)  # strategies to compare with
    segments: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    split: datetime | None = None
    campaigns: int = 10
    campaign_size: int = 5_000
    by_segment: str | None = None
    seed: int = 0
    processes: int | None = None

    def __post_init__(self) -> None:
        as_whole_number("group_size", self.group_size, minimum=1)
        as_whole_number("campaigns", self.campaigns, minimum=1, maximum=1000)
        as_whole_number("campaign_size", self.campaign_size, minimum=10)
        as_whole_number("seed", self.seed, minimum=0)
        for name in (self.strategy, *self.others):
            if name == "overlapping":
                raise KreachError.rule("strategy", "build disjoint groups", name)
            if name == "attributes" and not self.attributes:
                rule = "come with columns (segments) to group by"
                raise KreachError.rule("strategy", rule, name)
        if self.processes is not None:
            as_whole_number("processes", self.processes, minimum=1, maximum=1024)


def strategies_of(options: StudyOptions) -> dict[str, Strategy]:
    """The requested strategies, the main one first."""
    strategies = {}
    for name in dict.fromkeys((options.strategy, *options.others)):
        build = BuildOptions(
            options.visits,
            options.group_size,
            name,
            Path(),
            attributes=options.attributes,
            segments=options.segments,
        )
        strategies[name] = strategy_named(build)
    return strategies


@dataclass(frozen=True, eq=False)
class _Reference:
    """What a budget reaches at k = 1: with the paper's bidder and with ours."""

    share: float  # of what reaching everybody costs
    budget: float
    paper: Outcome
    own: Outcome


@dataclass(frozen=True, eq=False)
class Task:
    """One campaign of a study with all its inputs, for a worker process."""

    at: int
    campaign: StudyCampaign
    strategies: dict[str, Strategy]
    group_size: int
    seed: int
    models: dict[str, VisitModel | None]  # by strategy

    def grouped(self, strategy: str) -> GroupedCampaign:
        return GroupedCampaign(
            self.campaign,
            self.strategies[strategy],
            self.group_size,
            self.seed + self.at,
            self.models[strategy],
        )


def evaluate(options: StudyOptions, progress: Progress = silent) -> tuple[Site, list[Row]]:
    """All rows of the study, one per campaign and setting.

    Their kinds are "measurement", "optimisation" and "gateway_memory".
    """
    progress("reading visits and prices")
    site = site_of(options)
    tasks = tasks_of(options, site, progress)
    results = run_trials(
        study_campaign, tasks, processes=options.processes, progress=progress, what="campaigns"
    )
    return site, [row for rows in results for row in rows]


def site_of(options: StudyOptions) -> Site:
    """The visits of a study, with the columns that it groups or targets by."""
    names = dict.fromkeys((*options.segments, *options.attributes))
    if options.by_segment is not None:
        names[options.by_segment] = None
    return open_site(options.visits, options.split, tuple(names), options.by_segment)


def tasks_of(
    options: StudyOptions, site: Site, progress: Progress = silent, *, replays: bool = True
) -> list[Task]:
    """The campaigns of a study, ready to run: one half of the people; models from the other."""
    strategies = strategies_of(options)
    chosen = generator_for(options.seed, 0).permutation(site.people.count)
    half = site.people.count // 2
    pool, others = np.sort(chosen[:half]), np.sort(chosen[half:])
    size = min(options.campaign_size, len(pool))
    if size < 2 * options.group_size:
        rule = f"be small enough for two groups in a campaign of {size}"
        raise KreachError.rule("group_size", rule, options.group_size)
    markets = read_markets(options.prices)
    campaigns = draw_campaigns(
        site, markets, options.campaigns, size, options.seed, options.by_segment, pool
    )
    models = {}
    for name, strategy in strategies.items():
        models[name] = fitted_model(
            site, others, strategy, options.group_size, options.seed, progress, replays=replays
        )
    return [
        Task(at, campaign, strategies, options.group_size, options.seed, models)
        for at, campaign in enumerate(campaigns)
    ]


def fitted_model(
    site: Site,
    members: IntArray,
    strategy: Strategy,
    group_size: int,
    seed: int,
    progress: Progress = silent,
    *,
    replays: bool = True,
) -> VisitModel | None:
    """The visit model of some of the people, from their history; None if that is too short."""
    if group_size < 2 or len(members) < 2 * group_size:
        return None
    people, before = restricted_site(site, members)
    groups = form_groups(people, group_size, strategy, seed)
    found = fit_site_model(before, people, groups, strategy, seed, progress, replays=replays)
    return found.model


def study_campaign(task: Task) -> list[Row]:
    """All rows of one campaign."""
    rows = []
    references = _references(task)
    for at, strategy in enumerate(task.strategies):
        grouped = task.grouped(strategy)
        buyers: Sequence[str] = list(BUYERS) if at == 0 else OTHER_STRATEGY_BUYERS
        purchases, bought = _purchases(references, grouped, strategy, buyers, with_limits=at == 0)
        generator = generator_for(task.seed, 2, task.at)
        base = {"kind": "measurement", "campaign": task.campaign.name, "strategy": strategy}
        rows += judge_campaign(grouped, _judged_wins(bought), generator, base)
        rows += purchases
        rows += _gateway_memories(references, grouped, strategy, bought)
    return rows


def _judged_wins(bought: _Bought) -> dict[str, IntArray]:
    return {
        f"{name.replace('_', ' ')}, budget {share:.0%}": outcomes[name].won
        for share, outcomes in bought.items()
        for name in JUDGED_BUYERS
        if name in outcomes
    }


def _gateway_memories(
    references: Sequence[_Reference], grouped: GroupedCampaign, strategy: str, bought: _Bought
) -> list[Row]:
    """Our buyer beside a gateway that remembers for each of the times, at all budgets.

    Beside one that remembers nothing it has bought already.
    """
    if grouped.model is None:
        return []
    rows = []
    for known in references:
        budget, reference = known.budget, known.paper
        for name, hours in MEMORIES.items():
            if hours:
                outcome = buy_with_memory(grouped, budget, _CAP, hours)
            else:
                outcome = bought[known.share]["planning_visitors"]
            rows.append(
                {
                    "kind": "gateway_memory",
                    "campaign": grouped.campaign.name,
                    "strategy": strategy,
                    "memory": name,
                    "budget_share": known.share,
                    "budget": budget,
                    "spend": outcome.spend,
                    "impressions": outcome.impressions,
                    "reach": outcome.reach,
                    "measured_reach": outcome.expected_reach,
                    "reference_reach": reference.reach,
                    "relative_reach": outcome.reach / max(reference.reach, 1),
                }
            )
    return rows


def _references(task: Task) -> list[_Reference]:
    """Everybody known, at each budget; our bidder has the visit model of the main strategy."""
    campaign, model = task.campaign, next(iter(task.models.values()))
    everybody = full_reach_cost(campaign)
    return [
        _Reference(
            share,
            share * everybody,
            buy_at_k1(campaign, share * everybody, _CAP),
            buy_at_k1(campaign, share * everybody, _CAP, planning=True, model=model),
        )
        for share in BUDGET_SHARES
    ]


def _purchases(
    references: Sequence[_Reference],
    grouped: GroupedCampaign,
    strategy: str,
    buyers: Sequence[str],
    *,
    with_limits: bool,
) -> tuple[list[Row], _Bought]:
    """Rows of all buyers at all budgets, and what they bought."""
    bought: _Bought = {}
    rows = []
    limits = hindsight_reach(grouped, [reference.budget for reference in references])
    for reference, limit in zip(references, limits, strict=True):
        share, budget = reference.share, reference.budget
        outcomes = {name: buy(name, grouped, budget, _CAP) for name in buyers}
        bought[share] = dict(outcomes)
        if with_limits:
            outcomes["gateway_cap"] = buy_with_gateway_cap(grouped, budget, _CAP)
            outcomes["planning_k1"] = reference.own
        base = {"campaign": grouped.campaign.name, "strategy": strategy, "hindsight_reach": limit}
        rows += [
            _purchase_row(base, name, outcome, reference) for name, outcome in outcomes.items()
        ]
    return rows, bought


def _purchase_row(base: Row, name: str, outcome: Outcome, reference: _Reference) -> Row:
    paper, own = reference.paper, reference.own
    return {
        "kind": "optimisation",
        **base,
        "approach": name,
        "budget_share": reference.share,
        "budget": reference.budget,
        "spend": outcome.spend,
        "impressions": outcome.impressions,
        "reach": outcome.reach,
        "reported_reach": outcome.expected_reach,  # by the buyer itself, of its own wins
        "reference_reach": paper.reach,
        "own_k1_reach": own.reach,
        "relative_reach": outcome.reach / max(paper.reach, 1),
        "relative_own_k1": outcome.reach / max(own.reach, 1),
        "relative_roas": _per_spend(outcome) / max(_per_spend(paper), 1e-12),
        "relative_hindsight": base["hindsight_reach"] / max(paper.reach, 1),
        "share_of_hindsight": outcome.reach / max(base["hindsight_reach"], 1e-12),
    }


def _per_spend(outcome: Outcome) -> float:
    return outcome.reach / outcome.spend if outcome.spend > 0.0 else 0.0
