"""The gateway's port for browsers: a visitor learns its own group, and nothing else is there."""

import asyncio
import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.publisher.gateway import BrowserSettings, GatewaySettings, check, gateway_apps
from kreach.publisher.gateway.user_tokens import UserTokens, read_user_key
from kreach.publisher.store import read_build
from kreach.service.web import App
from tests.publisher.gateway.sample_gateways import (
    IDS,
    ManualClock,
    log_to,
    write_sample_build,
)

KEY = bytes(range(32))
PAGE = "https://www.publisher.example"
NOW = 1_790_000_000.0
TOKENS = UserTokens(KEY)


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    key = tmp_path / "user.key"
    key.write_text(KEY.hex() + "\n")
    key.chmod(0o600)
    browser = BrowserSettings(
        allowed_origins=(PAGE,), user_key_file=key, names=("groups.publisher.example",)
    )
    return GatewaySettings(build=write_sample_build(tmp_path / "build"), browser=browser)


def apps(settings: GatewaySettings) -> tuple[App, App]:
    inside, outside = gateway_apps(settings, log_to(), clock=ManualClock(NOW))
    assert outside is not None
    return inside, outside


def ask(
    app: App, route: str, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, dict[bytes, bytes], bytes]:
    method, path = route.split(" ")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    given = {"host": "groups.publisher.example"} | (headers or {})
    encoded = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b""}
    asyncio.run(app(scope | {"headers": encoded}, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def cookie(user: str, seconds: float = 60.0) -> dict[str, str]:
    return {"origin": PAGE, "cookie": f"a=b; kreach_user={TOKENS.sign(user, NOW + seconds)}; c=d"}


def test_a_visitor_learns_its_own_group(settings: GatewaySettings) -> None:
    _, app = apps(settings)
    status, headers, body = ask(app, "POST /v1/identify", cookie(IDS[5]))
    group = read_build(settings.build).group_lookup().identify(IDS[5]).group
    assert (status, json.loads(body)["data"][0]["segment"]) == (200, [{"id": group}])
    assert headers[b"access-control-allow-origin"] == PAGE.encode()
    assert headers[b"access-control-allow-credentials"] == b"true"
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"vary"] == b"origin"


def test_nobody_learns_the_group_of_another(settings: GatewaySettings) -> None:
    _, app = apps(settings)
    asked = json.dumps({"user_id": IDS[6]}).encode()
    mine = ask(app, "POST /v1/identify", cookie(IDS[5]))[2]
    assert ask(app, "POST /v1/identify", cookie(IDS[5]), asked)[2] == mine
    assert ask(app, "POST /v1/identify", {"origin": PAGE}, asked)[0] == 204
    mine_signed = TOKENS.sign(IDS[5], NOW + 60)
    theirs = base64.urlsafe_b64encode(IDS[6].encode()).rstrip(b"=").decode()
    parts = mine_signed.split(".")
    for token in (
        ".".join((parts[0], theirs, *parts[2:])),
        ".".join((*parts[:2], str(int(NOW) + 9_000), parts[3])),
        mine_signed[:-1],
        TOKENS.sign(IDS[5], NOW),
        TOKENS.sign(IDS[5], NOW + 500 * 86_400),
        UserTokens(b"x" * 32).sign(IDS[5], NOW + 60),
        *("", ".", "...", "v1", IDS[5], "\u00e9.x"),
    ):
        headers = {"origin": PAGE, "cookie": f"kreach_user={token}"}
        status, _, body = ask(app, "POST /v1/identify", headers)
        assert status == 401
        assert IDS[5].encode() not in body


def test_pages_of_other_origins_and_hosts_are_refused(settings: GatewaySettings) -> None:
    _, app = apps(settings)
    for wrong in (
        {"origin": "https://evil.example"},
        {"origin": "http://www.publisher.example"},
        {"origin": PAGE + ":8443"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    ):
        status, headers, _ = ask(app, "POST /v1/identify", cookie(IDS[5]) | wrong)
        assert status == 403
        if "origin" in wrong:
            assert b"access-control-allow-origin" not in headers
    asked = {"origin": PAGE, "access-control-request-method": "POST"}
    status, headers, _ = ask(app, "OPTIONS /v1/identify", asked)
    assert (status, headers[b"access-control-allow-methods"]) == (204, b"POST")
    evil = asked | {"origin": "https://evil.example"}
    assert ask(app, "OPTIONS /v1/identify", evil)[0] in (403, 405)


def test_the_public_port_has_nothing_else(settings: GatewaySettings) -> None:
    inside, app = apps(settings)
    for route in ("GET /metrics", "GET /healthz", "POST /v1/allow", "POST /v1/shown"):
        assert ask(app, route, cookie(IDS[5]))[0] == 404
    assert ask(app, "GET /readyz")[0] == 200
    ask(app, "POST /v1/identify", cookie(IDS[5]))
    ask(app, "POST /v1/identify", cookie(IDS[5], -1.0))
    metrics = ask(inside, "GET /metrics", {"host": "127.0.0.1"})[2]
    assert b'browser_identifications_total{result="ok"} 1.0' in metrics
    assert b'browser_identifications_total{result="invalid token"} 1.0' in metrics
    assert ask(inside, "POST /v1/identify", cookie(IDS[5]) | {"host": "127.0.0.1"})[0] == 403


def test_tokens_as_others_would_sign_them() -> None:
    """The format is a promise: publishers sign in any language."""
    signed = "v1." + base64.urlsafe_b64encode(b"user-5").rstrip(b"=").decode() + ".1790000060"
    mac = base64.urlsafe_b64encode(hmac.digest(KEY, signed.encode(), hashlib.sha256))
    token = f"{signed}.{mac.rstrip(b'=').decode()}"
    assert token == TOKENS.sign("user-5", 1_790_000_060.9)
    assert TOKENS.user_id(token, NOW) == "user-5"
    for text in ("v2.dXNlcg.1790000060", "v1.dXNlcg", "v1.dXNlcg.x", "v1.a.b.c", "v1.!.1790000060"):
        mac = base64.urlsafe_b64encode(hmac.digest(KEY, text.encode(), hashlib.sha256))
        assert TOKENS.user_id(f"{text}.{mac.rstrip(b'=').decode()}", NOW) is None
    assert TOKENS.user_id(TOKENS.sign("Ünïcode id", NOW + 1), NOW) == "Ünïcode id"


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_origins": ()},
        {"allowed_origins": ("*",)},
        {"allowed_origins": ("https://*.publisher.example",)},
        {"allowed_origins": ("https://publisher.example/",)},
        {"allowed_origins": ("null",)},
        {"names": ("https://x",)},
        {"cookie": "a=b"},
        {"port": 70_000},
    ],
)
def test_settings_that_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    fields: dict[str, Any] = {"allowed_origins": (PAGE,), "user_key_file": tmp_path} | wrong
    with pytest.raises(KreachError, match=next(iter(wrong))):
        BrowserSettings(**fields)


def test_keys_that_are_refused(settings: GatewaySettings, tmp_path: Path) -> None:
    assert check(settings)["browser"] == [PAGE]
    path = tmp_path / "user.key"
    path.chmod(0o644)
    with pytest.raises(KreachError, match="not be readable by others"):
        check(settings)
    path.chmod(0o600)
    for text in ("", "ab" * 31, "xyz"):
        path.write_text(text)
        with pytest.raises(KreachError, match="at least 32 bytes"):
            read_user_key(path)
    with pytest.raises(KreachError, match="be a file that can be read"):
        read_user_key(tmp_path / "none")
