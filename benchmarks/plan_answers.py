"""Wall time of `POST /v1/plans`: the first question to a service, others, and repeated ones.

Each round starts `kreach serve reporting` for each number of groups, asks over HTTP, and ends it.
Requests and prices are those in a bidder's journal; people visit by a model with sessions.

python -m benchmarks.plan_answers [--rounds 5]
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from math import exp, log
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import kreach as kr
from benchmarks.bidder import make_store, sessions_model
from benchmarks.timing import busy_seconds, cpu_seconds, print_table
from kreach.adsystem.bidding.learning import MarketLearner
from kreach.adsystem.ledger.journal import Journal
from kreach.lab.processes import ServiceProcess
from kreach.service.logs import Log

__all__ = ["run"]

_GROUPS = (1_000, 10_000, 100_000, 1_000_000)
_REQUESTS_PER_DAY, _DAYS, _CAP = 10, 7, 3  # requests of a group; days observed, and of the flight
_MARKET = (log(1.6 / 1_000.0), 0.8)
_AUCTIONS = 20_000
_DATES = {"start": "2026-12-01T00:00:00Z", "end": "2026-12-08T00:00:00Z"}
_QUESTIONS = ("first", "another budget", "people", "what k costs", "repeated", "refined")


def _write_observed(store: Path, groups: int) -> None:
    """A week of requests and prices, as a bidder's checkpoints have them."""
    chance, now = np.random.default_rng(1), time.time()
    counts = chance.poisson(_DAYS * _REQUESTS_PER_DAY, groups).astype(np.uint32)
    since = np.array([now - _DAYS * 86_400.0]).tobytes()
    learner = MarketLearner(kr.LogNormalMarket(*_MARKET))
    for price in chance.lognormal(*_MARKET, _AUCTIONS).tolist():
        learner.win(1.0, price)
    learned = {"markets": {learner.auction: learner.memory()}}
    stamp = round(now * 1e6)
    with closing(Journal(store, Log("bench", lambda line: None))) as journal:
        journal.submit("memory", ("traffic:bench-1", stamp, since + counts.tobytes()))
        journal.submit("memory", ("campaign:bench-1:1", stamp, json.dumps(learned).encode()))
        journal.run_now(lambda _: None)


class _Service:
    """A reporting service that is asked for plans: seconds by question, on the wall and of CPU."""

    def __init__(self, process: ServiceProcess, client: httpx.Client) -> None:
        self._process, self._client = process, client
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def ask(self, name: str, **body: object) -> dict[str, Any]:
        """Ask, and wait for the whole answer."""
        used, begun = cpu_seconds(self._process.pid), time.perf_counter()
        answer = self._client.post("/v1/plans", json={"cap": _CAP, **_DATES, **body})
        self.wall[name] = time.perf_counter() - begun
        self.cpu[name] = cpu_seconds(self._process.pid) - used
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document


def _start_service(root: Path, groups: int) -> _Service:
    """Start reporting on a store, ask every question, and end it."""
    budget = 0.05 * groups * _REQUESTS_PER_DAY * _DAYS * exp(_MARKET[0])
    other: dict[str, object] = {"budgets": [1.1 * budget], "precision": "coarse"}
    with (
        ServiceProcess("reporting", root / "kreach.toml", root / "reporting.log") as process,
        httpx.Client(base_url=process.address(600.0), timeout=120.0) as client,
    ):
        client.get("/healthz").raise_for_status()
        service = _Service(process, client)
        first = service.ask("first", budgets=[budget], precision="coarse")
        service.ask("another budget", **other)
        people = 0.8 * first["plans"][0]["people"]
        service.ask("people", people=people, precision="coarse")
        service.ask("what k costs", with_ids=True, **other)
        service.ask("repeated", **other)
        service.ask("refined", **other | {"precision": "fine"})
    return service


def _cell(times: Sequence[float]) -> str:
    low, high = min(times), max(times)
    return f"{statistics.median(times):.2f} ({low:.2f} to {high:.2f})"


def run(rounds: int = 5) -> None:
    """Ask all services in turns; print medians and ranges, and how busy the machine was."""
    found: dict[int, list[_Service]] = {groups: [] for groups in _GROUPS}
    with tempfile.TemporaryDirectory(prefix="kreach-bench-") as folder:
        for groups in _GROUPS:
            root = Path(folder) / str(groups)
            make_store(root, groups, 1, model=sessions_model())
            _write_observed(root / "store", groups)
        begun, busy = time.perf_counter(), busy_seconds()[0]
        for _ in range(rounds):
            for groups, services in found.items():
                services.append(_start_service(Path(folder) / str(groups), groups))
        passed, used = time.perf_counter() - begun, busy_seconds()[0] - busy
    for kind, clock in (("on the wall", "wall"), ("of CPU time", "cpu")):
        rows = []
        for groups, services in found.items():
            times = [getattr(service, clock) for service in services]
            cells = [_cell([one[question] for one in times]) for question in _QUESTIONS]
            rows.append([f"{groups:,}", *cells])
        title = f"POST /v1/plans, cap {_CAP}, seconds {kind}: median of {rounds} (range)"
        print_table(title, ["groups", *_QUESTIONS], rows)
    print(f"  all processes of the machine used {used / passed:.1f} of {os.cpu_count()} cores")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    run(parser.parse_args().rounds)
