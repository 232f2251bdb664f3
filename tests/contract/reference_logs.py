"""Logs and groups on disk, and what any engine must make of them: a reference in plain Python."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience
from kreach.boundary.times import Window

__all__ = [
    "DAY",
    "MICRO",
    "START",
    "Expected",
    "Row",
    "assert_close",
    "assert_one_line",
    "assert_report",
    "audience_columns",
    "documents",
    "expected",
    "named_classes",
    "rows_at",
    "write_classes",
    "write_csv",
    "write_groups",
    "write_log",
]

START = datetime(2026, 11, 1, tzinfo=UTC)  # a Sunday
DAY = timedelta(days=1)
MICRO = timedelta(microseconds=1)


class Row(NamedTuple):
    """One row of a log; anything may be missing."""

    impression_id: str | None
    campaign: str | None
    group: str | None
    ts: datetime | None


def rows_at(group: str, *times: datetime, campaign: str = "c", ids: str = "i") -> list[Row]:
    """Impressions of one group, each with an id of its own."""
    return [Row(f"{ids}-{group}-{at}", campaign, group, ts) for at, ts in enumerate(times)]


@dataclass(frozen=True)
class Expected:
    """What a log says, counted one row at a time."""

    counts: dict[str, int]
    no_time: int
    no_group: int
    no_campaign: int
    duplicate: int
    rows: int  # of the campaign, in the window


def expected(
    rows: Iterable[Row], campaign: str | None = None, window: Window | None = None
) -> Expected:
    """Of rows sharing an id the earliest counts, then the least group; later rows are copies."""
    rows = list(rows)
    window = window or Window()
    chosen = [row for row in rows if campaign is None or row.campaign == campaign]
    timed = [row for row in chosen if row.ts is not None]

    def inside(row: Row) -> bool:
        assert row.ts is not None
        after = window.start is None or row.ts >= window.start
        return after and (window.end is None or row.ts < window.end)

    before = [row for row in timed if window.end is None or (row.ts and row.ts < window.end)]
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    duplicate = 0
    whole = [row for row in before if row.group is not None]
    for row in sorted(whole, key=lambda row: (row.ts, row.group)):
        copy = row.impression_id is not None and row.impression_id in seen
        if row.impression_id is not None:
            seen.add(row.impression_id)
        if not inside(row):
            continue
        if copy:
            duplicate += 1
        else:
            assert row.group is not None
            counts[row.group] += 1
    return Expected(
        dict(counts),
        len(chosen) - len(timed),
        sum(row.group is None for row in timed if inside(row)),
        sum(row.campaign is None for row in rows),
        duplicate,
        sum(inside(row) for row in timed),
    )


def write_log(path: Path, rows: Sequence[Row], **more: Any) -> str:
    """A Parquet file; `more` are further columns, or other types for these."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Any] = {
        "impression_id": pa.array([row.impression_id for row in rows], pa.string()),
        "campaign": pa.array([row.campaign for row in rows], pa.string()),
        "group": pa.array([row.group for row in rows], pa.string()),
        "ts": pa.array([row.ts for row in rows], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns | more), path)
    return str(path)


def write_csv(path: Path, header: str, *lines: str) -> str:
    """A text file, as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return str(path)


def write_groups(path: Path, **columns: Any) -> str:
    """A Parquet file of groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def write_classes(path: Path, classes: Iterable[tuple[Sequence[str | None], int | None]]) -> str:
    """A Parquet file of membership classes."""
    listed = list(classes)
    groups = pa.array([list(groups) for groups, _ in listed], pa.list_(pa.string()))
    heads = pa.array([heads for _, heads in listed], pa.int64())
    return write_groups(path, groups=groups, headcount=heads)


