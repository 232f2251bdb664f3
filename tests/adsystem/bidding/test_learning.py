"""Learning the market from wins and losses: what censored outcomes can and cannot tell."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import kreach as kr
from kreach.adsystem.bidding.learning import MarketLearner

FloatArray = npt.NDArray[np.float64]

CELL = 0.05  # the grid of prices is finer than 5 %
Z = 4.5


def feed(learner: MarketLearner, bids: FloatArray, prices: FloatArray, read_every: int = 0) -> None:
    """Auctions one after the other; only what an auction shows is passed on."""
    for turn, (bid, price) in enumerate(zip(bids.tolist(), prices.tolist(), strict=True), 1):
        if bid >= price:
            learner.win(bid, price if learner.auction == "second_price" else bid)
        else:
            learner.loss(bid)
        if read_every and turn % read_every == 0:
            learner.market()


def cell_slack(market: kr.LogNormalMarket, bid: float) -> float:
    """What lies within a cell of the bid: the grid cannot tell it apart."""
    near = market.win_probability([bid * (1.0 - CELL), bid * (1.0 + CELL)])
    return float(near[1] - near[0])


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
@pytest.mark.parametrize(("mu", "sigma"), [(0.0, 0.7), (5.0, 1.5), (-9.0, 0.3)])
def test_before_the_first_outcome_it_is_the_prior(auction: str, mu: float, sigma: float) -> None:
    prior = kr.LogNormalMarket(mu, sigma, auction)
    market = MarketLearner(prior).market()
    assert market.auction == auction
    for z in (-2.0, -0.7, 0.0, 0.5, 1.5):
        bid = float(np.exp(mu + z * sigma))
        known = float(prior.win_probability(bid))
        assert float(market.win_probability(bid)) == pytest.approx(
            known, abs=cell_slack(prior, bid)
        )
    dear = float(np.exp(mu + 3.0 * sigma))
    if auction == "second_price":
        assert float(market.expected_cost(dear)) == pytest.approx(
            float(prior.expected_cost(dear)), rel=0.03
        )


def test_a_history_may_be_the_prior() -> None:
    prior = kr.EmpiricalMarket([0.5, 1.0, 2.0, 4.0])
    market = MarketLearner(prior).market()
    assert market.win_probability([0.4, 0.7, 1.4, 2.8, 5.0]) == pytest.approx(
        [0.0, 0.25, 0.5, 0.75, 1.0]
    )


def kaplan_meier_error(truth: kr.LogNormalMarket, low: float, high: float, n: int) -> FloatArray:
    """Greenwood's standard error of W at BIDS, for n bids spread evenly in ln b on [low, high]."""

    def still_bidding(x: float) -> float:
        return float(np.clip((np.log(high) - np.log(x)) / (np.log(high) - np.log(low)), 0.0, 1.0))

    def hazard(x: float) -> float:
        above = 1.0 - float(truth.win_probability(x))
        return float(truth.win_density(x)) / (above * above * n * still_bidding(x))

    errors = []
    for bid in BIDS:
        sum_of_hazards, _ = quad(hazard, 1e-9, bid, points=[low], limit=200)
        errors.append((1.0 - float(truth.win_probability(bid))) * np.sqrt(sum_of_hazards))
    return np.array(errors)


BIDS = (0.35, 0.5, 0.8, 1.2, 1.8)


def test_second_price_converges_below_the_highest_bid() -> None:
    """20,000 auctions from a wrong prior; z-tolerance 4.5 on Greenwood's error, plus one cell."""
    truth, n = kr.LogNormalMarket(0.0, 0.7), 20_000
    generator = np.random.default_rng(21)
    low, high = 0.3, 2.0
    bids = np.exp(generator.uniform(np.log(low), np.log(high), size=n))
    learner = MarketLearner(kr.LogNormalMarket(0.5, 1.0))
    feed(learner, bids, generator.lognormal(0.0, 0.7, size=n))
    assert learner.auctions == n
    market = learner.market()
    errors = kaplan_meier_error(truth, low, high, n)
    assert errors.max() < 0.01
    for bid, error in zip(BIDS, errors.tolist(), strict=True):
        slack = Z * error + 0.5 * cell_slack(truth, bid)
        assert float(market.win_probability(bid)) == pytest.approx(
            float(truth.win_probability(bid)), abs=slack
        )
        assert float(market.expected_cost(bid)) == pytest.approx(
            float(truth.expected_cost(bid)), abs=slack * bid
        )


