"""From forms to campaigns, and from messages of reporting back to fields."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.console.form_fields import CREATE, as_document, field_of
from tests.adsystem.api.stores import Shop, make_campaign, make_catalogue, reporting

GOOD = {
    "id": "autumn",
    "budget": "12.5",
    "start": "2026-11-01T00:00",
    "end": "2026-12-01T00:00",
    "cap": "2",
}


def test_a_form_makes_a_campaign() -> None:
    filled = GOOD | {
        "cap_days": "7",
        "width": "300",
        "height": "250",
        "markup": " ",
        "bidder": None,
    }
    assert as_document(filled) == {
        "id": "autumn",
        "budget": 12.5,
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "caps": [{"limit": 2, "span_seconds": 604_800.0}],
        "creative": {"width": 300, "height": 250},
    }


def test_what_is_no_number_stays_for_reporting_to_judge() -> None:
    made = as_document({"budget": "ten", "cap": "2.5", "expected_requests": "1e3", "start": "soon"})
    assert made["budget"] == "ten"
    assert made["caps"] == [{"limit": "2.5"}]
    assert made["expected_requests"] == "1e3"
    assert made["start"] == "soon"


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
    ({"cap": "0"}, "cap"),
    ({"cap": "two"}, "cap"),
    ({"cap_days": "-1"}, "cap_days"),
    ({"daily_budget": "99"}, "daily_budget"),
    ({"audience": "nobody"}, "audience"),
    ({"bidder": "paper"}, "expected_requests"),
    ({"expected_requests": "1.5"}, "expected_requests"),
    ({"min_cpm": "5", "max_cpm": "2"}, "min_cpm"),
    ({"max_cpm": "-5"}, "max_cpm"),
    ({"market_mu": "1"}, "market_mu"),
    ({"market_sigma": "-1", "market_mu": "1"}, "market_sigma"),
    ({"width": "300"}, "width"),
    ({"height": "0", "width": "3"}, "height"),
]


def test_each_message_of_reporting_finds_its_field(tmp_path: Path) -> None:
    async def go() -> list[Any]:
        shop = Shop(tmp_path, make_catalogue("disjoint"))
        shop.add(make_campaign("spring"))
        missed: list[Any] = []
        async with reporting(shop) as client:
            for change, field in BAD:
                answer = await client.post("/v1/campaigns", json=as_document(GOOD | change))
                assert answer.status_code in (409, 422), (change, answer.text)
                message = answer.json()["error"]
                if field_of(message) != field:
                    missed.append((change, message, field_of(message), field))
            good = await client.post("/v1/campaigns", json=as_document(GOOD))
            assert good.status_code == 201, good.text
        return missed

    assert asyncio.run(go()) == []


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("the body must be JSON", None),
        ("the store cannot be used", None),
        ("creative.markup must have from 1 to 20000 characters, got 0", "markup"),
        ("campaign has ended and cannot be changed", None),
    ],
)
def test_messages_about_no_field_are_said_above_the_form(message: str, field: str | None) -> None:
    assert field_of(message, CREATE) == field
