"""Results of an engine on a machine whose time zone is not UTC.

Runs as a program for the embedded engine, which reads the zone of its process once.
"""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import kreach as kr
from kreach.adsystem.log.engine import Engine

__all__ = ["ZONE", "answers"]

ZONE = "America/New_York"


def answers(engine: Engine, folder: Path) -> dict[str, Any]:
    """Questions to the files of a folder and to a log that is made there, without a zone."""
    naive, just_after = datetime(2026, 11, 1), "2026-11-01T00:00:00.000001Z"
    result: dict[str, Any] = {}
    for name in ("naive.parquet", "zoned.parquet", "text.csv"):
        log = kr.ImpressionLog.open(engine, str(folder / name))
        result[name] = log.counts(None, naive, "2026-11-02")
    created = kr.ImpressionLog.create(engine, str(folder / "made"))
    end = datetime(2026, 11, 2)  # received a second before it: hours later it would be late
    received = datetime(2026, 11, 1, 23, 59, 59)
    created.append([kr.Impression("1", "c", "a", naive)], received=received)
    result["appended"] = created.counts(None, naive, just_after)
    groups = kr.open_groups(engine, str(folder / "groups.parquet"))
    series = kr.measure_series(created, groups, [1], by="day", end=end)
    result["late"] = series.whole.warnings["late"]
    result["day"] = series.document().start
    in_memory = {"campaign": ["c"], "group": ["a"], "ts": [naive]}
    result["memory"] = kr.ImpressionLog.open(engine, in_memory).counts(None, naive, just_after)
    return result


if __name__ == "__main__":
    with kr.EmbeddedEngine() as embedded:
        print(json.dumps(answers(embedded, Path(sys.argv[1]))))
