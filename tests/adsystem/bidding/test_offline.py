"""λ* of the paper's KKT condition: in expectation the budget is spent, to the cent."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.market import Market
from kreach.boundary.money import AUCTIONS

PRICES = np.random.default_rng(3).lognormal(0.0, 0.7, size=300)


def spend(probabilities: npt.ArrayLike, market: Market, multiplier: float) -> float:
    """Σ_t H(b*(p_t/λ))."""
    bids = market.optimal_bid(np.asarray(probabilities) / multiplier)
    return float(market.expected_cost(bids).sum())


@pytest.mark.parametrize("auction", AUCTIONS)
@pytest.mark.parametrize("budget", [0.05, 2.0, 9.0, 43.0, 90.0])
def test_the_budget_is_spent_to_the_cent(auction: str, budget: float) -> None:
    p = np.random.default_rng(4).uniform(0.0, 1.0, size=200)
    market = kr.LogNormalMarket(0.0, float(np.sqrt(0.5)), auction)
    multiplier = kr.offline_multiplier(p, market, budget)
    assert spend(p, market, multiplier) == pytest.approx(budget, abs=0.005)


@settings(max_examples=15)
@given(
    p=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=20),
    share=st.floats(0.01, 0.95),
    mu=st.floats(-3.0, 3.0),
    auction=st.sampled_from(AUCTIONS),
)
def test_any_share_of_the_market_can_be_spent(
    p: list[float], share: float, mu: float, auction: str
) -> None:
    market = kr.LogNormalMarket(mu, 0.8, auction)
    budget = share * len(p) * float(np.exp(mu + 0.32))
    multiplier = kr.offline_multiplier(p, market, budget)
    assert multiplier > 0.0
    assert spend(p, market, multiplier) == pytest.approx(budget, rel=1e-9)


@pytest.mark.parametrize("auction", AUCTIONS)
def test_a_price_list_is_spent_as_far_as_its_steps_allow(auction: str) -> None:
    """Spend jumps at every price: λ* stands at the last one that fits the budget."""
    p = np.array([1.0, 0.7, 0.4, 0.4, 0.1])
    market = kr.EmpiricalMarket(PRICES, auction=auction)
    for budget in (0.05, 0.5, 2.0, 4.0):
        multiplier = kr.offline_multiplier(p, market, budget)
        assert spend(p, market, multiplier) <= budget
        assert spend(p, market, multiplier * (1.0 - 1e-9)) > budget


def test_0_when_the_budget_cannot_be_spent() -> None:
    market = kr.EmpiricalMarket([1.0, 3.0])
    assert kr.offline_multiplier([1.0, 0.5, 0.0], market, 4.0) == 0.0  # 2 requests at 2 a piece
    assert kr.offline_multiplier([1.0, 0.5, 0.0], market, 3.9) > 0.0
    assert kr.offline_multiplier([], market, 1.0) == 0.0
    assert kr.offline_multiplier([0.0, 0.0], market, 1.0) == 0.0
    mean = float(np.exp(0.5))
    assert kr.offline_multiplier([1.0] * 10, kr.LogNormalMarket(0.0, 1.0), 10.1 * mean) == 0.0


def test_more_money_is_worth_less() -> None:
    p = np.full(100, 0.5)
    market = kr.LogNormalMarket(0.0, 1.0)
    found = [kr.offline_multiplier(p, market, budget) for budget in (1.0, 5.0, 20.0, 80.0, 160.0)]
    assert sorted(found, reverse=True) == found
    assert found[0] > 2.0 * found[-1]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_impossible_probabilities_are_refused(wrong: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^probabilities must lie between 0 and 1, got"):
        kr.offline_multiplier([0.5, wrong], kr.LogNormalMarket(0.0, 1.0), 1.0)


@pytest.mark.parametrize("budget", [0.0, -5.0, float("nan"), float("inf")])
def test_impossible_budgets_are_refused(budget: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^budget must be a finite number > 0, got"):
        kr.offline_multiplier([0.5], kr.LogNormalMarket(0.0, 1.0), budget)
