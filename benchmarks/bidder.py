"""The bid endpoint beside the same server's constant answer: 100 campaigns, a million groups.

Rates of the saturated server in turns, then the time to answer both at half of the bids' rate, then
a soak: bids with their notices for some minutes. A round compares what ran within it, the bids
between two runs of the constant answer, so that a machine that is slow for a while is slow for
both. The ratio is the median of the rounds and comes with their range. CPU time of each server's
process per answer is a second measure: others on the machine disturb it less.

python -m benchmarks.bidder [--seconds 10] [--rounds 3] [--soak-minutes 0.5]
"""

import argparse
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from urllib.request import urlopen

import numpy as np

from benchmarks.consent import tc_string
from benchmarks.load import Load, get, post, run_load, run_paced
from benchmarks.timing import busy_seconds, cpu_seconds, memory_megabytes
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.boundary.visit_model import VisitModel
from kreach.lab.processes import ModuleProcess, ServiceProcess


def sessions_model() -> VisitModel:
    """A site whose requests come in sessions: most of those within minutes are one person's."""
    return replace(
        VisitModel.flat(30, dispersion=0.6),
        gap_edges_seconds=(30.0, 120.0, 600.0, 1_800.0),
        continuation_odds=np.array(
            [[9.0, 6.0, 2.0, 0.5], [2.0, 1.0, 0.5, 0.1], [0.5, 0.2, 0.1, 0]]
        ),
        requests_per_session=np.array([0.4, 0.25, 0.15, 0.1, 0.1]),
    )


def make_store(
    root: Path,
    groups: int,
    campaigns: int,
    bidder: str = "planning",
    model: VisitModel | None = None,
) -> Path:
    """A catalogue, running campaigns and a settings file."""
    generator = np.random.default_rng(1)
    ids = tuple(f"g{j:07d}" for j in range(groups))
    sizes = generator.integers(20, 40, groups)
    catalogue = Catalogue("bench-1", datetime.now(UTC), 20, ids, sizes, model=model)
    write_catalogue(catalogue, root / "release")
    store = CampaignStore(root / "store")
    now = datetime.now(UTC)
    for at in range(campaigns):
        store.add(
            Campaign(
                id=f"campaign-{at}",
                budget=100_000.0 + 1_000.0 * at,
                start=now - timedelta(days=7),
                end=now + timedelta(days=7),
                caps=(Cap(limit=1 + at % 3),),
                bidder=bidder,
                expected_requests=10_000_000,
                max_cpm=50.0,
                creative=Creative(id=f"creative-{at}", markup="<b>ad</b>", width=300, height=250),
            )
        )
    store.close()
    config = root / "kreach.toml"
    config.write_text('[adsystem]\nstore = "store"\ncatalogues = ["release"]\n')
    return config


_CONSENT = tc_string(Random(0))


def bid_request(group: str, catalogue: str = "bench-1", consent: str = _CONSENT) -> bytes:
    """A request of about 2 KB, with consent, and with what exchanges send and we do not look at."""
    return json.dumps(
        {
            "id": "80ce30c53c16e6ede735f123ef6e32361bfc7b22",
            "at": 2,
            "tmax": 120,
            "cur": ["USD"],
            "imp": [
                {
                    "id": "1",
                    "bidfloor": 0.01,
                    "secure": 1,
                    "banner": {"format": [{"w": 300, "h": 250}, {"w": 300, "h": 600}], "pos": 1},
                }
            ],
            "site": {
                "id": "102855",
                "domain": "news.example",
                "cat": ["IAB12"],
                "page": "https://news.example/2026/11/16/politics/article-123456.html",
                "publisher": {"id": "8953", "name": "news.example", "domain": "news.example"},
            },
            "device": {
                "ua": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
                "ip": "192.0.2.7",
                "devicetype": 2,
                "language": "en",
                "geo": {"country": "DEU", "region": "BE", "type": 2},
            },
            "user": {
                "data": [
                    {"name": "other", "segment": [{"id": "x1"}, {"id": "x2"}]},
                    {
                        "name": "kreach",
                        "segment": [{"id": group}],
                        "ext": {"catalogue": catalogue},
                    },
                ],
                "consent": consent,
            },
            "regs": {"coppa": 0, "ext": {"gdpr": 1}},
        }
    ).encode()


