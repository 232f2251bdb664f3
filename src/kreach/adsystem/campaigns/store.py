"""Campaigns on disk: written by reporting, read by bidders, which poll for new revisions."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from kreach.adsystem.campaigns.campaign import REMOVED, Campaign, campaign_from
from kreach.errors import KreachError
from kreach.service.sqlite import Schema, open_store, store_errors, transaction

__all__ = ["CampaignEnded", "CampaignExists", "CampaignStore", "StoredCampaign", "UnknownCampaign"]

FILE = "control.sqlite3"
_TABLES = """
CREATE TABLE IF NOT EXISTS campaigns (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_revision ON campaigns (revision);
"""
_NEXT = "(SELECT coalesce(max(revision), 0) + 1 FROM campaigns)"
_CHANGEABLE = (
    *("budget", "daily_budget", "end", "state", "min_cpm", "max_cpm", "max_cost_per_reach"),
    "creative",
)


def _rename_limits(connection: sqlite3.Connection) -> None:
    """From version 1: limits of bids were called least_cpm and most_cpm."""
    rows = connection.execute("SELECT number, document FROM campaigns").fetchall()
    for number, text in rows:
        document = json.loads(text)
        for old, new in (("least_cpm", "min_cpm"), ("most_cpm", "max_cpm")):
            if old in document:
                document[new] = document.pop(old)
        values = (json.dumps(document), number)
        connection.execute("UPDATE campaigns SET document = ? WHERE number = ?", values)


def _drop_auction(connection: sqlite3.Connection) -> None:
    """From version 2: campaigns had an auction type, which bid requests have."""
    rows = connection.execute("SELECT number, document FROM campaigns").fetchall()
    for number, text in rows:
        values = (json.dumps(_current(json.loads(text))), number)
        connection.execute("UPDATE campaigns SET document = ? WHERE number = ?", values)


def _current(document: dict[str, Any]) -> dict[str, Any]:
    """A campaign of schema version 2 as it is now."""
    return {name: value for name, value in document.items() if name not in REMOVED}


_SCHEMA = Schema(3, _TABLES, {1: _rename_limits, 2: _drop_auction})


class UnknownCampaign(KreachError):
    """No campaign has this id."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"no campaign {campaign_id!r}", code="unknown")


class CampaignExists(KreachError):
    """A new campaign has the id of an existing one."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"campaign {campaign_id!r} exists already", field="id", code="conflict")


class CampaignEnded(KreachError):
    """An ended campaign cannot be changed."""

    def __init__(self) -> None:
        super().__init__("campaign has ended and cannot be changed", code="conflict")


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign, its number in ledger and log, and the revision of its last change."""

    number: int
    campaign: Campaign
    revision: int


class CampaignStore:
    """All campaigns. Every change is durable when the call returns."""

    def __init__(self, folder: Path) -> None:
        with store_errors("be a folder that can be written", folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = open_store(folder / FILE, _SCHEMA)
        self._lock = Lock()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, transaction(self._connection) as connection:
            yield connection

    def add(self, campaign: Campaign) -> StoredCampaign:
        """Store a new campaign; its id must be new."""
        with self._transaction() as connection:
            same = connection.execute("SELECT 1 FROM campaigns WHERE id = ?", (campaign.id,))
            if same.fetchone():
                raise CampaignExists(campaign.id)
            connection.execute(
                f"INSERT INTO campaigns (id, document, revision) VALUES (?, ?, {_NEXT})",
                (campaign.id, json.dumps(campaign.document())),
            )
        return self.get(campaign.id)

    def change(self, campaign_id: str, changes: dict[str, Any]) -> StoredCampaign:
        """Change what may change while a campaign runs; an ended one stays ended."""
        for name in changes:
            if name not in _CHANGEABLE:
                raise KreachError(f"{name}: only {', '.join(_CHANGEABLE)} can be changed")
        with self._transaction() as connection:
            campaign = self._get(campaign_id).campaign
            if campaign.state == "ended":
                raise CampaignEnded
            changed = campaign_from(campaign.document() | changes)
            connection.execute(
                f"UPDATE campaigns SET document = ?, revision = {_NEXT} WHERE id = ?",
                (json.dumps(changed.document()), campaign_id),
            )
        return self.get(campaign_id)

    def replicate(self, campaigns: Mapping[int, tuple[int, str]]) -> None:
        """Copy campaigns of another store: number to revision and JSON document."""
        with self._transaction() as connection:
            for number, (revision, text) in campaigns.items():
                campaign = campaign_from(_current(json.loads(text)))  # its store may be older
                connection.execute(
                    "INSERT OR REPLACE INTO campaigns VALUES (?, ?, ?, ?)",
                    (number, campaign.id, json.dumps(campaign.document()), revision),
                )

    def get(self, campaign_id: str) -> StoredCampaign:
        """One campaign."""
        with self._lock:
            return self._get(campaign_id)

    def _get(self, campaign_id: str) -> StoredCampaign:
        rows = self._rows("WHERE id = ?", (campaign_id,))
        if not rows:
            raise UnknownCampaign(campaign_id)
        return rows[0]

    def all(self, after_revision: int = 0, owner: str | None = None) -> list[StoredCampaign]:
        """All campaigns, or those that changed after a revision, in the order they were made.

        With an owner, that advertiser's only; the others are not even read.
        """
        where = "WHERE revision > ?"
        values: tuple[int | str, ...] = (after_revision,)
        if owner is not None:  # from "acme." up to "acme/"; the plus leaves the index of ids alone
            where = "WHERE +revision > ? AND id > ? AND id < ?"
            values = (*values, f"{owner}.", f"{owner}/")
        with self._lock:
            return self._rows(where, values)

    def _rows(self, where: str, values: tuple[Any, ...]) -> list[StoredCampaign]:
        rows = self._connection.execute(
            f"SELECT number, document, revision FROM campaigns {where} ORDER BY number", values
        )
        return [StoredCampaign(row[0], campaign_from(json.loads(row[1])), row[2]) for row in rows]
