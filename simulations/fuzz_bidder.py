"""Odd bid requests over the wire, against a bidder in a process of its own.

    python -m simulations.fuzz_bidder --requests 100000 --seed 1

Mutations of good requests (`simulations.request_fuzzer`) go over several connections that are kept
open: most to the fast path, some to an exchange's own address, some compressed. Every bid is
answered with a loss notice. It fails if there is a server error, if a request gets no answer, if
the bidder logs an error or ends, if it does not bid afterwards, or if its memory grows by more than
`--max-growth-mb` after the first tenth of the requests.
"""

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from simulations.openrtb_campaigns import campaigns_of_every_kind
from simulations.request_fuzzer import good_requests, mutated

__all__ = ["Fuzz", "fuzz", "main"]

_CONNECTIONS = 8
_GROUPS = 1_000
_BID, _NAMED = "/openrtb2/bid", "/openrtb2/bid/some-exchange"
_MAX_BODY_BYTES = 256_000  # the default of `[bidder] max_body_bytes`
_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0


@dataclass
class Fuzz:
    """What came back."""

    answers: Counter[int] = field(default_factory=Counter)
    notices: Counter[int] = field(default_factory=Counter)
    cut: int = 0  # bodies beyond the limit whose connection was closed before the answer was read
    unanswered: int = 0
    errors: list[str] = field(default_factory=list)
    bids_afterwards: bool = False
    memory_before: int = 0
    memory_after: int = 0
    seconds: float = 0.0

    def failures(self, max_growth: int) -> list[str]:
        """What must not be."""
        statuses = self.answers + self.notices
        server_errors = sum(count for status, count in statuses.items() if status >= 500)
        growth = self.memory_after - self.memory_before
        return [
            text
            for text, wrong in (
                (f"{server_errors} server errors", server_errors),
                (f"{self.unanswered} requests without an answer", self.unanswered),
                (f"logged: {', '.join(sorted(set(self.errors)))}", self.errors),
                ("no bid afterwards", not self.bids_afterwards),
                (f"memory grew by {growth >> 20} MB", growth > max_growth),
            )
            if wrong
        ]


class _Connection:
    """A connection that is kept open, and opened again when the bidder closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", more: str = "") -> Any:
        """Status and body of the answer; None if the connection was closed without one."""
        for _ in range(2):
            fresh = self._writer is None
            answer = await asyncio.wait_for(self._ask(method, path, body, more), _ANSWER_SECONDS)
            if answer is not None or fresh:
                return answer  # an older connection may have been idle for too long
        return None

    async def _ask(self, method: str, path: str, body: bytes, more: str) -> Any:
        if self._writer is None:
            streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._reader, self._writer = streams
        assert self._reader is not None
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"{more}content-length: {len(body)}\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self._writer.write(head.encode() + body)
            lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            fields = dict(line.split(b": ", 1) for line in lines[1:] if line)
            length = int(fields.get(b"content-length", 0))
            answer = int(lines[0].split()[1]), await self._reader.readexactly(length)
            if fields.get(b"connection") == b"close":
                self.close()
            return answer
        self.close()
        return None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _send(connection: _Connection, body: bytes, generator: Random, counts: Fuzz) -> None:
    """One request, and a loss notice for every bid."""
    way = generator.random()
    sent, more = body, ""
    if way < 0.05:
        sent, more = gzip.compress(body, 1), "content-encoding: gzip\r\n"
    answer = await connection.ask("POST", _NAMED if way > 0.9 else _BID, sent, more)
    if answer is None:
        if len(body) > _MAX_BODY_BYTES:
            counts.cut += 1
        else:
            counts.unanswered += 1
        return
    status, content = answer
    counts.answers[status] += 1
    if status != 200:
        return
    for bid in json.loads(content)["seatbid"][0]["bid"]:
        path = "/openrtb2/loss/" + bid["lurl"].partition("/openrtb2/loss/")[2].partition("?")[0]
        notice = await connection.ask("GET", path)
        if notice is None:
            counts.unanswered += 1
        else:
            counts.notices[notice[0]] += 1


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _drive(port: int, pid: int, seed: int, requests: int, end: float) -> Fuzz:
    counts, bodies = Fuzz(), mutated(seed, requests)
    sent = 0

    async def client(number: int) -> None:
        nonlocal sent
        connection, generator = _Connection(port), Random(f"{seed} {number}")
        for body in bodies:
            await _send(connection, body, generator, counts)
            sent += 1
            if sent == max(requests // 10, 1):
                counts.memory_before = _resident_bytes(pid)
            if time.monotonic() > end:
                break
        connection.close()

    begun = time.monotonic()
    await asyncio.gather(*map(client, range(_CONNECTIONS)))
    counts.seconds = time.monotonic() - begun
    counts.memory_after = _resident_bytes(pid)
    last = _Connection(port)
    answer = await last.ask("POST", _BID, json.dumps(good_requests()[0]).encode())
    counts.bids_afterwards = answer is not None and answer[0] == 200
    last.close()
    return counts


def _write_store(folder: Path) -> Path:
    """A catalogue, campaigns of every kind and settings; the path of the settings."""
    now = datetime.now(UTC)
    ids = tuple(f"g{at}" for at in range(_GROUPS))
    write_catalogue(Catalogue("v1", now, 20, ids, np.full(_GROUPS, 20)), folder / "v1")
    store = CampaignStore(folder / "store")
    for campaign in campaigns_of_every_kind(now, ("d1",)):
        store.add(campaign)
    store.close()
    settings = folder / "kreach.toml"
    settings.write_text(
        f'[adsystem]\nstore = "store"\ncatalogues = ["v1"]\nrates = {{EUR = 1.085}}\n'
        f"rates_date = {now.date()}\n[bidder]\nport = 0\nfirst_bid_share = 1.0\n"
    )
    return settings


def _events(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


@contextlib.contextmanager
def _bidder(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Port, process id and log of a bidder that is ready, ended in any case."""
    settings, log = _write_store(folder), folder / "log"
    command = [sys.executable, "-m", "kreach", "serve", "bidder", "--config", str(settings)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        end = time.monotonic() + _START_SECONDS
        while not (ready := [one for one in _events(log) if one["event"] == "ready"]):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the bidder did not start: {log.read_text()}")
            time.sleep(0.05)
        yield int(ready[0]["port"]), process.pid, log
    finally:
        process.kill()
        process.wait()


def fuzz(requests: int, seed: int, seconds: float) -> Fuzz:
    """Send so many requests, or as many as the time allows."""
    with tempfile.TemporaryDirectory() as name, _bidder(Path(name)) as (port, pid, log):
        end = time.monotonic() + seconds
        counts = asyncio.run(_drive(port, pid, seed, requests, end))
        counts.errors = [one["event"] for one in _events(log) if one.get("level") == "error"]
    return counts


def main(arguments: list[str] | None = None) -> int:
    """Run, print what came back, and return 1 if something must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=900.0, help="stop after this time")
    parser.add_argument("--max-growth-mb", type=int, default=32)
    options = parser.parse_args(arguments)
    counts = fuzz(options.requests, options.seed, options.seconds)
    failures = counts.failures(options.max_growth_mb << 20)
    result = {
        "requests": counts.answers.total() + counts.cut + counts.unanswered,
        "seconds": round(counts.seconds, 1),
        "answers": dict(sorted(counts.answers.items())),
        "loss_notices": dict(sorted(counts.notices.items())),
        "cut": counts.cut,
        "memory_mb": [counts.memory_before >> 20, counts.memory_after >> 20],
        "failures": failures,
    }
    print(json.dumps(result, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
