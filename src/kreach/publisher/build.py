"""Build groups from a visits file: read, group, fit, release, store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kreach.errors import KreachError
from kreach.publisher.build_facts import formation_facts, group_facts, seed_or_drawn
from kreach.publisher.columns import pooling_warnings, publishable_columns
from kreach.publisher.crossfit import cross_fitted_dispersion
from kreach.publisher.directory import Directory
from kreach.publisher.grouping import Diverse, DiversityFloors, Strategy, form_groups
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.grouping.named import STRATEGIES, NamedStrategy
from kreach.publisher.people import People
from kreach.publisher.release import Floors, new_key, release
from kreach.publisher.seeds import fitting_seed
from kreach.publisher.site_model import SiteModel, fit_site_model
from kreach.publisher.store import check_folder, write_build

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
    seed, origin = seed_or_drawn(options.seed)
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
    formed_by, plain = options.formed_by, assignment
    if formed_by.sensitive:
        plain = form_groups(people, options.group_size, formed_by.plain(), seed)
    facts = group_facts(people, assignment, released, formed_by, site)
    facts |= formation_facts(people, assignment, formed_by, plain, directory)
    facts |= {"seed": seed, "seed_origin": origin, "pooled": pooled}
    facts |= {"buyer": options.buyer, "knowledge": options.knowledge}
    facts["warnings"] += pooling_warnings(pooled, options.group_size)
    progress("writing")
    write_build(options.out, directory.user_ids(), people, assignment, released, key, facts)
    return facts


def _people(options: BuildOptions, directory: Directory) -> tuple[People, dict[str, int]]:
    """Everybody with the columns to keep; values that too few share are pooled."""
    named = (*options.attributes, *options.segments, *options.sensitive, *options.keep)
    people = directory.people(tuple(dict.fromkeys(named)), end=options.history_end)
    return publishable_columns(people, options.segments, options.group_size)


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
