"""Showings from a file: who saw which campaign, and when."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.correction import set_name
from kreach.boundary.duckdb import columns_of, file_reader, new_engine, translate_errors
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["CampaignShowings", "read_showings"]

_REQUIRED = ("user_id", "campaign", "ts")


@dataclass(frozen=True, eq=False)
class CampaignShowings:
    """The showings of one campaign: a number for each person, her id, and the times."""

    campaign: str
    user_ids: list[str]
    person: IntArray  # index into user_ids, of each showing
    at_us: IntArray


def read_showings(
    path: Path, campaign: str | None = None, sets: Sequence[Sequence[str]] = ()
) -> Iterator[CampaignShowings]:
    """The campaigns of a showings file (user_id, campaign, ts; Parquet, CSV), or one of them.

    With `sets` of campaigns, also each set as if it were one campaign.

    Rows that repeat an `impression_id`, where the file has that column, count once.
    """
    engine = new_engine()
    columns = columns_of(engine, "showings", path, _REQUIRED)
    texts = tuple(name for name in ("user_id", "campaign", "impression_id") if name in columns)
    reader = file_reader("showings", path, text_columns=texts)
    once = (
        "QUALIFY impression_id IS NULL OR row_number() OVER (PARTITION BY campaign, impression_id "
        "ORDER BY ts) = 1"
        if "impression_id" in columns
        else ""
    )
    with translate_errors("showings", "be readable to the end, with times in ts"):
        engine.execute(
            f"""CREATE TABLE showing AS SELECT CAST(user_id AS VARCHAR) AS user_id,
            CAST(campaign AS VARCHAR) AS campaign, CAST(ts AS TIMESTAMPTZ) AS ts
            FROM {reader} {once}"""
        )
    for column in _REQUIRED:
        missing = _count(engine, f"{column} IS NULL")
        if missing:
            rule = "not be missing"
            rows = f"{missing:,} rows without"
            raise KreachError.rule(f"showings.{column}", rule, rows, "leave these rows out")
    infinite = _count(engine, "NOT isfinite(ts)")
    if infinite:
        raise KreachError.rule("showings.ts", "be finite times", f"{infinite:,} infinite ones")
    names = [
        row[0]
        for row in engine.execute("SELECT DISTINCT campaign FROM showing ORDER BY 1").fetchall()
    ]
    known = names
    if campaign is not None:
        if campaign not in names:
            listed = ", ".join(names[:5]) or "none"
            raise KreachError.rule("campaign", f"be in the showings ({listed})", campaign)
        names = [campaign]
    if not names:
        raise KreachError.rule("showings", "hold at least one row", str(path))
    unknown = sorted({one for each in sets for one in each} - set(known))
    if unknown:
        rule = f"name campaigns of the showings ({', '.join(known[:5])})"
        raise KreachError.rule("together", rule, ", ".join(unknown))
    several = {set_name(each): list(each) for each in sets}
    for name, members in {**{one: [one] for one in names}, **several}.items():
        rows = engine.execute(
            """SELECT user_id, dense_rank() OVER (ORDER BY user_id) - 1 AS person,
            epoch_us(ts) AS at_us FROM showing WHERE list_contains(?, campaign)
            ORDER BY person, at_us""",
            [members],
        ).fetchnumpy()
        person = np.asarray(np.ma.getdata(rows["person"]), dtype=np.int64)
        first = np.flatnonzero(np.diff(person, prepend=-1))
        ids: list[str] = np.asarray(rows["user_id"])[first].tolist()
        at_us = np.asarray(np.ma.getdata(rows["at_us"]), dtype=np.int64)
        yield CampaignShowings(str(name), ids, person, at_us)


def _count(engine: Any, condition: str) -> int:
    query = f"SELECT count(*) FROM showing WHERE {condition}"
    return int(engine.execute(query).fetchone()[0])
