"""How right reach is where a campaign is sent only the requests of some members of each group.

    python -m benchmarks.study_visible --visits F [--split T] [--end T] [--group-size K]

Groups and visit model are built on history, as in `study_visit_model`. In the flight after it a
share of all people is targeted, at random, and only their requests arrive. A campaign wins a tenth
of them, by a pattern. In a cell: 100 (measured / true − 1) for people (cap 1) over the whole
flight. The columns: everybody of a group may be behind a request and all are counted (1/k); the
same, of whom the targeted are counted; only the targeted may be (`requests="targeted"`), with
uniform visits, with the visit model as it is, and with the model of so few people.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import kreach as kr
from benchmarks.study_visit_model import Flight, add_flight_arguments, flight_of, won_requests
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.boundary.draw_cells import draws_in_order
from kreach.numeric.types import IntArray
from kreach.publisher.visit_history import VisitHistory

__all__ = ["Case", "main", "study"]

SHARES = (1.0, 0.5, 0.25, 0.1, 0.05)
PATTERNS = ("random", "burst")
WON = 0.1
_COLUMNS = ("1/k, all", "1/k, targeted", "1/v, uniform", "model of k", "model of v")


@dataclass(frozen=True)
class Case:
    """One campaign: its true reach, and what each way to measure says."""

    share: float
    pattern: str
    people_per_request: float
    truth: int
    measured: tuple[float, ...]


def study(flight: Flight, seed: int = 0) -> Iterator[Case]:
    """Every share of people by every pattern."""
    generator = np.random.default_rng(seed)
    requests = flight.requests
    person, first = np.unique(requests.person, return_index=True)
    come = np.bincount(requests.group[first], minlength=len(requests.sizes))
    for share in SHARES:
        chosen = person[generator.random(len(person)) < share]
        theirs = requests.where(np.flatnonzero(np.isin(requests.person, chosen)))
        seen = np.bincount(requests.group[first][np.isin(person, chosen)], minlength=len(come))
        targeted = seen + generator.binomial(requests.sizes - come, share)
        for pattern in PATTERNS:
            won = theirs.where(won_requests(theirs, pattern, WON, generator))
            yield _measured(won, flight, targeted, share, pattern)


def _measured(
    won: VisitHistory, flight: Flight, targeted: IntArray, share: float, pattern: str
) -> Case:
    sizes = flight.requests.sizes
    counts = np.bincount(won.group, minlength=len(sizes))
    part = kr.Audience.disjoint(sizes, targeted, requests="targeted")
    uniform = [
        kr.measure(audience, counts, 1).reach
        for audience in (kr.Audience.disjoint(sizes), kr.Audience.disjoint(sizes, targeted), part)
    ]
    models = flight.model, flight.model.for_audience(part)
    timed = [
        DrawnExposure(draws_in_order(part, won.group, won.at_us, model), model).reach(1)
        for model in models
    ]
    truth = len(np.unique(won.person))
    behind = float(targeted @ targeted / targeted.sum())
    return Case(share, pattern, behind, truth, (*uniform, *timed))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_flight_arguments(parser)
    given = parser.parse_args(arguments)
    flight = flight_of(given)
    print(f"{'targeted':>8} {'pattern':>8} {'people':>7} {'truth':>8}", end="")
    print("".join(f"{name:>15}" for name in _COLUMNS))
    for case in study(flight, given.seed):
        print(
            f"{case.share:8.0%} {case.pattern:>8} {case.people_per_request:7.1f} {case.truth:8,}",
            "".join(f"{100.0 * (value / case.truth - 1.0):14.1f}%" for value in case.measured),
        )


if __name__ == "__main__":
    main()
