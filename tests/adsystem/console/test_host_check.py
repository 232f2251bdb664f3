"""Pages of other sites in the same browser must not reach the console, which acts with a key."""

import asyncio
from typing import Any

import pytest

from kreach.adsystem.console.host_check import HostGuard


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def first_message(kind: str, headers: dict[str, str], *names: str) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def receive() -> Any:
        return {}

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    guard = HostGuard(app, names, "127.0.0.1")
    asyncio.run(guard({"type": kind, "headers": encoded}, receive, send))
    return sent[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8400"},
        {"host": "localhost"},
        {"host": "[::1]:8400"},
        {"host": "LOCALHOST:8400", "origin": "http://localhost:8400"},
        {"host": "127.0.0.1:8400", "origin": "https://console.example.com"},  # behind a proxy
        {"host": "console.example.com", "origin": "https://console.example.com"},
    ],
)
def test_pages_of_the_console_are_allowed(headers: dict[str, str]) -> None:
    answer = first_message("http", headers, "console.example.com")
    assert answer["status"] == 200
    assert b"default-src 'self'" in dict(answer["headers"])[b"content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example:8400"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "[::1"},
        {"host": "localhost", "origin": "https://evil.example"},
        {"host": "localhost", "origin": "null"},
        {"host": "localhost:8400", "origin": "http://localhost:3000"},
        {"host": "192.0.2.7:8400"},
        {"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"host": "console.example.com"},
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_other_hosts_and_origins_are_rejected(kind: str, headers: dict[str, str]) -> None:
    answer = first_message(kind, headers)
    if kind == "http":
        assert answer["status"] == 403
    else:
        assert answer == {"type": "websocket.close", "code": 1008}
