"""A learner that knows the hour: as the other where prices have no rhythm, better where they do."""

import json

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.hourly_learning import HourlyLearner
from kreach.adsystem.bidding.learning import MarketLearner

HOUR, DAY = 3_600.0, 86_400.0
WAVE = np.cos(2.0 * np.pi * (np.arange(24) - 20.0) / 24.0)
SIGMA = 0.7
BIDS = np.geomspace(0.1, 10.0, 40)


def prior_of(auction: str) -> kr.LogNormalMarket:
    return kr.LogNormalMarket(0.5, 1.0, auction)


def feed(
    learners: list[MarketLearner],
    amplitude: float,
    auctions: int,
    days: float,
    seed: int,
    *,
    fit: bool = True,
) -> None:
    """The same auctions for all; those who know hours believe in them twice an hour."""
    generator = np.random.default_rng(seed)
    moments = np.sort(generator.uniform(0.0, days * DAY, auctions))
    mean = amplitude * WAVE[(moments // HOUR).astype(np.int64) % 24]
    prices = np.exp(generator.normal(mean, SIGMA))
    bids = np.exp(generator.uniform(np.log(0.2), np.log(3.0), auctions))
    due = 0.0
    for row in zip(moments.tolist(), bids.tolist(), prices.tolist(), strict=True):
        moment, bid, price = row
        for learner in learners:
            paid = price if learner.auction == "second_price" else bid
            if isinstance(learner, HourlyLearner):
                if fit and moment >= due:
                    learner.fit_hours()
                if bid >= price:
                    learner.win(bid, paid, moment)
                else:
                    learner.loss(bid, 1.0, moment)
            elif bid >= price:
                learner.win(bid, paid)
            else:
                learner.loss(bid)
        due = moment + HOUR / 2 if moment >= due else due


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_without_a_rhythm_it_is_the_learner_that_knows_no_hours(auction: str) -> None:
    """The same numbers, not only nearly, over three days."""
    plain = MarketLearner(prior_of(auction), half_life_auctions=500.0)
    hourly = HourlyLearner(prior_of(auction), half_life_auctions=500.0)
    feed([plain, hourly], 0.0, 3_000, 3.0, 41)
    assert hourly.factors is None
    known = plain.market().win_probability(BIDS).tolist()
    assert hourly.market().win_probability(BIDS).tolist() == known
    assert hourly.factor(None) == hourly.factor(7 * HOUR) == 1.0


def test_without_moments_nothing_is_learned_about_hours() -> None:
    plain, hourly = MarketLearner(prior_of("second_price")), HourlyLearner(prior_of("second_price"))
    for learner in (plain, hourly):
        for at in range(200):
            learner.win(2.0, 0.5 + at / 200)
            learner.loss(0.4, 0.5)
    hourly.fit_hours()
    assert hourly.factors is None
    assert hourly.memory()["hours"]["days"] == [-1] * 48
    known = plain.market().win_probability(BIDS).tolist()
    assert hourly.market().win_probability(BIDS).tolist() == known


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_the_market_of_every_hour_is_learned(auction: str) -> None:
    """30,000 auctions in six days, amplitude 0.8. 1,250 auctions an hour are an error of the offset
    below 0.04, which is 0.023 of W at most; the base remembers 2,900, an error of W of 0.01 where
    prices are seen and, pooled over a factor of 1.25 in bids, of 0.03 where they are not."""
    learner = HourlyLearner(prior_of(auction), half_life_auctions=2_000.0)
    plain = MarketLearner(prior_of(auction), half_life_auctions=2_000.0)
    feed([learner, plain], 0.8, 30_000, 6.0, 42)
    base, one = learner.market(), plain.market()
    errors, errors_of_one = [], []
    for hour in range(24):
        truth = kr.LogNormalMarket(0.8 * float(WAVE[hour]), SIGMA)
        factor = learner.factor(hour * HOUR)
        for bid in (0.4, 0.7, 1.2, 2.0):
            known = float(truth.win_probability(bid))
            errors.append(float(base.win_probability(bid / factor)) - known)
            errors_of_one.append(float(one.win_probability(bid)) - known)
    assert float(np.abs(errors).max()) < (0.1 if auction == "second_price" else 0.16)
    assert np.std(errors) < 0.25 * np.std(errors_of_one)


def test_believing_in_hours_leaves_the_market_of_now_where_it_was() -> None:
    """The base remembers the last hours only: their prices are known already, and must not be
    multiplied by what makes them dear."""
    learner = HourlyLearner(prior_of("second_price"), half_life_auctions=100.0)
    feed([learner], 0.8, 20_000, 2.0 - 4.0 / 24.0, 43, fit=False)  # until 20:00, when it is dear
    now = 2.0 * DAY - 4.0 * HOUR - 1.0
    assert learner.factor(8 * HOUR) == 1.0
    before = learner.market()
    learner.fit_hours()
    assert learner.factors is not None
    assert max(learner.factors) / min(learner.factors) == pytest.approx(np.exp(1.6), rel=0.15)
    assert learner.factor(now) == pytest.approx(1.0, abs=0.06)
    assert learner.factor(None) == pytest.approx(1.0, abs=1e-9)
    assert learner.market().win_probability(BIDS).tolist() == before.win_probability(BIDS).tolist()
    assert learner.factor(8 * HOUR) == pytest.approx(np.exp(-1.6), rel=0.15)


def test_hours_are_fitted_once_an_hour() -> None:
    learner = HourlyLearner(prior_of("second_price"))
    feed([learner], 0.8, 5_000, 2.0, 44)
    learner.fit_hours()
    assert not learner.fit_due
    learner.win(1.0, 0.5, 2.0 * DAY - 1.0)
    assert not learner.fit_due
    learner.win(1.0, 0.5, 2.0 * DAY + 1.0)
    assert learner.fit_due


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_what_was_learned_survives(auction: str) -> None:
    learner = HourlyLearner(prior_of(auction), half_life_auctions=2_000.0)
    feed([learner], 0.5, 8_000, 4.0, 45)
    memory = json.loads(json.dumps(learner.memory()))
    again = HourlyLearner(prior_of(auction), half_life_auctions=2_000.0)
    again.remember(memory)
    assert learner.factors is not None
    assert again.factors == pytest.approx(learner.factors)
    assert again.factor(None) == pytest.approx(learner.factor(None))
    for one in (learner, again):
        feed([one], 0.5, 2_000, 1.0, 46)
        one.fit_hours()
    assert again.factors == pytest.approx(learner.factors, abs=1e-4)
    known = learner.market().win_probability(BIDS)
    assert again.market().win_probability(BIDS) == pytest.approx(known)


def test_memories_of_other_versions_are_read() -> None:
    plain = MarketLearner(prior_of("second_price"))
    feed([plain], 0.0, 500, 1.0, 47)
    hourly = HourlyLearner(prior_of("second_price"))
    hourly.remember(plain.memory())
    known = plain.market().win_probability(BIDS).tolist()
    assert hourly.market().win_probability(BIDS).tolist() == known
    assert hourly.factors is None
    back = MarketLearner(prior_of("second_price"))
    back.remember(hourly.memory())
    assert back.market().win_probability(BIDS).tolist() == known
    other = HourlyLearner(kr.LogNormalMarket(3.0, 1.0))
    other.remember(hourly.memory())  # on another grid of prices
    assert other.auctions == 0.0
    with pytest.raises(ValueError, match="24 of each"):
        hourly.remember(hourly.memory() | {"hours": {"offsets": [], "recent": [], "level": 0.0}})
