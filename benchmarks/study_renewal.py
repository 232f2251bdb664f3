"""A simulated year on resampled real visits: which way of renewing groups holds what it promises.

    python -m benchmarks.study_renewal --visits F [--segments country,device] [--sensitive os]
        [--people N] [--weeks W] [--group-size K] [--churn C] [--strategy random] [--policies ...]

`renewal_year` makes the year. Each policy forms groups from the weeks before it and renews them in
its own way. Every week its groups are held against the people who really come under their ids:

* k: people per group who were seen in the last four weeks, and how many equally active ones;
* visible: of the people of an audience (a value of a segment), those who share their group with
  fewer than five of it;
* diversity: people in groups of one sensitive value;
* measurement: reach by the dispersion that was fitted at the last renewal, against the people that
  a random tenth of the week's requests reached.

At the end an observer who saw the group of a person in every version intersects them: in each pair
of versions, in the whole series since the person's first visit, and in the series together with
the person's audiences. Between two versions the gateway names groups for newcomers too, so what
the observer sees of them begins there.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import kreach as kr
from benchmarks.renewal_policies import (
    POLICIES,
    SEEN_WEEKS,
    WON_SHARE,
    Policy,
    Site,
    Version,
    next_version,
)
from benchmarks.renewal_year import HISTORY_WEEKS, Change, resample_year
from benchmarks.timing import print_table
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.grouping import AtRandom, ByRates, BySegments, Strategy
from kreach.publisher.lineage import crowds_over_versions
from kreach.publisher.visit_knowledge import effective_anonymity

__all__ = ["Result", "main", "study"]

FLOOR = 5  # visible people of an audience in a group
AGES = (1, 4, 12, 26)  # weeks since the renewal at which the error is shown


@dataclass
class Result:
    """What was seen of a policy."""

    policy: Policy
    versions: list[Version] = field(default_factory=list)
    smallest: list[int] = field(default_factory=list)
    active: list[FloatArray] = field(default_factory=list)
    effective: list[FloatArray] = field(default_factory=list)
    exposed: dict[str, list[float]] = field(default_factory=dict)
    coverage: list[float] = field(default_factory=list)  # of the last segment
    visible: list[float] = field(default_factory=list)
    homogeneous: list[float] = field(default_factory=list)
    errors: list[tuple[int, float]] = field(default_factory=list)  # age in weeks, relative
    strangers: list[float] = field(default_factory=list)
    pairs: tuple[float, float, int] = (0.0, 0.0, 0)
    series: tuple[float, float, float] = (0.0, 0.0, 0.0)
    with_audiences: tuple[float, float, float] = (0.0, 0.0, 0.0)


def study(site: Site, policy: Policy) -> Result:
    """Run one policy through the year."""
    generator = np.random.default_rng(site.seed)
    result = Result(policy, exposed={name: [] for name in site.segments})
    last = None
    for week in range(HISTORY_WEEKS, site.year.weeks):
        version = next_version(site, policy, last, week, generator)
        if version is not last:
            result.versions.append(version)
        last = version
        _watch(site, result, week, generator)
    _attack(site, result)
    return result


def _watch(site: Site, result: Result, week: int, generator: np.random.Generator) -> None:
    """One week: k, visible k, diversity and measurement."""
    year, version = site.year, result.versions[-1]
    recent = year.recent(week + 1, SEEN_WEEKS)
    here = np.flatnonzero(recent)
    group, visits = version.named[here], recent[here]
    count = version.assignment.group_count
    active = np.bincount(group, minlength=count)
    result.smallest.append(int(active.min()))
    result.active.append(active.astype(np.float64))
    shares = visits / np.bincount(group, weights=visits, minlength=count)[group]
    result.effective.append(effective_anonymity(shares, group))
    visible = np.inf
    for name in site.segments:
        codes = year.attributes[name][here, week]
        width = int(codes.max()) + 1
        cell, inverse = np.unique(group * width + codes, return_inverse=True)
        people = np.bincount(inverse)
        large = np.bincount(codes, minlength=width) >= 0.01 * len(here)
        mine = large[cell % width]
        exposed = people[mine & (people < FLOOR)].sum() / people[mine].sum()
        result.exposed[name].append(float(exposed))
        within = visits / np.bincount(inverse, weights=visits)[inverse]
        worth = effective_anonymity(within, inverse)
        visible = min(visible, float(np.quantile(worth[inverse], 0.05)))
        in_groups = np.bincount(cell % width, weights=active[cell // width], minlength=width)
        covered = np.bincount(codes, minlength=width) / np.maximum(in_groups, 1.0)
    result.visible.append(visible)
    result.coverage.append(float(np.mean(covered[codes])))
    codes = year.attributes[site.sensitive][here, week]
    values = np.bincount(
        np.unique(group * (int(codes.max()) + 1) + codes) // (int(codes.max()) + 1)
    )
    result.homogeneous.append(float(np.mean(values[group] == 1)))
    known = np.zeros(len(year.visits), dtype=np.bool_)
    known[version.members] = True
    requests = year.visits[:, week]
    result.strangers.append(float(requests[~known].sum() / requests.sum()))
    won = generator.binomial(requests, WON_SHARE)
    impressions = np.bincount(version.named, weights=won, minlength=count).astype(np.int64)
    reached = np.count_nonzero(won)
    measured = kr.measure(version.audience, impressions, cap=1).reach
    result.errors.append((week - version.start + 1, measured / reached - 1.0))


def _attack(site: Site, result: Result) -> None:
    """Linkage of all pairs of versions, of the series, and of the series with audiences."""
    year, versions = site.year, result.versions
    ends = [*(version.start for version in versions[1:]), year.weeks]
    seen = [
        year.visits[:, version.start : end].any(axis=1)
        for version, end in zip(versions, ends, strict=True)
    ]
    shares, smallest = [], len(year.visits)
    for later in range(1, len(versions)):
        for earlier in range(later):
            both = np.flatnonzero(seen[earlier] & seen[later])
            crowd = _crowds(versions[earlier].named[both], versions[later].named[both])
            shares.append(float(np.mean(crowd == 1)))
            smallest = min(smallest, int(crowd.min()))
    if shares:
        result.pairs = (max(shares), float(np.mean(shares)), smallest)
    at_end = (year.last >= versions[-1].start) & (year.first < year.weeks)
    here = np.flatnonzero(at_end)
    came = np.array(ends) > year.first[here][:, None]  # the version's last week is not before
    groups = np.stack([version.named[here] for version in versions], axis=1)
    result.series = _series(np.where(came, groups, -1))
    cells = np.stack([year.cells(site.segments, v.start)[here] for v in versions], axis=1)
    joint = groups * (int(cells.max()) + 1) + cells
    result.with_audiences = _series(np.where(came, joint, -1))


def _crowds(one: IntArray, two: IntArray) -> IntArray:
    _, inverse, count = np.unique(
        one * (int(two.max()) + 1) + two, return_inverse=True, return_counts=True
    )
    crowd: IntArray = count[inverse]
    return crowd


def _series(groups: IntArray) -> tuple[float, float, float]:
    """Of those present at the end: singled out, in a crowd below the floor, the median crowd."""
    crowd = crowds_over_versions(groups)
    return float(np.mean(crowd == 1)), float(np.mean(crowd < FLOOR)), float(np.median(crowd))


def _print(results: Sequence[Result], site: Site) -> None:
    rows = []
    for result in results:
        active, effective = np.concatenate(result.active), np.concatenate(result.effective)
        rows.append(
            [
                result.policy.name,
                f"{len(result.versions)}",
                f"{result.versions[-1].assignment.group_sizes.mean():.0f}",
                f"{np.mean([each.mean() for each in result.active]):.0f}",
                f"{min(result.smallest)}",
                f"{np.quantile(active, 0.05):.0f}",
                f"{np.mean(active < site.group_size):.1%}",
                f"{np.quantile(effective, 0.05):.1f}",
                *(f"{np.mean(result.exposed[name]):.1%}" for name in site.segments),
                f"{min(result.visible):.1f}",
                f"{result.coverage[0]:.0%}",
                f"{result.coverage[-1]:.0%}",
                f"{np.mean(result.homogeneous):.1%}",
            ]
        )
    print_table(
        "Every week of the year. Active: seen in the last four weeks. Exposed: with fewer than "
        f"{FLOOR} active people of their audience in the group.",
        (
            *("policy", "versions", "members", "active: mean", "least", "5 %", "below k"),
            *("effective 5 %", *(f"exposed {name}" for name in site.segments)),
            *("visible effective 5 %", f"{site.segments[-1]} coverage", "at the end"),
            f"one {site.sensitive}",
        ),
        rows,
    )
    rows = [
        [
            result.policy.name,
            f"{np.mean([version.moved for version in result.versions[1:]] or [0.0]):.1%}",
            *(f"{share:.2%}" for share in result.pairs[:2]),
            f"{result.pairs[2]}" if len(result.versions) > 1 else "–",
            *(f"{share:.1%}" for share in result.series[:2]),
            f"{result.series[2]:.0f}",
            *(f"{share:.1%}" for share in result.with_audiences[:2]),
        ]
        for result in results
    ]
    print_table(
        "An observer who saw a person's group in every version. Singled out: nobody else was in "
        "these groups.",
        (
            *("policy", "moved", "worst pair", "mean pair", "least crowd", "series: singled out"),
            *(f"below {FLOOR}", "median crowd", "with audiences", f"below {FLOOR}"),
        ),
        rows,
    )
    rows = []
    for result in results:
        ages = np.array([age for age, _ in result.errors])
        errors = np.array([error for _, error in result.errors])
        shown = [errors[ages == age] for age in AGES]
        rows.append(
            [
                result.policy.name,
                *(f"{np.mean(each):+.1%}" if each.size else "–" for each in shown),
                f"{errors[ages == ages.max()].mean():+.1%}",
                f"{np.sqrt(np.mean(errors**2)):.1%}",
                f"{np.max(result.strangers):.1%}",
            ]
        )
    print_table(
        "Error of people reached in a week, a tenth of the requests won, by weeks since renewal",
        ("policy", *(f"week {age}" for age in AGES), "oldest", "rms", "unknown requests, most"),
        rows,
    )


def main(arguments: Sequence[str]) -> int:
    """Read, resample, run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_renewal")
    parser.add_argument("--visits", type=Path, required=True, help="user_id, ts, attributes")
    parser.add_argument("--segments", default="country,device", help="targeting columns")
    parser.add_argument("--sensitive", default="os", help="a column to keep diverse")
    parser.add_argument("--strategy", choices=("random", "segments", "rates"), default="random")
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--group-size", type=int, default=20)
    parser.add_argument("--churn", type=float, default=0.02, help="share that leaves per week")
    parser.add_argument("--habits", type=float, default=0.02, help="share with new habits")
    parser.add_argument("--moves", type=float, default=0.002, help="share that changes segment")
    parser.add_argument("--season", type=float, default=0.3, help="visits missing in mid-year")
    parser.add_argument("--days", type=int, default=7, help="days of a week, for slow sites")
    parser.add_argument("--policies", default="", help="parts of names, separated by ;")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    segments = tuple(name for name in chosen.segments.split(",") if name)
    if not segments:
        parser.error("--segments must name a column")
    change = Change(chosen.churn, chosen.habits, chosen.moves, chosen.season)
    generator = np.random.default_rng(chosen.seed)
    names = tuple(dict.fromkeys((*segments, chosen.sensitive)))
    year = resample_year(
        chosen.visits, names, chosen.people, chosen.weeks, change, generator, chosen.days
    )
    strategies: dict[str, Strategy] = {
        "random": AtRandom(),
        "segments": BySegments(segments),
        "rates": ByRates(),
    }
    strategy = strategies[chosen.strategy]
    site = Site(year, segments, chosen.sensitive, strategy, chosen.group_size, chosen.seed)
    print(
        f"{chosen.people:,} people at a time, {len(year.visits):,} in the year, {chosen.weeks} "
        f"weeks; each week {change.churn:.1%} leave and join, {change.habits:.1%} change habits, "
        f"{change.moves:.1%} change a segment; groups of {chosen.group_size}, {strategy.name}, "
        f"seed {chosen.seed}"
    )
    wanted = [part.strip() for part in chosen.policies.split(";") if part.strip()]
    policies = [p for p in POLICIES if not wanted or any(part in p.name for part in wanted)]
    _print([study(site, policy) for policy in policies], site)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
