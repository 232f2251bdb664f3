"""The campaign store: stores that an older version wrote are migrated."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from kreach.adsystem.campaigns.campaign import Campaign, campaign_from
from kreach.adsystem.campaigns.store import (
    FILE,
    CampaignEnded,
    CampaignExists,
    CampaignStore,
    UnknownCampaign,
)
from kreach.errors import KreachError

SPRING = Campaign(
    id="spring",
    budget=500.0,
    start=datetime(2026, 11, 1, tzinfo=UTC),
    end=datetime(2026, 12, 1, tzinfo=UTC),
    min_cpm=0.5,
    max_cpm=2.5,
)
TABLES_BEFORE_VERSIONS = """
CREATE TABLE campaigns (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX by_revision ON campaigns (revision);
"""


def test_limits_of_bids_are_migrated_to_their_new_names(tmp_path: Path) -> None:
    document = SPRING.document()
    document["least_cpm"], document["most_cpm"] = document.pop("min_cpm"), document.pop("max_cpm")
    with closing(sqlite3.connect(tmp_path / FILE)) as old:
        old.executescript(TABLES_BEFORE_VERSIONS)
        old.execute("INSERT INTO campaigns VALUES (7, 'spring', ?, 3)", (json.dumps(document),))
        old.commit()
    for _ in range(2):
        with closing(CampaignStore(tmp_path)) as store:
            stored = store.get("spring")
            assert (stored.number, stored.campaign, stored.revision) == (7, SPRING, 3)
    with closing(CampaignStore(tmp_path)) as store:
        assert store.change("spring", {"max_cpm": 3.0}).campaign.max_cpm == 3.0


def test_the_auction_type_of_a_campaign_is_dropped(tmp_path: Path) -> None:
    document = SPRING.document() | {"auction": "first_price"}
    with closing(CampaignStore(tmp_path)) as store:
        store.add(SPRING)
    with closing(sqlite3.connect(tmp_path / FILE)) as old:
        old.execute("UPDATE campaigns SET document = ?", (json.dumps(document),))
        old.execute("PRAGMA user_version = 2")
        old.commit()
    with closing(CampaignStore(tmp_path)) as store:
        assert store.get("spring").campaign == SPRING
        store.replicate({7: (4, json.dumps(document | {"id": "peer"}))})  # an older reporting
        assert store.get("peer").campaign.budget == SPRING.budget
        store.change("spring", {"state": "paused"})
    with pytest.raises(KreachError, match=r"^auction is not a field any more: every bid request"):
        campaign_from(document)


def test_the_one_creative_of_a_campaign_becomes_the_first_of_several(tmp_path: Path) -> None:
    old_creative = {"id": None, "markup": "<b>", "width": 1, "height": 2, "domains": ["https://x"]}
    empty = dict.fromkeys(("id", "markup", "width", "height")) | {"domains": []}
    with closing(CampaignStore(tmp_path)) as store:
        store.add(SPRING)
        store.add(msgspec.structs.replace(SPRING, id="empty"))
    with closing(sqlite3.connect(tmp_path / FILE)) as old:
        for name, creative in (("spring", old_creative), ("empty", empty)):
            document = SPRING.document() | {"id": name, "creative": creative}
            for new in ("creatives", "deals", "deals_only"):
                del document[new]
            values = (json.dumps(document), name)
            old.execute("UPDATE campaigns SET document = ? WHERE id = ?", values)
        old.execute("PRAGMA user_version = 4")
        old.commit()
    with closing(CampaignStore(tmp_path)) as store:
        campaign = store.get("spring").campaign
        assert campaign.creatives == (campaign.creative,) == campaign.servable
        assert campaign.creative.domains == ("https://x",)  # nothing that was stored is refused
        assert store.get("empty").campaign.not_bidding == "no creative"
        assert store.change("spring", {"budget": 600.0}).campaign.servable == campaign.servable


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    with closing(CampaignStore(tmp_path)) as store:
        store.add(SPRING)
        with pytest.raises(CampaignExists, match=r"^campaign 'spring' exists already$"):
            store.add(SPRING)
        with pytest.raises(UnknownCampaign, match=r"^no campaign 'autumn'$"):
            store.get("autumn")
        with pytest.raises(ValueError, match=r"^audience: only budget, daily_budget, .* can be"):
            store.change("spring", {"audience": "x"})
        store.change("spring", {"state": "ended"})
        with pytest.raises(CampaignEnded, match=r"^campaign has ended and cannot be changed$"):
            store.change("spring", {"budget": 600.0})
