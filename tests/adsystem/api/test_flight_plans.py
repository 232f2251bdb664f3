"""Plans without a campaign: the library's numbers, on what bidders observed or what is given."""

import asyncio
from dataclasses import replace
from datetime import datetime
from math import log
from pathlib import Path
from typing import Any

import httpx
import pytest

import kreach as kr
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.boundary.audience import DisjointAudience
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, reporting
from tests.adsystem.visit_models import sample_model

FLIGHT = {"start": "2026-12-01T00:00:00Z", "end": "2026-12-03T00:00:00Z"}
GIVEN: dict[str, Any] = {"requests": 400, "market_mu": 0.5, "market_sigma": 0.8}


async def _plan(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.post("/v1/plans", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def _errors(client: httpx.AsyncClient, **body: Any) -> dict[str, str]:
    answer = await client.post("/v1/plans", json=body)
    assert answer.status_code == 422, answer.text
    return {one["field"]: one["message"] for one in answer.json()["error"]["fields"]}


def test_plans_with_given_inventory_are_the_librarys(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("dispersed"))

    async def run() -> None:
        async with reporting(live) as client:
            document = await _plan(client, cap=2, budgets=[0.2], people=60, **GIVEN)
            audience = live.catalogues[0].audience()
            market = kr.LogNormalMarket(0.5 - log(1_000), 0.8)
            maker = OutlookMaker(audience, market, 400, 2, max_cost_multiple=10.0)
            by_budget, by_people = maker.for_budget(0.2), maker.for_people(60)
            for shown, own in zip(document["plans"], (by_budget, by_people), strict=True):
                assert shown["people"] == own.people
                assert tuple(shown["people_band"]) == own.people_band
                assert (shown["reach"], shown["spend"]) == (own.reach, own.spend)
            assert by_people.people == pytest.approx(60, rel=0.03)
            assert document["campaign"] is None
            assert (document["requests_source"], document["market_source"]) == ("given", "given")
            coarse = await _plan(client, cap=2, budgets=[0.2], precision="coarse", **GIVEN)
            assert coarse["precision"] == "coarse"
            assert coarse["plans"][0]["people"] == pytest.approx(by_budget.people, rel=0.05)

    asyncio.run(run())


def test_a_coarse_plan_waits_for_no_fine_one(tmp_path: Path) -> None:
    """Who changes a plan while it is refined gets the first answer of the new one at once."""
    live = LiveStore(tmp_path, make_catalogue("dispersed"))

    async def run() -> None:
        async with reporting(live) as client:
            fine = [
                asyncio.create_task(_plan(client, cap=2, budgets=[budget], **GIVEN))
                for budget in (0.1, 0.2, 0.3, 0.4)
            ]
            await asyncio.sleep(0)  # they are asked first
            coarse = await _plan(client, cap=2, budgets=[0.25], precision="coarse", **GIVEN)
            assert coarse["precision"] == "coarse"
            assert not all(one.done() for one in fine)
            await asyncio.gather(*fine)

    asyncio.run(run())


def test_inventory_and_prices_are_what_bidders_saw(tmp_path: Path) -> None:
    catalogue = make_catalogue("dispersed")
    live = LiveStore(tmp_path, catalogue)
    live.add(make_campaign("spring", market_mu=-0.5, market_sigma=0.5))

    async def run() -> None:
        async with live.open():
            sold = 0
            for _ in range(12):
                live.now += 3_600.0
                sold += await live.sell(list(range(len(catalogue))))
            assert live.state is not None
            for _ in live.state.checkpoints.write_memory():
                pass
        assert sold >= 300
        async with reporting(live) as client:
            asked = {"cap": 1, "budgets": [0.05], "precision": "coarse", **FLIGHT}
            document = await _plan(client, **asked)
            inventory = document["inventory"]
            assert document["requests_source"] == document["market_source"] == "observed"
            assert inventory["observed_days"] == pytest.approx(0.5, rel=0.1)
            assert inventory["requests_per_day"] == pytest.approx(2 * 12 * len(catalogue), rel=0.1)
            share = inventory["eligible_share"]
            expected = 2 * inventory["requests_per_day"] * share
            assert document["requests"] == pytest.approx(expected, abs=1)
            # every impression was sold at 0.50 a thousand at most
            assert document["market"]["mu"] < log(0.6)
            with_ids = await _plan(client, with_ids=True, **asked)
            cost = with_ids["anonymity"]
            assert cost["people_with_ids"] > cost["people"] > 0.0
            assert cost["people"] == document["plans"][0]["people"]
            # a campaign that says no more than a flight has the same plan
            live.add(_own_flight("like-it", budget=0.05))
            url = "/v1/campaigns/like-it/plan?cap=1&precision=coarse"
            assert _same((await client.get(url)).json(), document, "like-it")

    asyncio.run(run())


def _own_flight(name: str, **more: Any) -> Campaign:
    start, end = (datetime.fromisoformat(FLIGHT[one]) for one in ("start", "end"))
    return make_campaign(name, start=start, end=end, market_mu=None, market_sigma=None, **more)


def _same(of_campaign: dict[str, Any], of_flight: dict[str, Any], campaign: str) -> bool:
    return of_campaign == of_flight | {"campaign": campaign}


@pytest.mark.parametrize("modelled", [False, True])
def test_a_campaign_and_a_flight_have_one_plan(tmp_path: Path, modelled: bool) -> None:
    catalogue = make_catalogue("dispersed")
    model = sample_model(group_size=5.0) if modelled else None
    live = LiveStore(tmp_path, replace(catalogue, model=model))
    own = {"expected_requests": 400, "market_mu": 0.5, "market_sigma": 0.8}
    live.add(make_campaign("spring", **own))

    async def run() -> None:
        async with reporting(live) as client:
            audience = live.catalogues[0].audience()
            when = {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"}
            asked = {"cap": 2, "budgets": [0.2], "precision": "coarse"} | when | GIVEN
            flight = await _plan(client, **asked)
            url = "/v1/campaigns/spring/plan?budget=0.2&precision=coarse"
            assert _same((await client.get(url)).json(), flight, "spring")
            market = kr.LogNormalMarket(0.5 - log(1_000), 0.8)
            limits: dict[str, Any] = {"model": model, "max_cost_multiple": 10.0}
            limits["simulated_groups"] = 5_000
            maker = OutlookMaker(audience, market, 400, 2, **limits)
            assert flight["plans"][0]["people"] == maker.for_budget(0.2).people
            # groups of another size, and what k costs, rest on the visit model too
            sized = await _plan(client, group_size=20, **asked)
            ask = f"{url}&group_size=20"
            assert _same((await client.get(ask)).json(), sized, "spring")
            alone = await _plan(client, group_size=1, **asked)
            people = [plan["plans"][0]["people"] for plan in (flight, alone)]
            cost = (await _plan(client, with_ids=True, **asked))["anonymity"]
            assert [cost["people"], cost["people_with_ids"]] == people
            assert people[0] < people[1]

    asyncio.run(run())


@pytest.mark.parametrize("modelled", [False, True])
def test_python_and_http_have_one_plan(tmp_path: Path, modelled: bool) -> None:
    """For the groups of a catalogue, and for groups of one person."""
    model = sample_model(group_size=5.0) if modelled else None
    live = LiveStore(tmp_path, replace(make_catalogue("dispersed"), model=model))
    audience = live.catalogues[0].audience()
    assert isinstance(audience, DisjointAudience)
    everybody = int(audience.group_sizes.sum())
    alone = kr.Audience.disjoint([1] * everybody, dispersion=float(audience.kinds.dispersion[0]))
    market = kr.LogNormalMarket(0.5 - log(1_000), 0.8)

    async def run() -> None:
        async with reporting(live) as client:
            for groups, size in ((audience, None), (alone, 1)):
                asked = {"cap": 2, "budgets": [0.2, 0.4], "group_size": size} | GIVEN
                document = await _plan(client, **asked)
                own = kr.plan(groups, market, 400, cap=2, budgets=[0.2, 0.4], model=model)
                assert document["groups"] == groups.group_count
                for shown, outlook in zip(document["plans"], own.outlooks, strict=True):
                    assert shown["people"] == outlook.people
                    assert tuple(shown["people_band"]) == outlook.people_band
                    assert (shown["reach"], shown["spend"]) == (outlook.reach, outlook.spend)

    asyncio.run(run())


def test_a_campaign_without_prices_is_planned_on_assumed_ones(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("dispersed"))
    live.add(_own_flight("spring", expected_requests=400), _own_flight("summer"))

    async def run() -> None:
        async with reporting(live) as client:
            plan = (await client.get("/v1/campaigns/spring/plan?precision=coarse")).json()
            assert (plan["requests_source"], plan["market_source"]) == ("given", "assumed")
            answer = await client.get("/v1/campaigns/summer/plan")
            assert answer.status_code == 422
            assert "bidders have seen less than an hour" in answer.text

    asyncio.run(run())


def test_what_is_missing_or_wrong_is_said_at_its_field(tmp_path: Path) -> None:
    live = LiveStore(tmp_path, make_catalogue("dispersed"))

    async def run() -> None:
        async with reporting(live) as client:
            assert "give a budget or people" in (await _errors(client))["budgets"]
            wrong = await _errors(client, cap=0, people=-1, budgets=["x"])
            assert {"cap", "people", "budgets.0"} <= set(wrong)
            tiny = await _errors(client, people=1e-9, max_cost_per_reach=5e-324, **GIVEN)
            assert set(tiny) == {"people", "max_cost_per_reach"}
            assert "start is required" in (await _errors(client, people=5))["start"]
            assert "bidders have seen" in (await _errors(client, people=5, **FLIGHT))["requests"]
            seen = await _errors(client, people=5, requests=100)
            assert "too few prices" in seen["market_mu"]
            wanted = await _errors(client, people=1e6, **GIVEN)
            assert "what can be reached" in wanted["people"]
            assert (
                "be one of everyone" in (await _errors(client, audience="x", people=5))["audience"]
            )

    asyncio.run(run())
