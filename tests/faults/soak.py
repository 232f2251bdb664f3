"""Kill bidders for as long as it takes: `python -m tests.faults.soak --kills 1000` (`make soak`).

Every bidder is a real process that trades with an exchange until SIGKILL hits it, at any instant,
also while it starts. After each kill the log is compared with what the exchange was told: nothing
acknowledged is lost, nothing is there twice, no limit is passed.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.faults.service_processes import Service
from tests.faults.test_kill import (
    Lives,
    check_log,
    check_quiet,
    families,
    family_campaigns,
    nothing_carried,
    spend,
)

_KILLS_PER_STORE = 25  # then budgets are spent
_STILL_BORN = 0.15


def soak(kills: int, seed: int, folder: Path) -> int:
    """Kill so many bidders; returns the impressions that were acknowledged."""
    chance = random.Random(seed)
    billed = done = store = 0
    while done < kills:
        place = folder / f"{store}"
        place.mkdir()
        if store % 2:
            lives = Lives(place, seed + store, family_campaigns(), families())
        else:
            lives = Lives(place, seed + store)
        for _ in range(min(_KILLS_PER_STORE, kills - done)):
            if chance.random() < _STILL_BORN:
                lives.still_born()
            else:
                lives.one()
            done += 1
        _check_rest(lives)
        billed += len(lives.exchange.billed())
        store += 1
        print(f"{done} kills, {billed} impressions: nothing lost, doubled or overspent", flush=True)
    return billed


def _check_rest(lives: Lives) -> None:
    """When all has expired, nothing is held for bids, and a stop in order is quiet."""
    with Service("bidder", lives.config) as bidder:
        nothing_carried(bidder)
        assert not any(bidder.gauge("reserved_micros").values())
        assert bidder.stop() == 0
        check_quiet(bidder)
    check_log(lives.store, lives.exchange)
    spend(lives.store)


def main() -> None:
    """Fails with an AssertionError at the first thing that is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="printed, to repeat it")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        soak(given.kills, given.seed, Path(folder))


if __name__ == "__main__":
    main()
