"""A simulated exchange: an HTTP client, market prices, and bid requests with realistic noise."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from kreach.adsystem.bidding.history import read_prices
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = [
    "Client",
    "Placement",
    "Prices",
    "Reply",
    "bid_request",
    "listed_prices",
    "lognormal_prices",
]

Prices = Callable[[np.random.Generator, int], FloatArray]
"""Draws a number of highest competing bids, per thousand."""

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Reply(NamedTuple):
    """An answer: status, headers by lower-case name, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.body)


class Client:
    """An HTTP/1.1 client for one address, with keep-alive connections."""

    def __init__(self, address: str, seconds: float = 30.0, *, key: str | None = None) -> None:
        """`key` is an API key that goes with every request."""
        parts = urlsplit(address)
        if parts.scheme != "http" or parts.hostname is None:
            raise KreachError.rule("address", "begin with http:// and name a host", address)
        self._host, self._port = parts.hostname, parts.port or 80
        self._seconds = seconds
        self._authorization = "" if key is None else f"authorization: Bearer {key}\r\n"
        self._idle: list[_Stream] = []

    async def ask(self, method: str, target: str, document: object = None) -> Reply:
        """Send a request and wait for its answer. `target` may be a whole address."""
        body = b"" if document is None else json.dumps(document).encode()
        parts = urlsplit(target)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
        head += self._authorization
        if body:
            head += "content-type: application/json\r\n"
        message = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        async with asyncio.timeout(self._seconds):
            while self._idle:  # the server may have closed it meanwhile: try the next
                try:
                    return await self._exchange(self._idle.pop(), message)
                except (OSError, asyncio.IncompleteReadError):
                    continue
            stream = await asyncio.open_connection(self._host, self._port)
            try:
                return await self._exchange(stream, message)
            except asyncio.IncompleteReadError as error:
                raise ConnectionResetError("the answer broke off") from error

    async def _exchange(self, stream: _Stream, message: bytes) -> Reply:
        reader, writer = stream
        try:
            writer.write(message)
            await writer.drain()
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = (line.partition(":") for line in lines if line)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        except BaseException:
            writer.close()
            raise
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(stream)
        return Reply(int(first.split(" ")[1]), headers, body)

    async def close(self) -> None:
        """Close all connections."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.close()
            try:
                await writer.wait_closed()
            except OSError:
                continue


def lognormal_prices(mu: float, sigma: float) -> Prices:
    """A log-normal market; `mu` and `sigma` of ln(price per thousand)."""
    if not (np.isfinite(mu) and 0.0 <= sigma < np.inf):
        raise KreachError.rule("market", "have a finite mu and a finite sigma ≥ 0", (mu, sigma))
    return lambda generator, count: generator.lognormal(mu, sigma, count)


def listed_prices(path: Path, campaign: str | None = None) -> Prices:
    """Draw from the prices of a file, weighted by their counts."""
    market = read_prices(path, campaign)
    prices, counts = np.asarray(market.prices), np.asarray(market.counts)
    return lambda generator, count: generator.choice(prices, count, p=counts / counts.sum())


@dataclass(frozen=True)
class Placement:
    """An ad placement: its size, auction type and floor."""

    width: int = 300
    height: int = 250
    first_price: bool = False
    floor: float = 0.0  # per thousand


def bid_request(
    number: int,
    user_id: str,
    user: dict[str, Any],
    placements: Sequence[Placement],
    tmax: int = 1_000,
) -> dict[str, Any]:
    """A bid request as exchanges send it: the gateway's `user` data next to many identifiers.

    The bidder must neither need nor store any of those identifiers.
    """
    device = uuid5(NAMESPACE_URL, user_id)
    data = user.get("data", [])
    other = {"id": "900", "name": "other", "segment": [{"id": "s17", "name": "sports"}]}
    return {
        "id": f"visit-{number}",
        "at": 1 if placements[0].first_price else 2,
        "tmax": tmax,
        "cur": ["USD"],
        "bcat": ["IAB25"],
        "imp": [
            {
                "id": str(at + 1),
                "secure": 1,
                "bidfloor": placement.floor,
                "banner": {"pos": 1, "format": [{"w": placement.width, "h": placement.height}]},
            }
            for at, placement in enumerate(placements)
        ],
        "site": {
            "id": "102855",
            "domain": "news.example",
            "cat": ["IAB12"],
            "page": f"https://news.example/article-{number % 997}.html?reader={device.hex[:12]}",
            "publisher": {"id": "8953", "domain": "news.example"},
        },
        "device": {
            "ua": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
            "ip": ".".join(str(part) for part in (10, *device.bytes[:3])),
            "ifa": str(device),
            "didsha1": device.hex,
            "language": "en",
            "geo": {"country": "DEU", "lat": 52.0 + device.bytes[3] / 256, "lon": 13.4},
        },
        "user": {
            "id": user_id,
            "buyeruid": device.hex[::-1],
            "yob": 1950 + device.bytes[4] % 55,
            "eids": [{"source": "id.example", "uids": [{"id": user_id, "atype": 1}]}],
            "data": [other, *data],
        },
    }
