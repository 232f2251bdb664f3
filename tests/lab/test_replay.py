"""A stream through real processes on replayed time: gateway, bidder and reporting over HTTP."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from simulations.replay import replay, serve_campaign, study_campaign

from kreach.boundary.times import MICROS
from kreach.lab.auctions import Stream
from kreach.lab.buyers import full_reach_cost
from kreach.lab.evaluate import StudyOptions, site_of, tasks_of
from tests.lab.logs_made import write_prices, write_visits


def test_the_processes_buy_as_the_lab_does(tmp_path: Path) -> None:
    """A made-up log of some days in seconds: no notice is refused, no budget exceeded, and reach
    is near the lab's. Plans may lag by a sixtieth of the flight: it is not closer than a tenth."""
    options = StudyOptions(
        write_visits(tmp_path / "visits.csv", 1_000),
        write_prices(tmp_path / "prices.csv"),
        group_size=12,
        campaigns=1,
        campaign_size=240,
        others=(),
        seed=1,
    )
    grouped = tasks_of(options, site_of(options), replays=False)[0].grouped("random")
    study = grouped.campaign
    times = study.at + study.starts_us / MICROS
    stream = Stream(study.person, grouped.groups, times, study.price, study.people.count)
    first = slice(0, 600)
    columns = {name: getattr(stream, name)[first] for name in ("person", "group", "at", "price")}
    stream = replace(stream, **columns)
    budget = round(0.1 * full_reach_cost(study), 2)
    lab = serve_campaign(grouped, study_campaign(grouped, budget, stream.at[-1] + 1.0), stream)
    speed = float(stream.at[-1] - stream.at[0]) / 8.0
    sent, report = replay(tmp_path / "replay", grouped, budget, stream, speed)
    assert sent.refused == 0
    assert sent.spend_micros <= budget * MICROS
    reach = len(np.unique(stream.person[sent.wins]))
    assert reach == pytest.approx(lab.reach(stream.person, 1), rel=0.1)
    assert report["impressions"] == len(sent.wins)
    low, high = report["reports"][0]["interval"]
    assert 0.9 * low <= reach <= 1.1 * high
