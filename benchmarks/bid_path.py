"""CPU time of a bid request inside the bidder, beside that of another checkout.

Requests of `benchmarks.bidder` go through the server's fast path, without sockets, on a clock that
is set: a request every 40 µs, the bidder's tick ten times a second. A million groups, a hundred
campaigns that have their plans, one win in ten, the visitor filter on. What is counted is CPU time
of the one thread that answers, so that others on the machine disturb little.

With `--against` the same requests go through another checkout too, in a process of its own. Both
answer in turns. Answers must be the same to the byte, tokens included: else this fails.

python -m benchmarks.bid_path [--against CHECKOUT] [--rounds 7] [--requests 20000]
"""

import argparse
import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bidder import Traffic, make_store, sessions_model
from benchmarks.timing import DisagreementError, print_table

_ROOT = Path(__file__).parents[1]
_STEP_SECONDS = 40e-6  # between requests
_TICK = 2_500  # requests
_CONNECTIONS = 16
_WARM_REQUESTS, _WON_REQUESTS, _WINS = 40_000, 40_000, 4_000
_AT_ONCE = 64  # notices
_KEY = "00" * 32

Answers = list[bytes]


class _Transport(asyncio.Transport):
    """A connection that goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Answers = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.sent.append(data)

    def close(self) -> None:
        """Stay open: real time says nothing here."""


class BidPath:
    """A bidder with its state after some traffic, and connections to its fast path."""

    def __init__(self, folder: Path, store: Path, groups: int, start: float) -> None:
        from kreach.adsystem.bidserver.app import bidder_app_with_fast_path  # noqa: PLC0415
        from kreach.adsystem.bidserver.service import BidderState  # noqa: PLC0415
        from kreach.adsystem.settings import AdSystemSettings, BidderSettings  # noqa: PLC0415
        from kreach.service.logs import Log  # noqa: PLC0415
        from kreach.service.metrics import Metrics  # noqa: PLC0415
        from kreach.service.steady_clock import SteadyClock  # noqa: PLC0415

        shared = AdSystemSettings(store=store, catalogues=(folder / "release",))
        self._now = array("d", [start])
        read = partial(self._now.__getitem__, 0)  # as quick as the system's clock
        self.state = BidderState(
            shared,
            BidderSettings(token_key=_KEY),
            Log("bidder", write=lambda line: None),
            clock=lambda mark, **named: SteadyClock(None, read, read, **named),
        )
        self.app, self.route = bidder_app_with_fast_path(self.state, Metrics("bidder"))
        self.traffic = Traffic(groups, 1)
        self._sent = 0

    async def start(self) -> None:
        """Load the store and send requests until all is as it stays for a while."""
        import uvicorn  # noqa: PLC0415
        from uvicorn.server import ServerState  # noqa: PLC0415

        from kreach.service.fast_path import fast_path_protocol  # noqa: PLC0415

        state = self.state
        await state.start()
        await state.tasks.cancel()  # the tick and plans come when requests have been sent
        for number, bidder in enumerate(state.catalogue_bidders.values()):
            bidder.board._generator = np.random.default_rng(number)
        config = uvicorn.Config(self.app, log_config=None, lifespan="off")
        config.load()
        self._transports = [_Transport() for _ in range(_CONNECTIONS)]
        self._connections = []
        protocol = fast_path_protocol(self.route)
        for transport in self._transports:
            connection = protocol(config, ServerState(), {})
            connection.connection_made(transport)
            self._connections.append(connection)
        while any(account.granted == 0 for account in state.accounts.values()):
            await asyncio.sleep(0.05)
        gc.collect()
        gc.freeze()
        gc.set_threshold(4_000, 50, 50)  # as in `service.run`
        await self.send(_WARM_REQUESTS)
        self._plan()
        answers = [each for each in await self.send(_WON_REQUESTS) if b" 200 " in each[:13]]
        won = np.random.default_rng(2).choice(len(answers), _WINS, replace=False).tolist()
        for at in range(0, _WINS, _AT_ONCE):
            bodies = [answers[each].partition(b"\r\n\r\n")[2] for each in won[at : at + _AT_ONCE]]
            await asyncio.gather(*map(self._bill, bodies))
        await self.send(_WARM_REQUESTS)

    def tick(self) -> None:
        """What the bidder does ten times a second."""
        state = self.state
        state.clock_watch.check()
        now = state.clock()
        state._expire(now)
        state.exchanges.refresh(now)
        for bidder in state.catalogue_bidders.values():
            bidder.update_active(now)
        for number in state.accounts:
            state.request_money(number)

    def _plan(self) -> None:
        now = self.state.clock()
        for bidder in self.state.catalogue_bidders.values():
            for runtime in bidder.runtimes.values():
                task = bidder.plan_task(runtime, now)
                if task is not None:
                    bidder.adopt(runtime, *task.run())

    async def _bill(self, body: bytes) -> None:
        bid = json.loads(body)["seatbid"][0]["bid"][0]
        path, _, query = bid["burl"].partition("?")
        query = query.replace("${AUCTION_PRICE}", str(bid["price"] / 2))
        statuses = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: dict[str, Any]) -> None:
            statuses.append(message.get("status"))

        scope = {"type": "http", "method": "GET", "path": "/" + path.split("/", 3)[3]}
        await self.app(scope | {"query_string": query.encode()}, receive, send)
        assert statuses[0] == 200

    async def send(self, requests: int) -> Answers:
        """The answers to the next requests."""
        answers: Answers = []
        transports, now, traffic = self._transports, self._now, self.traffic
        deliver = [connection.data_received for connection in self._connections]
        for _ in range(requests // _CONNECTIONS):
            for receive in deliver:
                now[0] += _STEP_SECONDS
                receive(traffic.plain())
            self._sent += _CONNECTIONS
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for transport in transports:
                answers += transport.sent
                transport.sent.clear()
            if self._sent % _TICK < _CONNECTIONS:
                self.tick()
        return answers

    async def measure(self, requests: int) -> tuple[float, str]:
        """CPU time of a request in µs, and a digest of the answers."""
        begun = time.thread_time()
        answers = await self.send(requests)
        seconds = time.thread_time() - begun
        return seconds / len(answers) * 1e6, blake2b(b"".join(answers)).hexdigest()


async def _work(folder: Path, groups: int, start: float) -> None:
    """Answer commands: how many requests to measure, a line each."""
    with tempfile.TemporaryDirectory() as own:
        store = Path(own) / "store"
        shutil.copytree(folder / "store", store)
        path = BidPath(folder, store, groups, start)
        await path.start()
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            print(json.dumps(await path.measure(int(line))), flush=True)
        await path.state.stop()


class Worker:
    """A process that measures one checkout."""

    def __init__(self, checkout: Path, folder: Path, groups: int, start: float) -> None:
        command = [sys.executable, "-m", "benchmarks.bid_path", "--worker", str(folder)]
        command += ["--groups", str(groups), "--start", str(start)]
        paths = [str(checkout / "src"), str(_ROOT)]
        self._process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self) -> Any:
        """The next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a worker has ended: its error is above")
        return json.loads(line)

    def ask(self, command: str) -> Any:
        """The answer to a command."""
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)
        return self.wait()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def _workers(options: argparse.Namespace) -> Iterator[dict[str, Worker]]:
    checkouts = {"this checkout": _ROOT}
    if options.against is not None:
        checkouts = {"the other": options.against.resolve(), **checkouts}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_store(folder, options.groups, options.campaigns, "planning", sessions_model())
        start, workers = float(int(time.time())), {}
        for name, checkout in checkouts.items():
            workers[name] = Worker(checkout, folder, options.groups, start)
            stack.callback(workers[name].close)
            workers[name].wait()
        yield workers


def compare(workers: dict[str, Worker], rounds: int, requests: int) -> None:
    """Measure in turns and print what a request takes."""
    micros: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        digests = set()
        for name, worker in workers.items():
            took, digest = worker.ask(str(requests))
            micros[name].append(took)
            digests.add(digest)
        if len(digests) > 1:
            raise DisagreementError("the answers of the two checkouts differ")
    print_table(
        f"CPU time of a request on the fast path, {rounds} rounds of {requests:,}",
        ("", "median", "least", "most"),
        [
            (name, *(f"{value:.2f} µs" for value in (median(all_), min(all_), max(all_))))
            for name, all_ in micros.items()
        ],
    )
    if len(workers) > 1:
        other, own = micros.values()
        saved = [before - after for before, after in zip(other, own, strict=True)]
        print(
            f"  The same answers, {median(saved):.2f} µs less "
            f"(rounds: {min(saved):.2f} to {max(saved):.2f})"
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        import uvloop  # noqa: PLC0415

        uvloop.run(_work(options.worker, options.groups, options.start))
        return
    with _workers(options) as workers:
        compare(workers, options.rounds, options.requests)


def run() -> None:
    """What `python -m benchmarks bid_path` runs."""
    main([])


if __name__ == "__main__":
    main()
