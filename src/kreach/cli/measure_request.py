"""What `kreach measure` was asked for, and the document that answers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.log.impression_log import ImpressionLog
    from kreach.adsystem.log.tables import GroupTable
    from kreach.adsystem.reports.combined_report import CombinedDocument, SegmentDocument
    from kreach.adsystem.reports.report import ModelInfo, ReachDocument
    from kreach.boundary.correction import Correction

    Measured = ReachDocument | CombinedDocument | SegmentDocument

__all__ = ["MeasureRequest", "with_model"]

_SHOWN_CAMPAIGNS = 5


@dataclass(frozen=True)
class MeasureRequest:
    """The options of `kreach measure`, checked as far as they can be without the log."""

    groups: str
    impressions: str | None
    counts: str | None  # instead of impressions
    caps: tuple[int, ...]
    classes: str | None
    campaigns: tuple[str, ...]
    windows: Mapping[str, tuple[object, object]] | None
    span: tuple[str | None, str | None]
    by: str | None
    segments: str | None
    model: str | None
    traffic: float
    panel: Path | None
    level: float
    unique_ids: bool

    def document(self, engine: Any, progress: Any, *, may_be_unknown: bool = False) -> "Measured":
        """Read the log and measure it.

        A campaign that the log does not have is refused, unless it `may_be_unknown`: who watches a
        log may wait for a campaign to begin.
        """
        from msgspec import structs

        from kreach.adsystem.log.group_table import open_groups

        corrections = self._corrections()
        progress("reading the groups")
        opened = open_groups(engine, self.groups, self.classes)
        groups = with_model(opened, self.model, self.traffic)
        log = self._open_log(engine)
        with progress.scanning(engine, f"counting impressions{self._files()}"):
            document = self._measured(log, groups, corrections)
            if not may_be_unknown:
                self._refuse_unknown(log, document)
        return structs.replace(document, model=self._at_traffic(document.model))

    def _open_log(self, engine: Any) -> "ImpressionLog":
        from kreach.adsystem.log.count_tables import open_counts
        from kreach.adsystem.log.impression_log import ImpressionLog

        if self.counts is not None:
            return open_counts(engine, self.counts)
        assert self.impressions is not None, "one of the two is given"
        return ImpressionLog.open(engine, self.impressions, unique_ids=self.unique_ids)

    def _measured(
        self,
        log: "ImpressionLog",
        groups: "GroupTable",
        corrections: "tuple[Correction, ...] | None",
    ) -> "Measured":
        from kreach.adsystem.reports.by_segment import measure_segments
        from kreach.adsystem.reports.panel_window import corrected_series, corrected_window
        from kreach.adsystem.reports.window import measure_series, measure_window

        if self.windows or len(self.campaigns) > 1:
            return self._together(log, groups, corrections)
        where: dict[str, Any] = {"start": self.span[0], "end": self.span[1]}
        where["campaign"] = self.campaigns[0] if self.campaigns else None
        if self.segments is not None:
            found = measure_segments(log, groups, self.caps, segments=self.segments, **where)
            return found.document(self.level)
        if self.by is not None:
            series = measure_series(log, groups, self.caps, by=self.by, **where)
            if corrections is not None:
                return corrected_series(log, groups, series, corrections, self.level)
            return series.document(self.level)
        window = measure_window(log, groups, self.caps, **where)
        if corrections is not None:
            return corrected_window(log, groups, window, corrections, self.level)
        return window.document(self.level)

    def _together(
        self,
        log: "ImpressionLog",
        groups: "GroupTable",
        corrections: "tuple[Correction, ...] | None",
    ) -> "CombinedDocument":
        from kreach.adsystem.reports.combined import measure_together
        from kreach.adsystem.reports.panel_together import corrected_together

        named: dict[str, Any] = {"campaigns": self.campaigns, "windows": self.windows}
        start, end = self.span
        together = measure_together(log, groups, self.caps, start=start, end=end, **named)
        if corrections is not None:
            return corrected_together(log, groups, together, corrections, self.level)
        return together.document(self.level)

    def _corrections(self) -> "tuple[Correction, ...] | None":
        from kreach.boundary.correction import read_corrections

        return None if self.panel is None else read_corrections(self.panel)

    def _files(self) -> str:
        folder = None if self.impressions is None else Path(self.impressions)
        files = len(list(folder.rglob("*.parquet"))) if folder and folder.is_dir() else 0
        return f" in {files:,} files" if files > 1 else ""

    def _at_traffic(self, model: "ModelInfo | None") -> "ModelInfo | None":
        from msgspec import structs

        if model is None or self.traffic == 1.0:
            return model
        return structs.replace(model, traffic=self.traffic, traffic_source="given")

    def _refuse_unknown(self, log: "ImpressionLog", document: "Measured") -> None:
        """A campaign without an impression is looked for in the whole log."""
        from kreach.adsystem.reports.combined_report import CombinedDocument

        empty = self.campaigns if not document.impressions else ()
        if isinstance(document, CombinedDocument) and not self.windows:
            empty = tuple(part.name for part in document.parts if not part.impressions)
        known = log.campaigns() if empty else []
        for name in empty:
            if name not in known:
                raise KreachError(_unknown(name, known), field="campaign", code="unknown")


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "the log holds no campaign at all"
    if known and not near:
        more = ", ..." if len(known) > _SHOWN_CAMPAIGNS else ""
        hint = f"the log holds {', '.join(known[:_SHOWN_CAMPAIGNS])}{more}"
    return f"no campaign {name!r} in the log: {hint}"


def with_model(groups: "GroupTable", model: str | None, traffic: float) -> "GroupTable":
    """The groups with the visit model that was asked for, at the given traffic."""
    from kreach.boundary.visit_model import VisitModel

    chosen = groups.model
    if model == "none":
        chosen = None
    elif model is not None:
        chosen = VisitModel.load(model)
    if chosen is None:
        if traffic != 1.0:
            raise KreachError.rule("traffic", "be 1 without a visit model", traffic)
        return groups.with_model(None)
    return groups.with_model(chosen.at_traffic(traffic))
