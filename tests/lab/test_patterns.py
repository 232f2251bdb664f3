"""Buying patterns: how much each wins, and that it keeps to its rule."""

import numpy as np
import pytest

from kreach.lab.patterns import PATTERNS, Requests, select, utc_hours


@pytest.fixture(scope="module")
def requests() -> Requests:
    """Three weeks of requests of 50 groups; the hours from 2 to 8 are quiet."""
    generator = np.random.default_rng(3)
    at = np.sort(generator.random(60_000) * 21 * 86_400.0)
    hour = utc_hours(0, at)
    quiet = (hour >= 2) & (hour < 8)
    kept = ~quiet | (generator.random(len(at)) < 0.2)
    at = at[kept]
    group = generator.integers(0, 50, len(at))
    price = generator.lognormal(0.0, 1.0, len(at))
    return Requests(group, at, utc_hours(0, at), price)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_each_wins_about_its_share_in_order_of_time(
    requests: Requests, pattern: str, share: float
) -> None:
    won = select(pattern, requests, share, np.random.default_rng(1))
    assert len(np.unique(won)) == len(won)
    assert (np.diff(won) > 0).all()
    expected = {"night": min(share, 0.06), "spaced": share}.get(pattern, share)
    wins = len(won) / len(requests)
    assert wins == pytest.approx(expected, rel=0.5 if pattern == "spaced" else 0.1)


def test_random_wins_of_everything_are_everything(requests: Requests) -> None:
    assert len(select("random", requests, 1.0, np.random.default_rng(1))) == len(requests)


def test_first_of_each_group_leaves_no_earlier_request(requests: Requests) -> None:
    won = select("first", requests, 0.1, np.random.default_rng(1))
    lost = np.setdiff1d(np.arange(len(requests)), won)
    for group in range(50):
        mine = won[requests.group[won] == group]
        others = lost[requests.group[lost] == group]
        assert mine.max() < others.min()


def test_a_burst_is_one_stretch(requests: Requests) -> None:
    won = select("burst", requests, 0.1, np.random.default_rng(1))
    assert won.tolist() == list(range(int(won[0]), int(won[-1]) + 1))


def test_night_and_office_keep_their_hours(requests: Requests) -> None:
    night = requests.hour[select("night", requests, 0.02, np.random.default_rng(1))]
    office = requests.hour[select("office", requests, 0.1, np.random.default_rng(1))]
    assert set(night.tolist()) == {2, 3, 4, 5, 6, 7}
    assert len(set(office.tolist())) == 8
    assert not set(office.tolist()) & {2, 3, 4, 5, 6, 7}


def test_spaced_wins_lie_half_an_hour_apart(requests: Requests) -> None:
    won = select("spaced", requests, 0.3, np.random.default_rng(1))
    for group in range(50):
        times = requests.at[won[requests.group[won] == group]]
        assert (np.diff(times) >= 1_800.0).all()


def test_by_price_takes_the_cheapest(requests: Requests) -> None:
    won = select("price", requests, 0.1, np.random.default_rng(1))
    lost = np.setdiff1d(np.arange(len(requests)), won)
    assert requests.price[won].max() <= requests.price[lost].min()


def test_a_log_by_days_has_no_quiet_hours_to_buy_in() -> None:
    """All requests at midnight: night is then the hours around it, not nothing at all."""
    at = np.repeat(np.arange(30) * 86_400.0, 20)
    days = Requests(np.tile(np.arange(20), 30), at, utc_hours(0, at), np.ones(600))
    assert len(select("night", days, 0.1, np.random.default_rng(1))) > 30
