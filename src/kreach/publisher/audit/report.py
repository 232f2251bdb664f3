"""The report of an audit."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.visible import VisibleSummary

__all__ = [
    "Audit",
    "Diversity",
    "Finding",
    "Intersection",
    "Linkage",
    "ModelTable",
    "ModelView",
    "SegmentView",
    "Spread",
    "VisibleView",
]


@dataclass(frozen=True)
class Finding:
    """One verdict: `level` is "ok", "warning" or "danger", `text` says what and why."""

    level: str
    text: str


@dataclass(frozen=True)
class Spread:
    """The minimum, the 5 % quantile, the median and the mean of some numbers."""

    least: float
    p05: float
    median: float
    mean: float

    @staticmethod
    def of(values: FloatArray | IntArray) -> "Spread":
        if len(values) == 0:
            return Spread(0.0, 0.0, 0.0, 0.0)
        least, p05, median = np.quantile(values, [0.0, 0.05, 0.5]).tolist()
        return Spread(least, p05, median, float(np.mean(values)))


@dataclass(frozen=True)
class Diversity:
    """l-diversity of a sensitive attribute: distinct values, and equally likely ones (exp entropy).

    `homogeneous_people` are in a group where everybody has the same value: the group reveals it.
    """

    attribute: str
    min_distinct: int
    min_effective: float
    homogeneous_people: int


@dataclass(frozen=True)
class SegmentView:
    """A targeting segment in these groups.

    `coverage`: targeted members / members of groups that hold any. `exposed_people`: targeted
    people who are fewer than the floor in their group, so that an audience would single them out.
    """

    segment: str
    people: int
    coverage: float
    exposed_people: int


@dataclass(frozen=True)
class Linkage:
    """Share of people whose sequence of group ids is theirs alone after so many versions."""

    method: str
    versions: tuple[int, ...]
    unique_share: tuple[float, ...]
    min_crowd: tuple[int, ...]  # people with the same sequence, for the most exposed person
    median_crowd: tuple[float, ...]  # and for the median person
    moved_share: float  # of people, per version


@dataclass(frozen=True)
class Intersection:
    """The people that a comparison of groups or audiences isolates.

    `classes`: people by combination of groups, for overlapping groups. `small_differences`: pairs
    of segments whose head-counts in some group differ by fewer than the floor, and the people in
    such differences.
    """

    classes: Spread | None
    people_in_small_classes: int
    compared_pairs: int
    small_differences: int
    people_in_small_differences: int


@dataclass(frozen=True)
class ModelTable:
    """One table of a released visit model: its name, its meaning, how many numbers it holds."""

    name: str
    meaning: str
    numbers: int


@dataclass(frozen=True)
class ModelView:
    """The released visit model: about the site, never about a group.

    `min_people_behind_…` is how many people are behind the rarest cell that is not pooled; 0 where
    all are. `unknown_fields` of the released file are none that a model has.
    """

    people: int
    history_days: float
    tables: tuple[ModelTable, ...]
    numbers: int
    min_people_behind_odds: int
    min_people_behind_meetings: int
    unknown_fields: tuple[str, ...]


@dataclass(frozen=True)
class VisibleView:
    """Whom a campaign on an audience can see. `kind` is everyone, segment, rare or declared.

    A value that fewer than k people have is not named: all of a column are one row, "rare", with
    the numbers of the most exposed.
    """

    audience: str
    kind: str
    values: int  # of the column that this row is about
    seen: VisibleSummary


@dataclass(frozen=True)
class Audit:
    """The full report; `document()` is its JSON form."""

    people: int
    groups: int
    group_size: int
    strategy: str
    sizes: Spread
    effective: Spread | None
    groups_below_effective_floor: int
    diversity: tuple[Diversity, ...]
    segments: tuple[SegmentView, ...]
    linkage: tuple[Linkage, ...]
    intersection: Intersection
    findings: tuple[Finding, ...]
    visit_model: ModelView | None = None
    visible: tuple[VisibleView, ...] = ()

    def document(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @property
    def safe(self) -> bool:
        """No finding is a danger."""
        return all(finding.level != "danger" for finding in self.findings)