class Traffic:
    """Bid requests for random groups; of the bids a share is billed, the others are lost."""

    def __init__(self, groups: int, seed: int, billed: float = 0.1) -> None:
        generator = np.random.default_rng(seed)
        picked = generator.integers(0, groups, 20_000)
        chance = Random(seed)
        consents = [tc_string(chance) for _ in range(1_000)]
        self._bids = [
            post("/openrtb2/bid", bid_request(f"g{j:07d}", consent=chance.choice(consents)))
            for j in picked
        ]
        self._billed = billed
        self._at = 0
        self._notices: list[bytes] = []
        self._generator = generator
        self.bids = 0

    def plain(self) -> bytes:
        """The next bid request."""
        self._at += 1
        return self._bids[self._at % len(self._bids)]

    def with_notices(self) -> bytes:
        """The next notice if one is due, else the next bid request."""
        return self._notices.pop() if self._notices else self.plain()

    def answered(self, status: int, body: bytes) -> None:
        """Turn a bid into its notice."""
        if status != 200 or not body.startswith(b'{"id"'):
            return
        bid = json.loads(body)["seatbid"][0]["bid"][0]
        self.bids += 1
        if self._generator.random() < self._billed:
            address = bid["burl"].replace("${AUCTION_PRICE}", str(bid["price"] / 2))
        else:
            address = bid["lurl"]
        self._notices.append(get("/" + address.split("/", 3)[3]))


@dataclass
class Measured:
    """A server under load: answers a second, and its own CPU time for each."""

    rate: float
    cpu_micros: float


def _saturate(
    name: str, process: ModuleProcess, traffic: Traffic, seconds: float, connections: int
) -> Measured:
    before = cpu_seconds(process.pid)
    load = run_load(process.port(), traffic.plain, seconds, connections)
    micros = (cpu_seconds(process.pid) - before) / len(load.latencies) * 1e6
    print(f"{_line(name, load)}, CPU {micros:.1f} µs each", flush=True)
    return Measured(load.rate, micros)


def _spread(name: str, ratios: list[float]) -> str:
    return f"{name} {median(ratios):.2f} (rounds: {min(ratios):.2f} to {max(ratios):.2f})"


def _line(name: str, load: Load) -> str:
    p50, p99 = load.quantile(0.5) * 1e3, load.quantile(0.99) * 1e3
    statuses = ", ".join(f"{count} × {status}" for status, count in sorted(load.statuses.items()))
    return f"{name:22} {load.rate:8,.0f}/s  p50 {p50:.2f} ms  p99 {p99:.2f} ms   {statuses}"


