"""The report types of campaigns together."""

from kreach.adsystem.reports.report import (
    CapReport,
    CorrectionInfo,
    Document,
    Interval,
    MayWithhold,
    ModelInfo,
    Suppressed,
)

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


class SegmentDocument(Document, frozen=True, kw_only=True):
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


class PartReport(Document, frozen=True, kw_only=True):
    """One part alone."""

    name: str
    campaign: str | None
    start: str | None
    end: str | None
    impressions: MayWithhold[int]
    reports: tuple[CapReport, ...]


class CombinedDocument(Document, frozen=True, kw_only=True):
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
