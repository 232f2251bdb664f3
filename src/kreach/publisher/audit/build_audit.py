"""The audit of a folder that `kreach groups build` wrote."""

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from kreach.publisher.audience_file import declared_audiences
from kreach.publisher.audit.assess import audit
from kreach.publisher.audit.report import Audit, Subject
from kreach.publisher.audit.seed import seed_view
from kreach.publisher.audit.visit_model import model_view
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.store import read_build

__all__ = ["audit_build"]


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
    """Audit a build: its columns as they were declared, and more `sensitive` and `segments`."""
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
    )
