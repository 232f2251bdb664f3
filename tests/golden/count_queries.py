"""Writes the queries of `kreach log sql`: `python -m tests.golden.count_queries`.

Nobody may change them unnoticed: most of these warehouses cannot be run here.
"""

from pathlib import Path

from kreach.adsystem.log.count_tables import count_sql
from kreach.adsystem.log.dialects import DIALECTS

__all__ = ["FOLDER", "golden_query"]

FOLDER = Path(__file__).with_name("sql")


def golden_query(dialect: str) -> str:
    """A query with everything that a query may have."""
    return count_sql(
        dialect,
        "ads.impressions",
        by="day",
        campaigns=["c", "it's"],
        start="2026-11-01",
        end="2026-11-03",
    )


if __name__ == "__main__":
    for each in DIALECTS:
        (FOLDER / f"{each}.sql").write_text(golden_query(each) + "\n")
