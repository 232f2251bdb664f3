"""A publisher goes over to its next catalogue, and the bidder goes with it without a gap."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec
import pytest

from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.settings import AdSystemSettings, BidderSettings
from kreach.boundary.files import write_catalogue
from kreach.service.clock import FollowingClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    ManualClock,
    as_response,
    sample_campaign,
    sample_catalogue,
    sample_request,
    user_data,
)
from tests.adsystem.bidserver.sample_stores import sample_store


@contextmanager
def playing(
    shared: AdSystemSettings,
    clock: ManualClock,
    reload: Callable[[], AdSystemSettings] | None = None,
    lines: list[str] | None = None,
) -> Iterator[Exchange]:
    log = Log("bidder", ([] if lines is None else lines).append)
    settings = BidderSettings(compaction_seconds=3_600)
    state = BidderState(
        shared,
        settings,
        log,
        clock=lambda mark, **_: FollowingClock(mark, clock),
        reload=reload,
    )
    metrics = Metrics("bidder")
    site = bidder_app(state, metrics)
    with asyncio.Runner() as runner:
        runner.run(state.start())
        exchange = Exchange(state, site, runner, metrics)
        exchange.rest()
        try:
            yield exchange
        finally:
            runner.run(state.stop())


def asking(group: str, version: str) -> dict[str, object]:
    return sample_request(group, user={"data": [user_data(group, version)]})


@pytest.fixture
def shared(tmp_path: Path) -> AdSystemSettings:
    sample_store(tmp_path, [sample_campaign()])
    write_catalogue(sample_catalogue(8, "v2"), tmp_path / "next")
    return AdSystemSettings(store=tmp_path / "store", catalogues=(tmp_path / "release",))


def test_the_next_catalogue_is_taken_up_and_the_last_let_go(
    shared: AdSystemSettings, tmp_path: Path
) -> None:
    def naming(*folders: str) -> AdSystemSettings:
        paths = tuple(tmp_path / folder for folder in folders)
        return msgspec.structs.replace(shared, catalogues=paths)

    lines: list[str] = []
    clock, told = ManualClock(), [shared]
    with playing(shared, clock, lambda: told[-1], lines) as exchange:
        state = exchange.state
        old = as_response(exchange.bid(asking("g1", "v1"))).seatbid[0].bid[0]
        assert exchange.bid(asking("g7", "v2")).reason == "unknown catalogue"

        told.append(naming("nowhere"))
        exchange.run(state.reload())
        assert list(state.catalogue_bidders) == ["v1"]
        assert any("reload refused" in line for line in lines)

        told.append(naming("release", "next"))
        exchange.run(state.reload())
        exchange.rest()
        new = as_response(exchange.bid(asking("g7", "v2"))).seatbid[0].bid[0]
        assert exchange.bid(asking("g1", "v1")).status == 200

        told.append(naming("next"))
        exchange.run(state.reload())
        assert exchange.bid(asking("g1", "v1")).reason == "unknown catalogue"
        for bid in (old, new):  # a bid made on the old catalogue is billed all the same
            assert exchange.call(bid.burl, bid.price).status == 200
        clock.now += 3_600.0
        assert exchange.run(asyncio.to_thread(state.compactor.compact)) == 2
    written = duckdb.execute(
        f"""SELECT catalogue, "group" FROM read_parquet('{tmp_path}/store/log/*/*.parquet')
        ORDER BY catalogue"""
    ).fetchall()
    assert written == [("v1", "g1"), ("v2", "g7")]


def test_rows_of_a_catalogue_that_is_gone_are_still_written_out(
    shared: AdSystemSettings, tmp_path: Path
) -> None:
    clock = ManualClock()
    with playing(shared, clock) as exchange:
        exchange.win("g1")
    later = msgspec.structs.replace(shared, catalogues=(tmp_path / "next",))
    clock.now += 3_600.0
    with playing(later, clock) as exchange:
        assert exchange.run(asyncio.to_thread(exchange.state.compactor.compact)) == 1
    found = duckdb.execute(
        f"""SELECT catalogue, "group", campaign FROM
        read_parquet('{tmp_path}/store/log/*/*.parquet')"""
    ).fetchall()
    assert found == [("v1", "g1", "spring")]


def test_impressions_of_each_catalogue_are_restored_to_it(
    shared: AdSystemSettings, tmp_path: Path
) -> None:
    clock = ManualClock()
    both = msgspec.structs.replace(shared, catalogues=(tmp_path / "release", tmp_path / "next"))
    with playing(both, clock) as exchange:
        exchange.win("g1")
        exchange.win("g1", user={"data": [user_data("g1", "v2")]})
        exchange.win("g1", user={"data": [user_data("g1", "v2")]})
    with playing(both, clock) as exchange:
        counts = {
            version: bidder.runtimes[1].bidder.valuation.count(1)
            for version, bidder in exchange.state.catalogue_bidders.items()
        }
    assert counts == {"v1": 1, "v2": 2}
