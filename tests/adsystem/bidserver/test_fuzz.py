"""Odd bid requests, 25,000 of them: each is answered, none breaks anything, nothing piles up."""

import asyncio
import gc
import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from simulations.openrtb_campaigns import campaigns_of_every_kind
from simulations.request_fuzzer import mutated

from kreach.adsystem.bidserver import consent
from kreach.boundary.openrtb import BidResponse, decode_request
from kreach.errors import KreachError
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    bidding,
    sample_campaign,
    sample_request,
)
from tests.adsystem.bidserver.test_campaigns import kinds_of_campaigns

SHARDS, EACH = 2, 12_500
MAX_GROWTH_BYTES = 16 << 20
REASONS = {
    *("no imp", "no user", "no group", "unknown catalogue", "unknown group", "tmax too short"),
    *("currency", "test", "private auction", "floor currency", "below floor", "no campaign"),
    *("no budget", "no media type", "duplicate imp id", "seat"),
    *consent.REASONS,
}


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_responses = msgspec.json.Decoder(BidResponse)


async def answered(exchange: Exchange, body: bytes) -> int:
    """Send one and look at the answer; its status."""
    reply = await exchange.asked("POST", "/openrtb2/bid", body)
    try:
        request = decode_request(body)
    except KreachError:
        request = None
    if reply.status == 200:
        assert request is not None
        response = _responses.decode(reply.body)
        places = [imp.id for imp in request.imp]
        assert response.id == request.id
        for bid in response.seatbid[0].bid:
            assert bid.impid in places
            assert 0.0 < bid.price <= 50.0
            path = bid.lurl.removeprefix("http://127.0.0.1:8402").partition("?")[0]
            await exchange.asked("GET", path)
    elif reply.status == 204:
        assert request is not None
        assert reply.reason in REASONS
        assert reply.body == b""
    elif reply.status == 400:
        assert request is None
        assert list(json.loads(reply.body)) == ["error"]
        assert len(reply.body) < 250
    else:
        assert reply.status == 413
        assert len(body) > 256_000
    return reply.status


async def drive(exchange: Exchange, seed: int) -> tuple[dict[int, int], float, int]:
    """All of a shard: answers by status, the slowest, and how much memory grew."""
    statuses = {200: 0, 204: 0, 400: 0, 413: 0}
    slowest, warm = 0.0, 0
    for at, body in enumerate(mutated(seed, EACH)):
        begun = time.perf_counter()
        statuses[await answered(exchange, body)] += 1
        slowest = max(slowest, time.perf_counter() - begun)
        if at == EACH // 3:
            warm = resident_bytes()
        if at % 500 == 0:
            await asyncio.sleep(0)
    return statuses, slowest, resident_bytes() - warm


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("seed", range(SHARDS))
def test_odd_requests_are_answered(tmp_path: Path, seed: int) -> None:
    lines: list[str] = []
    campaigns = [*kinds_of_campaigns(), *campaigns_of_every_kind(NOW, ("d1",))]
    with bidding(tmp_path, campaigns, lines=lines, rates={"EUR": 1.085}) as exchange:
        statuses, slowest, growth = exchange.run(drive(exchange, seed))
        assert sum(statuses.values()) == EACH
        assert min(statuses.values()) > 0  # the mutations reach every kind of answer
        assert statuses[200] > EACH // 10
        assert slowest < 5.0
        assert growth < MAX_GROWTH_BYTES
        assert exchange.bid(sample_request()).status == 200
        assert exchange.state.ledger.bids_out == 1
    assert not [line for line in lines if '"error"' in line or '"warning"' in line]


def test_odd_requests_change_nothing_but_traffic(tmp_path: Path) -> None:
    """Bids that are taken back leave prices and budgets where they were."""
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        before = [exchange.price(f"g{group}") for group in range(6)]
        for body in mutated(99, 2_000):
            exchange.run(answered(exchange, body))
        assert [exchange.price(f"g{group}") for group in range(6)] == before
        left = exchange.metric('kreach_bidder_budget_left_micros{campaign="spring"}')
        assert left == 1_000_000_000
