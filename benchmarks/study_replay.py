"""A log replayed through the real processes, beside the same stream in the lab.

python -m benchmarks.study_replay --visits F --prices F [--split T] [--budget 0.2] [--days 0]
    [--speed 3000]

Gateway, bidder and reporting run as processes, as `kreach serve` starts them, and are asked over
HTTP: the gateway names the group of each visitor, the bidder bids, an auction at the logged price
is held, and its outcome goes back as a notice. Time is the log's: each request sets the clock of
the services (`[clock] time_file`), at most `--speed` times as fast as real time, so that what the
bidder does in the background (plans in a child process, a tick every 0.1 s) keeps up.

Truth is known here. It is compared with the same campaign in the bidder's code on simulated time
(`kreach.lab.served`, as in study_served), and with what reporting says.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from simulations.replay import replay, serve_campaign, study_campaign

from kreach.boundary.times import DAY_SECONDS, MICROS, as_instant
from kreach.lab.auctions import Stream
from kreach.lab.buyers import full_reach_cost
from kreach.lab.evaluate import StudyOptions, site_of, tasks_of


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--split", default=None)
    parser.add_argument("--campaign-size", type=int, default=5_000)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--budget", type=float, default=0.2, help="of what everybody costs")
    parser.add_argument("--days", type=float, default=0.0, help="of the flight; 0: all of it")
    parser.add_argument("--speed", type=float, default=3_000.0)
    given = parser.parse_args(arguments)
    options = StudyOptions(
        visits=given.visits,
        prices=given.prices,
        strategy=given.strategy,
        others=(),
        split=None if given.split is None else as_instant("split", given.split),
        campaigns=1,
        campaign_size=given.campaign_size,
        seed=1,
    )
    grouped = tasks_of(options, site_of(options), replays=False)[0].grouped(given.strategy)
    study = grouped.campaign
    begins = study.starts_us / MICROS
    last = given.days * DAY_SECONDS if given.days else study.seconds
    part = study.at <= last
    stream = Stream(
        study.person[part],
        grouped.groups[part],
        study.at[part] + begins,
        study.price[part],
        study.people.count,
    )
    budget = round(given.budget * full_reach_cost(study) * last / study.seconds, 2)
    lab = serve_campaign(grouped, study_campaign(grouped, budget, stream.at[-1] + 1.0), stream)
    begun = time.monotonic()
    with TemporaryDirectory() as folder:
        sent, report = replay(Path(folder), grouped, budget, stream, given.speed)
    seconds = time.monotonic() - begun
    reach = len(np.unique(stream.person[sent.wins]))
    in_lab = lab.reach(stream.person, 1)
    measured = report["reports"][0]
    print(f"{len(stream.at)} requests in {seconds:.0f} s, {sent.refused} notices refused")
    print(f"spent: {sent.spend_micros / MICROS / budget:.4f}, in the lab {lab.spend / budget:.4f}")
    print(f"impressions: {len(sent.wins)}, in the lab {len(lab.wins)}")
    print(f"reach: {reach}, in the lab {in_lab}, ratio {reach / in_lab:.4f}")
    low, high = measured["interval"]
    print(f"reporting: {measured['reach']:.0f} ({low:.0f} to {high:.0f})")


if __name__ == "__main__":
    main()
