"""A disk that is full: nothing is acknowledged, nothing is lost, and it recovers by itself."""

import asyncio
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.faults.service_processes import (
    Client,
    Exchange,
    Service,
    bid_request,
    make_campaign,
    make_store,
    until,
)
from tests.faults.test_kill import check_log, spend

Full = Callable[[Service | None, bool], None]


@contextmanager
def small_disk(folder: Path) -> Iterator[Full]:
    """A file system of a few megabytes that can be filled to the last byte."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"a small file system could not be mounted: {made.stderr}")
        pytest.skip("needs the right to mount a file system")
    filler = folder / "filler"

    def full(_: Service | None, yes: bool) -> None:
        if not yes:
            filler.unlink()
            return
        with filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    try:
        yield full
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextmanager
def limited_files(folder: Path) -> Iterator[Full]:
    """No file may grow beyond what the log has now: needs no rights at all."""

    def full(bidder: Service | None, yes: bool) -> None:
        assert bidder is not None
        _, hard = resource.prlimit(bidder.process.pid, resource.RLIMIT_FSIZE)
        limit = (folder / "live.sqlite3-wal").stat().st_size if yes else hard
        resource.prlimit(bidder.process.pid, resource.RLIMIT_FSIZE, (limit, hard))

    yield full


async def bills(bidder: Service, exchange: Exchange, bids: int) -> list[str]:
    """Make bids and bill each; what became of them."""
    client = await Client.open(bidder.port)
    before = len(exchange.sold)
    while len(exchange.sold) < before + bids:
        await exchange.one_request(client)
    client.close()
    return [sold.fate for sold in list(exchange.sold.values())[before:]]


@pytest.mark.parametrize("kind", [small_disk, limited_files])
def test_a_full_disk(tmp_path: Path, kind: Callable[[Path], AbstractContextManager[Full]]) -> None:
    store = tmp_path / "small"
    exchange = Exchange(random.Random(4), silent=0.0, lost=0.0, told_twice=0.0)
    with kind(store) as full:
        config = make_store(
            tmp_path, [make_campaign("one", 50.0)], store, expiry_seconds=120, pacing_seconds=0.2
        )
        with Service("bidder", config) as bidder:
            assert set(asyncio.run(bills(bidder, exchange, 20))) == {"billed"}
            exchange.silent = 1.0
            asyncio.run(bills(bidder, exchange, 30))  # bids that are out
            exchange.silent = 0.0
            full(bidder, True)
            until(lambda: bidder.ask("/healthz").status == 503, "it says that it cannot write")
            health = bidder.ask("/healthz").document
            assert health["status"] == "failing"
            assert health["log"] != "ok"
            refused = bidder.ask("/openrtb2/bid", bid_request(1))
            assert (refused.status, refused.no_bid) == (204, "log cannot be written")
            out = [sold for sold in exchange.sold.values() if sold.fate == "out"]
            for sold in out:
                sold.price, sold.micros = f"{sold.bid_micros / 1_000:.3f}", sold.bid_micros
            before = bidder.gauge("budget_left_micros")
            for sold in out[:10]:
                for _ in range(2):
                    reply = bidder.ask(sold.billing)
                    assert reply.status == 503
                    assert "not recorded, send again" in reply.document["error"]["message"]
            assert bidder.gauge("budget_left_micros") == before  # nothing is half done
            for sold in out[10:15]:
                assert bidder.ask(f"/openrtb2/win/{sold.token}").status == 200
                assert bidder.ask(sold.billing).status == 503
            loss = f"/openrtb2/loss/{out[14].token}"
            assert bidder.ask(loss).status == 503  # else a crash could bill it
            out[14].fate = "lost"
            full(bidder, False)
            until(lambda: bidder.ask("/healthz").status == 200, "it writes again")
            assert bidder.ask(loss).status == 200
            for sold in out[:14]:
                assert bidder.ask(sold.billing).document == {"status": "done"}
                assert bidder.ask(sold.billing).document == {"status": "repeated"}
                sold.fate = "billed"
            assert bidder.ask(out[14].billing).status == 404
            assert set(asyncio.run(bills(bidder, exchange, 10))) == {"billed"}
            spent = sum(sold.micros for sold in exchange.billed().values())
            assert bidder.gauge("budget_left_micros") == {"one": 50_000_000 - spent}
            events = [event for event in bidder.events() if event["level"] != "info"]
            assert {event["event"] for event in events} == {"log cannot be written"}
            bidder.kill()
            check_log(store, exchange)
        with Service("bidder", config) as bidder:
            assert bidder.gauge("budget_left_micros") == {"one": 50_000_000 - spent}
            for sold in out[15:]:
                assert bidder.ask(sold.billing).document == {"status": "done"}
                sold.fate = "billed"
            bidder.kill()
            check_log(store, exchange)
            assert spend(store)[0] == {"one": sum(s.micros for s in exchange.billed().values())}


def test_a_bidder_does_not_start_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as full:
        config = make_store(tmp_path, [make_campaign("one", 50.0)], tmp_path / "small")
        full(None, True)
        bidder = Service("bidder", config)
        try:
            assert bidder.process.wait(60) == 1
        finally:
            bidder.kill()
        lines = bidder.log.read_text().splitlines()
        assert lines[-1].startswith("kreach: ")
        assert not any("Traceback" in line for line in lines)
        full(None, False)
        with Service("bidder", config) as again:
            assert again.ask("/healthz").status == 200
