"""Win and cost curves against integrals and direct sums; the best bid against a grid search."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import kreach as kr
from kreach.adsystem.bidding.market import Market
from kreach.boundary.money import AUCTIONS

FloatArray = npt.NDArray[np.float64]

MARKETS = [(0.0, 1.0), (0.0, float(np.sqrt(0.5))), (-3.0, 0.2), (2.0, 2.5)]
QUANTILES = (-3.0, -1.0, 0.0, 0.7, 2.5)

every_market = pytest.mark.parametrize(("mu", "sigma"), MARKETS)
every_auction = pytest.mark.parametrize("auction", AUCTIONS)


def density(x: float, mu: float, sigma: float) -> float:
    """The log-normal density, written down once more."""
    z = (np.log(x) - mu) / sigma
    return float(np.exp(-z * z / 2) / (x * sigma * np.sqrt(2 * np.pi)))


def integral(function: Callable[[float], float], mu: float, sigma: float, bid: float) -> float:
    """∫_0^bid of function(x)·density(x), on the scale of ln x so that nothing is missed."""

    def scaled(t: float) -> float:
        x = float(np.exp(t))
        return function(x) * density(x, mu, sigma) * x

    low, high = mu - 12.0 * sigma, float(np.log(bid))
    found, _ = quad(scaled, low, high, epsabs=1e-13, epsrel=1e-11, limit=200)
    return float(found)


@every_market
@pytest.mark.parametrize("z", QUANTILES)
def test_log_normal_curves_are_integrals(mu: float, sigma: float, z: float) -> None:
    bid = float(np.exp(mu + z * sigma))
    second = kr.LogNormalMarket(mu, sigma)
    first = kr.LogNormalMarket(mu, sigma, auction="first_price")
    won = integral(lambda _: 1.0, mu, sigma, bid)
    assert float(second.win_probability(bid)) == pytest.approx(won, rel=1e-9)
    assert float(first.win_probability(bid)) == pytest.approx(won, rel=1e-9)
    paid = integral(lambda x: x, mu, sigma, bid)
    assert float(second.expected_cost(bid)) == pytest.approx(paid, rel=1e-9)
    assert float(first.expected_cost(bid)) == pytest.approx(bid * won, rel=1e-9)


@every_market
@every_auction
@pytest.mark.parametrize("z", QUANTILES)
def test_densities_are_derivatives(mu: float, sigma: float, auction: str, z: float) -> None:
    market = kr.LogNormalMarket(mu, sigma, auction)
    bid = float(np.exp(mu + z * sigma))
    step = 1e-5 * sigma * bid
    for curve, slope in (
        (market.win_probability, market.win_density),
        (market.expected_cost, market.marginal_cost),
    ):
        numeric = float(curve(bid + step) - curve(bid - step)) / (2 * step)
        assert float(slope(bid)) == pytest.approx(numeric, rel=1e-6)


@every_auction
def test_log_normal_at_the_ends(auction: str) -> None:
    market = kr.LogNormalMarket(0.0, 1.0, auction)
    assert float(market.win_probability(0.0)) == float(market.expected_cost(0.0)) == 0.0
    assert float(market.win_density(0.0)) == float(market.marginal_cost(0.0)) == 0.0
    assert float(market.win_probability(np.inf)) == 1.0
    most = float(market.expected_cost(np.inf))
    expected = np.inf if auction == "first_price" else np.exp(0.5)
    assert most == pytest.approx(expected, rel=1e-12)


@every_auction
def test_nothing_is_bid_for_what_is_worth_nothing(auction: str) -> None:
    assert float(kr.LogNormalMarket(0.0, 1.0, auction).optimal_bid(0.0)) == 0.0
    assert float(kr.EmpiricalMarket([0.5, 2.0], auction=auction).optimal_bid(0.0)) == 0.0


@every_auction
def test_curves_take_arrays_of_any_shape(auction: str) -> None:
    bids = np.array([[0.1, 0.5, 1.0], [2.0, 3.0, 50.0]])
    log_normal = kr.LogNormalMarket(0.0, 1.0, auction)
    empirical = kr.EmpiricalMarket([0.5, 1.0, 3.0], auction=auction)
    for market in (log_normal, empirical):
        for curve in (
            market.win_probability,
            market.expected_cost,
            market.win_density,
            market.marginal_cost,
            market.optimal_bid,
        ):
            together = curve(bids)
            assert together.shape == bids.shape
            alone = [float(curve(bid)) for bid in bids.ravel().tolist()]
            assert together.ravel().tolist() == pytest.approx(alone, rel=1e-12)


def test_both_are_markets() -> None:
    assert isinstance(kr.LogNormalMarket(0.0, 1.0), Market)
    assert isinstance(kr.EmpiricalMarket([1.0]), Market)


@given(st.floats(0.0, 1e6))
def test_a_second_price_is_bid_at_its_value(value: float) -> None:
    """h/w = b, so the inverse of h/w is the value itself."""
    for market in (kr.LogNormalMarket(0.3, 1.2), kr.EmpiricalMarket([0.2, 7.0])):
        assert float(market.optimal_bid(value)) == value


@settings(max_examples=60)
@given(
    mu=st.floats(-4.0, 4.0),
    sigma=st.floats(0.05, 3.0),
    z=st.floats(-4.0, 6.0),
)
def test_first_price_optimum_against_a_grid(mu: float, sigma: float, z: float) -> None:
    """No bid of 20,000 between nothing and the value gains more."""
    market = kr.LogNormalMarket(mu, sigma, "first_price")
    value = float(np.exp(mu + z * sigma))
    bid = float(market.optimal_bid(value))
    assert 0.0 <= bid <= value
    bids = np.concatenate([np.linspace(0.0, value, 10_001), np.geomspace(1e-6, 1.0, 9_999) * value])
    gains = value * market.win_probability(bids) - market.expected_cost(bids)
    best = float(gains.max())
    gain = float(value * market.win_probability(bid) - market.expected_cost(bid))
    assert gain >= best - 1e-12 * value
    assert gain == pytest.approx(best, rel=1e-4)


@settings(max_examples=60)
@given(
    mu=st.floats(-4.0, 4.0),
    sigma=st.floats(0.05, 3.0),
    values=st.lists(st.floats(1e-9, 1e5), min_size=2, max_size=8),
)
def test_first_price_bids_rise_with_the_value(mu: float, sigma: float, values: list[float]) -> None:
    ordered = np.sort(values)
    bids = kr.LogNormalMarket(mu, sigma, "first_price").optimal_bid(ordered)
    assert (np.diff(bids) >= 0.0).all()
    assert (bids <= ordered * (1.0 + 1e-12)).all()


def test_first_price_solves_its_equation() -> None:
    """b + W(b)/w(b) = value (equation 12 with h = W + b·w)."""
    market = kr.LogNormalMarket(0.0, 0.7, "first_price")
    values = np.geomspace(0.05, 100.0, 50)
    bids = market.optimal_bid(values)
    inverse = market.marginal_cost(bids) / market.win_density(bids)
    assert inverse == pytest.approx(values, rel=1e-9)


def test_first_price_far_outside_the_market() -> None:
    market = kr.LogNormalMarket(0.0, 0.1, "first_price")
    bids = market.optimal_bid([1e-300, 1e-12, 1e12, 1e300, np.inf])
    assert np.isfinite(bids).all()
    assert (np.diff(bids) >= 0.0).all()
    assert float(bids[2]) < 3.0  # who bids 3 wins everything


prices = st.lists(
    st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0.0, 1e3)), min_size=1, max_size=12
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[float], list[int] | None]:
    """Prices with ties and zeros; counts that may be 0, but not all of them."""
    listed = draw(prices)
    if draw(st.booleans()):
        return listed, None
    counts = draw(st.lists(st.integers(0, 5), min_size=len(listed), max_size=len(listed)))
    counts[draw(st.integers(0, len(listed) - 1))] += 1
    return listed, counts


def unfolded(history: tuple[list[float], list[int] | None]) -> FloatArray:
    listed, counts = history
    return np.repeat(listed, np.ones(len(listed), dtype=int) if counts is None else counts)


@given(histories(), st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0.0, 2e3)))
def test_empirical_curves_are_direct_sums(
    history: tuple[list[float], list[int] | None], bid: float
) -> None:
    seen = unfolded(history)
    second = kr.EmpiricalMarket(*history)
    first = kr.EmpiricalMarket(*history, auction="first_price")
    won = seen <= bid
    assert float(second.win_probability(bid)) == pytest.approx(won.mean(), abs=1e-12)
    assert float(first.win_probability(bid)) == pytest.approx(won.mean(), abs=1e-12)
    assert float(second.expected_cost(bid)) == pytest.approx((seen * won).mean(), rel=1e-12)
    assert float(first.expected_cost(bid)) == pytest.approx(bid * won.mean(), rel=1e-12)


@given(histories(), st.lists(st.floats(0.0, 5e3), min_size=1, max_size=6))
@example(([1.0, 2.0, 3.0], None), [0.0, 1.0, 2.0, 3.0, 9.0])
def test_empirical_first_price_optimum_against_every_bid(
    history: tuple[list[float], list[int] | None], values: list[float]
) -> None:
    market = kr.EmpiricalMarket(*history, auction="first_price")
    seen = np.unique(unfolded(history))
    tried = np.concatenate([[0.0], seen, (seen[1:] + seen[:-1]) / 2.0])
    ordered = np.sort(values)
    bids = market.optimal_bid(ordered)
    assert (np.diff(bids) >= 0.0).all()
    for value, bid in zip(ordered.tolist(), bids.tolist(), strict=True):
        gains = value * market.win_probability(tried) - market.expected_cost(tried)
        gain = float(value * market.win_probability(bid) - market.expected_cost(bid))
        assert gain >= float(gains.max()) - 1e-9 * max(value, 1.0)


def test_empirical_by_hand() -> None:
    market = kr.EmpiricalMarket([1.0, 2.0, 4.0], [2, 1, 1])
    assert market.win_probability([0.9, 1.0, 3.0, 4.0]).tolist() == [0.0, 0.5, 0.75, 1.0]
    assert market.expected_cost([0.9, 1.0, 3.0, 4.0]).tolist() == [0.0, 0.5, 1.0, 2.0]
    first = kr.EmpiricalMarket([1.0, 2.0, 4.0], [2, 1, 1], "first_price")
    # corners (W, H) = (1/2, 1), (3/4, 3/2), (1, 4): slopes 1 (H = b·W: 1/2 at W 1/2), 4 and 10
    assert first.optimal_bid([0.9, 1.1, 3.9, 4.1, 9.9, 10.1]).tolist() == [0, 1, 1, 2, 2, 4]


def test_empirical_density_sums_to_the_chance_to_win() -> None:
    market = kr.EmpiricalMarket([1.0, 2.0, 4.0], [2, 1, 1])
    grid = np.linspace(0.0, 4.0, 4001)
    middle = (grid[1:] + grid[:-1]) / 2.0
    total = float((market.win_density(middle) * np.diff(grid)).sum())
    assert total == pytest.approx(1.0, abs=1e-9)
    assert float(market.win_density(5.0)) == 0.0


def test_a_fine_history_looks_like_the_market_it_came_from() -> None:
    """The middle quantile of each of 4,000 equal slices of a log-normal."""
    truth = kr.LogNormalMarket(0.0, 0.7)
    draws = np.random.default_rng(5).lognormal(0.0, 0.7, size=400_000)
    slices = np.quantile(draws, (np.arange(4_000) + 0.5) / 4_000)
    bids = np.array([0.3, 0.8, 1.5, 3.0])
    for auction in AUCTIONS:
        seen = kr.EmpiricalMarket(slices, auction=auction)
        known = kr.LogNormalMarket(truth.mu, truth.sigma, auction)
        assert seen.win_probability(bids) == pytest.approx(known.win_probability(bids), abs=4e-3)
        assert seen.expected_cost(bids) == pytest.approx(known.expected_cost(bids), abs=1e-2)
        assert seen.optimal_bid(bids) == pytest.approx(known.optimal_bid(bids), rel=0.03)


def test_counts_of_very_different_size() -> None:
    """A price so rare that its share is below rounding does not break the others."""
    market = kr.EmpiricalMarket([1.0, 2.0], [1e20, 1.0], "first_price")
    assert market.optimal_bid([0.5, 3.0, 1e6]).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "make", [lambda a: kr.LogNormalMarket(0, 1, a), lambda a: kr.EmpiricalMarket([1.0], None, a)]
)
def test_an_unknown_auction_is_refused(make: Callable[[str], Market]) -> None:
    with pytest.raises(
        kr.KreachError, match=r"^auction must be one of second_price, first_price, got 'dutch'"
    ):
        make("dutch")


@pytest.mark.parametrize(
    ("mu", "sigma", "message"),
    [
        (float("nan"), 1.0, r"^mu must be a finite number, got nan"),
        (float("inf"), 1.0, r"^mu must be a finite number, got inf"),
        (0.0, 0.0, r"^sigma must be a number > 0, got 0.0"),
        (0.0, -1.0, r"^sigma must be a number > 0, got -1.0"),
        (0.0, float("nan"), r"^sigma must be a number > 0, got nan"),
    ],
)
def test_an_impossible_log_normal_is_refused(mu: float, sigma: float, message: str) -> None:
    with pytest.raises(kr.KreachError, match=message):
        kr.LogNormalMarket(mu, sigma)


@pytest.mark.parametrize(
    ("listed", "counts", "message"),
    [
        ([], None, r"^prices must hold at least one price, got 'none'"),
        ([1.0, -2.0], None, r"^prices must be numbers ≥ 0, got .*-2.0"),
        ([1.0, float("nan")], None, r"^prices must be numbers ≥ 0, got .*nan"),
        ([1.0, float("inf")], None, r"^prices must be finite, got inf"),
        (["dear"], None, r"^prices must be numbers, got \['dear'\]"),
        ([1.0, 2.0], [1], r"^counts must have one entry per price \(2\), got 1"),
        ([1.0, 2.0], [1, -1], r"^counts must be numbers ≥ 0, got .*-1.0"),
        ([1.0, 2.0], [0, 0], r"^counts must be finite and not all 0, got .*0.0"),
    ],
)
def test_an_impossible_history_is_refused(
    listed: list[float], counts: list[int] | None, message: str
) -> None:
    with pytest.raises(kr.KreachError, match=message):
        kr.EmpiricalMarket(listed, counts)


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), [1.0, -1.0]])
@every_auction
def test_impossible_bids_and_values_are_refused(wrong: npt.ArrayLike, auction: str) -> None:
    for market in (kr.LogNormalMarket(0.0, 1.0, auction), kr.EmpiricalMarket([1.0], None, auction)):
        with pytest.raises(kr.KreachError, match=r"^bid must be numbers ≥ 0, got"):
            market.win_probability(wrong)
        with pytest.raises(kr.KreachError, match=r"^bid must be numbers ≥ 0, got"):
            market.expected_cost(wrong)
        with pytest.raises(kr.KreachError, match=r"^value must be numbers ≥ 0, got"):
            market.optimal_bid(wrong)
