"""Build groups from a visits file: read, group, fit, release, store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.errors import KreachError
from kreach.publisher.audit import coverage
from kreach.publisher.crossfit import cross_fitted_dispersion
from kreach.publisher.directory import Directory
from kreach.publisher.grouping import (
    AtRandom,
    ByAttributes,
    ByRates,
    BySegments,
    Overlapping,
    Strategy,
    form_groups,
)
from kreach.publisher.grouping.attributes import information_kept
from kreach.publisher.grouping.base import FORMED_BY_VISITS, Assignment
from kreach.publisher.people import People
from kreach.publisher.regrouping import RENEW_WEEKS
from kreach.publisher.release import Floors, Release, new_key, release
from kreach.publisher.site_model import SiteModel, fit_site_model
from kreach.publisher.store import check_folder, write_build
from kreach.publisher.visit_knowledge import fit_dispersion

__all__ = ["STRATEGIES", "BuildOptions", "build_groups", "strategy_named"]

STRATEGIES = ("random", "attributes", "segments", "rates", "segments+rates", "overlapping")


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build."""

    visits: Path
    group_size: int
    strategy: str
    out: Path
    users: Path | None = None
    attributes: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # further attributes to store, for the audit
    partitions: int = 2
    history_end: datetime | None = None
    buyer: str = "default"
    knowledge: str = "model"
    floors: Floors = field(default_factory=Floors)
    seed: int = 0
    memory_hours: float | None = None  # of the gateway, to tell the buyer


def strategy_named(options: BuildOptions) -> Strategy:
    """The strategy that the options name."""
    floor = options.floors.membership_class
    strategies: dict[str, Callable[[], Strategy]] = {
        "random": AtRandom,
        "attributes": lambda: ByAttributes(options.attributes),
        "segments": lambda: BySegments(options.segments),
        "rates": ByRates,
        "segments+rates": lambda: BySegments(options.segments, by_rate=True),
        "overlapping": lambda: Overlapping(options.partitions, floor),
    }
    if options.strategy not in strategies:
        raise KreachError.rule("strategy", f"be one of {', '.join(STRATEGIES)}", options.strategy)
    return strategies[options.strategy]()


def build_groups(
    options: BuildOptions, now: datetime, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Build, and return the facts of the build for JSON."""
    strategy = strategy_named(options)
    check_folder(options.out)
    progress("reading visits")
    directory = Directory(options.visits, options.users)
    names = tuple(dict.fromkeys((*options.attributes, *options.segments, *options.keep)))
    if options.strategy == "attributes" and not options.attributes:
        raise KreachError.rule("attributes", "name at least one column to group by", "none")
    people = directory.people(names, end=options.history_end)
    progress(f"grouping {people.count:,} people ({strategy.name})")
    assignment = form_groups(people, options.group_size, strategy, options.seed)
    dispersion = _cross_fitted(options, directory, people, strategy, progress)
    site = SiteModel(None, None, ())
    if options.knowledge == "model":
        visits = directory.visits(end=options.history_end)
        site = fit_site_model(visits, people, assignment, strategy, options.seed, progress)
    progress("checking and releasing")
    key = new_key()
    released = release(
        people,
        assignment,
        key=key,
        buyer=options.buyer,
        version=now.strftime("%Y%m%dT%H%M%SZ"),
        now=now,
        knowledge=options.knowledge,
        dispersion=dispersion,
        model=site.model,
        floors=options.floors,
        memory_hours=options.memory_hours,
    )
    facts = _facts(options, people, assignment, released, site)
    progress("writing")
    write_build(options.out, directory.user_ids(), people, assignment, released, key, facts)
    return facts


def _cross_fitted(
    options: BuildOptions,
    directory: Directory,
    people: People,
    strategy: Strategy,
    progress: Callable[[str], None],
) -> float | None:
    """The dispersion of groups formed by visits; None where the release itself can fit it."""
    if strategy.name not in FORMED_BY_VISITS or options.knowledge == "none":
        return None
    if options.knowledge == "shares":  # these groups look even on the visits that formed them
        rule = "be model, dispersion or none for groups formed by visits"
        raise KreachError.rule("knowledge", rule, options.knowledge)
    progress("fitting dispersion on visits that did not form the groups")
    return cross_fitted_dispersion(
        directory, people, strategy, options.group_size, options.seed, options.history_end
    )


def _facts(
    options: BuildOptions,
    people: People,
    assignment: Assignment,
    released: Release,
    site: SiteModel,
) -> dict[str, Any]:
    """The contents of build.json."""
    return {
        "version": released.catalogue.version,
        "strategy": assignment.strategy,
        "group_size": options.group_size,
        "people": people.count,
        "visits": int(people.visits.sum()),
        "groups": assignment.group_count,
        "smallest_group": int(assignment.group_sizes.min()),
        "largest_group": int(assignment.group_sizes.max()),
        "seed": options.seed,
        "buyer": options.buyer,
        "knowledge": options.knowledge,
        "dispersion": released.catalogue.dispersion,
        "likelihood_dispersion": _likelihood(people, assignment),
        "information_kept": information_kept(people, assignment.groups[:, 0], options.attributes),
        "coverage": _coverages(people, assignment, options.segments),
        "visit_model": site.facts(),
        "renew_weeks": RENEW_WEEKS,
        "warnings": [*released.warnings, *site.warnings],
    }


def _likelihood(people: People, assignment: Assignment) -> dict[str, float | None] | None:
    """The maximum-likelihood dispersion with its standard error, where it is defined."""
    if assignment.overlapping or people.visits.sum() == 0:
        return None
    fit = fit_dispersion(people.visits, assignment.group_of())
    if not np.isfinite(fit.standard_error):
        return {"value": None, "standard_error": None}
    return {"value": fit.dispersion, "standard_error": fit.standard_error}


def _coverages(
    people: People, assignment: Assignment, segments: tuple[str, ...]
) -> dict[str, float]:
    """For each targeting attribute the mean coverage of its values, weighted by people."""
    group_of = assignment.groups[:, 0]
    result = {}
    for name in segments:
        codes = people.attribute(name).codes
        total = 0.0
        for code in np.unique(codes).tolist():
            targeted = codes == code
            total += coverage(group_of, targeted.astype(np.int64)) * np.count_nonzero(targeted)
        result[name] = total / people.count
    return result
