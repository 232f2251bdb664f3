"""Price history: a file of market prices becomes a market."""

from pathlib import Path

import numpy as np

from kreach.adsystem.bidding.market import EmpiricalMarket
from kreach.errors import KreachError

__all__ = ["read_prices"]


def read_prices(
    path: Path, campaign: str | None = None, auction: str = "second_price"
) -> EmpiricalMarket:
    """The market of a prices file (Parquet or CSV): market_price, optionally count and campaign."""
    import duckdb  # noqa: PLC0415 - slow to import

    if not path.exists():
        raise KreachError.rule("prices", "name a file that exists", str(path))
    text = str(path).replace("'", "''")
    reader = f"read_csv('{text}')" if path.suffix.lower() == ".csv" else f"read_parquet('{text}')"
    try:
        with duckdb.connect() as engine:
            held = [str(row[0]) for row in engine.execute(f"DESCRIBE FROM {reader}").fetchall()]
            if "market_price" not in held:
                rule = "have a column market_price"
                raise KreachError.rule("prices", rule, f"{path} with {', '.join(held)}")
            if campaign is not None and "campaign" not in held:
                raise KreachError.rule("prices", "have a column campaign", ", ".join(held))
            where = "WHERE CAST(campaign AS VARCHAR) = ?" if campaign is not None else ""
            count = "count" if "count" in held else "1"
            rows = engine.execute(
                f"""SELECT CAST(market_price AS DOUBLE) AS price, sum({count})::DOUBLE AS n
                FROM {reader} {where} GROUP BY price ORDER BY price""",
                [campaign] if campaign is not None else [],
            ).fetchnumpy()
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise KreachError.rule("prices", "be a readable Parquet or CSV file", reason) from None
    if np.ma.getmaskarray(rows["price"]).any() or np.ma.getmaskarray(rows["n"]).any():
        raise KreachError.rule("prices", "not be missing", "a row without price or count")
    if len(rows["price"]) == 0:
        wanted = "any campaign" if campaign is None else f"campaign {campaign}"
        raise KreachError.rule("prices", f"hold prices of {wanted}", "none")
    return EmpiricalMarket(np.asarray(rows["price"]), np.asarray(rows["n"]), auction)
