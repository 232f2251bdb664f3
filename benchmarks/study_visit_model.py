"""How right a released visit model is on a flight that nothing was fitted to.

    python -m benchmarks.study_visit_model --visits F [--split T] [--group-size K]
        [--traffic unknown counted known]

Visits before the split are history: groups are built on it by `kreach groups build`, with its visit
model. In the flight after it campaigns win requests by several patterns and shares, and
`kreach.measure_times` measures windows of them. In a cell: 100 (measured / true − 1), the mean over
campaigns and windows, for the visit model, and after it for one dispersion and for uniform visits.
A second table says how many of 100 intervals at 95 % held the truth, and how wide they were beside
the error; the last lines take all patterns and shares together. Campaigns are subsets of the groups
taken at random.

Traffic: nothing is known of it; or the requests of all groups in the window were counted; or the
traffic of the whole flight is known, also in windows before its end, and applied as it is. Several
are compared on the same groups and wins. Two runs differ: ids of groups are random, and with them
which groups a campaign has.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import kreach as kr
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.files import read_catalogue
from kreach.boundary.times import as_instant, from_micros, to_micros
from kreach.numeric.draws import HOUR_US, hour_of_day
from kreach.numeric.types import IntArray
from kreach.publisher.build import BuildOptions, build_groups
from kreach.publisher.buying import window_start, won_rows
from kreach.publisher.directory import Directory
from kreach.publisher.release import Floors
from kreach.publisher.store import read_build
from kreach.publisher.visit_history import VisitHistory

__all__ = [
    "PATTERNS",
    "Case",
    "Flight",
    "add_flight_arguments",
    "flight_of",
    "main",
    "read_flight",
    "study",
    "won_requests",
]

PATTERNS = ("random", "first of each group", "burst", "night", "office", "spaced")
SHARES = (0.02, 0.1, 0.3, 1.0)
CAPS = (1, 3)
LEVEL = 0.95
_HOURS = {"night": (0, 6), "office": (12, 8)}  # first UTC hour, hours
_MIN_REACH = 30
_TRAFFIC = ("unknown", "counted", "known")


@dataclass(frozen=True, eq=False)
class Flight:
    """The requests of the flight in released groups, and what was released."""

    requests: VisitHistory
    model: kr.VisitModel
    dispersion: float
    days: float
    past_visits: IntArray  # of each group, in history


@dataclass(frozen=True)
class Case:
    """One window of one campaign at one cap."""

    pattern: str
    share: float
    hours: float
    cap: int
    truth: float
    model: float
    dispersed: float
    uniform: float
    low: float
    high: float


def read_flight(
    visits: Path,
    split: datetime,
    end: datetime | None,
    group_size: int,
    strategy: str = "random",
    seed: int = 0,
) -> Flight:
    """Build groups and model on the history, and place the flight's requests in them."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "groups"
        options = BuildOptions(
            visits,
            group_size,
            strategy,
            out,
            history_end=split,
            floors=Floors(effective_anonymity=1.0),  # small groups are measured, not released
            seed=seed,
        )
        build_groups(options, datetime.now(UTC), lambda _: None)
        build = read_build(out)
        catalogue = read_catalogue(out / "release")
    flown = Directory(visits).visits(split, end)
    group_of = _in_order(build.group_indices[:, 0])
    requests = VisitHistory.of(flown.user, group_of, flown.at_us, seed)
    if catalogue.model is None:
        sys.exit("no visit model was released: " + "; ".join(build.facts["warnings"]))
    dispersion = np.inf if catalogue.dispersion is None else catalogue.dispersion
    past = np.bincount(group_of, weights=build.people.visits).astype(np.int64)
    return Flight(requests, catalogue.model, float(dispersion), requests.days, past)


