"""A real bidder on a machine whose clock is set wrong while it runs, by libfaketime."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.service_processes import (
    Client,
    Service,
    bid_request,
    make_campaign,
    make_store,
    parse_bid,
    until,
)

DAILY = 300_000  # micros


class FakedMachine:
    """A store, and a file that says how wrong the machine's clock is."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr").glob("lib*/**/faketime/libfaketimeMT.so.1"))
        if not libraries:
            pytest.fail("libfaketime is not installed: run tools/find_faketime.sh as root")
        self._offset = folder / "offset"
        self.set("+0")
        now = datetime.now(UTC)
        campaign = make_campaign(
            "one",
            30.0,
            daily_budget=DAILY / 1e6,
            start=now - timedelta(minutes=1),
            end=now + timedelta(days=10),
        )
        self.config = make_store(folder, [campaign], expiry_seconds=5, pacing_seconds=0.2)
        self.store = folder / "store"
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset: str) -> None:
        draft = self._offset.with_suffix(".draft")
        draft.write_text(offset + "\n")
        draft.rename(self._offset)

    def bidder(self) -> Service:
        return Service("bidder", self.config, **self.environment)

    def repair(self) -> dict[str, object]:
        command = [sys.executable, "-m", "kreach", "repair", "clock", "--json", "--write"]
        done = subprocess.run(
            [*command, "--config", str(self.config)], capture_output=True, timeout=120, check=True
        )
        facts: dict[str, object] = json.loads(done.stdout)
        return facts


def healthy(bidder: Service) -> bool:
    return bidder.ask("/healthz").status == 200


async def _spend(port: int, requests: int) -> tuple[int, set[str]]:
    """Bill every bid at its full price; the money, and why there was none."""
    client = await Client.open(port)
    micros, reasons = 0, set()
    for at in range(requests):
        reply = await client.ask("/openrtb2/bid", bid_request(at % 40))
        if reply.status != 200:
            reasons.add(reply.no_bid)
            continue
        sold = parse_bid(reply, 0.0)
        price = f"{sold.bid_micros / 1_000:.3f}"
        told = await client.ask(f"/openrtb2/billing/{sold.token}?price={price}")
        assert told.status == 200
        micros += sold.bid_micros
    client.close()
    return micros, reasons


def spend(bidder: Service, requests: int = 20) -> tuple[int, set[str]]:
    return asyncio.run(_spend(bidder.port, requests))


def test_a_clock_that_jumps_neither_spends_twice_nor_ends_bidding(tmp_path: Path) -> None:
    machine = FakedMachine(tmp_path)
    with machine.bidder() as bidder:
        until(lambda: spend(bidder, 1)[0] > 0, "it bids")
        for offset in ("+1d", "+3600d", "-2d"):
            machine.set(offset)
            until(lambda: not healthy(bidder), "the clock is doubted")
            assert "machine's clock" in bidder.ask("/healthz").document["clock"]
            assert spend(bidder) == (0, {"clock in doubt"})
            machine.set("+0")
            until(lambda: healthy(bidder), "the clock is believed")
            until(lambda: spend(bidder, 1)[0] > 0, "it bids again")
        until(lambda: spend(bidder)[0] == 0, "the day is spent")
        machine.set("+1d")  # and there is no second one
        until(lambda: not healthy(bidder), "the clock is doubted")
        assert spend(bidder) == (0, {"clock in doubt"})
        bidder.kill()
    machine.set("+3600d")
    with machine.bidder() as bidder:  # nor does a restart believe it
        assert not healthy(bidder)
        assert spend(bidder) == (0, {"clock in doubt"})
        bidder.kill()
    machine.set("+0")
    with machine.bidder() as bidder:
        assert healthy(bidder)
        assert spend(bidder)[0] == 0  # the day is spent
        assert bidder.stop() == 0
    assert machine.repair()["rows_in_future"] == 0
    spent = sum(price for _, _, price, _ in all_rows(machine.store))
    assert 0.9 * DAILY < spent <= DAILY
