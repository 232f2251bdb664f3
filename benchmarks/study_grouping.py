"""Who is put with whom: what each way of grouping is worth on the visits of a real site.

People are grouped, and everything that crosses is fitted, on the visits before `--split`; the
visits after it are the flight. A share of the flight's requests is won at random, and the reach
that each formula gives is held against the people who really made the requests.

    python -m benchmarks.study_grouping --visits news_visits.parquet --split 2017-10-09T03:00:00Z
        --segments country,device --attributes country,region,device,os,referrer
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import kreach as kr
from benchmarks.timing import print_table
from kreach.boundary.audience import Audience
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.audit import coverage
from kreach.publisher.crossfit import cross_fitted_dispersion
from kreach.publisher.directory import Directory
from kreach.publisher.grouping import (
    Assignment,
    AtRandom,
    ByAttributes,
    ByRates,
    BySegments,
    Overlapping,
    Strategy,
    form_groups,
)
from kreach.publisher.grouping.attributes import information_kept
from kreach.publisher.people import People
from kreach.publisher.visit_knowledge import (
    effective_anonymity,
    fit_dispersion,
    match_dispersion,
    match_pseudo_visits,
    shrunk_shares,
    visit_profiles,
)

__all__ = ["main"]

WON_SHARES = (0.02, 0.1, 0.4, 1.0)
_FLOOR = 10  # people in a combination of overlapping groups
_MIN_ANONYMITY = 2.0


@dataclass(frozen=True)
class Site:
    """One population, before and after the split."""

    directory: Directory
    people: People  # history
    flight: IntArray  # who made each request
    split: datetime
    segments: tuple[str, ...]
    attributes: tuple[str, ...]
    group_size: int
    seed: int


@dataclass(frozen=True)
class Won:
    """Requests won at random: the flight's places that were won, and the people behind them."""

    share: float
    visitors: IntArray
    reached: int


def main(arguments: Sequence[str]) -> int:
    """Read, group, fly and print."""
    site = _site(arguments)
    counts = np.bincount(site.flight, minlength=site.people.count)
    print(
        f"{site.people.count:,} people, {site.people.visits.sum():,} visits before the split, "
        f"{len(site.flight):,} requests after it by {np.count_nonzero(counts):,} people; "
        f"groups of at least {site.group_size}, seed {site.seed}"
    )
    wins = list(_wins(site))
    made = {
        strategy.name: (strategy, form_groups(site.people, site.group_size, strategy, site.seed))
        for strategy in _strategies(site)
    }
    _print_groups(site, made, counts)
    _print_errors(site, made, wins)
    return 0


def _site(arguments: Sequence[str]) -> Site:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_grouping")
    parser.add_argument("--visits", type=Path, required=True, help="user_id, ts, attributes")
    parser.add_argument("--split", required=True, help="history before, the flight after")
    parser.add_argument("--group-size", type=int, default=20)
    parser.add_argument("--segments", default="", help="targeting columns, most important first")
    parser.add_argument("--attributes", default="", help="columns to generalise over")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    split = datetime.fromisoformat(chosen.split)
    split = split if split.tzinfo else split.replace(tzinfo=UTC)
    segments, attributes = (
        tuple(name for name in text.split(",") if name)
        for text in (chosen.segments, chosen.attributes)
    )
    directory = Directory(chosen.visits)
    people = directory.people(tuple(dict.fromkeys((*segments, *attributes))), end=split)
    flight = directory.visits(start=split).user
    return Site(
        directory, people, flight, split, segments, attributes, chosen.group_size, chosen.seed
    )


def _strategies(site: Site) -> list[Strategy]:
    chosen: list[Strategy] = [AtRandom()]
    if site.attributes:
        chosen.append(ByAttributes(site.attributes))
    if site.segments:
        chosen.append(BySegments(site.segments))
    chosen.append(ByRates())
    if site.segments:
        chosen.append(BySegments(site.segments, by_rate=True))
    return [*chosen, Overlapping(partitions=2, floor=_FLOOR)]


def _wins(site: Site) -> Iterator[Won]:
    generator = np.random.default_rng(site.seed)
    for share in WON_SHARES:
        visitors = site.flight[generator.random(len(site.flight)) < share]
        yield Won(share, visitors, len(np.unique(visitors)))


