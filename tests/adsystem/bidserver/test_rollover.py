"""A publisher goes over to its next catalogue, and the bidder goes with it without a gap."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec
import pytest

from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.settings import AdSystemSettings, BidderSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.errors import KreachError
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
    lines: list[str] | None = None,
) -> Iterator[Exchange]:
    log = Log("bidder", ([] if lines is None else lines).append)
    settings = BidderSettings(compaction_seconds=3_600)
    state = BidderState(
        shared,
        settings,
        log,
        clock=lambda mark, **_: FollowingClock(mark, clock),
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

    clock = ManualClock()
    with playing(shared, clock) as exchange:
        state = exchange.state
        old = as_response(exchange.bid(asking("g1", "v1"))).seatbid[0].bid[0]
        assert exchange.bid(asking("g7", "v2")).reason == "unknown catalogue"

        with pytest.raises(KreachError, match="nowhere"):
            exchange.run(state.take_up(naming("next", "nowhere")))
        assert list(state.catalogue_bidders) == ["v1"]
        assert exchange.bid(asking("g7", "v2")).reason == "unknown catalogue"

        exchange.run(state.take_up(naming("release", "next")))
        exchange.rest()
        new = as_response(exchange.bid(asking("g7", "v2"))).seatbid[0].bid[0]
        assert exchange.bid(asking("g1", "v1")).status == 200

        exchange.run(state.take_up(naming("next")))
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


def test_other_groups_under_a_version_in_use_are_refused(
    shared: AdSystemSettings, tmp_path: Path
) -> None:
    """Also if it was dropped: its number in the log stands for its groups."""
    write_catalogue(sample_catalogue(9, "v1"), tmp_path / "other")
    with playing(shared, ManualClock()) as exchange:
        state = exchange.state
        for folders in (("other",), ("next", "other")):
            changed = tuple(tmp_path / folder for folder in folders)
            with pytest.raises(KreachError, match="catalogues must have a new version"):
                exchange.run(state.take_up(msgspec.structs.replace(shared, catalogues=changed)))
            only_next = msgspec.structs.replace(shared, catalogues=(tmp_path / "next",))
            exchange.run(state.take_up(only_next))
            assert list(state.catalogue_bidders) == ["v2"]


def test_a_catalogue_that_cannot_be_opened_changes_nothing(
    shared: AdSystemSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_catalogue(sample_catalogue(8, "v3"), tmp_path / "last")
    changed = tuple(tmp_path / folder for folder in ("next", "last"))
    settings = msgspec.structs.replace(shared, catalogues=changed)
    with playing(shared, ManualClock()) as exchange:
        state = exchange.state
        number = state._catalogue_number

        def fails_at_v3(catalogue: Catalogue) -> int:
            if catalogue.version == "v3":
                raise sqlite3.OperationalError("disk I/O error")
            return number(catalogue)

        with monkeypatch.context() as patched:
            patched.setattr(state, "_catalogue_number", fails_at_v3)
            with pytest.raises(sqlite3.OperationalError):
                exchange.run(state.take_up(settings))
        assert list(state.catalogue_bidders) == ["v1"]
        assert state.shared.catalogues == shared.catalogues
        assert exchange.bid(asking("g1", "v1")).status == 200
        exchange.run(state.take_up(settings))
        assert sorted(state.catalogue_bidders) == ["v2", "v3"]


def test_a_campaign_that_comes_while_a_catalogue_is_opened_runs_on_it(
    shared: AdSystemSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = (tmp_path / "release", tmp_path / "next")
    with playing(shared, ManualClock()) as exchange:
        state = exchange.state
        number = state._catalogue_number

        def meanwhile(catalogue: Catalogue) -> int:
            state._load_campaign(state.campaigns.add(sample_campaign("late")))
            return number(catalogue)

        monkeypatch.setattr(state, "_catalogue_number", meanwhile)
        exchange.run(state.take_up(msgspec.structs.replace(shared, catalogues=both)))
        for bidder in state.catalogue_bidders.values():
            names = {runtime.campaign.id for runtime in bidder.runtimes.values()}
            assert "late" in names


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
