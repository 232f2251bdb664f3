"""How right unions and overlaps of campaigns are on a flight that nothing was fitted to.

    python -m benchmarks.study_sets --visits F [--split T] [--end T] [--group-size K]

Groups and visit model are built on history, as in `study_visit_model`. In the flight after it two
or three campaigns win different requests, by patterns of their own, side by side or one in each
half of the flight. In a cell: 100 (measured / true − 1), the root of its mean square, and of 100
intervals at 95 % those that held the truth, for people (cap 1). Beside the visit model stand one
dispersion, uniform visits, and campaigns taken for independent: the overlap of two is the product
of the shares of people that each reached, by the visit model.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import kreach as kr
from benchmarks.study_visit_model import (
    Flight,
    add_flight_arguments,
    flight_of,
    won_requests,
)
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.visit_history import VisitHistory

__all__ = ["Case", "main", "study"]

LEVEL = 0.95
SHARES = (0.02, 0.1, 0.3)
_MIN_PEOPLE = 30

SCENARIOS: dict[str, tuple[tuple[str, str], ...]] = {
    # name: (pattern, when) of each campaign
    "random, random": (("random", "all"), ("random", "all")),
    "random, burst": (("random", "all"), ("burst", "all")),
    "night, office": (("night", "all"), ("office", "all")),
    "spaced, first": (("spaced", "all"), ("first of each group", "all")),
    "random then random": (("random", "first half"), ("random", "second half")),
    "burst then spaced": (("burst", "first half"), ("spaced", "second half")),
    "three": (("random", "all"), ("night", "all"), ("spaced", "all")),
}


@dataclass(frozen=True)
class Case:
    """One figure of one combination."""

    scenario: str
    share: float
    figure: str  # union, overlap, only
    truth: float
    model: float
    dispersed: float
    uniform: float
    independent: float
    low: float
    high: float


def study(flight: Flight, campaigns: int, seed: int, targeted_groups: float) -> Iterator[Case]:
    """All scenarios, on random subsets of the groups."""
    generator = np.random.default_rng(seed)
    for _ in range(campaigns):
        chosen = generator.random(len(flight.requests.sizes)) < targeted_groups
        requests = flight.requests.of_groups(chosen)
        for name, campaign in SCENARIOS.items():
            for share in SHARES:
                parts = _won(requests, campaign, share, generator)
                yield from _cases(requests, flight, parts, name, share)


def _won(
    requests: VisitHistory,
    campaigns: Sequence[tuple[str, str]],
    share: float,
    generator: np.random.Generator,
) -> list[IntArray]:
    """Rows that each campaign wins; a request is won once."""
    free = np.ones(len(requests), dtype=bool)
    middle = (int(requests.at_us.min()) + int(requests.at_us.max())) // 2
    result = []
    for pattern, when in campaigns:
        inside = _inside(requests, when, middle) & free
        rows = np.flatnonzero(inside)
        won = rows[won_requests(requests.where(rows), pattern, share, generator)]
        free[won] = False
        result.append(np.sort(won))
    return result


def _inside(requests: VisitHistory, when: str, middle: int) -> BoolArray:
    if when == "all":
        return np.ones(len(requests), dtype=bool)
    early: BoolArray = requests.at_us < middle
    return early if when == "first half" else ~early


def _cases(
    requests: VisitHistory, flight: Flight, parts: list[IntArray], scenario: str, share: float
) -> Iterator[Case]:
    people = int(requests.sizes.sum())
    names = [f"c{at}" for at in range(len(parts))]
    reached = np.stack(
        [np.bincount(requests.person[rows], minlength=requests.person.max() + 1) for rows in parts]
    )
    inside = (reached > 0).sum(axis=0)
    truth = {"union": int((inside > 0).sum()), "overlap": int((inside > 1).sum())}
    truth |= {
        f"only {at}": int(((inside == 1) & (reached[at] > 0)).sum()) for at in range(len(parts))
    }
    uniform = kr.Audience.disjoint(requests.sizes)
    dispersed = kr.Audience.disjoint(requests.sizes, dispersion=flight.dispersion)
    counts = {
        name: np.bincount(requests.group[rows], minlength=len(requests.sizes))
        for name, rows in zip(names, parts, strict=True)
    }
    times = {
        name: (requests.group[rows], requests.at_us[rows] / 1e6)
        for name, rows in zip(names, parts, strict=True)
    }
    by_model = kr.combine_times(times, uniform, 1, model=flight.model)
    rivals = [kr.combine(counts, audience, 1) for audience in (dispersed, uniform)]
    alone = [report.reach / people for report in by_model.each.values()]
    missed = np.prod([1.0 - p for p in alone])
    singles = [missed / (1.0 - p) * p for p in alone]
    independent = {"union": 1.0 - missed, "overlap": 1.0 - missed - sum(singles)}
    independent |= {f"only {at}": p for at, p in enumerate(singles)}
    for figure, true in truth.items():
        if true < _MIN_PEOPLE:
            continue
        report = _report(by_model, figure)
        by_dispersion, by_uniform = (_report(rival, figure).reach for rival in rivals)
        yield Case(
            scenario,
            share,
            figure.split()[0],
            true,
            report.reach,
            by_dispersion,
            by_uniform,
            float(people * independent[figure]),
            *report.interval(LEVEL, "normal"),
        )


def _report(found: kr.Combination, figure: str) -> kr.ReachReport:
    if figure.startswith("only"):
        return found.only[f"c{figure.split()[1]}"]
    return found.union if figure == "union" else found.overlap


def _show(cases: list[Case]) -> None:
    by: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        by[case.scenario, case.figure].append(case)
        by["all", case.figure].append(case)
    for figure in ("union", "overlap", "only"):
        print(f"\n{figure}: mean error in %, its rms; intervals that held, half-width in %")
        heads = ("visit model", "held", "dispersion", "uniform", "independent")
        print(f"{'':20}{'people':>8}" + "".join(f"{head:>17}" for head in heads))
        for scenario in (*SCENARIOS, "all"):
            here = by.get((scenario, figure), [])
            if not here:
                continue
            people = np.mean([case.truth for case in here])
            held = 100 * np.mean([case.low <= case.truth <= case.high for case in here])
            width = 100 * np.mean([(c.high - c.low) / 2.0 / c.truth for c in here])
            cells = [
                _errors(here, "model"),
                f"{held:.0f} (±{width:.1f})",
                *(_errors(here, name) for name in ("dispersed", "uniform", "independent")),
            ]
            print(f"{scenario:20}{people:8,.0f}" + "".join(f"{cell:>17}" for cell in cells))


def _errors(cases: list[Case], name: str) -> str:
    errors = np.array([getattr(case, name) / case.truth - 1.0 for case in cases])
    return f"{100 * errors.mean():+.1f} ({100 * np.sqrt(np.mean(errors**2)):.1f})"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_flight_arguments(parser)
    parser.add_argument("--campaigns", type=int, default=4, help="subsets of the groups")
    parser.add_argument("--targeted-groups", type=float, default=0.3)
    given = parser.parse_args(arguments)
    flight = flight_of(given)
    print(f"{len(flight.requests):,} requests in {flight.days:.1f} days")
    for error in flight.model.errors:
        print(f"  up to {error.max_hours:g} h: bias {error.bias:+.1%} ± {error.spread:.1%}")
    _show(list(study(flight, given.campaigns, given.seed, given.targeted_groups)))


if __name__ == "__main__":
    main()
