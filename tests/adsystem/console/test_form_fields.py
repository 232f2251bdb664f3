"""From forms to campaigns, and from errors of reporting back to inputs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.console.form_fields import CAP_LIMIT, CAP_SPAN, input_for, request_body
from tests.adsystem.api.live_stores import LiveStore, make_campaign, make_catalogue, reporting

INPUTS = (
    "id",
    "budget",
    "start",
    "end",
    CAP_LIMIT,
    CAP_SPAN,
    "daily_budget",
    "audience",
    "bidder",
    "expected_requests",
    "min_cpm",
    "max_cpm",
    "max_cost_per_reach",
    "market_mu",
    "market_sigma",
    "creative.width",
    "creative.height",
    "creative.markup",
)
GOOD: dict[str, str | None] = {
    "id": "autumn",
    "budget": "12.5",
    "max_cpm": "7.5",
    "start": "2026-11-01T00:00",
    "end": "2026-12-01T00:00",
    CAP_LIMIT: "2",
}


def test_a_form_makes_a_campaign() -> None:
    values = GOOD | {
        CAP_SPAN: "7",
        "creative.width": "300",
        "creative.height": "250",
        "creative.markup": " ",
        "bidder": None,
    }
    assert request_body(values) == {
        "id": "autumn",
        "budget": 12.5,
        "max_cpm": 7.5,
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "caps": [{"limit": 2, "span_seconds": 604_800.0}],
        "creative": {"width": 300, "height": 250},
    }


def test_text_that_is_not_a_number_is_left_to_reporting() -> None:
    values = {"budget": "ten", CAP_LIMIT: "2.5", "expected_requests": "1e3", "start": "soon"}
    assert request_body(values) == {
        "budget": "ten",
        "caps": [{"limit": "2.5"}],
        "expected_requests": "1e3",
        "start": "soon",
    }


BAD = [
    ({"id": "x y"}, "id"),
    ({"id": "spring"}, "id"),
    ({"id": ""}, "id"),
    ({"budget": "-1"}, "budget"),
    ({"budget": "ten"}, "budget"),
    ({"budget": "nan"}, "budget"),
    ({"budget": "1e999"}, "budget"),
    ({"budget": "1_000"}, "budget"),
    ({"budget": "0.0000001"}, "budget"),
    ({"start": ""}, "start"),
    ({"start": "soon"}, "start"),
    ({"end": "2026-10-01T00:00"}, "end"),
    ({CAP_LIMIT: "0"}, CAP_LIMIT),
    ({CAP_LIMIT: "two"}, CAP_LIMIT),
    ({CAP_SPAN: "-1"}, CAP_SPAN),
    ({"daily_budget": "99"}, "daily_budget"),
    ({"audience": "nobody"}, "audience"),
    ({"bidder": "paper"}, "expected_requests"),
    ({"expected_requests": "1.5"}, "expected_requests"),
    ({"min_cpm": "5", "max_cpm": "2"}, "min_cpm"),
    ({"max_cpm": "-5"}, "max_cpm"),
    ({"market_mu": "1"}, "market_sigma"),
    ({"market_sigma": "-1", "market_mu": "1"}, "market_sigma"),
    ({"creative.width": "300"}, "creative.width"),
    ({"creative.height": "0", "creative.width": "3"}, "creative.height"),
]


def test_each_error_of_reporting_finds_its_input(tmp_path: Path) -> None:
    async def go() -> list[Any]:
        shop = LiveStore(tmp_path, make_catalogue("disjoint"))
        shop.add(make_campaign("spring"))
        missed: list[Any] = []
        async with reporting(shop) as client:
            for change, expected in BAD:
                answer = await client.post("/v1/campaigns", json=request_body(GOOD | change))
                assert answer.status_code in (409, 422), (change, answer.text)
                fields = answer.json()["error"]["fields"]
                inputs = [input_for(one["field"], INPUTS) for one in fields]
                if inputs != [expected]:
                    missed.append((change, fields, expected))
            good = await client.post("/v1/campaigns", json=request_body(GOOD))
            assert good.status_code == 201, good.text
        return missed

    assert asyncio.run(go()) == []


def test_several_errors_come_at_once(tmp_path: Path) -> None:
    async def go() -> Any:
        async with reporting(LiveStore(tmp_path, make_catalogue("disjoint"))) as client:
            bad = GOOD | {"budget": "-1", CAP_LIMIT: "0"}
            return (await client.post("/v1/campaigns", json=request_body(bad))).json()

    fields = asyncio.run(go())["error"]["fields"]
    assert {input_for(one["field"], INPUTS) for one in fields} == {"budget", CAP_LIMIT}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("budget", "budget"),
        ("caps", CAP_LIMIT),
        ("caps.0", CAP_LIMIT),
        ("caps.0.limit", CAP_LIMIT),
        ("caps.1.limit", None),
        ("creative.markup", "creative.markup"),
        ("creative", "creative.width"),
        ("start.0", "start"),
        ("state", None),
        ("body", None),
    ],
)
def test_a_field_has_an_input_or_none(field: str, expected: str | None) -> None:
    assert input_for(field, INPUTS) == expected
