"""The report types of campaigns together."""

from typing import TYPE_CHECKING

from kreach.adsystem.reports import tables
from kreach.adsystem.reports.report import (
    CapReport,
    CorrectionInfo,
    Document,
    Interval,
    MayWithhold,
    ModelInfo,
    Suppressed,
)
from kreach.display.objects import Tabular
from kreach.display.table import Columns, Table, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CombinedDocument",
    "CombinedReport",
    "Increment",
    "PartReport",
    "SegmentDocument",
    "SegmentReport",
    "SetReport",
]


class SetReport(Document, frozen=True, kw_only=True):
    """Reach of a set of people at one frequency cap; fields as in the report of one campaign."""

    cap: int
    reach: float
    std: float
    interval: Interval
    level: float
    bounds: MayWithhold[tuple[int, int]]
    bounds_attained: MayWithhold[tuple[bool, bool]]
    over_exposed: float
    unique_reach: float
    unique_reach_interval: Interval
    average_frequency: float
    frequency: tuple[float, ...]
    at_least: tuple[float, ...]


class Increment(Document, frozen=True, kw_only=True):
    """What a part adds to those before it: people whom none of them reached, and all so far."""

    part: str
    adds: SetReport
    unique_reach_so_far: float


class CombinedReport(Document, frozen=True, kw_only=True):
    """Several parts together at one cap.

    `union`: people whom any part reached. `overlap`: whom two or more did. `only`: whom one part
    alone did. The last two are everybody in the first. `incremental`: in the order given, whom
    each part adds to those before it.
    """

    cap: int
    union: SetReport
    overlap: SetReport
    only: dict[str, SetReport]
    incremental: tuple[Increment, ...]


class SegmentReport(Document, frozen=True, kw_only=True):
    """The groups of one segment."""

    segment: str
    people: int
    groups: int
    impressions: int
    reports: tuple[SetReport, ...]


class SegmentDocument(Document, Tabular, frozen=True, kw_only=True):
    """Reach by segment; `reports` of the segments add up to those of the whole."""

    campaign: str | None
    start: str | None
    end: str | None
    catalogue: str | None
    impressions: int
    rejected: dict[str, int]
    people: int
    basis: str
    model: ModelInfo | None
    reports: tuple[SetReport, ...]
    segments: tuple[SegmentReport, ...]

    def _columns(self) -> Columns:
        return columns_of(tables.segment_rows(self))

    def _display(self) -> Table:
        return tables.segment_table(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach of each segment at the first cap, with intervals."""
        return tables.segment_plot(self, ax)

    def __repr__(self) -> str:
        names = ", ".join(each.segment for each in self.segments)
        return f"SegmentDocument({tables.subject(self)}; {names})"


class PartReport(Document, frozen=True, kw_only=True):
    """One part alone."""

    name: str
    campaign: str | None
    start: str | None
    end: str | None
    impressions: MayWithhold[int]
    reports: tuple[CapReport, ...]


class CombinedDocument(Document, Tabular, frozen=True, kw_only=True):
    """Campaigns, or windows of time, alone and together.

    `combined` is at the first cap asked for, `more_caps` at the others. `overlap_matrix` holds the
    people whom two parts both reached, in the order of `parts`; its diagonal whom each reached.
    `notes` say what a reader should know, such as that a panel's corrections are not in here.
    """

    start: str | None
    end: str | None
    catalogue: str | None
    impressions: MayWithhold[int]
    rejected: dict[str, MayWithhold[int]]
    people: int
    basis: MayWithhold[str]
    model: MayWithhold[ModelInfo] = None
    parts: tuple[PartReport, ...]
    combined: MayWithhold[CombinedReport]
    more_caps: tuple[CombinedReport, ...] = ()
    overlap_matrix: tuple[tuple[float, ...], ...] = ()
    correction: MayWithhold[CorrectionInfo] = None
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[str, ...] = ()

    def _columns(self) -> Columns:
        return columns_of(tables.combined_rows(self))

    def _display(self) -> Table:
        return tables.combined_table(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """For each part: whom only it reached, and whom another part reached as well."""
        return tables.combined_plot(self, ax)

    def __repr__(self) -> str:
        names = ", ".join(part.name for part in self.parts)
        if self.combined is None:
            return f"CombinedDocument({names}; withheld)"
        union, overlap = self.combined.union.reach, self.combined.overlap.reach
        cap = self.combined.cap
        return f"CombinedDocument({names}; cap={cap}, union={union:,.1f}, overlap={overlap:,.1f})"
