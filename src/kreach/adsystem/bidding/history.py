"""Price history: a file of market prices becomes a market."""

from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.bidding.market import EmpiricalMarket
from kreach.boundary.duckdb import (
    columns_of,
    file_reader,
    scratch_connection,
    sql_name,
    translate_errors,
)
from kreach.errors import KreachError

__all__ = ["read_prices"]


def read_prices(
    path: str | Path, campaign: str | None = None, auction: str = "second_price"
) -> EmpiricalMarket:
    """The market of a prices file (Parquet or CSV): market_price, optionally count and campaign.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "prices.csv"
    ...     _ = file.write_text("market_price,count\\n0.001,30\\n0.002,50\\n")
    ...     read_prices(file)
    EmpiricalMarket(prices=2, mean_price=0.001625, auction='second_price')
    """
    path = Path(path)
    with scratch_connection() as engine:
        columns = columns_of(engine, "prices", path, ("market_price",))
        if campaign is not None and "campaign" not in columns:
            raise KreachError.rule("prices", "have a column campaign", ", ".join(columns))
        where = "WHERE CAST(campaign AS VARCHAR) = ?" if campaign is not None else ""
        count = '"count"' if "count" in columns else "1"
        named = ("campaign",) if "campaign" in columns else ()
        reader = file_reader("prices", path, text_columns=named)
        for column in ("market_price", "count"):
            if column in columns:
                _refuse_text(engine, reader, column)
        with translate_errors("prices", "be a readable Parquet or CSV file"):
            rows = engine.execute(
                f"""SELECT CAST(market_price AS DOUBLE) AS price, sum({count})::DOUBLE AS n
                FROM {reader} {where} GROUP BY price ORDER BY price""",
                [campaign] if campaign is not None else [],
            ).fetchnumpy()
    if np.ma.getmaskarray(rows["price"]).any() or np.ma.getmaskarray(rows["n"]).any():
        raise KreachError.rule("prices", "not be missing", "a row without price or count")
    if len(rows["price"]) == 0:
        wanted = "any campaign" if campaign is None else f"campaign {campaign}"
        raise KreachError.rule("prices", f"hold prices of {wanted}", "none")
    return EmpiricalMarket(np.asarray(rows["price"]), np.asarray(rows["n"]), auction)


def _refuse_text(engine: Any, reader: str, column: str) -> None:
    """Refuse a column with a value that is no number, such as $1.20."""
    name = sql_name(column)
    with translate_errors("prices", "be a readable Parquet or CSV file"):
        found = engine.execute(
            f"""SELECT CAST({name} AS VARCHAR) FROM {reader}
            WHERE {name} IS NOT NULL AND TRY_CAST({name} AS DOUBLE) IS NULL LIMIT 1"""
        ).fetchone()
    if found is not None:
        advice = "write numbers without a currency sign or thousands separators"
        raise KreachError.rule(f"prices.{column}", "hold numbers", found[0], advice)
