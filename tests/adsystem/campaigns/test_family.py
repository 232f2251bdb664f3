"""Families: what is refused, how they are stored, and who may join them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kreach.adsystem.campaigns.campaign import Cap, campaign_from
from kreach.adsystem.campaigns.family import (
    Family,
    counts_by_time,
    family_from,
    longest_span,
)
from kreach.adsystem.campaigns.store import (
    FILE,
    CampaignStore,
    FamilyExists,
    NoSuchFamily,
    UnknownFamily,
)
from kreach.errors import KreachError
from tests.adsystem.campaigns.test_store import SPRING

BRAND = Family(id="brand", caps=(Cap(limit=3),), budget=20.0)
WEEKLY = Family(id="weekly", caps=(Cap(limit=2, span_seconds=604_800.0), Cap(limit=9)))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"caps": [{"limit": 1}]}, "id is required"),
        ({"id": "a b", "budget": 1.0}, "id must be 1 to 64 letters"),
        ({"id": "a.b.c", "budget": 1.0}, "id must be 1 to 64 letters"),
        ({"id": "brand"}, "caps must hold a cap where the family has no budget, got 'none'"),
        ({"id": "brand", "budget": 0.0}, "budget must be money above 0 in whole micros"),
        ({"id": "brand", "budget": 1e-7}, "budget must be money above 0 in whole micros"),
        ({"id": "brand", "budget": "1"}, "budget: Expected float | null, got str"),
        ({"id": "brand", "caps": [{"limit": 0}]}, "caps.limit must be a whole number from 1"),
        (
            {"id": "brand", "caps": [{"limit": 3, "span_seconds": 60.0}, {"limit": 3}]},
            "caps must have a higher limit for a longer span, each span once",
        ),
        ({"id": "brand", "caps": [{"limit": 1, "span_seconds": -1.0}]}, "caps.span_seconds must"),
        ({"id": "brand", "budget": 1.0, "color": "red"}, "family: Object contains unknown field"),
    ],
)
def test_bad_families_are_refused_by_field(document: dict[str, Any], message: str) -> None:
    with pytest.raises(KreachError) as caught:
        family_from(document)
    assert str(caught.value).startswith(message), str(caught.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(KreachError, match=r"^id must .*; caps\.limit must .*; budget must "):
        Family(id="", caps=(Cap(limit=0),), budget=-1.0)


def test_a_campaign_joins_a_family_of_its_own_advertiser() -> None:
    def joined(name: str, family: str) -> str | None:
        return campaign_from(SPRING.document() | {"id": name, "family": family}).family

    assert joined("spring", "brand") == "brand"
    assert joined("acme.spring", "acme.brand") == "acme.brand"
    for name, family in (("acme.spring", "brand"), ("spring", "acme.brand"), ("a.x", "b.x")):
        with pytest.raises(KreachError, match=r"^family must be a family of the campaign's adv"):
            joined(name, family)
    with pytest.raises(KreachError, match=r"^family must be 1 to 64 letters"):
        joined("spring", "../brand")


def test_times_matter_where_a_cap_rolls() -> None:
    rolling = msgspec.structs.replace(SPRING, caps=(Cap(limit=1, span_seconds=60.0),))
    budget = Family(id="money", budget=5.0)
    assert [counts_by_time(SPRING, family) for family in (None, BRAND, budget, WEEKLY)] == [
        *(False, False, False),
        True,
    ]
    assert counts_by_time(rolling, BRAND)
    assert longest_span(rolling, None, 1e9) == 60.0
    assert longest_span(rolling, WEEKLY, 1e9) == 1e9
    weekly = Family(id="weekly", caps=WEEKLY.caps[:1])
    assert longest_span(rolling, weekly, 1e9) == 604_800.0


def test_families_are_stored_and_changed(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        assert store.add_family(BRAND).number == 1
        store.add_family(Family(id="acme.brand", budget=1.0))
        with pytest.raises(FamilyExists, match=r"^family 'brand' exists already$"):
            store.add_family(BRAND)
        with pytest.raises(UnknownFamily, match=r"^no family 'autumn'$"):
            store.get_family("autumn")
        with pytest.raises(KreachError, match=r"^caps: only budget can be changed$"):
            store.change_family("brand", {"caps": []})
        changed = store.change_family("brand", {"budget": 30.0})
        assert (changed.family.budget, changed.revision) == (30.0, 3)
        assert store.change_family("brand", {"budget": None}).family.budget is None
        with pytest.raises(KreachError, match=r"^caps must hold a cap where the family has no"):
            store.change_family("acme.brand", {"budget": None})
        assert [each.family.id for each in store.families(owner="acme")] == ["acme.brand"]
        assert [each.family.id for each in store.families(after_revision=2)] == ["brand"]
        with pytest.raises(NoSuchFamily, match=r"^family 'autumn' does not exist: create it"):
            store.add(msgspec.structs.replace(SPRING, family="autumn"))
        store.add(msgspec.structs.replace(SPRING, family="brand"))
        with pytest.raises(KreachError, match=r"^family: only budget, .* can be changed"):
            store.change("spring", {"family": None})
        assert store.change("spring", {"budget": 7.0}).campaign.family == "brand"


def test_a_store_of_the_version_before_has_no_families(tmp_path: Path) -> None:
    document = SPRING.document()
    del document["family"]
    with closing(CampaignStore(tmp_path)) as store:
        store.add(SPRING)
    with closing(sqlite3.connect(tmp_path / FILE)) as old:
        old.execute("DROP TABLE families")
        old.execute("UPDATE campaigns SET document = ?", (json.dumps(document),))
        old.execute("PRAGMA user_version = 3")
        old.commit()
    with closing(CampaignStore(tmp_path)) as store:
        assert store.get("spring").campaign == SPRING
        assert store.families() == []
        store.add_family(BRAND)


def test_a_copy_has_the_families_of_its_campaigns(tmp_path: Path) -> None:
    member = msgspec.structs.replace(SPRING, family="brand")
    with closing(CampaignStore(tmp_path)) as store:
        store.replicate(
            {7: (4, json.dumps(member.document()))}, {5: (2, json.dumps(BRAND.document()))}
        )
        assert store.get("spring").campaign == member
        assert store.get_family("brand").number == 5
        store.replicate({}, {5: (3, json.dumps(BRAND.document() | {"budget": 9.0}))})
        assert store.get_family("brand").family.budget == 9.0
