"""What an advertiser asks over HTTP tells nothing of others: families, campaigns, audiences."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

from kreach.adsystem.settings import GuardSettings
from kreach.boundary.files import write_groups
from tests.adsystem.access.keyed_reporting import Keyed, bearer, keyed
from tests.adsystem.api.live_stores import GROUPS, LiveStore, make_catalogue

GUARD = GuardSettings(min_impressions=20, min_people=30, min_audience=60, min_difference=10)
FLIGHT = {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"}
GIVEN: dict[str, Any] = {"requests": 400, "market_mu": 0.5, "market_sigma": 0.8, "people": 20}
NEW = {"budget": 5.0, "max_cpm": 5.0, **FLIGHT}
BRAND = {"id": "brand", "caps": [{"limit": 3}]}
SECRET = "bobs-few-loyal-buyers"


def _error_text(answer: httpx.Response, status: int, name: str) -> str:
    """The error without the name that was asked for."""
    assert answer.status_code == status, answer.text
    message: str = answer.json()["error"]["message"]
    return message.replace(name, "…")


def _store(folder: Path) -> LiveStore:
    catalogue = make_catalogue("dispersed")
    live = LiveStore(folder, catalogue)
    few = np.zeros(GROUPS, dtype=np.int64)
    few[3] = 2
    write_groups(catalogue, folder / "few.parquet", few)
    live.shared = msgspec.structs.replace(live.shared, audiences={SECRET: folder / "few.parquet"})
    return live


def test_families_of_others_might_as_well_not_exist(tmp_path: Path) -> None:
    place = Keyed(_store(tmp_path), guard=GUARD)
    acme, bob = (bearer(place.add("advertiser", name)[1]) for name in ("acme", "bob"))

    async def run() -> None:
        async with keyed(place) as client:

            async def post(path: str, body: dict[str, Any], who: dict[str, str]) -> None:
                answer = await client.post(path, json=body, headers=who)
                assert answer.status_code == 201, answer.text

            await post("/v1/families", BRAND, bob)
            for name in ("spring", "summer"):
                await post("/v1/campaigns", NEW | {"id": name, "family": "brand"}, bob)
            own = await client.get("/v1/families/brand/reach", headers=bob)
            assert own.status_code == 200, own.text
            assert own.json()["combined"] is None  # nothing was shown yet
            for rest in ("", "/reach", "/reach?start=2026-11-01"):
                told = set()
                for name in ("brand", "nobody", "bob.brand", "acme.brand"):
                    answer = await client.get(f"/v1/families/{name}{rest}", headers=acme)
                    told.add(_error_text(answer, 404, name))
                assert len(told) == 1, told
            told = {
                _error_text(
                    await client.get(f"/v1/reach?campaign={name}&campaign=none", headers=acme),
                    404,
                    name,
                )
                for name in ("spring", "nobody", "bob.spring")
            }
            assert len(told) == 1, told
            joined = await client.post(
                "/v1/campaigns", json=NEW | {"id": "x", "family": "brand"}, headers=acme
            )
            other = await client.post(
                "/v1/campaigns", json=NEW | {"id": "x", "family": "nobody"}, headers=acme
            )
            messages = [
                _error_text(one, joined.status_code, name)
                for one, name in ((joined, "brand"), (other, "nobody"))
            ]
            assert messages[0] == messages[1]
            assert (await client.get("/v1/families", headers=acme)).json()["families"] == []

    asyncio.run(run())


def test_audiences_that_are_not_for_advertisers_are_not_listed_to_them(tmp_path: Path) -> None:
    place = Keyed(_store(tmp_path), guard=GUARD)
    acme, operator = bearer(place.add("advertiser", "acme")[1]), bearer(place.add("operator")[1])

    async def run() -> None:
        async with keyed(place) as client:
            for path, body in (
                ("/v1/plans", GIVEN | FLIGHT),
                ("/v1/campaigns", NEW | {"id": "spring"}),
            ):
                asked = body | {"audience": "unknown"}
                answer = await client.post(path, json=asked, headers=acme)
                assert answer.status_code == 422, answer.text
                assert "be one of everyone, got" in answer.text
                assert SECRET not in answer.text
                answer = await client.post(path, json=asked, headers=operator)
                assert f"be one of everyone, {SECRET}, got" in answer.text
                # who knows a name anyway learns the rule, and no size
                answer = await client.post(path, json=body | {"audience": SECRET}, headers=acme)
                assert answer.status_code in (403, 422), answer.text
                assert "clearly more than 60 people" in answer.text
            listed = (await client.get("/v1/catalogues", headers=acme)).json()
            assert listed["audiences"] == ["everyone"]
            assert (listed["crossed"], listed["noise"], listed["panel"]) == (None, None, None)
            plan = await client.post("/v1/plans", json=GIVEN | FLIGHT, headers=acme)
            assert plan.status_code == 200, plan.text
            # another catalogue than the newest cannot be named
            answer = await client.post(
                "/v1/plans", json=GIVEN | FLIGHT | {"catalogue": "v0"}, headers=acme
            )
            assert answer.status_code == 422

    asyncio.run(run())
