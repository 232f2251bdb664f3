"""The segment of each released group: for reach by segment.

A group gets a segment only where all its members have the same value of the attribute; elsewhere
it is null, without a word on how many have which. So the file says of a group what groups formed
along a segment say anyway, and of nobody more than of the k others.
"""

from pathlib import Path

import numpy as np

from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.boundary.files import read_catalogue
from kreach.errors import KreachError
from kreach.publisher.store import read_build

__all__ = ["write_segments"]


def write_segments(folder: Path, attribute: str, out: Path) -> dict[str, int]:
    """Write group and segment of every released group; how many groups are pure, and how many not.

    `out` is Parquet, or CSV by its name.
    """
    build = read_build(folder)
    if build.assignment.overlapping:
        raise KreachError.rule("folder", "hold disjoint groups", "overlapping ones")
    catalogue = read_catalogue(folder / "release")
    known = build.people.attribute(attribute)
    group = build.group_indices[:, 0]
    here = group >= 0
    low = np.full(len(catalogue), np.iinfo(np.int64).max)
    high = np.full(len(catalogue), -1)
    np.minimum.at(low, group[here], known.codes[here])
    np.maximum.at(high, group[here], known.codes[here])
    pure = low == high
    labels = [None if label is None else str(label) for label in known.labels]
    segment = [labels[code] if one else None for code, one in zip(high, pure, strict=True)]
    table = {
        "group": np.array(catalogue.groups, dtype=object),
        "segment": np.array(segment, dtype=object),
    }
    kind = "csv, header" if out.suffix == ".csv" else "parquet"
    with scratch_connection() as engine:
        engine.register("segments_table", table)
        query = 'SELECT "group"::VARCHAR AS "group", segment::VARCHAR AS segment'
        engine.execute(f"COPY ({query} FROM segments_table) TO '{sql_text(out)}' (FORMAT {kind})")
    return {"groups": len(catalogue), "mixed": int((~pure).sum())}