def _print_groups(
    site: Site, made: dict[str, tuple[Strategy, Assignment]], counts: IntArray
) -> None:
    rows = []
    for name, (_, assignment) in made.items():
        layer = assignment.groups[:, 0]
        sizes = assignment.group_sizes
        kept = information_kept(site.people, layer, site.attributes)
        rows.append(
            [
                name,
                f"{assignment.group_count:,}",
                f"{sizes.min()}–{sizes.max()}",
                *(f"{_coverage(site.people, layer, s):.0%}" for s in site.segments),
                f"{np.mean(list(kept.values())):.0%}" if kept else "–",
                *(_spread(_worth_of_history(site.people, layer))),
                *(_spread(_worth_of_flight(counts, layer))),
                f"{_uniformity(counts, layer):.0%}",
            ]
        )
    print_table(
        "The groups (of overlapping ones, the first partition). Coverage: mean over the values of "
        "a segment, by people.\nEffective k: equally active people that a group is worth, "
        "expected from history and as counted in the flight.\nUniform: 1/Σq² over the size, mean "
        "of the groups that visited in the flight.",
        (
            "strategy",
            "groups",
            "sizes",
            *(f"coverage {s}" for s in site.segments),
            "information",
            "k eff. (history) median",
            "least",
            "k eff. (flight) median",
            "least",
            "uniform",
        ),
        rows,
    )


def _coverage(people: People, group_of: IntArray, segment: str) -> float:
    codes = people.attribute(segment).codes
    covered = 0.0
    for code in np.unique(codes).tolist():
        targeted = codes == code
        covered += coverage(group_of, targeted.astype(np.int64)) * np.count_nonzero(targeted)
    return covered / people.count


def _worth_of_history(people: People, group_of: IntArray) -> FloatArray:
    """As `release` checks it: expected shares, shrunk until they give the reach of history."""
    pseudo = match_pseudo_visits(people.visits, group_of)
    return effective_anonymity(shrunk_shares(people.visits, group_of, pseudo), group_of)


def _worth_of_flight(counts: IntArray, group_of: IntArray) -> FloatArray:
    shares, active = _flight_shares(counts, group_of)
    return effective_anonymity(shares, group_of)[active]


def _uniformity(counts: IntArray, group_of: IntArray) -> float:
    shares, active = _flight_shares(counts, group_of)
    concentration = np.bincount(group_of, weights=shares**2)[active]
    return float(np.mean(1.0 / concentration / np.bincount(group_of)[active]))


def _flight_shares(counts: IntArray, group_of: IntArray) -> tuple[FloatArray, IntArray]:
    """Shares of the flight's requests in the group, and the groups that have any."""
    totals = np.bincount(group_of, weights=counts)
    return counts / np.maximum(totals, 1.0)[group_of], np.flatnonzero(totals)


def _spread(values: FloatArray) -> tuple[str, str]:
    return f"{np.median(values):.1f}", f"{values.min():.1f}"


def _print_errors(
    site: Site, made: dict[str, tuple[Strategy, Assignment]], wins: Sequence[Won]
) -> None:
    rows = []
    for strategy, assignment in made.values():
        for method, audience in _audiences(site, strategy, assignment):
            errors = (_error(site, assignment, audience, won) for won in wins)
            rows.append([f"{strategy.name}, {method}", *(f"{error:+.1%}" for error in errors)])
    print_table(
        "Relative error of unique reach when a random share of the flight's requests is won",
        ("grouping, what crosses about visits", *(f"{won.share:.0%} won" for won in wins)),
        rows,
    )


def _audiences(
    site: Site, strategy: Strategy, assignment: Assignment
) -> Iterator[tuple[str, Audience]]:
    """Everything the ad system might be told, and measure with."""
    sizes = assignment.group_sizes
    if assignment.overlapping:
        rows, headcounts = np.unique(assignment.groups, axis=0, return_counts=True)
        classes = zip(map(tuple, rows.tolist()), headcounts.tolist(), strict=True)
        yield "uniform", Audience.overlapping(sizes, classes)
        return
    group_of, visits = assignment.group_of(), site.people.visits
    yield "uniform", Audience.disjoint(sizes)
    matched = match_dispersion(visits, group_of)
    yield f"dispersion matched to reach ({matched:.2f})", _dispersed(sizes, matched)
    if "rates" in strategy.name:
        crossed = cross_fitted_dispersion(
            site.directory, site.people, strategy, site.group_size, site.seed, site.split
        )
        yield f"dispersion cross-fitted ({crossed:.2f})", _dispersed(sizes, crossed)
    likely = fit_dispersion(visits, group_of).dispersion
    yield f"dispersion by likelihood ({likely:.2f})", _dispersed(sizes, likely)
    pseudo = match_pseudo_visits(visits, group_of)
    profiles, _ = visit_profiles(visits, group_of, pseudo, _MIN_ANONYMITY)
    yield "shares", Audience.profiled(profiles)


def _dispersed(sizes: IntArray, dispersion: float) -> Audience:
    return Audience.disjoint(sizes, dispersion=dispersion)


def _error(site: Site, assignment: Assignment, audience: Audience, won: Won) -> float:
    """Overlapping groups: each request names one of the visitor's groups at random."""
    generator = np.random.default_rng(site.seed)
    layer = generator.integers(0, assignment.groups.shape[1], len(won.visitors))
    named = assignment.groups[won.visitors, layer]
    impressions = np.bincount(named, minlength=assignment.group_count)
    return kr.measure(audience, impressions, cap=1).reach / won.reached - 1.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