def plan_all(port: int, traffic: Traffic, campaigns: int) -> float:
    """Send traffic until every campaign has its plan; how long that took."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < 300.0:
        run_load(port, traffic.plain, 2.0, 4)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            plans = re.search(rb"^kreach_bidder_plans ([0-9.]+)", answer.read(), re.MULTILINE)
        if plans is not None and float(plans.group(1)) >= campaigns:
            break
    return time.perf_counter() - begun


def compare(
    config: Path, groups: int, campaigns: int, seconds: float, rounds: int, connections: int
) -> float:
    """Bid endpoint and constant answer in turns; returns the median ratio of the rounds."""
    traffic = Traffic(groups, 1)
    by_rate, by_cpu, past, rates = [], [], [], []
    folder = config.parent
    with (
        ModuleProcess(["benchmarks.constant"], folder / "constant.log") as constant,
        ServiceProcess("bidder", config, folder / "bidder.log") as bidder,
        ModuleProcess(["benchmarks.constant", "direct"], folder / "direct.log") as direct,
    ):
        port = bidder.port()
        print(f"planned after {plan_all(port, traffic, campaigns):.0f} s of traffic")
        run_load(port, traffic.with_notices, seconds, connections, traffic.answered)  # wins
        run_load(constant.port(), traffic.plain, 1.0, connections)
        for _ in range(rounds):
            before = _saturate("constant", constant, traffic, seconds / 2.0, connections)
            bids = _saturate("bid", bidder, traffic, seconds, connections)
            after = _saturate("constant", constant, traffic, seconds / 2.0, connections)
            quick = _saturate("constant past ASGI", direct, traffic, seconds / 2.0, connections)
            by_rate.append(2.0 * bids.rate / (before.rate + after.rate))
            by_cpu.append((before.cpu_micros + after.cpu_micros) / (2.0 * bids.cpu_micros))
            past.append(bids.rate / quick.rate)
            rates.append(bids.rate)
        half = sum(rates) / rounds / 2.0
        for _ in range(rounds):
            for name, process in (("constant", constant), ("bid", bidder)):
                own = [os.getpid(), process.pid]
                busy, (before_all, stolen) = sum(map(cpu_seconds, own)), busy_seconds()
                paced = run_paced(process.port(), traffic.plain, half, seconds)
                after_all, after_stolen = busy_seconds()
                others = after_all - before_all - sum(map(cpu_seconds, own)) + busy
                print(
                    f"{_line(f'{name}, half of bids', paced)}; CPU of others "
                    f"{max(others, 0.0) / paced.seconds:.2f} cores, taken by the host "
                    f"{(after_stolen - stolen) / paced.seconds:.2f}",
                    flush=True,
                )
        memory = memory_megabytes(bidder.pid)
    print(
        f"bid endpoint of the constant answer: {_spread('by rate', by_rate)}, "
        f"{_spread('by CPU time', by_cpu)}; {_spread('of one that goes past ASGI too', past)}; "
        f"bidder holds {memory:,.0f} MB"
    )
    return median(by_rate)


def soak(config: Path, groups: int, campaigns: int, minutes: float, connections: int) -> None:
    """Bids with notices for some minutes: rate and latency by the minute, memory, errors."""
    with ServiceProcess("bidder", config, config.parent / "bidder.log") as bidder:
        port = bidder.port()
        plan_all(port, Traffic(groups, 99), campaigns)
        memory, answers, errors = [memory_megabytes(bidder.pid)], 0, 0
        slowest = 0.0
        step = min(60.0, minutes * 60.0)
        for at in range(max(int(minutes * 60.0 / step), 1)):
            traffic = Traffic(groups, 100 + at)
            load = run_load(port, traffic.with_notices, step, connections, traffic.answered)
            memory.append(memory_megabytes(bidder.pid))
            bids = [load.quantile(p, posts=True) * 1e3 for p in (0.5, 0.99, 0.999)]
            latency = "p50 {:.2f} p99 {:.2f} p99.9 {:.2f} ms".format(*bids)
            bid_rate = len(load.of_posts) / load.seconds
            line = f"minute {at + 1:2}: {bid_rate:6,.0f} bid requests/s, {latency}; "
            everything = f"with notices {load.rate:6,.0f}/s, {memory[-1]:,.0f} MB"
            print(line + everything, flush=True)
            answers += len(load.latencies)
            errors += sum(count for status, count in load.statuses.items() if status >= 400)
            slowest = max(slowest, bids[1])
        print(
            f"soak: {answers:,} answers, {errors:,} errors, p99 of the worst minute "
            f"{slowest:.2f} ms, {memory[0]:,.0f} MB at the start and {memory[-1]:,.0f} at the end"
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--bidder", default="planning", choices=["planning", "paper"])
    parser.add_argument("--model", default="sessions", choices=["sessions", "none"])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--soak-minutes", type=float, default=0.5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = sessions_model() if options.model == "sessions" else None
        config = make_store(Path(folder), options.groups, options.campaigns, options.bidder, model)
        what = f"{options.campaigns} campaigns ({options.bidder}, model: {options.model})"
        print(f"{options.groups:,} groups, {what}")
        planned = options.campaigns if options.bidder == "planning" else 0
        if options.rounds:
            compare(
                config,
                options.groups,
                planned,
                options.seconds,
                options.rounds,
                options.connections,
            )
        if options.soak_minutes:
            soak(config, options.groups, planned, options.soak_minutes, options.connections)


def run() -> None:
    """What `python -m benchmarks bidder` runs."""
    main([])


if __name__ == "__main__":
    main()
