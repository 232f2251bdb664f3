"""A prices file becomes a market: counts, campaigns, formats, and one clear refusal."""

from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pytest

import kreach as kr
from kreach.adsystem.bidding.history import read_prices


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def parquet(path: Path, prices: npt.NDArray[np.float64]) -> Path:
    with duckdb.connect() as engine:
        engine.register("rows", {"market_price": prices})
        engine.execute(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet)")
    return path


def test_prices_alone(tmp_path: Path) -> None:
    market = read_prices(csv(tmp_path / "p.csv", "market_price", "1.5", "0", "3", "1.5"))
    assert market.auction == "second_price"
    assert market.win_probability([0.0, 1.0, 1.5, 3.0]).tolist() == [0.25, 0.25, 0.75, 1.0]
    assert float(market.expected_cost(9.0)) == 1.5


def test_counts_and_the_kind_of_auction(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "count,market_price,else", "3,1,x", "1,2,y", "0,9,z")
    market = read_prices(path, auction="first_price")
    assert market.auction == "first_price"
    assert market.win_probability([1.0, 2.0]).tolist() == [0.75, 1.0]
    assert float(market.expected_cost(2.0)) == 2.0


def test_one_campaign_or_all(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "campaign,market_price", "7,1", "7,3", "8,5")
    assert float(read_prices(path, "7").win_probability(4.0)) == 1.0
    assert float(read_prices(path).win_probability(4.0)) == pytest.approx(2 / 3)
    with pytest.raises(kr.KreachError, match=r"^prices must hold prices of campaign 9, got 'none'"):
        read_prices(path, "9")


def test_parquet_and_a_folder_of_it(tmp_path: Path) -> None:
    draws = np.random.default_rng(1).lognormal(size=1_000)
    folder = tmp_path / "prices"
    folder.mkdir()
    for part, rows in enumerate(np.split(draws, 4)):
        parquet(folder / f"{part}.parquet", rows)
    one = parquet(tmp_path / "one.parquet", draws)
    bids = np.geomspace(0.1, 10.0, 20)
    expected = kr.EmpiricalMarket(draws).win_probability(bids)
    for path in (folder, one):
        assert read_prices(path).win_probability(bids) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("price", "1.0"), r"^prices must have a column market_price, got .*p\.csv with price"),
        (("market_price",), r"^prices must hold prices of any campaign, got 'none'"),
        (("market_price", "1.0", "-2"), r"^prices must be numbers ≥ 0, got .*-2.0"),
        (("market_price,count", "1.0,-2"), r"^counts must be numbers ≥ 0, got .*-2.0"),
        (("market_price,count", "1.0,0"), r"^counts must be finite and not all 0, got .*0.0"),
        (("market_price,count", "1.0,", "2.0,1"), r"^prices must not be missing, got "),
        (("market_price,count", ",1", "2.0,1"), r"^prices must not be missing, got "),
        (
            ("market_price", "1.0", "dear"),
            r"^prices.market_price must hold numbers, got 'dear'; write numbers",
        ),
        (("market_price", "$1.20", "$3"), r"^prices.market_price must hold numbers, got '\$1.20'"),
        (("market_price,count", "1.0,few"), r"^prices.count must hold numbers, got 'few'"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(kr.KreachError, match=message):
        read_prices(csv(tmp_path / "p.csv", *lines))


def test_a_campaign_cannot_be_chosen_without_the_column(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "market_price", "1.0")
    with pytest.raises(kr.KreachError, match=r"^prices must have a column campaign, got"):
        read_prices(path, "7")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(kr.KreachError, match=r"^prices must name a file that exists, got"):
        read_prices(tmp_path / "none.csv")
    broken = tmp_path / "p.parquet"
    broken.write_bytes(b"not parquet at all")
    with pytest.raises(kr.KreachError, match=r"^prices must be a readable Parquet or CSV file"):
        read_prices(broken)


def test_an_unknown_auction_is_refused(tmp_path: Path) -> None:
    path = csv(tmp_path / "p.csv", "market_price", "1.0")
    with pytest.raises(kr.KreachError, match=r"^auction must be one of second_price, first_price"):
        read_prices(path, auction="english")
