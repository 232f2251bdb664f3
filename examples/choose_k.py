"""The cost of a larger k in the paper's setting, without a log.

    python examples/choose_k.py

For each k: the standard deviation of reach, and the reach per unit of money of the paper's bidder.
For your own logs, use `kreach tradeoff`.
"""

import numpy as np

import kreach as kr

PEOPLE, REQUESTS, BUDGET, CAP = 120, 2_000, 90.0, 1


def reach_per_money(group_size: int, seed: int) -> float:
    """Expected reach per unit of money in one flight of the paper's bidder."""
    generator = np.random.default_rng(seed)
    audience = kr.Audience.disjoint([group_size] * (PEOPLE // group_size))
    market = kr.LogNormalMarket(mu=0.0, sigma=0.5**0.5)
    purse = kr.Purse(BUDGET, start=0.0, end=float(REQUESTS))
    bidder = kr.PaperBidder(kr.CapValuation(audience, CAP), purse, market, REQUESTS)
    impressions = np.zeros(audience.group_count, dtype=np.int64)
    groups = generator.integers(0, audience.group_count, REQUESTS)
    prices = generator.lognormal(0.0, 0.5**0.5, REQUESTS)
    for now, (group, price) in enumerate(zip(groups.tolist(), prices.tolist(), strict=True)):
        bid = bidder.bid(group, float(now))
        if bid > price:
            bidder.won(group, bid, price, float(now))
            impressions[group] += 1
        elif bid > 0.0:
            bidder.lost(group, bid)
    return kr.measure(audience, impressions, CAP).reach / max(purse.spent, 1e-9)


def main() -> None:
    """Print a line for each group size."""
    print("  k   std of reach   reach per unit of money, relative to k = 1")
    alone = np.mean([reach_per_money(1, seed) for seed in range(10)])
    for group_size in (1, 2, 6, 20, 60, 120):
        groups = PEOPLE // group_size
        report = kr.measure(
            kr.Audience.disjoint([group_size] * groups), [2 * group_size] * groups, cap=3
        )
        relative = np.mean([reach_per_money(group_size, seed) for seed in range(10)]) / alone
        print(f"{group_size:>3} {report.std:>14.2f} {relative:>12.2f}")


if __name__ == "__main__":
    main()
