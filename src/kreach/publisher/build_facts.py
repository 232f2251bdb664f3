"""The facts of a build, for build.json and for people; the same for a first one and a renewed one.

`seed` in them is a secret.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from kreach.publisher.audit.visible import visible_views
from kreach.publisher.directory import Directory
from kreach.publisher.diversity_cost import diversity_facts, grouping_quality
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.people import People
from kreach.publisher.regrouping import RENEW_WEEKS
from kreach.publisher.release import Release
from kreach.publisher.seeds import draw_seed
from kreach.publisher.site_model import SiteModel
from kreach.publisher.visit_knowledge import fit_dispersion

__all__ = ["formation_facts", "group_facts", "seed_or_drawn"]


def seed_or_drawn(seed: int | None) -> tuple[int, str]:
    """A seed that was given, or one that is drawn, and its origin."""
    return (draw_seed(), "drawn") if seed is None else (seed, "given")


def group_facts(
    people: People,
    assignment: Assignment,
    released: Release,
    formed_by: NamedStrategy,
    site: SiteModel,
) -> dict[str, Any]:
    """The facts of the groups and of the release."""
    quality = grouping_quality(people, assignment, formed_by)
    views = visible_views(people, assignment, formed_by.segments, released.floors)
    return {
        "version": released.catalogue.version,
        "strategy": assignment.strategy,
        "group_size": assignment.group_size,
        "people": people.count,
        "visits": int(people.visits.sum()),
        "groups": assignment.group_count,
        "smallest_group": int(assignment.group_sizes.min()),
        "largest_group": int(assignment.group_sizes.max()),
        "dispersion": released.catalogue.dispersion,
        "likelihood_dispersion": _likelihood(people, assignment),
        "information_kept": quality["information_kept"],
        "coverage": quality["coverage"],
        "floors": asdict(released.floors),
        "visible": [asdict(view) for view in views],
        "visit_model": site.facts(),
        "renew_weeks": RENEW_WEEKS,
        "warnings": [*released.warnings, *site.warnings],
    }


def formation_facts(
    people: People,
    assignment: Assignment,
    formed_by: NamedStrategy,
    without_floors: Assignment,
    directory: Directory,
) -> dict[str, Any]:
    """How the groups were formed, for the audit; `without_floors` are groups without diversity."""
    return {
        "formed_by": formed_by.document(),
        "columns_not_kept": sorted(set(directory.attribute_names) - set(people.attributes)),
        "diversity": diversity_facts(people, assignment, formed_by, without_floors),
    }


def _likelihood(people: People, assignment: Assignment) -> dict[str, float | None] | None:
    """The maximum-likelihood dispersion with its standard error, where it is defined."""
    if assignment.overlapping or people.visits.sum() == 0:
        return None
    fit = fit_dispersion(people.visits, assignment.group_of())
    if not np.isfinite(fit.standard_error):
        return {"value": None, "standard_error": None}
    return {"value": fit.dispersion, "standard_error": fit.standard_error}
