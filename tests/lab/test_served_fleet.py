"""Two bidders that share, on simulated time: they deliver as one does."""

from pathlib import Path

import numpy as np
from simulations.fleet import RedisServer

import kreach as kr
from kreach.adsystem.settings import BidderSettings, RedisSettings
from kreach.lab.served import Delivery, serve
from kreach.lab.served_fleet import FleetBidder, serve_fleet
from tests.lab.test_served import MU, SIZES, START, campaign, served, stream

BUDGETS = {"a": 20.0, "b": 3.0, "c": 40.0, "d": 8.0}


def both(folder: Path, model: kr.VisitModel | None) -> dict[int, Delivery]:
    settings = BidderSettings(market_mu=MU + float(np.log(1_000.0)), market_sigma=0.8)
    with RedisServer(folder) as redis:
        shared = RedisSettings(url=redis.url, bidders=("b1", "b2"))
        fleet = [
            FleetBidder(folder / name, name, shared, SIZES, model, START - 1.0, settings, seed)
            for seed, name in enumerate(shared.bidders)
        ]
        for name, budget in BUDGETS.items():
            for bidder in fleet:
                bidder.add(campaign(name, budget))
        found = serve_fleet(fleet, stream(4))
        for bidder in fleet:  # each had its part
            assert min(len(one.wins) for one in bidder.deliveries.values()) > 0
        return found


def test_two_bidders_spend_and_reach_what_one_does(tmp_path: Path) -> None:
    """Requests are split at random. Budgets are worth a few dozen bids, so leases matter; no
    budget is spent twice, and people whom one has bought the other does not buy again."""
    model = kr.VisitModel.flat(20)
    alone = served(model)
    for name, budget in BUDGETS.items():
        alone.add(campaign(name, budget))
    one = serve(alone, stream(4), tick_seconds=120.0)
    two = both(tmp_path, model)
    person = stream(4).person
    for number, budget in enumerate(BUDGETS.values(), 1):
        assert two[number].spend <= budget
        assert two[number].spend > 0.9 * one[number].spend
        assert len(set(two[number].wins)) == len(two[number].wins)
    reach = [sum(one.reach(person, 1) for one in found.values()) for found in (one, two)]
    assert reach[1] > 0.95 * reach[0]
