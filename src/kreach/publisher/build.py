"""Build groups from a visits file: read, group, fit, release, store."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.errors import KreachError
from kreach.publisher.audit.visible import visible_views
from kreach.publisher.columns import pool_small_values, refuse_identifying
from kreach.publisher.crossfit import cross_fitted_dispersion
from kreach.publisher.directory import Directory
from kreach.publisher.diversity_cost import diversity_facts, grouping_quality
from kreach.publisher.grouping import Diverse, DiversityFloors, Strategy, form_groups
from kreach.publisher.grouping.base import FORMED_BY_VISITS, Assignment
from kreach.publisher.grouping.named import STRATEGIES, NamedStrategy
from kreach.publisher.people import People
from kreach.publisher.regrouping import RENEW_WEEKS
from kreach.publisher.release import Floors, Release, new_key, release
from kreach.publisher.seeds import draw_seed, fitting_seed
from kreach.publisher.site_model import SiteModel, fit_site_model
from kreach.publisher.store import check_folder, write_build
from kreach.publisher.visit_knowledge import fit_dispersion

__all__ = ["STRATEGIES", "BuildOptions", "build_groups", "strategy_named"]


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build.

    Without a `seed` one is drawn and stays in the publisher's half. A given seed makes the build
    repeatable, also for others who have the visits: it is for studies and tests.
    """

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
    seed: int | None = None
    memory_hours: float | None = None  # of the gateway, to tell the buyer
    sensitive: tuple[str, ...] = ()  # columns whose values no group may reveal
    diversity: DiversityFloors = field(default_factory=DiversityFloors)

    @property
    def formed_by(self) -> NamedStrategy:
        """The strategy with all that it needs."""
        return NamedStrategy(
            self.strategy,
            self.attributes,
            self.segments,
            self.partitions,
            self.floors.membership_class,
            self.sensitive,
            self.diversity,
        )


def strategy_named(options: BuildOptions) -> Strategy:
    """The strategy that the options name."""
    return options.formed_by.strategy()


def build_groups(
    options: BuildOptions, now: datetime, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Build, and return the facts of the build for JSON; a drawn `seed` in them is a secret."""
    strategy = strategy_named(options)
    check_folder(options.out)
    progress("reading visits")
    directory = Directory(options.visits, options.users)
    if options.strategy == "attributes" and not options.attributes:
        raise KreachError.rule("attributes", "name at least one column to group by", "none")
    people, pooled = _people(options, directory)
    progress(f"grouping {people.count:,} people ({strategy.name})")
    seed = draw_seed() if options.seed is None else options.seed
    assignment = form_groups(people, options.group_size, strategy, seed)
    like = strategy.lenient() if isinstance(strategy, Diverse) else strategy
    dispersion = _cross_fitted(options, directory, people, like, fitting_seed(seed), progress)
    site = SiteModel(None, None, ())
    if options.knowledge == "model":
        visits = directory.visits(end=options.history_end)
        site = fit_site_model(visits, people, assignment, like, fitting_seed(seed), progress)
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
    facts |= _formation_facts(options, directory, people, assignment, seed)
    facts["pooled"] = pooled
    facts["warnings"] += _pooling_warnings(pooled, options.group_size)
    progress("writing")
    write_build(options.out, directory.user_ids(), people, assignment, released, key, facts)
    return facts


def _people(options: BuildOptions, directory: Directory) -> tuple[People, dict[str, int]]:
    """Everybody with the columns to keep; values that too few share are pooled."""
    named = (*options.attributes, *options.segments, *options.sensitive, *options.keep)
    people = directory.people(tuple(dict.fromkeys(named)), end=options.history_end)
    refuse_identifying(people)
    return pool_small_values(people, options.segments, options.group_size)


def _formation_facts(
    options: BuildOptions,
    directory: Directory,
    people: People,
    assignment: Assignment,
    seed: int,
) -> dict[str, Any]:
    """How the groups were formed, for the audit."""
    return {
        "seed": seed,
        "seed_origin": "drawn" if options.seed is None else "given",
        "formed_by": options.formed_by.document(),
        "columns_not_kept": sorted(set(directory.attribute_names) - set(people.attributes)),
        "diversity": diversity_facts(people, assignment, options.formed_by, seed),
    }


def _pooling_warnings(pooled: dict[str, int], group_size: int) -> list[str]:
    return [
        f"{name}: {count:,} people have values that fewer than {group_size} people share; they "
        "are pooled and cannot be targeted on their own"
        for name, count in pooled.items()
    ]


def _cross_fitted(
    options: BuildOptions,
    directory: Directory,
    people: People,
    strategy: Strategy,
    seed: int,
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
        directory, people, strategy, options.group_size, seed, options.history_end
    )


def _facts(
    options: BuildOptions,
    people: People,
    assignment: Assignment,
    released: Release,
    site: SiteModel,
) -> dict[str, Any]:
    """The facts of the groups and of the release."""
    quality = grouping_quality(people, assignment, options.formed_by)
    return {
        "version": released.catalogue.version,
        "strategy": assignment.strategy,
        "group_size": options.group_size,
        "people": people.count,
        "visits": int(people.visits.sum()),
        "groups": assignment.group_count,
        "smallest_group": int(assignment.group_sizes.min()),
        "largest_group": int(assignment.group_sizes.max()),
        "buyer": options.buyer,
        "knowledge": options.knowledge,
        "dispersion": released.catalogue.dispersion,
        "likelihood_dispersion": _likelihood(people, assignment),
        "information_kept": quality["information_kept"],
        "coverage": quality["coverage"],
        "floors": asdict(options.floors),
        "visible": [
            asdict(view)
            for view in visible_views(people, assignment, options.segments, options.floors)
        ],
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
