"""Several bidders on one Redis: throughput, latency while Redis is slow, what staleness costs."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from simulations.fleet import Fleet, FleetRun, RedisServer, SlowProxy

from benchmarks.bidder import bid_request
from benchmarks.load import Load, post, run_load
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import AdSystemSettings, BidderSettings, RedisSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.lab.exchange import Client
from kreach.service.logs import Log

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
            max_cpm=50.0,
            creative=Creative(markup="<b>ad</b>", width=300, height=250),
        )
    )
    store.close()


async def _until_open(addresses: list[str]) -> None:
    """Until every bidder has the campaign and, if it shares, the others."""
    for address in addresses:
        client = Client(address)
        for _ in range(600):
            health = (await client.ask("GET", "/healthz")).document
            shared: dict[str, Any] = health.get("sharing", {"leasing": True})
            if health["campaigns"] and shared["leasing"]:
                break
            await asyncio.sleep(0.05)
        else:
            raise RuntimeError(f"never ready: {health}")
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


async def _latency(slow: SlowProxy, addresses: list[str], seconds: float) -> None:
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
    slow = await SlowProxy(redis.port).open()
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


def _remember_traffic(fleet: Fleet, per_second: float) -> None:
    """Bidders that have been there for a while know how much comes: all begin with the same."""
    seconds, now = 2_000.0, time.time()
    counts = np.random.default_rng(1).poisson(per_second * seconds / fleet.groups, fleet.groups)
    value = np.array([now - seconds]).tobytes() + counts.astype(np.uint32).tobytes()
    for folder in fleet.folders:
        journal = Journal(folder, Log("bench", lambda line: None))
        journal.submit("memory", ("traffic:v1", int(now * 1e6), value))
        journal.close()


def _staleness(redis: RedisServer, seconds: float) -> None:
    """All side by side, asked for the same people at the same moments and prices."""
    print("what staleness costs: cap 1, the same people, prices and budget, side by side")
    print("  (bidders also exchange when they ask for money, some fifty times per flight)")
    told: dict[str, list[tuple[int, int, float]]] = {}
    for seed in (1, 2):
        for name, found in asyncio.run(_side_by_side(redis, seconds, seed)).items():
            told.setdefault(name, []).append(found)
    for name, runs in told.items():
        reach, shown, spent = (sum(column) for column in zip(*runs, strict=True))
        print(
            f"  {name:16} reach {reach:6,.0f}  shown {shown:6,.0f}  spent {spent:.3f}  "
            f"reach per unit {reach / spent:5,.0f}  beyond the cap {(shown - reach) / shown:.1%}",
            flush=True,
        )


async def _side_by_side(
    redis: RedisServer, seconds: float, seed: int
) -> dict[str, tuple[int, int, float]]:
    per_second, groups, size = 80.0, 80, 30
    requests = round(per_second * seconds)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        fleets: dict[str, Fleet] = {}
        for at, sync in enumerate((None, 0.1, 1.0, 5.0)):
            root = Path(folder) / str(at)
            root.mkdir()
            told = {"prefix": f"s{seed}-{at}", "sync_seconds": sync or 1.0}
            name = "one bidder" if sync is None else f"two, every {sync:g} s"
            bidders, url = (1, None) if sync is None else (2, redis.url)
            fleets[name] = Fleet(root, groups, size, bidders, url, redis=told, plans=50)
            _remember_traffic(fleets[name], per_second)
        running = {
            name: [stack.enter_context(fleet.start(one)) for one in fleet.names]
            for name, fleet in fleets.items()
        }
        addresses = {name: [one.address() for one in of] for name, of in running.items()}
        start = datetime.now(UTC) + timedelta(seconds=3)
        for fleet in fleets.values():
            for store in fleet.folders:
                _flight(store, start, seconds, requests)
        markets = {name: FleetRun(at, groups, size, seed=seed) for name, at in addresses.items()}
        await asyncio.sleep((start - datetime.now(UTC)).total_seconds())
        runs = [m.run(requests, 4, per_second=per_second) for m in markets.values()]
        await asyncio.gather(*runs)
        found = {}
        for name, market in markets.items():
            record = market.record
            spent = sum(record.spend_micros.values()) / 1e6
            found[name] = (record.reach(1), int(record.seen.sum()), spent)
            await market.close()
        return found


def _flight(store: Path, start: datetime, seconds: float, requests: int) -> None:
    """A campaign with money for about two requests in five; bidders look for it twice a second."""
    kept = CampaignStore(store)
    kept.add(
        Campaign(
            id="c",
            budget=round(requests * 0.25e-3, 6),
            start=start,
            end=start + timedelta(seconds=seconds),
            caps=(Cap(limit=1),),
            market_mu=0.0,
            market_sigma=0.7,
            max_cpm=10.0,
            creative=Creative(markup="<b>ad</b>", width=300, height=250),
        )
    )
    kept.close()


async def _until_known(url: str, sync_seconds: float, impressions: int) -> list[float]:
    """Seconds from an impression on one bidder's disk to its being in the other's counts.

    Both run in this process, where their counts can be looked at.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ids = tuple(f"g{j}" for j in range(impressions))
        sizes = np.full(impressions, 20)
        write_catalogue(Catalogue("v1", datetime.now(UTC), 20, ids, sizes), root / "release")
        names = ("b1", "b2")
        states = []
        for name in names:
            shared = AdSystemSettings(store=root / name, catalogues=(root / "release",))
            _flight(shared.store, datetime.now(UTC) + timedelta(hours=1), 3_600.0, 1_000)
            redis = RedisSettings(
                url=url, bidders=names, prefix=f"known-{sync_seconds:g}".replace(".", "-"),
                sync_seconds=sync_seconds,
            )  # fmt: skip
            log = Log("bench", lambda line: None)
            state = BidderState(shared, BidderSettings(name=name), log, redis=redis)
            await state.start()
            states.append(state)
        first, second = states
        while not all(one.fleet is not None and one.fleet.status.leasing for one in states):
            await asyncio.sleep(0.02)
        taken = await _told_one_by_one(first, second, impressions, sync_seconds)
        for state in states:
            await state.stop()
        return taken


