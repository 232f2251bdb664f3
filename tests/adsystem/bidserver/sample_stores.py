"""Stores for bidders in processes of their own: a catalogue, campaigns that run now, settings."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.adsystem.bidserver.sample_bidders import sample_campaign, sample_catalogue

__all__ = ["running_campaign", "sample_store"]


def running_campaign(name: str = "spring", **more: Any) -> Campaign:
    """A campaign that runs at this moment, and will for days."""
    now = datetime.now(UTC)
    flight = {"start": now - timedelta(minutes=1), "end": now + timedelta(days=7)}
    return sample_campaign(name, **(flight | more))


def sample_store(
    folder: Path,
    campaigns: Sequence[Campaign] | None = None,
    catalogue: Catalogue | None = None,
    bidder: str = "",
) -> Path:
    """A settings file and all that it names; `bidder` are lines of its section."""
    catalogue = catalogue or sample_catalogue()
    write_catalogue(catalogue, folder / "release")
    store = CampaignStore(folder / "store")
    for campaign in [running_campaign()] if campaigns is None else campaigns:
        store.add(campaign)
    store.close()
    config = folder / "kreach.toml"
    shared = '[adsystem]\nstore = "store"\ncatalogues = ["release"]\n'
    own = f"[bidder]\nport = 0\nfirst_bid_share = 1.0\n{bidder}\n"
    config.write_text(f"{shared}{own}[reporting]\nport = 0\n")
    return config