def test_losses_teach_as_much_as_wins() -> None:
    """Who counted only the prices seen would take the market for far cheaper than it is."""
    generator = np.random.default_rng(22)
    prices = generator.lognormal(0.0, 0.7, size=5_000)
    bids = np.full(5_000, 0.8)
    learner = MarketLearner(kr.LogNormalMarket(0.0, 0.7))
    feed(learner, bids, prices)
    truth = float(kr.LogNormalMarket(0.0, 0.7).win_probability(0.75))
    among_wins = float((prices[prices <= 0.8] <= 0.75).mean())
    found = float(learner.market().win_probability(0.75))
    assert among_wins > truth + 0.4
    assert found == pytest.approx(truth, abs=0.05)


def test_nothing_is_learned_beyond_the_highest_bid() -> None:
    """All bids at 1, all lost: what is above keeps the proportions of the prior."""
    prior = kr.LogNormalMarket(0.0, 0.7)
    learner = MarketLearner(prior, prior_auctions=10.0)
    feed(learner, np.full(500, 1.0), np.full(500, 1.5))
    market = learner.market()
    assert float(market.win_probability(0.9)) < 0.02
    above = 1.0 - prior.win_probability([1.1, 2.0, 4.0])
    found = 1.0 - market.win_probability([1.1, 2.0, 4.0])
    assert found[1:] / found[0] == pytest.approx(above[1:] / above[0], rel=0.1)


def test_a_win_counts_as_much_as_a_tenth_of_a_prior_of_ten() -> None:
    """Prior 10 auctions, then 10 wins at one price: half of what is known says that price."""
    prior = kr.LogNormalMarket(0.0, 0.5)
    learner = MarketLearner(prior, prior_auctions=10.0)
    feed(learner, np.full(10, 50.0), np.full(10, 3.0))
    cheap = float(learner.market().win_probability(1.0))
    assert cheap == pytest.approx(0.5 * 0.5, abs=0.02)


def test_a_second_price_below_and_above_the_grid_is_kept() -> None:
    learner = MarketLearner(kr.LogNormalMarket(0.0, 0.5), prior_auctions=1e-6)
    feed(learner, np.full(4, 1e9), np.array([0.0, 1e-9, 1e6, 2e6]))
    market = learner.market()
    assert float(market.win_probability(1e-3)) == pytest.approx(0.5, abs=1e-3)
    assert float(market.expected_cost(1e9)) == pytest.approx(0.75e6, rel=1e-3)


def test_losing_without_a_bid_teaches_nothing() -> None:
    learner = MarketLearner(kr.LogNormalMarket(0.0, 1.0))
    learner.loss(0.0)
    assert learner.auctions == 0


def test_first_price_converges_where_bids_were_made() -> None:
    """Only win or loss at the bid is known. Within a factor of 1.25 there are n_h auctions;
    z-tolerance 4.5 on their win rate, plus what the truth moves over that factor."""
    n, low, high, factor = 20_000, 0.3, 3.0, 1.25
    truth = kr.LogNormalMarket(0.0, 0.7, "first_price")
    generator = np.random.default_rng(23)
    bids = np.exp(generator.uniform(np.log(low), np.log(high), size=n))
    learner = MarketLearner(kr.LogNormalMarket(0.5, 1.0, "first_price"))
    feed(learner, bids, generator.lognormal(0.0, 0.7, size=n))
    market = learner.market()
    near = n * np.log(factor) / np.log(high / low)
    for bid in (0.5, 0.8, 1.2, 2.0):
        below, at, above = truth.win_probability([bid / factor, bid, bid * factor])
        slack = Z * 0.5 / np.sqrt(near)
        found = float(market.win_probability(bid))
        assert below - slack < found < above + slack
        assert found == pytest.approx(float(at), abs=0.06)


