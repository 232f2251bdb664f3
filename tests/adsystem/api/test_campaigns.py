"""Campaigns over HTTP: made, shown, changed; and everything that is refused, in one form."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kreach.adsystem.campaigns.campaign import Cap
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, reporting

NEW = {"id": "autumn", "budget": 12.5, "start": "2026-11-01T00:00:00Z", "end": "2026-12-01"}
NEW |= {"max_cpm": 7.5}
NEW["end"] = "2026-12-01T00:00:00+01:00"


def with_client(
    folder: Path, work: Callable[[httpx.AsyncClient], Awaitable[None]], kind: str = "disjoint"
) -> None:
    """Run against reporting on a store that no bidder has touched."""

    async def run() -> None:
        live = LiveStore(folder, make_catalogue(kind))
        live.add(make_campaign("spring", caps=(Cap(limit=3),), expected_requests=500))
        async with reporting(live) as client:
            await work(client)

    asyncio.run(run())


def assert_refused(answer: httpx.Response, status: int, part: str = "") -> None:
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert list(document) == ["error"]
    assert part in document["error"]["message"]
    assert len(document["error"]["message"]) < 400


def test_a_change_says_when_it_is_in_force(tmp_path: Path) -> None:
    async def work() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add(make_campaign("spring"))
        async with live.open(), reporting(live) as client:
            assert (await client.get("/v1/campaigns/spring")).json()["in_force"] is True
            changed = await client.patch("/v1/campaigns/spring", json={"budget": 9.0})
            assert changed.json()["in_force"] is False
            shown = changed.json()
            while not shown["in_force"]:
                await asyncio.sleep(0.1)
                shown = (await client.get("/v1/campaigns/spring")).json()
            assert shown["status"]["in_force_since"] is not None
            listed = (await client.get("/v1/campaigns")).json()
            assert [one["in_force"] for one in listed["campaigns"]] == [True]

    asyncio.run(work())


def test_a_campaign_is_made_shown_and_changed(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        without = {name: value for name, value in NEW.items() if name != "max_cpm"}
        refused = await client.post("/v1/campaigns", json=without)
        assert_refused(refused, 422, "max_cpm is required")
        made = await client.post("/v1/campaigns", json=NEW)
        assert made.status_code == 201
        assert made.headers["location"] == "/v1/campaigns/autumn"
        assert made.json()["end"] == "2026-11-30T23:00:00Z"
        assert made.json()["caps"] == [{"limit": 1, "span_seconds": None}]
        assert_refused(await client.post("/v1/campaigns", json=NEW), 409, "exists already")
        shown = (await client.get("/v1/campaigns/autumn")).json()
        status = shown.pop("status")
        assert shown == made.json()
        assert (status["impressions"], status["budget_left_micros"]) == (0, 12_500_000)
        assert status["pace"] is None
        assert status["not_bidding"] == "no creative"
        assert [report["cap"] for report in status["reach"]] == [1]
        changed = await client.patch(
            "/v1/campaigns/autumn", json={"state": "paused", "budget": 20, "daily_budget": 5.5}
        )
        assert changed.status_code == 200
        assert changed.json() == made.json() | {
            "state": "paused",
            "budget": 20.0,
            "daily_budget": 5.5,
        }
        back = await client.patch("/v1/campaigns/autumn", json={"daily_budget": None})
        assert back.json()["daily_budget"] is None
        ended = await client.patch("/v1/campaigns/autumn", json={"state": "ended"})
        assert ended.json()["state"] == "ended"
        again = await client.patch("/v1/campaigns/autumn", json={"state": "running"})
        assert_refused(again, 409, "ended")

    with_client(tmp_path, work)


def test_the_list_comes_in_pages(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for number in range(5):
            await client.post("/v1/campaigns", json=NEW | {"id": f"c{number}"})
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = (await client.get("/v1/campaigns", params={"limit": 2, **after})).json()
            seen += [one["id"] for one in page["campaigns"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert seen == ["spring", "c0", "c1", "c2", "c3", "c4"]
        assert_refused(await client.get("/v1/campaigns?after=nobody"), 404)

    with_client(tmp_path, work)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"budget": 0}, "budget"),
    ({"budget": -1.0}, "budget"),
    ({"budget": 1e13}, "budget"),
    ({"budget": "12"}, "budget"),
    ({"budget": True}, "budget"),
    ({"budget": 0.0000001}, "budget"),
    ({"daily_budget": 13.0}, "daily_budget"),
    ({"id": ""}, "id"),
    ({"id": "a b"}, "id"),
    ({"id": "x" * 65}, "id"),
    ({"id": "../etc"}, "id"),
    ({"start": "tomorrow"}, "start"),
    ({"start": 1_700_000_000}, "start"),
    ({"end": "2026-10-01T00:00:00Z"}, "end"),
    ({"caps": []}, "caps"),
    ({"caps": [{"limit": 0}]}, "caps.0.limit"),
    ({"caps": [{"limit": 2}, {"limit": 1, "span_seconds": None}]}, "caps"),
    ({"caps": [{"limit": 1, "span_seconds": -5}]}, "span_seconds"),
    ({"audience": "nobody"}, "audience must be one of everyone"),
    ({"bidder": "paper"}, "expected_requests"),
    ({"auction": "second_price"}, "auction"),
    ({"min_cpm": 5, "max_cpm": 1}, "min_cpm"),
    ({"market_mu": 1.0}, "market_sigma"),
    ({"creative": {"width": 300}}, "creative"),
    ({"creative": {"domains": "x.com"}}, "creative.domains"),
    ({"surprise": 1}, "surprise"),
    ({"state": "asleep"}, "state"),
]


def test_a_campaign_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for change, part in BAD:
            assert_refused(await client.post("/v1/campaigns", json=NEW | change), 422, part)
        for missing in NEW:
            body = {name: value for name, value in NEW.items() if name != missing}
            assert_refused(await client.post("/v1/campaigns", json=body), 422, missing)
        changes: list[dict[str, Any]] = [{"id": "x"}, {"budget": -1}, {"budget": None}]
        changes += [{"end": "2026-10-01T00:00:00Z"}, {"caps": [{"limit": 9}]}, {"state": "gone"}]
        for body in changes:
            assert_refused(await client.patch("/v1/campaigns/spring", json=body), 422)
        listed = (await client.get("/v1/campaigns")).json()["campaigns"]
        assert [one["id"] for one in listed] == ["spring"]

    with_client(tmp_path, work)


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        types = NEW | {"budget": "much", "caps": [{"limit": 0}], "surprise": 1}
        del types["end"]
        answer = (await client.post("/v1/campaigns", json=types)).json()["error"]
        codes = {one["field"]: one["code"] for one in answer["fields"]}
        assert codes == {
            "budget": "invalid",
            "caps.0.limit": "invalid",
            "end": "required",
            "surprise": "unknown",
        }
        assert {one["message"] for one in answer["fields"]} >= {
            "end is required",
            "surprise is not a known field",
            "caps.0.limit must be greater than or equal to 1, got 0",
        }
        rules = NEW | {"daily_budget": 99.0, "min_cpm": 5, "max_cpm": 1, "end": NEW["start"]}
        answer = (await client.post("/v1/campaigns", json=rules)).json()["error"]
        assert [one["field"] for one in answer["fields"]] == ["end", "daily_budget", "min_cpm"]
        assert all(one["message"] in answer["message"] for one in answer["fields"])
        taken = (await client.post("/v1/campaigns", json=NEW | {"id": "spring"})).json()["error"]
        assert [(one["field"], one["code"]) for one in taken["fields"]] == [("id", "conflict")]

    with_client(tmp_path, work)


def test_a_campaign_that_nobody_could_play_is_refused(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        body = NEW | {"caps": [{"limit": 1, "span_seconds": 3600.0}]}
        assert_refused(await client.post("/v1/campaigns", json=body), 422, "overlapping groups")

    with_client(tmp_path, work, kind="overlapping")


BODIES = [
    (b"", 422),
    (b"{", 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"spring"', 422),
    (b"[" * 100_000, 400),
    (b"\xff\xfe", 400),
    (json.dumps(NEW).replace("12.5", "NaN").encode(), 422),
    (json.dumps(NEW).replace("12.5", "Infinity").encode(), 422),
    (json.dumps(NEW).replace("12.5", "1" + "0" * 5_000).encode(), 400),
    (json.dumps(NEW | {"creative": {"markup": "\ud800"}}).encode(), 422),
    (b" " * 300_000, 413),
]


def test_a_body_that_is_no_campaign_is_refused(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for body, status in BODIES:
            headers = {"content-type": "application/json"}
            answer = await client.post("/v1/campaigns", content=body, headers=headers)
            assert_refused(answer, status)
        secret = "s3cret-" * 1_000
        answer = await client.post("/v1/campaigns", json=NEW | {"budget": secret})
        assert_refused(answer, 422)
        assert secret not in answer.text
        answer = await client.post("/v1/campaigns", json=[NEW | {"note": "s3cret"}])
        assert_refused(answer, 422)
        assert "s3cret" not in answer.text

    with_client(tmp_path, work)


UNKNOWN = ["nobody", "%00", "a%20b", "%F0%9F%92%A9", "x" * 200, "'; DROP TABLE campaigns", "%ff"]


@pytest.mark.parametrize("rest", ["", "/reach", "/series", "/curve", "/pacing", "/plan"])
def test_an_unknown_campaign_is_not_found(rest: str, tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for name in UNKNOWN:
            assert_refused(await client.get(f"/v1/campaigns/{name}{rest}"), 404)
        assert_refused(await client.patch("/v1/campaigns/nobody", json={"budget": 1}), 404)

    with_client(tmp_path, work)


QUERIES = [
    "reach?cap=0",
    "reach?cap=-1",
    "reach?cap=1001",
    "reach?cap=1.5",
    "reach?cap=x",
    "reach?cap=" + "9" * 5_000,
    "reach?" + "&".join(f"cap={cap}" for cap in range(1, 12)),
    "reach?level=0",
    "reach?level=1",
    "reach?level=nan",
    "reach?level=0.9999999999999999",
    "reach?start=yesterday",
    "reach?start=2026-13-01",
    "reach?start=0001-01-01T00:00:00%2B14:00",
    "reach?start=2026-11-02&end=2026-11-01",
    "reach?start=2026-11-02&end=2026-11-02",
    "reach?catalogue=v7",
    "series?by=minute",
    "series?by=hour&start=2020-01-01&end=2026-01-01",
    "series?by=hour&start=0001-01-01&end=9999-12-31",
    "series?by=day&start=2020-01-01&end=2026-01-01",
    "pacing?points=0",
    "pacing?points=1000000",
    "plan?budget=nan",
    "plan?budget=inf",
    "plan?budget=0",
    "plan?budget=-3",
    "plan?budget=1e300",
    "plan?requests=0",
    "plan?requests=" + "9" * 30,
    "plan?requests=9999999999",
    "plan?reach=1e9",
    "plan?" + "&".join(f"budget={b}" for b in range(1, 12)),
]


def test_bad_parameters_are_refused_at_once(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for query in QUERIES:
            answer = await asyncio.wait_for(client.get(f"/v1/campaigns/spring/{query}"), 20)
            assert_refused(answer, 422)

    with_client(tmp_path, work)


def test_paths_and_methods_that_are_not_there(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        assert_refused(await client.get("/v1/nothing"), 404)
        assert_refused(await client.get("/v1/campaigns/"), 404)
        refused = await client.delete("/v1/campaigns/spring")
        assert_refused(refused, 405)
        assert refused.headers["allow"]
        assert (await client.get("/docs")).status_code == 404

    with_client(tmp_path, work)


def test_plans_are_those_of_the_library(tmp_path: Path) -> None:
    from dataclasses import asdict
    from math import log

    import kreach as kr
    from kreach.adsystem.bidding.outlook import OutlookMaker

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/campaigns/spring/plan?budget=0.1&budget=0.4&reach=50")
        assert answer.status_code == 200
        market = kr.LogNormalMarket(-log(1_000), 1.0)
        audience = make_catalogue("disjoint").audience()
        maker = OutlookMaker(audience, market, 500, 3, max_cost_multiple=10.0)
        expected = [maker.for_budget(0.1), maker.for_budget(0.4), maker.for_reach(50)]
        plans = answer.json()["plans"]
        assert plans == [
            asdict(one) | {"band": list(one.band), "people_band": list(one.people_band)}
            for one in expected
        ]
        url = "/v1/campaigns/spring/plan?budget=5&max_cost_per_reach=0.002"
        (limited,) = (await client.get(url)).json()["plans"]
        assert limited["unspent"] > 4.0
        assert limited["unspent_reason"] == "a further reach would cost more than 0.002"
        assert limited["multiplier"] == pytest.approx(500.0)
        assert limited["impressions"] <= 500
        changed = await client.patch("/v1/campaigns/spring", json={"max_cost_per_reach": 0.002})
        assert changed.json()["max_cost_per_reach"] == 0.002
        (own,) = (await client.get("/v1/campaigns/spring/plan?budget=5")).json()["plans"]
        assert own == limited

    with_client(tmp_path, work)


def test_a_campaign_has_a_name_for_people(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("disjoint"))

    async def run() -> None:
        async with reporting(live) as client:
            body = {"id": "spring", "budget": 5, "max_cpm": 5, "name": "Spring shoes & socks"}
            body |= {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"}
            assert (await client.post("/v1/campaigns", json=body)).status_code == 201
            changed = await client.patch("/v1/campaigns/spring", json={"name": "Frühling"})
            assert changed.json()["name"] == "Frühling"
            listed = (await client.get("/v1/campaigns")).json()["campaigns"][0]
            assert (listed["id"], listed["name"]) == ("spring", "Frühling")
            for wrong in (" a", "a\nb", "x" * 101, ""):
                answer = await client.patch("/v1/campaigns/spring", json={"name": wrong})
                assert answer.status_code == 422
                assert answer.json()["error"]["fields"][0]["field"] == "name"

    asyncio.run(run())
