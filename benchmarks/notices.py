"""Billing notices per second, each in the log on disk before it is acknowledged."""

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.bidder import Traffic, make_store
from benchmarks.load import get, run_load
from kreach.lab.processes import ServiceProcess
from kreach.service.logs import Log

__all__ = ["run"]

_GROUPS = 100_000


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    run(parser.parse_args().seconds)