def audience_columns(audience: kr.Audience, ids: Sequence[str]) -> dict[str, Any]:
    """The groups file of an audience; what goes without saying is left out."""
    columns: dict[str, Any] = {"group": list(ids), "size": audience.group_sizes.tolist()}
    if isinstance(audience, ProfiledAudience):
        shares = [audience.shares_of(j).tolist() for j in range(audience.group_count)]
        columns["visit_shares"] = pa.array(shares, pa.list_(pa.float64()))
    elif isinstance(audience, DisjointAudience):
        if not np.array_equal(audience.targeted_counts, audience.group_sizes):
            columns["targeted"] = audience.targeted_counts.tolist()
        if audience.dispersion is not None:  # uniform is written in both ways there are
            spread = [
                None if np.isinf(a) and at % 2 else a for at, a in enumerate(audience.dispersion)
            ]
            columns["dispersion"] = pa.array(spread, pa.float64())
    return columns


def named_classes(audience: OverlappingAudience, ids: Sequence[str]) -> list[tuple[list[str], int]]:
    """The classes of an audience by the names of their groups."""
    rows = zip(audience.classes.tolist(), audience.headcounts.tolist(), strict=True)
    return [([ids[j] for j in row if j >= 0], heads) for row, heads in rows]


def assert_close(ours: Any, theirs: Any, *, rel: float = 1e-12, where: str = "") -> None:
    """Plain values that agree: counts exactly, numbers to `rel`."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_close(ours[key], value, rel=rel, where=f"{where}.{key}")
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), where
        for at, value in enumerate(theirs):
            assert_close(ours[at], value, rel=rel, where=f"{where}[{at}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=rel, abs=rel), where
    else:
        assert ours == theirs, where


def documents(*reports: kr.ReachReport) -> list[dict[str, Any]]:
    """Reports of one window as plain values."""
    seen = reports[0].impressions
    report = kr.WindowReport(None, Window(), None, seen, {}, {}, reports)
    listed: list[dict[str, Any]] = msgspec.to_builtins(report.document().reports)
    return listed


def assert_report(
    measured: kr.WindowReport, audience: kr.Audience, ids: Sequence[str], truth: Expected
) -> None:
    """A report of an engine says what the library says about the counts of the reference."""
    impressions = [truth.counts.get(group, 0) for group in ids]
    unknown = sum(n for group, n in truth.counts.items() if group not in set(ids))
    assert measured.impressions == sum(impressions)
    assert measured.rejected["no_time"] == truth.no_time
    assert measured.rejected["no_group"] == truth.no_group
    assert measured.rejected["unknown_group"] == unknown
    assert measured.rejected["duplicate"] == truth.duplicate
    if measured.campaign is not None:
        assert measured.rejected["no_campaign"] == truth.no_campaign
    refused = truth.no_group + unknown + truth.duplicate
    assert measured.impressions + refused == truth.rows
    for report in measured.reports:
        plain = kr.measure(audience, impressions, report.cap)
        ours, theirs = documents(report)[0], documents(plain)[0]
        if isinstance(audience, OverlappingAudience):  # simulated, on groups in another order
            for each in (ours, theirs):
                for key in [key for key in each if "interval" in key]:
                    del each[key]
        # a standard deviation of 0 is the root of what rounding leaves
        assert ours.pop("std") == pytest.approx(theirs.pop("std"), rel=1e-9, abs=1e-6)
        ours.pop("at_least_intervals", None)
        theirs.pop("at_least_intervals", None)
        assert_close(ours, theirs, rel=1e-11)
        assert report.targeted_user_count == plain.targeted_user_count


def assert_one_line(error: pytest.ExceptionInfo[kr.KreachError], *starts: str) -> str:
    """A complaint of one line that begins with the argument at fault, and quotes no row."""
    message = str(error.value)
    assert "\n" not in message, message
    assert len(message) < 300, message
    arguments = "|".join(re.escape(start) for start in starts)
    assert re.match(rf"({arguments})(\[\d+\])? must ", message), message
    assert "secret" not in message, message  # what bad rows in these tests hold
    return message
