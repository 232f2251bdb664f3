"""A page of another site in a browser that reaches the gateway learns nobody's group."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.publisher.gateway.sample_gateways import IDS, sample_gateway, write_sample_build

BODY = b'{"user_id": "%b"}' % IDS[0].encode()


def status(app: Any, method: str, path: str, headers: dict[str, str], body: bytes = BODY) -> int:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b""}
    asyncio.run(app(scope | {"headers": encoded}, receive, send))
    code: int = sent[0]["status"]
    return code


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"host": "groups.internal:8401"}, 200),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_only_servers_identify(tmp_path: Path, headers: dict[str, str], expected: int) -> None:
    app = sample_gateway(write_sample_build(tmp_path / "build"), names=("groups.internal",))
    ordinary = {"host": "127.0.0.1:8401", "content-type": "application/json"}
    for route in ("identify", "allow", "shown"):
        code = status(app, "POST", f"/v1/{route}", ordinary | headers)
        assert code == (expected if route == "identify" or expected != 200 else 400)


def test_metrics_are_not_for_pages(tmp_path: Path) -> None:
    app = sample_gateway(write_sample_build(tmp_path / "build"))
    assert status(app, "GET", "/metrics", {"host": "192.0.2.7:8401"}, b"") == 200
    assert status(app, "GET", "/metrics", {"host": "evil.example"}, b"") == 403
