"""Families over HTTP: made, shown, changed, joined; an advertiser's own only."""

import asyncio
from pathlib import Path

import httpx

from kreach.adsystem.campaigns.family import Family
from tests.adsystem.access.keyed_reporting import Keyed, bearer, keyed
from tests.adsystem.api.live_stores import LiveStore, make_catalogue, reporting
from tests.adsystem.api.test_campaigns import NEW, assert_refused, with_client

BRAND = {"id": "brand", "caps": [{"limit": 3}], "budget": 20.0}


def test_a_lowered_budget_says_when_it_is_in_force(tmp_path: Path) -> None:
    async def work() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint"))
        live.add_family(Family(id="brand", budget=20.0))
        async with live.open(), reporting(live) as client:
            assert (await client.get("/v1/families/brand")).json()["in_force"] is True
            changed = await client.patch("/v1/families/brand", json={"budget": 1.0})
            assert changed.json()["in_force"] is False
            shown = changed.json()
            while not shown["in_force"]:
                await asyncio.sleep(0.1)
                shown = (await client.get("/v1/families/brand")).json()
            listed = (await client.get("/v1/families")).json()["families"]
            assert [one["in_force"] for one in listed] == [True]

    asyncio.run(work())


def test_a_family_is_made_joined_shown_and_changed(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        refused = await client.post("/v1/campaigns", json=NEW | {"family": "brand"})
        assert_refused(refused, 422, "family 'brand' does not exist: create it first")
        assert refused.json()["error"]["fields"][0]["field"] == "family"
        made = await client.post("/v1/families", json=BRAND)
        assert made.status_code == 201
        assert made.headers["location"] == "/v1/families/brand"
        assert made.json() == BRAND | {
            "caps": [{"limit": 3, "span_seconds": None}],
            "campaigns": [],
            "in_force": False,  # the bidder has stopped
        }
        assert_refused(await client.post("/v1/families", json=BRAND), 409, "exists already")
        for name in ("autumn", "winter"):
            joined = await client.post("/v1/campaigns", json=NEW | {"id": name, "family": "brand"})
            assert joined.status_code == 201, joined.text
            assert joined.json()["family"] == "brand"
        shown = (await client.get("/v1/families/brand")).json()
        assert shown == made.json() | {"campaigns": ["autumn", "winter"]}
        assert (await client.get("/v1/campaigns/autumn")).json()["family"] == "brand"
        moved = await client.patch("/v1/campaigns/autumn", json={"family": None})
        assert_refused(moved, 422, "family is not a known field")
        changed = await client.patch("/v1/families/brand", json={"budget": 30})
        assert changed.json() == shown | {"budget": 30.0}
        assert_refused(await client.patch("/v1/families/brand", json={"caps": []}), 422, "caps")
        assert (await client.patch("/v1/families/brand", json={"budget": None})).json()[
            "budget"
        ] is None
        listed = (await client.get("/v1/families")).json()
        assert [one["id"] for one in listed["families"]] == ["brand"]
        assert listed["families"][0]["campaigns"] == ["autumn", "winter"]
        assert_refused(await client.get("/v1/families/nobody"), 404, "no family 'nobody'")
        assert_refused(await client.get("/v1/families/a%20b"), 404, "no family")

    with_client(tmp_path, work)


def test_bad_families_are_refused(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for change, part in (
            ({"id": "a b"}, "id"),
            ({"budget": 0}, "budget"),
            ({"budget": True}, "budget"),
            ({"caps": [{"limit": 0}]}, "caps.0.limit"),
            ({"caps": [], "budget": None}, "caps must hold a cap"),
            ({"caps": [{"limit": 2}, {"limit": 1}]}, "caps must have a higher limit"),
            ({"daily_budget": 1.0}, "daily_budget is not a known field"),
        ):
            assert_refused(await client.post("/v1/families", json=BRAND | change), 422, part)
        assert (await client.get("/v1/families")).json()["families"] == []

    with_client(tmp_path, work)


def test_caps_of_a_family_need_groups_that_do_not_overlap(tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        await client.post("/v1/families", json=BRAND)
        await client.post("/v1/families", json={"id": "money", "budget": 5.0})
        refused = await client.post("/v1/campaigns", json=NEW | {"family": "brand"})
        assert_refused(refused, 422, "family must be without caps on overlapping groups")
        joined = await client.post("/v1/campaigns", json=NEW | {"family": "money"})
        assert joined.status_code == 201, joined.text

    with_client(tmp_path, work, kind="overlapping")


def test_an_advertiser_sees_and_joins_its_own_families_only(tmp_path: Path) -> None:
    async def work() -> None:
        live = LiveStore(tmp_path, make_catalogue("disjoint", groups=12))
        place = Keyed(live)
        acme, bob = (bearer(place.add("advertiser", name)[1]) for name in ("acme", "bob"))
        operator, publisher = (bearer(place.add(role)[1]) for role in ("operator", "publisher"))
        async with keyed(place) as client:
            for headers in (acme, bob):
                made = await client.post("/v1/families", json=BRAND, headers=headers)
                assert (made.status_code, made.json()["id"]) == (201, "brand")
            assert_refused(
                await client.post("/v1/families", json=BRAND, headers=acme),
                409,
                "family 'brand' exists already",
            )
            made = await client.post("/v1/families", json=BRAND | {"id": "other"}, headers=bob)
            assert made.status_code == 201
            joining = NEW | {"family": "other"}
            assert_refused(
                await client.post("/v1/campaigns", json=joining, headers=acme),
                422,
                "family 'other' does not exist",
            )
            named = NEW | {"family": "bob.brand"}
            assert_refused(
                await client.post("/v1/campaigns", json=named, headers=acme), 422, "family must be"
            )
            joined = await client.post(
                "/v1/campaigns", json=NEW | {"family": "brand"}, headers=acme
            )
            assert (joined.status_code, joined.json()["family"]) == (201, "brand"), joined.text
            mine = (await client.get("/v1/families", headers=acme)).json()["families"]
            assert [(one["id"], one["campaigns"]) for one in mine] == [("brand", ["autumn"])]
            shown = (await client.get("/v1/campaigns/autumn", headers=acme)).json()
            assert (shown["id"], shown["family"]) == ("autumn", "brand")
            assert_refused(await client.get("/v1/families/other", headers=acme), 404)
            refused = await client.patch("/v1/families/other", json={"budget": 1}, headers=acme)
            assert_refused(refused, 404, "no family 'other'")
            every = (await client.get("/v1/families", headers=operator)).json()["families"]
            assert [one["id"] for one in every] == ["acme.brand", "bob.brand", "bob.other"]
            assert_refused(await client.get("/v1/families", headers=publisher), 403)

    asyncio.run(work())