async def _told_one_by_one(
    first: BidderState, second: BidderState, impressions: int, sync_seconds: float
) -> list[float]:
    number, bidder = first.catalogue_bidders["v1"].number, second.catalogue_bidders["v1"]
    written: dict[int, float] = {}
    known: dict[int, float] = {}
    generator = np.random.default_rng(3)

    async def look() -> None:
        while len(known) < impressions:
            counts = bidder.runtimes[1].bidder.valuation.counts()
            now = time.perf_counter()
            for group in np.flatnonzero(counts).tolist():
                known.setdefault(group, now)
            await asyncio.sleep(0.001)

    looking = asyncio.create_task(look())
    for group in range(impressions):
        await asyncio.sleep(generator.exponential(max(sync_seconds / 4, 0.02)))
        at = int(time.time() * 1e6)
        row = (1 << 40 | group, 1, number, group, at, at, at // 1_000_000 + 60, 100)

        def done(error: Exception | None, group: int = group) -> None:
            written[group] = time.perf_counter()

        first.journal.submit("impression", row, done)
    await looking
    return [known[group] - written[group] for group in range(impressions)]


def _known(redis: RedisServer) -> None:
    print("from one bidder's disk to the other's counts, while nobody asks for money")
    for sync, impressions in ((0.1, 300), (0.2, 300), (1.0, 100), (5.0, 40)):
        taken = sorted(asyncio.run(_until_known(redis.url, sync, impressions)))
        p50, p99 = (taken[min(int(p * len(taken)), len(taken) - 1)] for p in (0.5, 0.99))
        print(f"  every {sync:g} s: p50 {p50:.3f} s, p99 {p99:.3f} s", flush=True)


def run(seconds: float = 40.0) -> None:
    """Print it all."""
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
        _throughput(redis, min(seconds, 5.0))
        redis.kill()  # names belong to logs: other bidders begin with an empty Redis
        redis.start()
        asyncio.run(_slow_redis(redis, min(seconds, 8.0)))
        _known(redis)
        _staleness(redis, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0)
    run(parser.parse_args().seconds)