def _in_order(group_of: IntArray) -> IntArray:
    """Groups numbered by their first members: released numbers follow a key that is drawn anew."""
    _, first, group = np.unique(group_of, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[group]


def study(
    flight: Flight,
    campaigns: int,
    *,
    traffic: str = "unknown",
    seed: int = 0,
    targeted_groups: float = 0.3,
) -> Iterator[Case]:
    """All windows of all campaigns."""
    generator = np.random.default_rng(seed)
    for _ in range(campaigns):
        share_of_groups = 1.0 if campaigns == 1 else targeted_groups
        chosen = generator.random(len(flight.requests.sizes)) < share_of_groups
        requests = flight.requests.of_groups(chosen)
        model = flight.model
        if traffic == "known":
            rate = len(flight.requests) / flight.requests.people / flight.days
            model = model.at_traffic(rate / model.requests_per_person_day)
        counted = np.sort(flight.requests.at_us) if traffic == "counted" else None
        for pattern in PATTERNS:
            for share in SHARES:
                if share == 1.0 and pattern in PATTERNS[1:]:
                    continue
                won = requests.where(won_requests(requests, pattern, share, generator))
                for hours in _windows(flight.days):
                    case = (pattern, share, hours)
                    yield from _measured(won, flight, *case, model, counted, generator)


def won_requests(
    requests: VisitHistory, pattern: str, share: float, generator: np.random.Generator
) -> IntArray:
    """Rows of the requests that a campaign wins by a pattern."""
    if pattern not in _HOURS:
        return won_rows(requests, pattern, share, generator)
    first, hours = _HOURS[pattern]
    inside = np.flatnonzero((hour_of_day(requests.at_us) - first) % 24 < hours)
    chance = min(1.0, share * len(requests) / max(len(inside), 1))
    return inside[generator.random(len(inside)) < chance]


def _windows(days: float) -> tuple[float, ...]:
    """Hours of the windows of a flight: an hour to three days, or a day to thirty, and all."""
    short = (1.0, 6.0, 24.0, 72.0) if days < 60.0 else (24.0, 168.0, 720.0)
    return (*short, days * 24.0)


def _measured(
    won: VisitHistory,
    flight: Flight,
    pattern: str,
    share: float,
    hours: float,
    model: kr.VisitModel,
    counted: IntArray | None,
    generator: np.random.Generator,
) -> Iterator[Case]:
    """Measure windows of what a campaign won, at random times.

    `counted` are the times of all requests, if they were counted.
    """
    first, last = int(flight.requests.at_us.min()), int(flight.requests.at_us.max())
    whole = hours >= flight.days * 24.0
    audience = kr.Audience.disjoint(won.sizes)
    assert isinstance(audience, DisjointAudience)
    dispersed = kr.Audience.disjoint(won.sizes, dispersion=flight.dispersion)
    for _ in range(1 if whole else 4):
        start = window_start(won, hours, first, last, generator)
        won_here = won if whole else won.between(start, start + hours * HOUR_US)
        seen = np.bincount(won_here.person)
        if np.count_nonzero(seen) < _MIN_REACH:
            continue
        here = model
        if counted is not None:
            ends = (first, last + 1) if whole else (start, start + hours * HOUR_US)
            low, high = np.searchsorted(counted, ends)
            requests = CountedRequests.between(high - low, flight.requests.people, *ends)
            here = requests.applied_to(model)
        counts = np.bincount(won_here.group, minlength=len(won.sizes))
        reports = kr.measure_times(
            audience,
            won_here.group,
            won_here.at_us / 1e6,
            CAPS,
            model=here,
            hours=hours,
        )
        for cap in CAPS:
            yield Case(
                pattern,
                share,
                hours,
                cap,
                float(np.minimum(seen, cap).sum()),
                reports[cap].reach,
                kr.measure(dispersed, counts, cap).reach,
                kr.measure(audience, counts, cap).reach,
                *reports[cap].interval(LEVEL),
            )


def _show(cases: list[Case]) -> None:
    lengths = sorted({case.hours for case in cases})
    names = [f"{h:g} h" if h < 24 else f"{h / 24:.3g} d" for h in lengths]
    by: dict[tuple[str, float, float, int], list[Case]] = defaultdict(list)
    for case in cases:
        by[case.pattern, case.share, case.hours, case.cap].append(case)
    for cap in CAPS:
        print(f"\ncap {cap}: error in % of the visit model (one dispersion, uniform)")
        print(f"{'':27}" + "".join(f"{name:>22}" for name in names))
        for pattern, share in dict.fromkeys((case.pattern, case.share) for case in cases):
            line = f"{pattern:20}{share:6.0%} "
            for hours in lengths:
                here = by.get((pattern, share, hours, cap), [])
                line += f"{_errors(here):>22}"
            print(line)
    for cap in CAPS:
        print(f"\ncap {cap}: of 100 intervals at 95 % held the truth (half-width in %, cases)")
        for pattern in dict.fromkeys(case.pattern for case in cases):
            line = f"{pattern:27}"
            for hours in lengths:
                here = [c for c in cases if (c.pattern, c.hours, c.cap) == (pattern, hours, cap)]
                line += f"{_held(here):>22}"
            print(line)
    print("\nall patterns and shares: root mean square of the error in %, of 100 intervals held")
    for cap in CAPS:
        line = f"{'cap ' + str(cap):27}"
        for hours in lengths:
            line += f"{_overall([c for c in cases if (c.hours, c.cap) == (hours, cap)]):>22}"
        print(line)


def _overall(cases: list[Case]) -> str:
    if not cases:
        return "–"
    errors = np.array([case.model / case.truth - 1.0 for case in cases])
    held = np.mean([case.low <= case.truth <= case.high for case in cases])
    return f"{100 * np.sqrt(np.mean(errors**2)):.1f} ({100 * held:.0f})"


def _errors(cases: list[Case]) -> str:
    if not cases:
        return "–"
    truth = sum(case.truth for case in cases)
    each = (sum(getattr(c, name) for c in cases) for name in ("model", "dispersed", "uniform"))
    model, dispersed, uniform = (100.0 * (total / truth - 1.0) for total in each)
    return f"{model:+.1f} ({dispersed:+.0f}, {uniform:+.0f})"


def _held(cases: list[Case]) -> str:
    if not cases:
        return "–"
    held = np.mean([case.low <= case.truth <= case.high for case in cases])
    width = np.mean([(case.high - case.low) / 2.0 / case.truth for case in cases])
    return f"{100 * held:.0f} (±{100 * width:.1f}, {len(cases)})"


def add_flight_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `flight_of`."""
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--split", help="first instant of the flight (default: the middle)")
    parser.add_argument("--end", help="end of the flight")
    parser.add_argument("--group-size", type=int, default=20)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--seed", type=int, default=1)


def flight_of(given: argparse.Namespace) -> Flight:
    """The flight that the arguments name."""
    split = as_instant("split", given.split)
    if split is None:
        at_us = Directory(given.visits).visits().at_us
        split = from_micros((int(at_us[0]) + int(at_us[-1])) // 2)
    end = as_instant("end", given.end)
    assert end is None or to_micros(end) > to_micros(split)
    return read_flight(given.visits, split, end, given.group_size, given.strategy, given.seed)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add_flight_arguments(parser)
    parser.add_argument("--campaigns", type=int, default=5)
    parser.add_argument("--traffic", choices=_TRAFFIC, nargs="+", default=["unknown"])
    given = parser.parse_args(arguments)
    flight = flight_of(given)
    model = flight.model
    print(
        f"{len(flight.requests):,} requests in {flight.days:.1f} days; regulars {model.regulars}, "
        f"lasting {model.lasting}, scale {model.meeting_scale}, dispersion {flight.dispersion:.3g}"
    )
    rate = len(flight.requests) / flight.requests.people / flight.days
    print(f"traffic of the flight {rate / model.requests_per_person_day:.2f} of history's")
    for traffic in given.traffic:
        print(f"\ntraffic {traffic}")
        for error in model.counted_errors if traffic == "counted" else model.errors:
            print(
                f"  up to {error.max_hours:g} h: bias {error.bias:+.1%} ± {error.spread:.1%}, "
                f"higher caps {error.higher_bias:+.1%} ± {error.higher_spread:.1%}"
            )
        _show(list(study(flight, given.campaigns, traffic=traffic, seed=given.seed)))


if __name__ == "__main__":
    main()
