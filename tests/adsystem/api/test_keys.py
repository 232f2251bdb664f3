"""Reporting with keys, over HTTP: roles, own campaigns, refusals that tell nothing, limits."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kreach.adsystem.access.key import parts_of, text_of
from kreach.adsystem.access.ring import POLL_SECONDS
from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.settings import GuardSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.access.keyed_reporting import NOW, Keyed, bearer, keyed
from tests.adsystem.api.live_stores import (
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
    reporting,
)

NEW = {"id": "spring", "budget": 12.5, "max_cpm": 5.0, "start": "2026-11-01T00:00:00Z"}
NEW["end"] = "2026-12-01T00:00:00Z"
KINDS = ("", "/reach", "/series?by=day", "/curve", "/pacing", "/plan?requests=50")


def keyed_service(folder: Path, **more: Any) -> Keyed:
    """A store with campaigns of the house and of bob."""
    live = LiveStore(folder, make_catalogue("disjoint", groups=6))
    live.add(make_campaign("house"), make_campaign("bob.theirs", budget=777.0))
    return Keyed(live, **more)


def with_keys(place: Keyed, work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with keyed(place) as client:
            await work(client)

    asyncio.run(run())


def shown(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """All that a client gets to see."""
    return answer.status_code, sorted(answer.headers.items()), answer.content


def test_nobody_gets_anything_without_a_key(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        calls = [
            ("GET", f"/v1/campaigns/{name}{kind}") for name in ("house", "x") for kind in KINDS
        ]
        calls += [("POST", "/v1/campaigns"), ("GET", "/v1/campaigns"), ("GET", "/metrics")]
        calls += [("GET", "/openapi.json"), ("GET", "/nothing"), ("DELETE", "/healthz")]
        calls += [("GET", "/v1/suppressions"), ("PATCH", "/v1/campaigns/house")]
        answers = [await client.request(*call, content=b"{") for call in calls]
        assert len({str(shown(answer)) for answer in answers}) == 1
        assert answers[0].status_code == 401
        assert answers[0].headers["www-authenticate"].startswith("Bearer")
        assert list(answers[0].json()) == ["error"]

    with_keys(place, work)


def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, good = place.add("operator")
    gone, revoked = place.add("operator")
    _, expired = place.add("operator", expires_ts=NOW + 5)
    with closing(place.store()) as store:
        store.revoke(gone.id)
        rotated = store.add("operator")
        store.rotate(rotated.key.id)
    place.now = NOW + 10
    key_id, secret = parts_of(good)

    async def work(client: httpx.AsyncClient) -> None:
        texts = [revoked, expired, rotated.text, text_of(key_id, secret[::-1])]
        texts += [text_of("zzzzzzzzzzzz", secret), "nonsense", ""]
        answers = [await client.get("/v1/campaigns", headers=bearer(text)) for text in texts]
        answers.append(await client.get("/v1/campaigns"))
        assert len({str(shown(answer)) for answer in answers}) == 1
        assert answers[0].status_code == 401
        assert (await client.get("/v1/campaigns", headers=bearer(good))).status_code == 200

    with_keys(place, work)


def test_a_key_in_the_query_is_refused(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, good = place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        for headers in ({}, bearer(good)):
            answer = await client.get("/v1/campaigns", params={"key": good}, headers=headers)
            assert answer.status_code == 400
            assert "exposed" in answer.json()["error"]["message"]
            assert parts_of(good)[1] not in answer.text

    with_keys(place, work)
    assert parts_of(good)[1] not in "".join(place.lines)


def test_an_advertiser_manages_its_own_campaigns(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme")
    _, operator = place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        mine = bearer(acme)
        answer = await client.post("/v1/campaigns", json=NEW, headers=mine)
        assert (answer.status_code, answer.json()["id"]) == (201, "spring")
        assert answer.headers["location"] == "/v1/campaigns/spring"
        again = await client.post("/v1/campaigns", json=NEW, headers=mine)
        assert (again.status_code, again.json()["error"]["message"]) == (
            409,
            "campaign 'spring' exists already",
        )
        for kind in KINDS:
            answer = await client.get(f"/v1/campaigns/spring{kind}", headers=mine)
            assert answer.status_code == 200, answer.text
            assert "acme" not in answer.text
        change = {"state": "paused"}
        answer = await client.patch("/v1/campaigns/spring", json=change, headers=mine)
        assert answer.json()["state"] == "paused"
        listed = (await client.get("/v1/campaigns", headers=mine)).json()
        assert [one["id"] for one in listed["campaigns"]] == ["spring"]
        assert listed["next"] is None
        every = (await client.get("/v1/campaigns", headers=bearer(operator))).json()
        assert [one["id"] for one in every["campaigns"]] == ["house", "bob.theirs", "acme.spring"]
        whole = await client.get("/v1/campaigns/acme.spring", headers=bearer(operator))
        assert (whole.status_code, whole.json()["id"]) == (200, "acme.spring")

    with_keys(place, work)


def test_anothers_campaign_is_as_unknown_as_none(tmp_path: Path) -> None:
    """Byte by byte, whether the other has it, somebody else has, the house has, or nobody."""
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme", rate_per_minute=60_000)

    bodies: list[dict[str, Any]] = [{"budget": 1.0}, {"state": "ended"}, {"x": 1}, {"budget": -1}]

    async def work(client: httpx.AsyncClient) -> None:
        async def answer_to(method: str, path: str, name: str, **more: Any) -> tuple[Any, ...]:
            answer = await client.request(method, path, headers=bearer(acme), **more)
            status, headers, content = shown(answer)
            return status, headers, content.replace(name.encode(), b"*")

        for one, other in (("theirs", "nobody"), ("house", "horse"), ("bob.theirs", "bob.nobody")):
            for kind in KINDS:
                reply = await answer_to("GET", f"/v1/campaigns/{one}{kind}", one)
                assert reply[0] == 404
                assert reply == await answer_to("GET", f"/v1/campaigns/{other}{kind}", other)
            for body in bodies:
                reply = await answer_to("PATCH", f"/v1/campaigns/{one}", one, json=body)
                assert reply[0] in (404, 422)
                assert reply == await answer_to("PATCH", f"/v1/campaigns/{other}", other, json=body)
            reply = await answer_to("GET", f"/v1/campaigns?after={one}", one)
            assert reply[0] == 404
            assert reply == await answer_to("GET", f"/v1/campaigns?after={other}", other)

    with_keys(place, work)


def test_an_id_that_only_another_has_is_free(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme")
    _, bob = place.add("advertiser", "bob")

    async def work(client: httpx.AsyncClient) -> None:
        for name in ("theirs", "house"):
            body = NEW | {"id": name}
            answer = await client.post("/v1/campaigns", json=body, headers=bearer(acme))
            assert answer.status_code == 201
        document = (await client.get("/v1/campaigns/theirs", headers=bearer(bob))).json()
        assert document["budget"] == 777.0
        for name in ("bob.new", "acme.new", "a.b.c"):
            body = NEW | {"id": name}
            answer = await client.post("/v1/campaigns", json=body, headers=bearer(acme))
            assert answer.status_code == 422
            assert answer.json()["error"]["fields"][0]["field"] == "id"
            assert name in answer.json()["error"]["message"]

    with_keys(place, work)


def test_ids_of_operators_may_name_an_advertiser(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, operator = place.add("operator")
    _, acme = place.add("advertiser", "acme")

    async def work(client: httpx.AsyncClient) -> None:
        for name, status in (
            ("acme.autumn", 201),
            ("x" * 64 + "." + "y" * 64, 201),
            ("acme.", 422),
            (".autumn", 422),
            ("a..b", 422),
            ("a.b.c", 422),
            ("x" * 65 + ".y", 422),
            ("x." + "y" * 65, 422),
        ):
            body = NEW | {"id": name}
            answer = await client.post("/v1/campaigns", json=body, headers=bearer(operator))
            assert answer.status_code == status, name
        longest = "x" * 64 + "." + "y" * 64
        query = {"after": longest}
        answer = await client.get("/v1/campaigns", params=query, headers=bearer(operator))
        assert answer.json() == {"currency": "USD", "campaigns": [], "next": None}
        answer = await client.get(f"/v1/campaigns/{longest}", headers=bearer(operator))
        assert answer.json()["id"] == longest
        answer = await client.get("/v1/campaigns/autumn", headers=bearer(acme))
        assert answer.status_code == 200

    with_keys(place, work)


def test_what_each_role_is_answered(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    keys = {
        "operator": place.add("operator")[1],
        "advertiser": place.add("advertiser", "acme")[1],
        "publisher": place.add("publisher")[1],
    }
    expected = {
        "/metrics": (200, 403, 403),
        "/v1/suppressions": (200, 403, 200),
        "/v1/campaigns": (200, 200, 403),
        "/v1/campaigns/house": (200, 404, 403),
        "/v1/campaigns/nobody": (404, 404, 403),
        "/v1/campaigns/house/nothing": (404, 403, 403),
        "/nothing": (404, 403, 403),
        "/openapi.json": (200, 200, 200),
    }

    async def work(client: httpx.AsyncClient) -> None:
        for path, statuses in expected.items():
            for (role, text), status in zip(keys.items(), statuses, strict=True):
                answer = await client.get(path, headers=bearer(text))
                assert answer.status_code == status, (path, role)
                if status == 403:
                    message = answer.json()["error"]["message"]
                    assert message == f"the role {role} may not do this"
        for role in ("advertiser", "publisher"):
            answer = await client.delete("/v1/campaigns/house", headers=bearer(keys[role]))
            assert answer.status_code == 403
        answer = await client.delete("/v1/campaigns/house", headers=bearer(keys["operator"]))
        assert answer.status_code == 405

    with_keys(place, work)


def test_health_tells_strangers_and_advertisers_nothing_more(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, operator = place.add("operator")
    _, publisher = place.add("publisher")
    _, acme = place.add("advertiser", "acme")
    log = place.shop.shared.store / "live.sqlite3"

    async def work(client: httpx.AsyncClient) -> None:
        for headers in ({}, bearer(acme)):
            answer = await client.get("/healthz", headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        for text in (operator, publisher):
            document = (await client.get("/healthz", headers=bearer(text))).json()
            assert (document["status"], document["catalogues"], document["campaigns"]) == (
                "ok",
                ["v1"],
                2,
            )
        assert (await client.get("/healthz", headers=bearer("wrong"))).status_code == 401
        log.write_bytes(b"no database" * 1_000)
        await asyncio.sleep(1.05)  # strangers are told what was seen within a second
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.json()) == (503, {"status": "failing"})

    with_keys(place, work)


def test_keys_are_looked_at_several_times_a_second() -> None:
    """What the commands promise: a change counts within a second."""
    assert POLL_SECONDS <= 0.5


def test_expiry_rotation_and_revocation_while_it_runs(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, short = place.add("operator", expires_ts=NOW + 60)
    key, first = place.add("operator")

    async def status_of(client: httpx.AsyncClient, text: str) -> int:
        return (await client.get("/v1/campaigns", headers=bearer(text))).status_code

    async def until(client: httpx.AsyncClient, text: str, status: int) -> None:
        """Within a second, where the machine has time."""
        async with asyncio.timeout(120.0):
            while await status_of(client, text) != status:
                await asyncio.sleep(0.05)

    async def work(client: httpx.AsyncClient) -> None:
        assert await status_of(client, short) == 200
        place.now = NOW + 60
        assert await status_of(client, short) == 401
        with closing(place.store()) as store:
            second = store.rotate(key.id, grace_seconds=30).text
            await until(client, second, 200)
            assert await status_of(client, first) == 200
            place.now += 30
            assert await status_of(client, first) == 401
            store.revoke(key.id)
            await until(client, second, 401)

    with_keys(place, work)


def test_rates_are_the_keys_own(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, slow = place.add("operator", rate_per_minute=30)
    _, quick = place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        answers = [await client.get("/v1/campaigns/house", headers=bearer(slow)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[-1].headers["retry-after"] == "2"
        assert "30 requests a minute" in answers[-1].json()["error"]["message"]
        answer = await client.get("/v1/campaigns/house", headers=bearer(quick))
        assert answer.status_code == 200
        place.now += 2
        answer = await client.get("/v1/campaigns/house", headers=bearer(slow))
        assert answer.status_code == 200

    with_keys(place, work)


def test_refusals_are_counted_and_hold_no_secret(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, operator = place.add("operator")
    _, acme = place.add("advertiser", "acme", rate_per_minute=20)
    key_id, secret = parts_of(acme)

    async def work(client: httpx.AsyncClient) -> None:
        await client.get("/v1/campaigns")
        await client.get("/v1/campaigns", headers=bearer(text_of(key_id, secret[::-1])))
        await client.get("/v1/campaigns", headers=bearer("guess"))
        for _ in range(3):
            await client.get("/metrics", headers=bearer(acme))
        text = (await client.get("/metrics", headers=bearer(operator))).text
        expected = {"no key": 1, "wrong secret": 1, "unknown key": 1, "role": 2, "rate": 1}
        for reason, times in expected.items():
            assert f'kreach_reporting_refused_total{{reason="{reason}"}} {times}.0' in text
        assert 'request="GET other 401"} 3.0' in text
        said = text + "".join(place.lines)
        for hidden in [*place.secrets, secret[::-1], "192.0.2.7", "guess", "Bearer"]:
            assert hidden not in said
        assert key_id not in text
        assert key_id in "".join(place.lines)

    with_keys(place, work)


class _Watched(httpx.AsyncByteStream):
    """A body that knows whether it was read."""

    read = False

    async def __aiter__(self) -> Any:
        self.read = True
        yield b"{}"


def test_a_body_is_read_for_known_clients_only(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme")

    async def work(client: httpx.AsyncClient) -> None:
        for headers, read in (({}, False), (bearer(acme), True)):
            body = _Watched()
            sent = headers | {"content-type": "application/json"}
            await client.post("/v1/campaigns", content=body, headers=sent)
            assert body.read is read

    with_keys(place, work)


def test_the_description_names_the_key_and_its_refusals(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, operator = place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        document = (await client.get("/openapi.json", headers=bearer(operator))).json()
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        for path, methods in document["paths"].items():
            for operation in methods.values():
                assert {"401", "403", "429"} <= set(operation["responses"]), path
                needed: list[Any] = (
                    [{"key": []}, {}] if path in ("/healthz", "/readyz") else [{"key": []}]
                )
                assert operation["security"] == needed, path

    with_keys(place, work)


def test_without_keys_nothing_is_asked_for(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    place.add("operator")

    async def run() -> None:
        async with reporting(place.shop) as client:
            assert (await client.get("/v1/campaigns")).status_code == 200
            assert (await client.get("/metrics", headers=bearer("x"))).status_code == 200
            document = (await client.get("/openapi.json")).json()
            assert "securitySchemes" not in document["components"]
            assert (await client.get("/v1/suppressions")).status_code == 404

    asyncio.run(run())


LOOPBACK = ("127.0.0.1", "127.8.9.10", "::1", "localhost")
ELSEWHERE = ("0.0.0.0", "::", "192.0.2.7", "", "reports.example.com", "127.0.0.1.example.com")


def test_without_keys_only_this_machine_may_reach_it() -> None:
    for host in LOOPBACK:
        ReportingSettings(host=host)
    for host in ELSEWHERE:
        ReportingSettings(host=host, keys=True)
        with pytest.raises(KreachError, match="keys must be true unless host is a loopback"):
            ReportingSettings(host=host)


def test_a_store_whose_keys_others_can_read_is_not_served(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    place.add("operator")
    (place.shop.shared.store / "keys.sqlite3").chmod(0o644)
    log = Log("reporting", place.lines.append)
    with pytest.raises(KreachError, match="owner only"):
        reporting_app(place.shop.shared, ReportingSettings(keys=True), log)
    reporting_app(place.shop.shared, ReportingSettings(), log)


def test_a_service_without_a_single_key_says_so(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.get("/v1/campaigns")).status_code == 401
        assert json.loads(place.lines[0])["event"].startswith("no keys yet")
        _, late = place.add("operator")
        async with asyncio.timeout(120.0):
            while (await client.get("/v1/campaigns", headers=bearer(late))).status_code != 200:
                await asyncio.sleep(0.05)

    with_keys(place, work)


def test_advertisers_are_guarded_and_operators_are_not(tmp_path: Path) -> None:
    """What is withheld is said in the one form of error, and told to publishers."""
    groups = tuple(f"g{j}" for j in range(60))
    live = LiveStore(tmp_path, Catalogue("v1", START, 20, groups, np.full(60, 20)))
    live.add(make_campaign("acme.spring"))
    place = Keyed(live, guard=GuardSettings(), now=START.timestamp() + 3_600)
    _, operator = place.add("operator")
    _, acme = place.add("advertiser", "acme")
    _, publisher = place.add("publisher")

    async def work(client: httpx.AsyncClient) -> None:
        whole = await client.get("/v1/campaigns/acme.spring/reach", headers=bearer(operator))
        assert whole.json()["impressions"] == 0
        guarded = await client.get("/v1/campaigns/spring/reach", headers=bearer(acme))
        assert (guarded.status_code, guarded.json()["impressions"]) == (200, None)
        window = "/v1/campaigns/spring/reach?start=2026-11-01T00:10:00Z"
        withheld = await client.get(window, headers=bearer(acme))
        assert withheld.status_code == 422
        assert withheld.json()["error"]["reason"] == "too few so far"
        answers = (await client.get("/v1/suppressions", headers=bearer(publisher))).json()
        assert {one["campaign"] for one in answers["suppressions"]} == {"acme.spring"}
        text = (await client.get("/metrics", headers=bearer(operator))).text
        assert "kreach_reporting_suppressed_total{reason=" in text

    with_keys(place, work)


def test_limits_of_an_advertiser(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme")
    _, operator = place.add("operator")
    store = place.store()
    store.set_limits("acme", 2, None)
    store.close()

    async def work(client: httpx.AsyncClient) -> None:
        mine = bearer(acme)
        absurd = NEW | {"budget": 999_999_999_999.0}
        refused = await client.post("/v1/campaigns", json=absurd, headers=mine)
        assert refused.status_code == 422
        (field,) = refused.json()["error"]["fields"]
        assert (field["field"], field["code"]) == ("budget", "quota")
        assert "credit limit is 1000000" in field["message"]
        for name in ("spring", "summer"):
            made = await client.post("/v1/campaigns", json=NEW | {"id": name}, headers=mine)
            assert made.status_code == 201
        third = await client.post("/v1/campaigns", json=NEW | {"id": "third"}, headers=mine)
        assert [one["field"] for one in third.json()["error"]["fields"]] == ["id"]
        change = {"budget": 999_999.5}
        refused = await client.patch("/v1/campaigns/spring", json=change, headers=mine)
        assert refused.status_code == 422
        path, theirs = "/v1/campaigns/acme.spring", bearer(operator)
        assert (await client.patch(path, json=change, headers=theirs)).status_code == 200

    with_keys(place, work)


def test_readiness_tells_strangers_yes_or_no(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, operator = place.add("operator")
    log = place.shop.shared.store / "live.sqlite3"

    async def work(client: httpx.AsyncClient) -> None:
        ready = {"status": "ready", "waiting_for": []}
        for headers in ({}, bearer(operator)):
            answer = await client.get("/readyz", headers=headers)
            assert (answer.status_code, answer.json()) == (200, ready)
        log.write_bytes(b"no database" * 1_000)
        await asyncio.sleep(1.05)  # what was seen within a second
        for headers, missing in (({}, []), (bearer(operator), ["log"])):
            answer = await client.get("/readyz", headers=headers)
            assert answer.status_code == 503
            assert answer.json() == {"status": "not ready", "waiting_for": missing}

    with_keys(place, work)
