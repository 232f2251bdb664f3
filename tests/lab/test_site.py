"""Logs as a world: the split, the flight's end, campaigns, and prices in one unit."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from kreach.adsystem.bidding.market import EmpiricalMarket
from kreach.errors import KreachError
from kreach.lab.site import Site, StudyCampaign, draw_campaigns, open_site, read_markets
from tests.lab.logs_made import START, write_prices, write_visits

MIDDLE = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_visits(tmp_path_factory.mktemp("site") / "visits.csv", 500)


@pytest.fixture(scope="module")
def site(visits: Path) -> Site:
    return open_site(visits, attributes=("town", "device"))


@pytest.fixture(scope="module")
def markets(visits: Path) -> list[EmpiricalMarket]:
    return read_markets(write_prices(visits.parent / "prices.csv"))


def rows_of(visits: Path) -> list[list[str]]:
    return [line.split(",") for line in visits.read_text().splitlines()[1:]]


def test_half_of_the_visits_are_history(visits: Path, site: Site) -> None:
    """Up to ties at the split; of the later half 995 of 1,000 make the flight."""
    rows = rows_of(visits)
    assert abs(len(site.before) - len(rows) // 2) <= 3
    later = len(rows) - len(site.before)
    assert len(site.after) == int(np.ceil(0.995 * later))
    assert site.people.count == len({row[0] for row in rows})
    assert site.people.visits.sum() == len(site.before)
    np.testing.assert_array_equal(
        np.bincount(site.before.user, minlength=site.people.count), site.people.visits
    )


def test_a_given_split(visits: Path) -> None:
    site = open_site(visits, MIDDLE)
    cut = MIDDLE.timestamp() * 1e6
    assert site.split == MIDDLE
    assert (site.before.at_us < cut).all()
    assert (site.after.at_us >= cut).all()
    stamps = [datetime.fromisoformat(row[1]) for row in rows_of(visits)]
    assert len(site.before) == sum(stamp < MIDDLE for stamp in stamps)
    assert (np.diff(site.after.at_us) >= 0).all()


def test_a_visit_at_the_split_is_of_the_flight(tmp_path: Path) -> None:
    lines = ["user_id,ts"]
    lines += [f"u{at % 7},2026-03-{1 + at // 10:02}T10:00:00Z" for at in range(200)]
    (tmp_path / "v.csv").write_text("\n".join(lines) + "\n")
    site = open_site(tmp_path / "v.csv", datetime(2026, 3, 11, 10, tzinfo=UTC))
    assert (len(site.before), len(site.after)) == (100, 100)


def test_stragglers_do_not_stretch_the_flight(visits: Path, tmp_path: Path) -> None:
    """Two visits of years later: without the cut a bidder would pace over years."""
    late = tmp_path / "late.csv"
    rows = visits.read_text() + "u00001,2029-01-01T00:00:00Z,A,x\nu00002,2030-01-01T00:00:00Z,A,x\n"
    late.write_text(rows)
    site = open_site(late, MIDDLE)
    assert site.flight_seconds < 8 * 86_400
    assert site.after.at_us[-1] < datetime(2026, 3, 22, tzinfo=UTC).timestamp() * 1e6


@pytest.mark.parametrize("split", [START, datetime(2031, 1, 1, tzinfo=UTC)])
def test_a_split_outside_the_log(visits: Path, split: datetime) -> None:
    with pytest.raises(KreachError, match=r"^split must leave visits on both sides"):
        open_site(visits, split)


def test_a_log_too_small_to_study(tmp_path: Path) -> None:
    lines = ["user_id,ts", *(f"u{at},2026-03-{1 + at % 28:02}T10:00:00Z" for at in range(99))]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(KreachError, match=r"^visits must hold at least 100 visits"):
        open_site(tmp_path / "few.csv")


def check(site: Site, campaign: StudyCampaign) -> None:
    """What holds for every campaign: people, visits, times and prices belong together."""
    people = campaign.people
    assert people.visits.sum() == len(campaign.before)
    np.testing.assert_array_equal(
        np.bincount(campaign.before.user, minlength=people.count), people.visits
    )
    assert len(campaign.person) == len(campaign.at) == len(campaign.price)
    assert campaign.flight_visits.sum() == len(campaign.person)
    assert ((campaign.person >= 0) & (campaign.person < people.count)).all()
    assert (np.diff(campaign.at) >= 0.0).all()
    assert ((campaign.at >= 0.0) & (campaign.at <= campaign.seconds)).all()
    assert campaign.seconds == pytest.approx(site.flight_seconds)
    assert campaign.starts_us == round(site.split.timestamp() * 1e6)
    earlier, later = campaign.halves()
    np.testing.assert_array_equal(earlier + later, people.visits)
    assert abs(int(earlier.sum()) - int(later.sum())) <= 1
    for attribute in people.attributes.values():
        assert len(attribute.codes) == people.count


def test_campaigns_by_draw(site: Site, markets: list[EmpiricalMarket]) -> None:
    found = draw_campaigns(site, markets, 3, 120, seed=4)
    assert [campaign.name for campaign in found] == ["campaign 1", "campaign 2", "campaign 3"]
    assert [campaign.people.count for campaign in found] == [120] * 3
    for campaign in found:
        check(site, campaign)
    assert [found[at].market for at in range(3)] == [markets[0], markets[1], markets[0]]
    assert found[0].person.tolist() != found[2].person.tolist()


def test_prices_are_drawn_from_the_market(site: Site, markets: list[EmpiricalMarket]) -> None:
    """Mean log price within 4 standard errors; no two prices tie."""
    for campaign in draw_campaigns(site, markets, 2, 500, seed=4):
        listed = np.log(np.asarray(campaign.market.prices))
        counts = np.asarray(campaign.market.counts)
        weight = counts / counts.sum()
        mean = float(weight @ listed)
        std = float(np.sqrt(weight @ (listed - mean) ** 2))
        logs = np.log(campaign.price)
        assert abs(logs.mean() - mean) < 4.0 * std / np.sqrt(len(logs))
        assert len(np.unique(campaign.price)) == len(campaign.price)


def test_a_campaign_of_everybody_has_the_whole_flight(
    site: Site, markets: list[EmpiricalMarket]
) -> None:
    campaign = draw_campaigns(site, markets, 1, 10**6, seed=0)[0]
    assert campaign.people.count == site.people.count
    np.testing.assert_array_equal(campaign.person, site.after.user)
    np.testing.assert_array_equal(campaign.people.visits, site.people.visits)


def test_the_seed_alone_draws_them(site: Site, markets: list[EmpiricalMarket]) -> None:
    first, again, other = (draw_campaigns(site, markets, 2, 100, seed)[1] for seed in (1, 1, 2))
    assert first.price.tolist() == again.price.tolist()
    assert first.person.tolist() == again.person.tolist()
    assert first.person.tolist() != other.person.tolist()
    # a campaign does not depend on how many there are
    alone = draw_campaigns(site, markets, 5, 100, 1)[1]
    assert alone.price.tolist() == first.price.tolist()


def test_campaigns_by_the_largest_values_of_a_column(
    site: Site, markets: list[EmpiricalMarket]
) -> None:
    """Towns hold 40, 30, 20 and 10 %: there are four campaigns, not ten."""
    towns = np.sort(np.bincount(site.people.attribute("town").codes))[::-1]
    found = draw_campaigns(site, markets, 10, 10**6, 4, "town")
    assert [campaign.people.count for campaign in found] == towns.tolist()
    for campaign in found:
        check(site, campaign)
        assert len(np.unique(campaign.people.attribute("town").codes)) == 1
    smaller = draw_campaigns(site, markets, 2, 30, 4, "town")
    assert [campaign.people.count for campaign in smaller] == [30, 30]


def test_an_unknown_column(visits: Path) -> None:
    with pytest.raises(KreachError, match="planet"):
        open_site(visits, attributes=("planet",))


def median_of(market: EmpiricalMarket) -> float:
    prices, counts = np.asarray(market.prices), np.asarray(market.counts)
    return float(prices[np.searchsorted(np.cumsum(counts), counts.sum() / 2.0)])


def test_markets_have_a_median_of_one(markets: list[EmpiricalMarket], tmp_path: Path) -> None:
    assert len(markets) == 2
    for market in markets:
        assert median_of(market) == pytest.approx(1.0)
    plain = tmp_path / "plain.csv"
    plain.write_text("market_price\n" + "\n".join(str(5 * at) for at in range(1, 12)) + "\n")
    (alone,) = read_markets(plain)
    assert np.asarray(alone.prices).tolist() == pytest.approx([at / 6.0 for at in range(1, 12)])
    assert median_of(alone) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "names", [("007", "7"), ("1.50", "2.50"), ("2026-1-5", "2026-1-6"), ("true", "false")]
)
def test_campaigns_are_names_whatever_they_look_like(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    path = tmp_path / "prices.csv"
    lines = ["market_price,count,campaign"]
    lines += [f"{price},{count},{name}" for name in names for price, count in ((2, 3), (4, 5))]
    path.write_text("\n".join(lines) + "\n")
    markets = read_markets(path)
    assert [np.asarray(market.counts).tolist() for market in markets] == [[3.0, 5.0], [3.0, 5.0]]


@pytest.mark.parametrize(
    "text", ["market_price,count\n0,5\n0,6\n3,2\n", "price\n3\n", "market_price,count\n-3,1\n"]
)
def test_prices_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.csv").write_text(text)
    with pytest.raises(KreachError, match=r"^prices"):
        read_markets(tmp_path / "prices.csv")
