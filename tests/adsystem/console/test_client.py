"""What the console makes of answers of reporting, good and bad."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kreach.adsystem.console.client import (
    Away,
    Document,
    Question,
    Refused,
    ReportingClient,
    of_campaign,
    read_key,
)
from kreach.errors import KreachError

Answering = Callable[[httpx.Request], httpx.Response]


def ask(answering: Answering, question: Question, key_file: Path | None = None) -> Document:
    async def go() -> Document:
        client = ReportingClient("http://there", key_file, httpx.MockTransport(answering))
        try:
            return await client.get(question)
        finally:
            await client.close()

    return asyncio.run(go())


def test_a_question_is_sent_as_it_was_put() -> None:
    seen = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.raw_path.decode(), dict(request.headers)))
        return httpx.Response(200, json={"ok": 1})

    found = ask(answering, of_campaign("a.b/../c", "reach", ("cap", 1), ("cap", 3)))
    assert found == {"ok": 1}
    assert seen[0][1] == "/v1/campaigns/a.b%2F..%2Fc/reach?cap=1&cap=3"
    assert "authorization" not in seen[0][2]


def test_a_refusal_carries_the_message_the_reason_and_what_is_allowed() -> None:
    told = {"error": "end must be where a chapter ends", "reason": "window", "allowed": {"end": []}}
    with pytest.raises(Refused, match="end must be where a chapter ends") as caught:
        ask(lambda _: httpx.Response(422, json=told), Question("/x"))
    assert (caught.value.status, caught.value.reason) == (422, "window")
    assert caught.value.allowed == {"end": []}


@pytest.mark.parametrize(
    ("answer", "why", "wait"),
    [
        (httpx.Response(503, json={"error": "too much"}, headers={"retry-after": "5"}), "too", 5.0),
        (
            httpx.Response(429, json={"error": "the key"}, headers={"retry-after": "9e9"}),
            "key",
            0.0,
        ),
        (httpx.Response(500, text="<html>"), "answered 500", 0.0),
        (httpx.Response(502, text="bad gateway"), "answered 502", 0.0),
        (httpx.Response(200, text="<html>"), "not a JSON object", 0.0),
        (httpx.Response(200, json=[1]), "not a JSON object", 0.0),
        (httpx.Response(404, text="nginx"), "not a JSON object", 0.0),
    ],
)
def test_what_is_no_answer_means_away(answer: httpx.Response, why: str, wait: float) -> None:
    with pytest.raises(Away, match=why) as caught:
        ask(lambda _: answer, Question("/x"))
    assert caught.value.wait_seconds == wait


def test_a_service_that_is_not_there_is_away() -> None:
    async def go() -> None:
        client = ReportingClient("http://127.0.0.1:1")
        try:
            await client.get(Question("/healthz"))
        finally:
            await client.close()

    with pytest.raises(Away, match="cannot be reached"):
        asyncio.run(go())


def test_a_key_that_was_rotated_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old\n")

    def answering(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] == "Bearer new":
            return httpx.Response(200, json={"in": True})
        path.write_text("new\n")
        return httpx.Response(401, json={"error": "the header Authorization must be ..."})

    assert ask(answering, Question("/x"), path) == {"in": True}


def test_a_key_that_stays_wrong_is_refused_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("wrong")
    seen = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(401, json={"error": "no"})

    with pytest.raises(Refused):
        ask(answering, Question("/x"), path)
    assert len(seen) == 1


@pytest.mark.parametrize("content", [b"", b"  \n", b"two keys", b"\xff\xfe", b"a\nb", b"x" * 300])
def test_a_file_that_holds_no_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(KreachError, match="key_file must") as caught:
        read_key(path)
    assert "two keys" not in str(caught.value)


def test_a_key_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="key_file must be a text file"):
        read_key(tmp_path / "none")


def test_bodies_go_out_as_json() -> None:
    seen: list[httpx.Request] = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, json={"id": "spring"})

    async def go() -> None:
        client = ReportingClient("http://there/", None, httpx.MockTransport(answering))
        await client.create({"id": "spring"})
        await client.change("spring", {"state": "paused"})
        await client.close()

    asyncio.run(go())
    assert [(one.method, one.url.path) for one in seen] == [
        ("POST", "/v1/campaigns"),
        ("PATCH", "/v1/campaigns/spring"),
    ]
    assert json.loads(seen[1].content) == {"state": "paused"}
