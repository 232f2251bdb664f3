"""Pages of others in the same browser must not reach the console, which acts with a key."""

import asyncio
from typing import Any

import pytest

from kreach.adsystem.console.host_check import HostGuard


async def _inside(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def told(kind: str, headers: dict[str, str], *names: str) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def receive() -> Any:
        return {}

    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    guard = HostGuard(_inside, names, "127.0.0.1")
    asyncio.run(guard({"type": kind, "headers": listed}, receive, send))
    return sent[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8400"},
        {"host": "localhost"},
        {"host": "[::1]:8400"},
        {"host": "LOCALHOST:1", "origin": "http://localhost:8400"},
        {"host": "console.example.com", "origin": "https://console.example.com"},
    ],
)
def test_its_own_pages_are_let_in(headers: dict[str, str]) -> None:
    answer = told("http", headers, "console.example.com")
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
        {"host": "console.example.com"},
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_others_are_not(kind: str, headers: dict[str, str]) -> None:
    answer = told(kind, headers)
    if kind == "http":
        assert answer["status"] == 403
    else:
        assert answer == {"type": "websocket.close", "code": 1008}