@settings(max_examples=30)
@given(
    outcomes=st.lists(
        st.tuples(st.floats(0.01, 50.0), st.floats(0.01, 50.0)), min_size=1, max_size=40
    ),
    auction=st.sampled_from(["second_price", "first_price"]),
)
def test_what_is_learned_is_a_market(outcomes: list[tuple[float, float]], auction: str) -> None:
    """The chance to win rises with the bid from 0 to 1, whatever was seen."""
    learner = MarketLearner(kr.LogNormalMarket(0.0, 1.0, auction))
    bids, prices = (np.array(column) for column in zip(*outcomes, strict=True))
    feed(learner, bids, prices)
    market = learner.market()
    win = market.win_probability(np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 400)]))
    assert win[0] < 1e-3
    assert (np.diff(win) >= 0.0).all()
    assert win[-1] == pytest.approx(1.0)
    best = market.optimal_bid(np.geomspace(1e-3, 1e3, 50))
    assert (np.diff(best) >= 0.0).all()


def test_first_price_rates_that_fall_are_pooled() -> None:
    """Wins at 1, losses at 2: neither rate can be true, and together they are one half."""
    learner = MarketLearner(kr.LogNormalMarket(0.5, 1.0, "first_price"), prior_auctions=1e-3)
    feed(learner, np.array([1.0] * 50 + [2.0] * 50), np.array([0.5] * 50 + [9.0] * 50))
    found = learner.market().win_probability([1.05, 1.5, 2.1])
    assert found == pytest.approx([0.5, 0.5, 0.5], abs=0.01)


def doubled(generator: np.random.Generator, n: int) -> FloatArray:
    """A market that doubles half-way."""
    prices = generator.lognormal(0.0, 0.5, size=n)
    prices[n // 2 :] *= 2.0
    return prices


def test_forgetting_follows_a_market_that_moves() -> None:
    """3,000 auctions, then 3,000 at twice the price; half-life 500: 721 auctions' worth is known,
    so the standard error is at most 0.019; z-tolerance 4.5 and 0.02 for what is remembered."""
    now = kr.LogNormalMarket(float(np.log(2.0)), 0.5)
    prior = kr.LogNormalMarket(0.5, 1.0)
    follower = MarketLearner(prior, half_life_auctions=500.0)
    keeper = MarketLearner(prior)
    for learner in (follower, keeper):
        feed(learner, np.full(6_000, 4.0), doubled(np.random.default_rng(24), 6_000), 100)
    truth = float(now.win_probability(1.4))
    assert float(follower.market().win_probability(1.4)) == pytest.approx(truth, abs=4.5 * 0.019)
    assert float(keeper.market().win_probability(1.4)) > truth + 0.2


def test_what_is_remembered_does_not_depend_on_when_it_is_read() -> None:
    """Half-life 500: after 10,000 auctions as much is known if nobody asked in between."""
    prior = kr.LogNormalMarket(2.0, 1.0)
    found = []
    for read_every in (100, 0):
        learner = MarketLearner(prior, half_life_auctions=500.0)
        generator = np.random.default_rng(25)
        feed(learner, np.full(10_000, 4.0), generator.lognormal(0.0, 0.5, size=10_000), read_every)
        found.append(float(learner.market().win_probability(1.0)))
    assert found[0] == pytest.approx(0.5, abs=0.1)
    assert found[1] == pytest.approx(found[0], abs=0.1)


def test_reading_twice_changes_nothing() -> None:
    learner = MarketLearner(kr.LogNormalMarket(0.0, 1.0), half_life_auctions=50.0)
    feed(learner, np.full(200, 1.0), np.random.default_rng(26).lognormal(size=200))
    bids = np.geomspace(0.1, 10.0, 50)
    first, second = (learner.market().win_probability(bids) for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_impossible_settings_are_refused(wrong: float) -> None:
    prior = kr.LogNormalMarket(0.0, 1.0)
    with pytest.raises(kr.KreachError, match=r"^prior_auctions must be a number > 0, got"):
        MarketLearner(prior, prior_auctions=wrong)
    with pytest.raises(kr.KreachError, match=r"^half_life_auctions must be a number > 0, got"):
        MarketLearner(prior, half_life_auctions=wrong)
