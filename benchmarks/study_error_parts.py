"""Why a report of reach is off: the same wins, with one unknown after the other made known.

python -m benchmarks.study_error_parts --visits F --prices F [--split T] [--seeds 3 4 5 6 7 8]
    [--campaign-size 5000] [--won 0.05 0.3]

History before the split, flight after it, people split in two, as in `kreach evaluate`; each seed
splits people anew and draws one campaign. Wins are a random share of its requests.
Errors of unique reach in percent, mean ± deviation over seeds:

    report        as the ad system reports it: model of history, other people
    sessions      the same with the true number of sessions that were won in each group
    flight        the same with a model fitted on the flight of those other people: no drift
    same people   the same with a model fitted on the flight of the campaign's own people
    groups        no model: who is in each group and how often they come is known, wins are random
    ahead         as `report`, of a model fitted on the later half of history in groups of those
                  who were seen in the earlier half: without people who come for the first time

Two columns that differ show what the step between them costs; `groups` is what chance leaves.
Traffic: requests of the flight over those that the model knows, in the same hours of the day.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import gammaln

from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.draw_cells import WindowDraws, fold_draws
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.times import HOUR_SECONDS, MICROS, as_instant
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.evaluate import StudyOptions, Task, site_of, tasks_of
from kreach.lab.site import Site, restricted_site
from kreach.lab.trials import generator_for
from kreach.numeric.draws import sum_by
from kreach.numeric.meetings import PART_US, calendar, crowded_meeting
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.grouping import Strategy, form_groups
from kreach.publisher.sorting_gain import people_seen
from kreach.publisher.visit_fit import fit_visit_model
from kreach.publisher.visit_history import VisitHistory, sessions

COLUMNS = ("report", "sessions", "flight", "same people", "groups", "ahead")


@dataclass(frozen=True, eq=False)
class Known:
    """A campaign in groups, its sessions, and models of the flight and of those seen."""

    grouped: GroupedCampaign
    session: IntArray  # of each request of the flight
    at_us: IntArray
    flight: VisitModel
    same_people: VisitModel
    ahead: VisitModel | None

    def errors(self, won: IntArray) -> list[float]:
        """By column: measured / true − 1 of these wins."""
        grouped, person = self.grouped, self.grouped.campaign.person
        assert grouped.model is not None
        truth = len(np.unique(person[won]))
        _, first = np.unique(self.session[won], return_index=True)
        visits = won[first]  # one request of each session that was won
        measured = [grouped.measure_reach("model", won)]
        models = (grouped.model, self.flight, self.same_people)
        measured += [self._reach_of_sessions(won, visits, model) for model in models]
        measured.append(self._reach_in_known_groups(visits))
        ahead = np.nan
        if self.ahead is not None:
            ahead = replace(grouped, model=self.ahead).measure_reach("model", won)
        return [reach / truth - 1.0 for reach in (*measured, ahead)]

    def _reach_of_sessions(self, won: IntArray, visits: IntArray, model: VisitModel) -> float:
        """The model's reach where it is known which impressions are one session."""
        groups, count = self.grouped.groups, len(self.grouped.sizes)
        audience = Audience.disjoint(self.grouped.sizes)
        assert isinstance(audience, DisjointAudience)
        impressions = np.bincount(groups[won], minlength=count)
        draws = np.bincount(groups[visits], minlength=count).astype(np.float64)
        cells = fold_draws(audience, impressions, draws, np.zeros(count))
        days = calendar(self.at_us[visits] // PART_US, np.ones(len(visits)))
        hours = self.grouped.campaign.seconds / HOUR_SECONDS
        return DrawLaw(WindowDraws(cells, days, hours), model).reach(1)

    def _reach_in_known_groups(self, visits: IntArray) -> float:
        """Expected reach if the sessions won in each group were any of its sessions."""
        campaign, group_of = self.grouped.campaign, self.grouped.group_of
        person = np.zeros(int(self.session.max()) + 1, dtype=np.int64)
        person[self.session] = campaign.person
        own = np.bincount(person, minlength=campaign.people.count).astype(np.float64)
        every = sum_by(group_of, own, len(self.grouped.sizes))[group_of]
        drawn = np.bincount(self.grouped.groups[visits], minlength=len(self.grouped.sizes))
        missed = _none_of(own, every, drawn[group_of].astype(np.float64))
        return float((1.0 - missed)[own > 0.0].sum())


def _none_of(own: FloatArray, every: FloatArray, drawn: FloatArray) -> FloatArray:
    """P(no session of a person): C(every − own, drawn) / C(every, drawn)."""
    left = every - own - drawn
    log = gammaln(every - own + 1.0) - gammaln(np.maximum(left, 0.0) + 1.0)
    log += gammaln(every - drawn + 1.0) - gammaln(every + 1.0)
    result: FloatArray = np.where(left >= 0.0, np.exp(log), 0.0)
    return result


def _fitted(history: VisitHistory, seed: int) -> VisitModel:
    """The model of a whole window: not moved to the level of its last weeks."""
    model, quality = fit_visit_model(history, seed=seed)
    return replace(
        model,
        continuation_odds=model.continuation_odds * quality.recent_traffic,
        meetings=crowded_meeting(model.meetings, 1.0 / quality.recent_crowding),
        requests_per_person_day=model.requests_per_person_day / quality.recent_traffic,
    )


def _ahead(
    site: Site, others: IntArray, strategy: Strategy, size: int, seed: int
) -> VisitModel | None:
    people, visits = restricted_site(site, others)
    half = len(visits) // 2
    then, number = people_seen(np.bincount(visits.user[:half], minlength=people.count), people)
    if then.count < 2 * size:
        return None
    groups = form_groups(then, size, strategy, seed).group_of()
    user, at_us = number[visits.user[half:]], visits.at_us[half:]
    try:
        return fit_visit_model(VisitHistory.of(user[user >= 0], groups, at_us[user >= 0], seed))[0]
    except KreachError:
        return None  # too few of them came again


def known(task: Task, site: Site, strategy: str) -> Known:
    """Everything that the columns need."""
    grouped, seed = task.grouped(strategy), task.seed
    campaign, way, size = grouped.campaign, task.strategies[strategy], task.group_size
    half = site.people.count // 2  # as `tasks_of` splits people
    others = np.sort(generator_for(seed, 0).permutation(site.people.count)[half:])
    groups = np.full(site.people.count, -1, dtype=np.int64)
    groups[others] = form_groups(restricted_site(site, others)[0], size, way, seed).group_of()
    number = np.cumsum(groups >= 0) - 1
    theirs = groups[site.after.user] >= 0
    after = VisitHistory.of(
        number[site.after.user[theirs]], groups[others], site.after.at_us[theirs], seed
    )
    at_us = np.round(campaign.at * MICROS).astype(np.int64) + campaign.starts_us
    own = VisitHistory.of(campaign.person, grouped.group_of, at_us, seed)
    return Known(
        grouped,
        sessions(campaign.person, at_us)[0],
        at_us,
        _fitted(after, seed),
        _fitted(own, seed),
        _ahead(site, others, way, size, seed),
    )


def random_wins(found: Known, share: float, seed: int) -> IntArray:
    """A random share of the campaign's requests."""
    chances = np.random.default_rng([0, seed]).random(len(found.grouped.campaign.person))
    return np.flatnonzero(chances < share)


def _traffic(grouped: GroupedCampaign) -> float:
    campaign = grouped.campaign
    end_us = campaign.starts_us + campaign.seconds * MICROS
    counted = CountedRequests.between(
        len(campaign.person), grouped.sizes.sum(), campaign.starts_us, end_us
    )
    assert grouped.model is not None
    return counted.ratio(grouped.model)


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--split", default=None)
    parser.add_argument("--strategies", nargs="+", default=["random", "rates"])
    parser.add_argument("--campaign-size", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5, 6, 7, 8])
    parser.add_argument("--won", type=float, nargs="+", default=[0.05, 0.3])
    given = parser.parse_args(arguments)
    rows: dict[tuple[str, float], list[list[float]]] = {}
    traffic: dict[str, list[float]] = {}
    for seed in given.seeds:
        options = StudyOptions(
            visits=given.visits,
            prices=given.prices,
            strategy=given.strategies[0],
            others=tuple(given.strategies[1:]),
            split=None if given.split is None else as_instant("split", given.split),
            campaigns=1,
            campaign_size=given.campaign_size,
            seed=seed,
        )
        site = site_of(options)
        task = tasks_of(options, site, replays=False)[0]
        for strategy in given.strategies:
            if task.models[strategy] is None:
                continue
            found = known(task, site, strategy)
            traffic.setdefault(strategy, []).append(_traffic(found.grouped))
            for share in given.won:
                won = random_wins(found, share, seed)
                rows.setdefault((strategy, share), []).append(found.errors(won))
    print(f"errors in percent, {len(given.seeds)} seeds: {' | '.join(COLUMNS)}")
    for (strategy, share), table in rows.items():
        values = 100.0 * np.array(table)
        each = zip(values.mean(axis=0), values.std(axis=0), strict=True)
        text = " | ".join(
            "too little history" if np.isnan(mean) else f"{mean:+.1f} ± {spread:.1f}"
            for mean, spread in each
        )
        print(f"{strategy} groups, won {share:.0%}: {text}", flush=True)
    for strategy, ratios in traffic.items():
        print(f"traffic in {strategy} groups: {np.mean(ratios):.2f}")


if __name__ == "__main__":
    main()
