"""The report of an audit."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.lineage import Crowds
from kreach.publisher.visible import VisibleSummary

__all__ = [
    "Audit",
    "ColumnView",
    "Finding",
    "FirstSeed",
    "Intersection",
    "Linkage",
    "ModelTable",
    "ModelView",
    "SeedView",
    "SegmentView",
    "Spread",
    "Subject",
    "VisibleView",
]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: `level` is "ok", "warning" or "danger", `text` says what and why.

    `check` names what was looked at; `number` is what came out and `floor` what was required, both
    as text and empty where there is none.
    """

    level: str
    text: str
    check: str = ""
    number: str = ""
    floor: str = ""


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
class ColumnView:
    """What groups tell about one column: l-diversity, t-closeness, and people behind its values.

    `role` is "sensitive" (declared), "kept", "targeting", or "formed along" (groups were formed by
    it). `min_distinct` and `min_entropy_l` are the lowest l of a group, `max_t` the largest
    distance from all people, `max_share` the largest share of one value in a group. `targeted`:
    each of its values is a segment that campaigns may target.
    `homogeneous_people` are in groups where everybody has the same value; `revealed_people` are
    those of them whose value is not nearly everybody's. `groups_below_floors` break a floor of the
    build. `small_values` are held by fewer than k people each; `nearly_alone` people share theirs
    with at most one other, and where most people do the column is `identifying`.
    """

    name: str
    role: str
    targeted: bool
    ordered: bool
    values: int
    min_distinct: int
    min_entropy_l: float
    max_t: float
    max_share: float
    homogeneous_people: int
    revealed_people: int
    groups_below_floors: int
    small_values: int
    people_in_small_values: int
    nearly_alone: int
    identifying: bool


@dataclass(frozen=True)
class FirstSeed:
    """The seed of the first of a series of versions; `version` is None where nobody recorded it."""

    version: str | None
    origin: str
    bits: int


@dataclass(frozen=True)
class SeedView:
    """Whether others who have the visits could form the same groups again.

    `origin`: "drawn" at random, "given" by whoever built, or "unknown". `bits` of the seed.
    `reproduced`: groups formed again with it are these. `guessed`: an obvious seed, one of
    `tried`, gives these groups. `by_chance`: not every seed does. `released`: it stands in the
    release. `readable`: others on the machine may read the publisher's half.

    Renewed groups do not follow from a seed and visits but from the groups of the first version:
    nothing is tried, and `first` says where the seed of that came from.
    """

    origin: str
    bits: int
    reproduced: bool
    guessed: bool
    tried: int
    by_chance: bool
    released: bool
    readable: bool
    first: FirstSeed | None = None  # of a renewed build


@dataclass(frozen=True)
class Subject:
    """What was audited, when, and by which version."""

    catalogue: str
    buyer: str
    knowledge: str
    audited: str
    kreach: str


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
    """Crowds that linking so many versions leaves, of all people of the newest one.

    `unique_share`: people with nobody else in the same groups since they came; `small_share`: those
    with fewer than four others.
    """

    method: str
    versions: tuple[int, ...]
    unique_share: tuple[float, ...]
    small_share: tuple[float, ...]
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
    columns: tuple[ColumnView, ...]
    segments: tuple[SegmentView, ...]
    linkage: tuple[Linkage, ...]
    intersection: Intersection
    findings: tuple[Finding, ...]
    visit_model: ModelView | None = None
    seed: SeedView | None = None
    subject: Subject | None = None
    diversity_floors: DiversityFloors | None = None
    not_examined: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    visible: tuple[VisibleView, ...] = ()
    past: Crowds | None = None  # linkage over the versions that were, of a renewed build

    def document(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"verdict": self.verdict, "safe": self.safe, **asdict(self)}

    def count(self, level: str) -> int:
        """How many findings have this level."""
        return sum(finding.level == level for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence."""
        dangers, warnings = self.count("danger"), self.count("warning")
        if dangers:
            found = "1 danger was" if dangers == 1 else f"{dangers} dangers were"
            return f"This catalogue must not be released: {found} found."
        if warnings:
            review = "the warning is" if warnings == 1 else f"the {warnings} warnings are"
            return f"This catalogue may be released once {review} reviewed: no danger was found."
        return "This catalogue may be released: no danger was found."

    @property
    def safe(self) -> bool:
        """No finding is a danger."""
        return all(finding.level != "danger" for finding in self.findings)
