"""Does the error of a rehearsal on history predict the error of the flight after it?

python -m benchmarks.study_rehearsal --log VISITS [SPLIT] [--log VISITS [SPLIT] ...]
    [--max-people 60000] [--seeds 1 2]

Only history before the split is read (default: before the median visit). A part of it (0.6, 0.7
and 0.8 of its time) stands for history and the rest for the flight: groups and a visit model are
made of the part, as a build does, and wins among other people are measured in the rest. A rehearsal
does the same inside the part, at a half and at 0.7 of it, twice with people exchanged. Errors are
means over random and spaced wins of 5, 10, 30 and 100 %; at the traffic of history and with
requests counted. The last lines say whether taking off half, or all, of what was rehearsed helps.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.times import as_instant, to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US
from kreach.numeric.meetings import crowded_meeting
from kreach.numeric.types import IntArray
from kreach.publisher.buying import won_rows
from kreach.publisher.directory import Directory, Visits
from kreach.publisher.grouping import AtRandom, ByRates, Strategy
from kreach.publisher.grouping.base import form_groups
from kreach.publisher.people import People
from kreach.publisher.site_model import history_to_fit
from kreach.publisher.sorting_gain import sorting_gain
from kreach.publisher.visit_fit import fit_visit_model
from kreach.publisher.visit_history import VisitHistory
from kreach.publisher.visitor_fit import audience_of, true_reach

GROUP_SIZE = 20
PARTS, CUTS = (0.6, 0.7, 0.8), (0.5, 0.7)
WINS = [(pattern, share) for pattern in ("random", "spaced") for share in (0.05, 0.1, 0.3, 1.0)]
_MIN_WINS = 60
_MIN_DAYS = 1.0


def between(visits: Visits, members: IntArray, people: int, start: float, end: float) -> Visits:
    """The visits of some people, numbered anew, in [start, end)."""
    number = np.full(people, -1, dtype=np.int64)
    number[members] = np.arange(len(members))
    mine = (number[visits.user] >= 0) & (visits.at_us >= start) & (visits.at_us < end)
    return Visits(number[visits.user[mine]], visits.at_us[mine])


def fitted(before: Visits, people: People, strategy: Strategy, seed: int) -> VisitModel | None:
    """As in a build, from a day of history on."""
    groups = form_groups(people, GROUP_SIZE, strategy, seed)
    history = history_to_fit(before, people, groups, strategy, seed)
    try:
        model, _ = fit_visit_model(history, seed=seed, min_days=_MIN_DAYS)
    except ValueError:  # too little history
        return None
    if strategy.name == "random":
        return model
    gain = sorting_gain(before, people, GROUP_SIZE, strategy, seed)
    return replace(model, meetings=crowded_meeting(model.meetings, gain))


def tried(
    visits: Visits,
    halves: tuple[IntArray, IntArray],
    times: tuple[float, float, float],
    strategy: Strategy,
    seed: int,
) -> tuple[float, float] | None:
    """Mean error after a split at history's traffic and counted; None with too little history.

    `halves`: people to fit on and people to buy among; `times`: start, split and end.
    """
    start, split, end = times
    people = int(max(visits.user.max(), *(half.max() for half in halves))) + 1
    known = []
    for members in halves:
        before = between(visits, members, people, start, split)
        known.append((before, People(np.bincount(before.user, minlength=len(members)), {})))
    model = fitted(*known[0], strategy, seed)
    if model is None:
        return None
    group_of = form_groups(known[1][1], GROUP_SIZE, strategy, seed).group_of()
    flight = between(visits, halves[1], people, split, end)
    history = VisitHistory.of(flight.user, group_of, flight.at_us, seed)
    counted = CountedRequests.between(len(history), history.people, split, end).traffic(model)
    generator, hours = np.random.default_rng(5), (end - split) / HOUR_US
    errors = []
    for pattern, share in WINS:
        won = history.where(won_rows(history, pattern, share, generator))
        if len(won) < _MIN_WINS:
            continue
        truth = true_reach(won.person)[0]
        row = []
        for traffic in (1.0, counted):
            audience = audience_of(won)
            draws = draws_in_order(audience, won.group, won.at_us, model, traffic, hours=hours)
            row.append(DrawLaw(draws, model, traffic).reach(1) / truth - 1.0)
        errors.append(row)
    mean = np.mean(errors, axis=0)
    return float(mean[0]), float(mean[1])


def study(name: str, visits: Visits, people: IntArray, seeds: list[int]) -> list[IntArray]:
    """Rows of (error afterwards, error rehearsed), both at history's traffic and counted."""
    start, end = float(visits.at_us[0]), float(visits.at_us[-1]) + 1.0
    rows = []
    strategies: tuple[Strategy, ...] = (AtRandom(), ByRates())
    for strategy in strategies:
        for part in PARTS:
            for seed in seeds:
                chosen = np.random.default_rng(seed).permutation(people)
                first, second = np.sort(chosen[::2]), np.sort(chosen[1::2])
                split = start + part * (end - start)
                later = tried(visits, (first, second), (start, split, end), strategy, seed)
                found = [
                    tried(
                        visits,
                        halves,
                        (start, start + cut * (split - start), split),
                        strategy,
                        seed,
                    )
                    for cut in CUTS
                    for halves in ((first, second), (second, first))
                ]
                rehearsed = [pair for pair in found if pair is not None]
                if later is None or not rehearsed:
                    continue
                row = np.array([later, np.mean(rehearsed, axis=0)])
                rows.append(row)
                text = ", ".join(f"{100 * e:+.1f}" for e in row.ravel())
                print(f"{name}, {strategy.name} groups, part {part}: {text}", flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", nargs="+", action="append", required=True)
    parser.add_argument("--max-people", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args(arguments)
    print("error in percent afterwards, the same with requests counted; rehearsed, counted")
    rows = []
    for visits_file, *split in given.log:
        visits = Directory(Path(visits_file)).visits()
        moment = as_instant("split", split[0]) if split else None
        middle = int(visits.at_us[len(visits) // 2])
        end = middle if moment is None else to_micros(moment)
        count = int(visits.user.max()) + 1
        people = np.random.default_rng(0).permutation(count)[: given.max_people]
        mine = np.isin(visits.user, people) & (visits.at_us < end)
        history = Visits(visits.user[mine], visits.at_us[mine])
        rows += study(Path(visits_file).stem, history, np.sort(people), given.seeds)
    table = 100.0 * np.array(rows)
    for at, name in enumerate(("traffic of history", "requests counted")):
        later, rehearsed = table[:, 0, at], table[:, 1, at]
        off = [float(np.abs(later - share * rehearsed).mean()) for share in (0.0, 0.5, 1.0)]
        correlation = float(np.corrcoef(later, rehearsed)[0, 1])
        print(f"{name}, {len(table)} cases: correlation {correlation:.2f}, mean of absolute errors")
        print(f"  {off[0]:.2f} as it is, {off[1]:.2f} less half, {off[2]:.2f} less all of it")


if __name__ == "__main__":
    main()
