"""Several bidders on one Redis: throughput, latency while Redis is slow, what staleness costs."""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.bidder import bid_request
from benchmarks.load import Load, post, run_load
from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.lab.exchange import Client
from kreach.lab.fleet import Fleet, FleetRun, RedisServer, Slow

__all__ = ["run"]

_GROUPS, _GROUP_SIZE = 1_000, 20


def _campaign(root: Path, budget: float, seconds: float, cap: int) -> None:
    now = datetime.now(UTC)
    store = CampaignStore(root / "store")
    store.add(
        Campaign(
            id="c",
            budget=budget,
            start=now - timedelta(seconds=1),
            end=now + timedelta(seconds=seconds),
            caps=(Cap(limit=cap),),
            market_sigma=0.7,
            market_mu=0.0,
            most_cpm=50.0,
        )
    )
    store.close()


async def _until_open(addresses: list[str]) -> None:
    """Until every bidder has the campaign and, if it shares, the others."""
    for address in addresses:
        client = Client(address)
        for _ in range(600):
            told = (await client.ask("GET", "/healthz")).document
            shared: dict[str, Any] = told.get("sharing", {"money": "given out"})
            if told["campaigns"] and shared["money"] == "given out":
                break
            await asyncio.sleep(0.05)
        else:
            raise RuntimeError(f"never ready: {told}")
        await client.close()
    await asyncio.sleep(1.0)


@contextmanager
def _fleet(bidders: int, redis_port: int | None, **settings: Any) -> Iterator[list[str]]:
    """Bidders at work, and their addresses; without a Redis, one."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = None if redis_port is None else f"redis://127.0.0.1:{redis_port}/0"
        flight = settings.pop("flight")
        fleet = Fleet(Path(folder), _GROUPS, _GROUP_SIZE, bidders, url, **settings)
        _campaign(Path(folder), *flight)
        names = fleet.names if fleet.shared else ("b1",)
        running = [stack.enter_context(fleet.start(name)) for name in names]
        if fleet.shared:
            running.append(stack.enter_context(fleet.start_reporting()))
        addresses = [process.address() for process in running][:bidders]
        yield addresses
        for process in running:
            process.stop()


def _hammer(port: int, seconds: float) -> tuple[float, float, float]:
    bodies = [post("/openrtb2/bid", bid_request(f"g{j:07d}", "v1")) for j in range(_GROUPS)]
    at = 0

    def following() -> bytes:
        nonlocal at
        at += 1
        return bodies[at % len(bodies)]

    load: Load = run_load(port, following, seconds, 8)
    return load.rate, load.quantile(0.5), load.quantile(0.99)


def _throughput(redis: RedisServer, seconds: float) -> None:
    print("throughput: as many load generators as bidders, all on this machine's cores")
    with _fleet(2, redis.port, flight=(50_000.0, 3_600.0, 3)) as addresses:
        asyncio.run(_until_open(addresses))
        ports = [int(address.rpartition(":")[2]) for address in addresses]
        with ProcessPoolExecutor(2) as pool:
            rates = []
            for used in (1, 2, 1, 2):
                waiting = [pool.submit(_hammer, port, seconds) for port in ports[:used]]
                found = [one.result() for one in waiting]
                rates.append(sum(rate for rate, _, _ in found))
                slowest = max(p99 for _, _, p99 in found)
                print(
                    f"  {used} bidders {rates[-1]:8,.0f}/s  p99 {slowest * 1e3:.2f} ms", flush=True
                )
        print(f"  2 over 1: {(rates[1] + rates[3]) / (rates[0] + rates[2]):.2f}")


async def _latency(slow: Slow, addresses: list[str], seconds: float) -> None:
    await _until_open(addresses)
    print("latency of bids, Redis at once and 300 ms away in each direction, in turns")
    for delay in (0.0, 0.3, 0.0, 0.3):
        slow.seconds = delay
        await asyncio.sleep(1.0)
        market = FleetRun(addresses, _GROUPS, _GROUP_SIZE)
        record = await market.run(round(200 * seconds), 4, per_second=200.0)
        await market.close()
        ordered = sorted(record.seconds)
        p50, p99 = (1e3 * ordered[int(p * len(ordered))] for p in (0.5, 0.99))
        print(f"  {delay * 1e3:3.0f} ms: p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)


async def _slow_redis(redis: RedisServer, seconds: float) -> None:
    slow = await Slow(redis.port).open()
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[list[str]] = loop.create_future()
    done = asyncio.Event()

    def hold() -> None:
        with _fleet(2, slow.port, flight=(50_000.0, 3_600.0, 3)) as addresses:
            loop.call_soon_threadsafe(ready.set_result, addresses)
            asyncio.run_coroutine_threadsafe(done.wait(), loop).result()

    holding = loop.run_in_executor(None, hold)
    try:
        await _latency(slow, await ready, seconds)
    finally:
        slow.seconds = 0.0
        done.set()
        await holding
        await slow.close()


def _staleness(redis: RedisServer, seconds: float) -> None:
    print("what staleness costs: cap 1, the same people and prices, the same budget")
    requests = round(200 * seconds)
    for bidders, sync in ((1, None), (2, 0.1), (2, 1.0), (2, 5.0)):
        more: dict[str, Any] = {} if sync is None else {"redis": {"sync_seconds": sync}}
        port = None if sync is None else redis.port
        redis.kill()  # names belong to logs: other bidders begin with an empty Redis
        redis.start()
        flight = (requests * 0.4e-3, seconds + 5.0, 1)
        with _fleet(bidders, port, flight=flight, expiry_seconds=5, **more) as addresses:
            told = asyncio.run(_one_flight(addresses, requests, seconds))
        name = "one bidder" if sync is None else f"two, every {sync:g} s"
        print(f"  {name:16} {told}", flush=True)


async def _one_flight(addresses: list[str], requests: int, seconds: float) -> str:
    await _until_open(addresses)
    market = FleetRun(addresses, _GROUPS, _GROUP_SIZE)
    record = await market.run(requests, 8, per_second=requests / seconds)
    await market.close()
    shown = int(record.seen.sum())
    spent = sum(record.spend_micros.values()) / 1e6
    return (
        f"reach {record.reach(1):6,}  shown {shown:6,}  spent {spent:.3f}  "
        f"beyond the cap {(shown - record.reach(1)) / max(shown, 1):.1%}"
    )


def run(seconds: float = 20.0) -> None:
    """Print it all."""
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
        _throughput(redis, min(seconds, 5.0))
        redis.kill()
        redis.start()
        asyncio.run(_slow_redis(redis, min(seconds, 8.0)))
        _staleness(redis, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    run(parser.parse_args().seconds)
