"""Answers of reporting, good and bad, and what the client makes of them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import pytest

from kreach.adsystem.console.client import (
    Query,
    ReportingClient,
    ReportingUnavailable,
    RequestRefused,
    reach_query,
    read_key,
    together_query,
)
from kreach.adsystem.reports.report import ReachDocument
from kreach.errors import KreachError
from tests.adsystem.console.documents import CAMPAIGN, REACH, combined

T = TypeVar("T")
Handler = Callable[[httpx.Request], httpx.Response]


class Ping(msgspec.Struct, frozen=True):
    ok: int


PING = Query("/x", Ping)


def get(handler: Handler, query: Query[T], key_file: Path | None = None) -> T:
    async def go() -> T:
        client = ReportingClient("http://there", key_file, httpx.MockTransport(handler))
        try:
            return await client.get(query)
        finally:
            await client.close()

    return asyncio.run(go())


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def test_a_query_is_sent_as_it_is_and_answered_by_its_struct() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.raw_path.decode(), dict(request.headers)))
        return httpx.Response(200, json=REACH)

    document = get(handler, reach_query("a.b/../c", (3, 1)))
    assert isinstance(document, ReachDocument)
    assert document.people == 10
    assert seen[0][1] == "/v1/campaigns/a.b%2F..%2Fc/reach?cap=1&cap=3"
    assert "authorization" not in seen[0][2]


def test_campaigns_are_asked_for_together_in_their_order() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(200, json=combined())

    document = get(handler, together_query(("b", "a&c"), 2, end="2026-11-02T00:00:00Z"))
    assert [part.name for part in document.parts] == ["spring", "summer"]
    times = "end=2026-11-02T00%3A00%3A00Z&cap=2"
    assert seen == [f"http://there/v1/reach?campaign=b&campaign=a%26c&{times}"]


def test_a_refusal_carries_the_message_the_fields_the_reason_and_what_is_allowed() -> None:
    fields = [{"field": "end", "code": "invalid", "message": "must be a chapter end"}]
    allowed = {"end": ["2026-11-02T03:00:00Z"]}
    body = error("window is not allowed", fields=fields, reason="window", allowed=allowed)
    with pytest.raises(RequestRefused, match="window is not allowed") as caught:
        get(lambda _: httpx.Response(422, json=body), PING)
    refusal = caught.value.error
    assert (caught.value.status, refusal.reason) == (422, "window")
    assert [(one.field, one.message) for one in refusal.fields] == [
        ("end", "must be a chapter end")
    ]
    assert refusal.allowed is not None
    assert refusal.allowed.end == ("2026-11-02T03:00:00Z",)


@pytest.mark.parametrize(
    ("answer", "why", "wait"),
    [
        (httpx.Response(503, json=error("too much"), headers={"retry-after": "5"}), "too", 5.0),
        (httpx.Response(429, json=error("the key"), headers={"retry-after": "9e9"}), "key", 0.0),
        (httpx.Response(500, text="<html>"), "answered 500", 0.0),
        (httpx.Response(502, text="bad gateway"), "answered 502", 0.0),
        (httpx.Response(200, text="<html>"), "unknown form", 0.0),
        (httpx.Response(200, json=[1]), "unknown form", 0.0),
        (httpx.Response(200, json={"ok": "yes"}), "unknown form", 0.0),
        (httpx.Response(404, text="nginx"), "unknown form", 0.0),
        (httpx.Response(422, json={"error": "the old form"}), "unknown form", 0.0),
    ],
)
def test_other_answers_mean_unavailable(answer: httpx.Response, why: str, wait: float) -> None:
    with pytest.raises(ReportingUnavailable, match=why) as caught:
        get(lambda _: answer, PING)
    assert caught.value.wait_seconds == wait


@pytest.mark.parametrize("change", [{"new": 1}, {"people": None}, {"reports": [{"cap": 1}]}])
def test_a_document_of_another_version_means_unavailable(change: dict[str, Any]) -> None:
    with pytest.raises(ReportingUnavailable, match="reporting answered in an unknown form"):
        get(lambda _: httpx.Response(200, json=REACH | change), reach_query("spring", (1,)))


def test_a_service_that_is_not_there_is_unavailable() -> None:
    async def go() -> None:
        client = ReportingClient("http://127.0.0.1:1")
        try:
            await client.get(PING)
        finally:
            await client.close()

    with pytest.raises(ReportingUnavailable, match="cannot be reached"):
        asyncio.run(go())


def test_a_rotated_key_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old\n")

    def handler(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] == "Bearer new":
            return httpx.Response(200, json={"ok": 1})
        path.write_text("new\n")
        return httpx.Response(401, json=error("the header Authorization must be ..."))

    assert get(handler, PING, path) == Ping(1)


def test_a_key_that_stays_wrong_is_refused_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("wrong")
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(401, json=error("no"))

    with pytest.raises(RequestRefused):
        get(handler, PING, path)
    assert len(seen) == 1


@pytest.mark.parametrize("content", [b"", b"  \n", b"two keys", b"\xff\xfe", b"a\nb", b"x" * 300])
def test_a_file_without_a_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(KreachError, match="key_file must") as caught:
        read_key(path)
    assert "two keys" not in str(caught.value)


def test_a_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="key_file must be a readable text file"):
        read_key(tmp_path / "none")


def test_bodies_are_sent_as_json() -> None:
    seen: list[httpx.Request] = []
    definition = {name: value for name, value in CAMPAIGN.items() if name != "status"}

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, json=definition)

    async def go() -> None:
        client = ReportingClient("http://there/", None, httpx.MockTransport(handler))
        created = await client.create({"id": "spring"})
        assert created.caps[1].limit == 4
        await client.change("spring", {"state": "paused"})
        await client.close()

    asyncio.run(go())
    assert [(one.method, one.url.path) for one in seen] == [
        ("POST", "/v1/campaigns"),
        ("PATCH", "/v1/campaigns/spring"),
    ]
    assert json.loads(seen[1].content) == {"state": "paused"}
