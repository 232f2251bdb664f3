"""Creatives over HTTP: several of them, every wrong field at once, and their review."""

from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.adsystem.access.keyed_reporting import bearer
from tests.adsystem.api.test_campaigns import with_client
from tests.adsystem.api.test_keys import NEW, keyed_service, with_keys

BANNER = {"id": "a", "markup": "<b>a</b>", "width": 300, "height": 250}
NATIVE = {
    "id": "n",
    "kind": "native",
    "native": {
        "link": "https://shop.example",
        "title": "Sale",
        "image": {"url": "https://x.example/i.png", "width": 1200, "height": 627},
        "texts": [{"type": 2, "value": "cheap"}],
    },
}
VIDEO = {
    "id": "v",
    "kind": "video",
    "markup": '<VAST version="3.0"></VAST>',
    "duration_seconds": 15,
    "mimes": ["video/mp4"],
    "protocols": [3],
}


def test_several_creatives_are_stored_shown_and_changed(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        new = NEW | {"id": "autumn", "creatives": [BANNER, NATIVE, VIDEO], "deals": ["d1"]}
        made = await client.post("/v1/campaigns", json=new)
        assert made.status_code == 201, made.text
        document = made.json()
        assert [one["key"] for one in document["creatives"]] == ["a", "n", "v"]
        assert document["creative"] == document["creatives"][0]
        assert {one["review"] for one in document["creatives"]} == {"approved"}
        assert document["deals"] == ["d1"]
        status = (await client.get("/v1/campaigns/autumn")).json()["status"]
        assert status["not_bidding"] is None
        path = "/v1/campaigns/autumn"
        one = (await client.patch(path, json={"creative": BANNER | {"markup": "<i>"}})).json()
        assert [each["markup"] for each in one["creatives"]] == ["<i>"]
        two = (await client.patch(path, json={"creatives": [VIDEO, BANNER]})).json()
        assert (two["creative"]["key"], len(two["creatives"])) == ("v", 2)
        none = (await client.patch(path, json={"creatives": []})).json()
        assert none["creatives"] == []
        deals = await client.patch(path, json={"deals": [], "deals_only": True})
        assert deals.status_code == 422

    with_client(tmp_path, work)


def fields_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return sorted(each["field"] for each in answer.json()["error"]["fields"])


def test_every_wrong_field_of_every_creative_is_named(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        async def refused(*creatives: dict[str, Any], **more: Any) -> list[str]:
            new = NEW | {"id": "autumn", "creatives": list(creatives)} | more
            return fields_of(await client.post("/v1/campaigns", json=new))

        odd = {"kind": "film", "weight": 0, "review": "approved", "sizes": [{"width": 1}]}
        assert await refused(BANNER, odd) == [
            "creatives.1.kind",
            "creatives.1.review",
            "creatives.1.sizes.0.height",
            "creatives.1.weight",
        ]
        silent = {"id": "s", "kind": "video", "markup": "<VAST/>"}
        lone = {"id": "l", "width": 300, "language": "en"}
        both = await refused(silent, lone, budget=1.0, daily_budget=5.0)
        assert both == [
            *("creatives.0.duration_seconds", "creatives.0.mimes", "creatives.0.protocols"),
            *("creatives.1", "daily_budget"),
        ]
        assert await refused(BANNER, BANNER) == ["creatives"]
        page = VIDEO | {"markup": "<html>"}
        assert await refused(page) == ["creatives.0.markup"]
        assert await refused(BANNER | {"domains": ["https://x.example/"]}) == [
            "creatives.0.domains"
        ]
        mixed = NATIVE | {"markup": "<b>"}
        assert await refused(mixed) == ["creatives.0.markup"]
        insecure = BANNER | {"markup": "<img src=http://x.example>", "secure": True}
        assert await refused(insecure) == ["creatives.0.secure"]
        macro = insecure | {"id": "m", "domains": ["https://x.example/"]}
        macro["markup"] = "<img src=http://x.example/${AUCTION_PRIZE}>"
        three = ["domains", "markup", "secure"]
        assert await refused(macro) == [f"creatives.0.{name}" for name in three]
        single = {"creative": macro, "creatives": [], "budget": 1.0, "daily_budget": 5.0}
        assert await refused(**single) == [*(f"creative.{name}" for name in three), "daily_budget"]
        made = await client.post("/v1/campaigns", json=NEW | {"id": "winter"})
        assert made.status_code == 201
        changed = await client.patch("/v1/campaigns/winter", json={"creatives": [macro]})
        assert fields_of(changed) == [f"creatives.0.{name}" for name in three]

    with_client(tmp_path, work)


def test_wrong_creatives_are_told_in_plain_words(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        async def message(creative: dict[str, Any], **more: Any) -> str:
            new = NEW | {"id": "autumn", "creatives": [creative]} | more
            answer = await client.post("/v1/campaigns", json=new)
            assert answer.status_code == 422
            return str(answer.json()["error"]["message"])

        language = "creatives.0.language must be two small letters (ISO 639-1), such as en, got"
        assert await message(BANNER | {"language": "english"}) == f"{language} 'english'"
        image = {"url": "ftp://x", "width": 1, "height": 1}
        icon = NATIVE | {"native": {"link": "https://shop.example", "icon": image}}
        assert (await message(icon)).startswith("creatives.0.native.icon.url must be an address")
        assert await message(BANNER, state="over") == (
            "state must be one of running, paused, ended, got 'over'"
        )
        size = "creatives.0 must have width and height, or neither, got 300"
        assert await message({"markup": "<b>", "width": 300}) == size
        assert await message(VIDEO | {"mimes": []}) == (
            "creatives.0.mimes is required for kind video"
        )
        assert (await message(BANNER | {"id": ""})).startswith("creatives.0.id must have at least")

    with_client(tmp_path, work)


def test_an_advertisers_creative_waits_for_an_operator(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    _, acme = place.add("advertiser", "acme")
    _, operator = place.add("operator")

    async def work(client: httpx.AsyncClient) -> None:
        mine, theirs = bearer(acme), bearer(operator)
        path, whole = "/v1/campaigns/spring", "/v1/campaigns/acme.spring"

        async def state() -> tuple[str | None, list[str]]:
            document = (await client.get(path, headers=mine)).json()
            reviews = [each["review"] for each in document["creatives"]]
            return document["status"]["not_bidding"], reviews

        async def version() -> str:
            shown = (await client.get(path, headers=mine)).json()["creatives"]
            return str(shown[0]["version"])

        async def decide(headers: Any, **body: Any) -> int:
            answer = await client.post(f"{whole}/review", json=body, headers=headers)
            return answer.status_code

        made = await client.post("/v1/campaigns", json=NEW | {"creative": BANNER}, headers=mine)
        assert made.status_code == 201
        assert await state() == ("creative in review", ["pending"])
        assert await decide(mine, creative="a", decision="approve") == 403
        assert await decide(theirs, creative="z", decision="approve") == 404
        assert await decide(theirs, creative="a", decision="approve") == 422
        seen = await version()
        swapped = {"creative": BANNER | {"markup": "<b>another</b>"}}
        assert (await client.patch(path, json=swapped, headers=mine)).status_code == 200
        assert await decide(theirs, creative="a", decision="approve", version=seen) == 409
        assert await state() == ("creative in review", ["pending"])
        back = await client.patch(path, json={"creative": BANNER}, headers=mine)
        assert back.json()["creative"]["version"] == seen
        assert await decide(theirs, creative="a", decision="reject") == 422
        assert await decide(theirs, creative="a", decision="reject", reason="blinks") == 200
        assert await state() == ("creative rejected", ["rejected"])
        shown = (await client.get(path, headers=mine)).json()["creatives"][0]
        assert shown["review_reason"] == "blinks"
        assert await decide(theirs, creative="a", decision="approve", version=seen) == 200
        assert await state() == (None, ["approved"])
        # what comes back unchanged keeps its review, what is new waits
        change = {"creatives": [BANNER, VIDEO]}
        await client.patch(path, json=change, headers=mine)
        assert await state() == (None, ["approved", "pending"])
        await client.patch(path, json={"budget": 20.0}, headers=mine)
        assert await state() == (None, ["approved", "pending"])
        await client.patch(path, json={"creative": BANNER | {"weight": 2}}, headers=mine)
        assert await state() == ("creative in review", ["pending"])
        # an operator's own are approved at once
        await client.patch(whole, json={"creative": BANNER | {"weight": 3}}, headers=theirs)
        assert await state() == (None, ["approved"])

    with_keys(place, work)


def test_review_can_be_switched_off(tmp_path: Path) -> None:
    place = keyed_service(tmp_path)
    place.shop.shared = msgspec.structs.replace(place.shop.shared, creative_review="off")
    _, acme = place.add("advertiser", "acme")

    async def work(client: httpx.AsyncClient) -> None:
        new = NEW | {"creative": BANNER}
        made = await client.post("/v1/campaigns", json=new, headers=bearer(acme))
        assert made.json()["creatives"][0]["review"] == "approved"

    with_keys(place, work)
