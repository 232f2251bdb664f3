"""Billing notices per second, each in the log on disk before it is acknowledged.

With `--replicated`, bidders that wait for the stream as well (`acknowledge = "replicated"`, a real
NATS server) beside those that do not, in turns: a round compares what ran within it.

python -m benchmarks.notices [--seconds 5] [--replicated] [--rounds 3]
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from simulations.fleet import RedisServer
from simulations.shipping_servers import NatsServer

from benchmarks.bidder import Traffic, make_store
from benchmarks.load import get, run_load
from kreach.lab.processes import ServiceProcess
from kreach.service.logs import Log

__all__ = ["run", "run_replicated"]

_GROUPS = 100_000
_MODES = ("stored", "replicated")


def _billing_notices(port: int, seconds: float) -> list[bytes]:
    """Win many bids. Returns their billing notices."""
    traffic = Traffic(_GROUPS, 3)
    notices: list[bytes] = []

    def answered(status: int, body: bytes) -> None:
        if status == 200:
            bid = json.loads(body)["seatbid"][0]["bid"][0]
            address = bid["burl"].replace("${AUCTION_PRICE}", str(bid["price"] / 2))
            notices.append(get("/" + address.split("/", 3)[3]))

    run_load(port, traffic.plain, 2 * seconds, 16, answered)
    return notices


def _bare_rows(folder: Path, batch: int) -> float:
    """Rows per second that the journal takes in batches of this size, without any HTTP."""
    from kreach.adsystem.ledger.journal import Journal  # noqa: PLC0415

    journal = Journal(folder, Log("bench", lambda line: None))
    begun, rows = time.perf_counter(), 0
    while time.perf_counter() - begun < 2.0:
        waiting: list[Exception | None] = []
        for _ in range(batch):
            rows += 1
            row = (rows, 1, 1, rows % _GROUPS, rows, rows, rows, 1_000)
            journal.submit("impression", row, waiting.append)
        while len(waiting) < batch:
            time.sleep(0.0001)
    seconds = time.perf_counter() - begun
    journal.close()
    return rows / seconds


def run(seconds: float = 5.0) -> None:
    """Durable notices per second for several numbers of connections."""
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, 100, 1_000):
            rate = _bare_rows(Path(folder) / f"journal-{batch}", batch)
            print(f"journal alone, {batch:5} at a time  {rate:9,.0f} rows/s")
        config = make_store(Path(folder), _GROUPS, 10)
        with ServiceProcess("bidder", config, Path(folder) / "bidder.log") as bidder:
            port = bidder.port()
            notices = _billing_notices(port, seconds)
            for connections in (1, 16, 64):
                load = run_load(
                    port,
                    lambda: notices.pop() if notices else get("/healthz"),
                    seconds,
                    connections,
                )
                p50, p99 = (load.quantile(p) * 1e3 for p in (0.5, 0.99))
                print(
                    f"{connections:3} connections  {load.rate:8,.0f} notices/s  "
                    f"p50 {p50:.2f} ms  p99 {p99:.2f} ms"
                )
            if not notices:
                print("the notices ran out: the last figures are too high")


def run_replicated(seconds: float, rounds: int) -> None:
    """Notices per second of both ways to acknowledge, with a shipped log, in turns."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as held:
        root, connections = Path(name), 16
        (root / "nats").mkdir()
        stream = held.enter_context(NatsServer(root / "nats"))
        ports = {mode: _shipping_bidder(root / mode, mode, stream, held) for mode in _MODES}
        notices = {mode: _billing_notices(port, seconds * rounds) for mode, port in ports.items()}
        rates: dict[str, list[float]] = {mode: [] for mode in _MODES}
        for _ in range(rounds):
            for mode, port in ports.items():
                load = run_load(port, _next_of(notices[mode]), seconds, connections)
                rates[mode].append(load.rate)
                p50, p99 = (load.quantile(p) * 1e3 for p in (0.5, 0.99))
                print(f"{mode:10} {load.rate:8,.0f} notices/s  p50 {p50:.2f} ms  p99 {p99:.2f} ms")
        if not all(notices.values()):
            print("the notices ran out: the last figures are too high")
        ratios = [there / here for here, there in zip(*rates.values(), strict=True)]
        print(
            f"replicated / stored, {connections} connections: {median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f} in {rounds} rounds)"
        )


def _next_of(notices: list[bytes]) -> Callable[[], bytes]:
    return lambda: notices.pop() if notices else get("/healthz")


def _shipping_bidder(root: Path, mode: str, stream: NatsServer, held: ExitStack) -> int:
    """The port of a bidder that ships its log and acknowledges notices this way."""
    from kreach.adsystem.settings import RedisSettings  # noqa: PLC0415
    from kreach.adsystem.sharing.campaign_feed import CampaignFeed  # noqa: PLC0415

    for folder in ("files", "redis"):
        (root / folder).mkdir(parents=True)
    redis = held.enter_context(RedisServer(root / "redis"))
    config = make_store(root, _GROUPS, 10)
    more = f"""
[redis]
url = "{redis.url}"
bidders = ["b1"]
[bidder]
name = "b1"
token_key = "{"5e" * 32}"
[shipping]
stream = "{stream.url}"
files = "{(root / "files").as_uri()}"
prefix = "{mode}"
acknowledge = "{mode}"
"""
    config.write_text(config.read_text() + more)
    feed = RedisSettings(url=redis.url, bidders=("b1",))
    CampaignFeed(root / "store", feed, Log("bench", lambda line: None)).start()
    bidder = held.enter_context(ServiceProcess("bidder", config, root / "bidder.log"))
    return bidder.port()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--replicated", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.replicated:
        run_replicated(given.seconds, given.rounds)
    else:
        run(given.seconds)
