"""The audit of a folder that `kreach groups build` or `kreach groups renew` wrote."""

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kreach.publisher.audience_file import declared_audiences
from kreach.publisher.audit.assess import audit
from kreach.publisher.audit.report import Audit, Subject
from kreach.publisher.audit.seed import seed_view
from kreach.publisher.audit.visit_model import model_view
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.lineage import Crowds
from kreach.publisher.release import Floors
from kreach.publisher.renewed_people import PAST
from kreach.publisher.store import Build, read_build, read_private_columns

__all__ = ["audit_build", "past_crowds"]


def audit_build(
    folder: Path,
    now: datetime,
    progress: Callable[[str], None],
    *,
    sensitive: tuple[str, ...] = (),
    segments: tuple[str, ...] = (),
    churn: float = 0.05,
    seed: int = 0,
) -> Audit:
    """Audit a build: its columns as they were declared, and more `sensitive` and `segments`.

    Floors are those of the build, and never less than the defaults: a build that promised less
    does not pass for that.
    """
    progress("reading the build")
    stored = read_build(folder)
    facts, people, assignment = stored.facts, stored.people, stored.assignment
    formed_by = NamedStrategy.of_facts(facts)
    all_sensitive = (*formed_by.sensitive, *sensitive)
    known = tuple(name for name in formed_by.segments if name in people.attributes)
    progress("trying seeds")
    tried = seed_view(folder, people, assignment, facts)
    progress("running attacks")
    return audit(
        people,
        assignment,
        sensitive=tuple(dict.fromkeys(all_sensitive)),
        segments=tuple(dict.fromkeys((*known, *segments))),
        floors=Floors.of_facts(facts).or_stricter(Floors()),
        churn=churn,
        seed=seed,
        visit_model=model_view(folder, facts),
        formed_by=formed_by,
        diversity=formed_by.diversity if formed_by.sensitive else None,
        seed_view=tried,
        subject=Subject(
            str(facts["version"]),
            str(facts.get("buyer", "default")),
            str(facts.get("knowledge", "unknown")),
            now.strftime("%Y-%m-%d %H:%M UTC"),
            version("kreach"),
        ),
        columns_not_kept=tuple(facts.get("columns_not_kept") or ()),
        declared=declared_audiences(folder),
        past=past_crowds(stored),
    )


def past_crowds(build: Build) -> Crowds | None:
    """What linking a renewed build with its earlier versions gives away; None for a first one."""
    stored = read_private_columns(build.folder, PAST)
    if not stored or build.assignment.overlapping:
        return None
    columns = [stored[name] for name in sorted(stored)]
    return Crowds.of(np.stack([*columns, build.assignment.group_of()], axis=1))
