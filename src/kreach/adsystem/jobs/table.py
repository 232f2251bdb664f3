"""The table of reach that jobs write: rows, columns and Parquet file."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kreach.adsystem.reports.report import CapReport, ModelInfo
from kreach.boundary.duckdb import scratch_connection, sql_text, translate_errors

__all__ = ["FILE", "REACH_COLUMNS", "ReachRow", "write_reach"]

FILE = "reach.parquet"

REACH_COLUMNS = {
    "campaign": "VARCHAR",
    "catalogue": "VARCHAR",
    "span": "VARCHAR",
    "window_start": "TIMESTAMPTZ",
    "window_end": "TIMESTAMPTZ",
    "cap": "BIGINT",
    "impressions": "BIGINT",
    "spend_micros": "BIGINT",
    "rejected": "BIGINT",
    "people": "BIGINT",
    "reach": "DOUBLE",
    "std": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "level": "DOUBLE",
    "interval_method": "VARCHAR",
    "min_reach": "DOUBLE",
    "max_reach": "DOUBLE",
    "over_exposed": "DOUBLE",
    "average_frequency": "DOUBLE",
    "model": "VARCHAR",
    "model_error": "DOUBLE",
    "complete_until": "TIMESTAMPTZ",
    "note": "VARCHAR",
}


@dataclass(frozen=True)
class ReachRow:
    """A campaign on a catalogue in one window at one cap; without reach, `note` says why.

    `impressions` and `spend_micros` are of all rows, `rejected` of them are on groups that the
    catalogue does not hold. [`low`, `high`] holds reach with probability `level`; no assignment of
    the impressions to people gives less than `min_reach` or more than `max_reach`. `model` and
    `model_error` are the name and error of a report's `ModelInfo`.
    """

    campaign: str
    catalogue: str
    span: str
    window_start: datetime
    window_end: datetime
    cap: int
    impressions: int
    spend_micros: int
    rejected: int | None = None
    people: int | None = None
    reach: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    interval_method: str | None = None
    min_reach: float | None = None
    max_reach: float | None = None
    over_exposed: float | None = None
    average_frequency: float | None = None
    model: str | None = None
    model_error: float | None = None
    note: str | None = None

    @classmethod
    def of(
        cls,
        report: CapReport | None,
        *,
        impressions: int,
        model: ModelInfo | None = None,
        **place: Any,
    ) -> "ReachRow":
        """A row from a report and its place; without a report, the place and totals only."""
        if report is None or model is None:
            return cls(impressions=impressions, **place)
        bounds = report.bounds or (None, None)  # jobs run for operators: nothing is withheld
        return cls(
            **place,
            impressions=impressions,
            rejected=impressions - report.impressions,
            reach=report.reach,
            std=report.std,
            low=report.interval[0],
            high=report.interval[1],
            level=report.level,
            interval_method=report.interval_method,
            min_reach=bounds[0],
            max_reach=bounds[1],
            over_exposed=report.over_exposed,
            average_frequency=report.average_frequency,
            model=model.name,
            model_error=model.error,
        )


def write_reach(rows: Iterable[ReachRow], complete_until: datetime, file: Path) -> int:
    """Write rows in a fixed order, so that the same rows are the same bytes; how many."""
    lines = [asdict(row) | {"complete_until": complete_until} for row in rows]
    lines.sort(key=lambda line: (line["campaign"], line["catalogue"], line["span"], line["cap"]))
    shape = json.dumps([REACH_COLUMNS])
    columns = ", ".join(REACH_COLUMNS)
    with scratch_connection() as engine:
        engine.execute("CREATE TEMP TABLE rows (document VARCHAR)")
        engine.execute(
            "INSERT INTO rows VALUES (?)", [json.dumps(lines, default=datetime.isoformat)]
        )
        with translate_errors("out", "be a folder that can be written"):
            engine.execute(
                f"""COPY (SELECT {columns} FROM
                (SELECT unnest(from_json(document, '{shape}'), recursive := true) FROM rows))
                TO '{sql_text(file)}' (FORMAT parquet)"""
            )
    return len(lines)
