"""Table 1 (Section 5.3): what each approach keeps of the ROAS without anonymity.

Groups of 20 are formed over a whole platform; a campaign's auctions come only from the people that
it targets. The sweep over the share of people targeted shows where the paper's order and levels
appear, and what it gains to count with the visible members of a group instead of all 20.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from kreach.errors import KreachError
from kreach.lab.auctions import Outcome, Stream, run_auctions
from kreach.lab.exhibits import Exhibit
from kreach.lab.figures import fig6
from kreach.lab.figures.bidders import PLANS, ahead_bidder, paper_bidder
from kreach.lab.figures.table1_figure import draw_table1
from kreach.lab.figures.table1_numbers import (
    BY_PAPER,
    PAPER_MEANS,
    PAPER_VARIANCES,
    order_of,
    sweep_table,
    table_numbers,
)
from kreach.lab.scenarios import APPROACHES, CAMPAIGNS, PaperCampaign, Run
from kreach.lab.targeted import target
from kreach.lab.trials import generator_for, run_trials
from kreach.numeric.types import IntArray

__all__ = ["make"]

CAP = 1
BUDGETS = np.geomspace(0.01, 0.5, CAMPAIGNS)  # median prices per targeted person
SHARE = 0.08  # of the platform's people that a campaign targets, in the table
SHARES = (0.03, 0.05, SHARE, 0.12, 0.2, 0.5, 1.0)  # in the sweep
FEW_SHARES = (0.03, SHARE, 1.0)
DRAWS = 3  # of groups, for each campaign and share
AHEAD = ("uniform", "profiled", "visible", "visible_dispersed")  # planned ahead as well
FEW_AHEAD = ("uniform", "visible_dispersed")


@dataclass(frozen=True)
class _Task:
    place: int
    campaign: PaperCampaign
    shares: tuple[float, ...]
    draws: int
    ahead: tuple[str, ...]
    seed: int


def make(run: Run) -> Exhibit:
    """ROAS of ten campaigns relative to the same bidder when everybody is known (k = 1)."""
    shares, draws = run.either(SHARES, FEW_SHARES), run.either(DRAWS, 1)
    ahead = run.either(AHEAD, FEW_AHEAD)
    tasks = [
        _Task(i, campaign, shares, draws, ahead, run.seed)
        for i, campaign in enumerate(run.campaigns)
    ]
    parts = run_trials(
        _campaign, tasks, processes=run.processes, progress=run.progress, what="table1: campaigns"
    )
    rows = [row for part in parts for row in part]
    numbers = table_numbers(rows, shares, SHARE)
    paper: dict[str, Any] = {"order": order_of(PAPER_MEANS)}
    paper.update({f"{a}_mean": mean for a, mean in PAPER_MEANS.items()})
    paper.update({f"{a}_variance": variance for a, variance in PAPER_VARIANCES.items()})
    return Exhibit(
        "table1",
        "Table 1: ROAS relative to no anonymity, over ten campaigns",
        BY_PAPER,
        _finding(numbers),
        _difference(numbers),
        {
            **run.campaign_setting(),
            "people": "targeted at random from a platform whose groups hold everybody",
            "share of people targeted": f"{SHARE:.0%}; sweep {shares[0]:.0%} to {shares[-1]:.0%}",
            "draws of groups": draws,
            "cap": CAP,
            "budget per person": f"{BUDGETS[0]:g} to {BUDGETS[-1]:g} median prices",
            "plans in a flight": PLANS,
            "reference": "the paper's bidder at k = 1, same campaign and budget",
            "measured": f"{fig6.WON_SHARES[0]:.0%} to {fig6.WON_SHARES[-1]:.0%} of requests, "
            "won at random as in Figure 6",
        },
        numbers,
        rows,
        paper=paper,
        figure=draw_table1(rows, numbers, SHARE),
        table=sweep_table(numbers),
    )


class _Flight:
    """The auctions of one campaign under one budget; `reference` knows everybody."""

    def __init__(self, task: _Task) -> None:
        self.campaign = task.campaign
        self.people, self.requests = len(task.campaign.group_of), len(task.campaign.person)
        self.budget = float(BUDGETS[task.place]) * self.people
        self.won = fig6.won_requests(task.campaign, task.place, task.seed)
        self.alone = kr.Audience.disjoint(np.ones(self.people, dtype=np.int64))
        self.reference = self.paper(self.alone, task.campaign.person)
        if self.reference.spend == 0.0:
            rule = f"let a budget of {self.budget:.3g} medians buy"
            raise KreachError.rule("prices", rule, "no win")

    def paper(self, audience: kr.Audience, group: IntArray) -> Outcome:
        valuation = kr.CapValuation(audience, CAP)
        return self._run(paper_bidder(valuation, self.budget, self.requests), group)

    def ahead(self, audience: kr.Audience, group: IntArray) -> Outcome:
        return self._run(ahead_bidder(audience, CAP, self.budget, self.requests), group)

    def _run(self, bidder: Bidder, group: IntArray) -> Outcome:
        at = np.arange(self.requests, dtype=float)
        stream = Stream(self.campaign.person, group, at, self.campaign.price, self.people)
        return run_auctions(bidder, stream, CAP)

    def row(self, approach: str, outcome: Outcome) -> dict[str, Any]:
        return {
            "approach": approach,
            "reach": outcome.reach,
            "spend": outcome.spend,
            "impressions": outcome.impressions,
            "relative_roas": _roas(outcome) / _roas(self.reference),
            "relative_reach": outcome.reach / self.reference.reach,
            "spent_share": outcome.spend / self.budget,
        }

    def measured_error(self, audience: kr.Audience, group: IntArray) -> float:
        """Relative error of unique reach, for requests won at random."""
        truth = len(np.unique(self.campaign.person[self.won]))
        impressions = np.bincount(group[self.won], minlength=audience.group_count)
        return kr.measure(audience, impressions, CAP).reach / truth - 1.0


def _campaign(task: _Task) -> list[dict[str, Any]]:
    """Every approach on one campaign with one budget, at every share of people targeted."""
    flight = _Flight(task)
    head = {"campaign": task.place, "budget": flight.budget}
    person = task.campaign.person
    rows = [
        {**head, **flight.row("alone", flight.reference)},
        {**head, **flight.row("alone_ahead", flight.ahead(flight.alone, person))},
    ]
    for share, draw in product(task.shares, range(task.draws)):
        generator = generator_for(task.seed, 52, task.place, round(1000 * share), draw)
        targeted = target(task.campaign, share, generator)
        group = targeted.group_of[person]
        place = {**head, "share": share, "draw": draw, "groups": targeted.group_count}
        place.update(targeted.members())
        for approach, audience in targeted.audiences.items():
            own = flight.row(approach, flight.paper(audience, group))
            error = flight.measured_error(audience, group)
            rows.append({**place, **own, "measured_error": error})
        if share == SHARE and draw == 0:
            for approach in task.ahead:
                own = flight.row(
                    f"{approach}_ahead", flight.ahead(targeted.audiences[approach], group)
                )
                rows.append({**place, **own})
    return rows


def _roas(outcome: Outcome) -> float:
    return outcome.reach / outcome.spend if outcome.spend > 0.0 else 0.0


def _finding(numbers: dict[str, Any]) -> str:
    letters = [
        f"{APPROACHES[a][0]} {numbers[f'{a}_mean']:.1%} ({numbers[f'{a}_variance']:.3f})"
        for a in PAPER_MEANS
    ]
    same = "as in" if numbers["order"] == order_of(PAPER_MEANS) else "unlike"
    in_order = ", ".join(f"{share:.0%}" for share in numbers["shares_in_order"])
    by_share = list(numbers["by_share"].values())
    errors = numbers["by_share"][f"{SHARE:g}"]["measurement"]
    miss = {a: f"{errors[a]['mean_error']:+.0%}" for a in ("uniform", "visible")}
    miss["both"] = f"{errors['visible_dispersed']['mean_error']:+.0%}"
    return (
        f"With {SHARE:.0%} of people targeted, a group of 20 has "
        f"{numbers['visible_members']:.1f} visible members, worth "
        f"{numbers['effective_members']:.1f} equally frequent ones. Mean (variance): "
        f"{', '.join(letters)}; {numbers['order']}, {same} the paper. In the sweep the paper's "
        f"order appears at {in_order or 'no share'}, its levels are closest at "
        f"{numbers['closest_share']:.0%}, and with everybody targeted the order is "
        f"{by_share[-1]['order']}. Counting with visible members instead of 20, C keeps "
        f"{numbers['visible_mean']:.1%} ({_points(numbers, 'visible_over_uniform')} points more) "
        f"and its mean error of unique reach is {miss['visible']} instead of {miss['uniform']}; "
        f"with one dispersion as well {numbers['visible_dispersed_mean']:.1%} and {miss['both']}. "
        f"Planned ahead, visible members with one dispersion get "
        f"{numbers['visible_dispersed_ahead_mean']:.1%}, C {numbers['uniform_ahead_mean']:.1%}, "
        f"and {numbers['alone_ahead_mean']:.1%} is had without anonymity."
    )


def _difference(numbers: dict[str, Any]) -> str:
    here = numbers["by_share"][f"{SHARE:g}"]
    return (
        "Stated by the paper: random groups of 20 over a platform, ten campaigns, cap 1, the "
        "bidder of Section 5.2, and that all members of a group are taken as targeted. Not stated: "
        "budgets, prices, and how many members of a group a campaign's auctions came from. "
        "Inferred by us: that they came from few, that C counted all 20 as its audience, and that "
        "D took its shares from the campaign's own requests. "
        "With targeted counts of 20 (Theorems 1 and 4 with U_j) C would keep "
        f"{here['relative_roas']['targeted']:.0%} and measure "
        f"{here['measurement']['targeted']['mean_error']:+.0%}; the paper's C keeps 87 % and "
        "measures too much. With the visit shares of all 20 members D would keep "
        f"{here['relative_roas']['profiled_all']:.1%} and measure "
        f"{here['measurement']['profiled_all']['mean_error']:+.0%}; the paper's D is the most "
        "accurate. The share in the table and the range of budgets were chosen to come near the "
        "paper's levels, so the levels are no test; where in the sweep the order appears is "
        "evidence, not proof. Our campaigns differ in budget only; the paper's "
        "variances may have more causes. D leads in "
        f"{here['campaigns_led_by_profiled']} of {CAMPAIGNS} campaigns, and is ahead of C by "
        f"{_points(numbers, 'profiled_over_uniform')} points on average; in the paper by 7.2."
    )


def _points(numbers: dict[str, Any], lead: str) -> str:
    return f"{100.0 * numbers[lead]:+.1f} ± {100.0 * numbers[f'{lead}_error']:.1f}"
