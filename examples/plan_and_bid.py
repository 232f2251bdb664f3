"""Plan a budget, then spend it: the forecast and the result.

    python examples/plan_and_bid.py

The bidder knows only groups and its own outcomes: no people, and no prices of lost auctions.
"""

import numpy as np

import kreach as kr

GROUPS, GROUP_SIZE, REQUESTS, CAP, BUDGET = 40, 20, 4_000, 2, 200.0


def main() -> None:
    """Print the forecast and the result."""
    audience = kr.Audience.disjoint([GROUP_SIZE] * GROUPS)
    market = kr.LogNormalMarket(mu=0.0, sigma=0.7)
    plan = kr.plan(audience, market, REQUESTS, CAP, budgets=BUDGET, seed=1).outlooks[0]
    low, high = plan.band
    print(f"plan: {BUDGET:g} will reach {plan.reach:,.0f} ({low:,.0f} to {high:,.0f})")

    generator = np.random.default_rng(2)
    purse = kr.Purse(BUDGET, start=0.0, end=float(REQUESTS))
    guess = kr.LogNormalMarket(mu=0.5, sigma=1.0)  # wrong on purpose: the bidder learns the market
    bidder = kr.PlanningBidder(audience, CAP, purse, guess)
    meter = kr.ReachMeter(audience, caps=[CAP])
    for now in range(REQUESTS):
        group = int(generator.integers(0, GROUPS))
        price = float(generator.lognormal(0.0, 0.7))  # the highest competing bid
        bid = bidder.bid(group, float(now))
        if bid > price:
            bidder.won(group, bid, price, float(now))
            meter.record(group)
        elif bid > 0.0:
            bidder.lost(group, bid)
    print(f"flight: {purse.spent:,.1f} spent, {meter.reach[CAP]:,.0f} reached")


if __name__ == "__main__":
    main()
