"""Campaigns on disk: written by reporting, read by bidders. A revision tells what is new."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from kreach.adsystem.campaigns.campaign import Campaign, campaign_from
from kreach.errors import KreachError

__all__ = ["CampaignEnded", "CampaignExists", "CampaignStore", "StoredCampaign", "UnknownCampaign"]

FILE = "control.sqlite3"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS campaigns (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_revision ON campaigns (revision);
"""
_CHANGEABLE = ("budget", "daily_budget", "end", "state", "min_cpm", "max_cpm", "creative")


class UnknownCampaign(KreachError):
    """No campaign has this id."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"no campaign {campaign_id!r}")


class CampaignExists(KreachError):
    """A new campaign has the id of an existing one."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"id: campaign {campaign_id!r} exists already")


class CampaignEnded(KreachError):
    """An ended campaign cannot be changed."""

    def __init__(self) -> None:
        super().__init__("campaign has ended and cannot be changed")


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign, and the number under which ledger and log know it."""

    number: int
    campaign: Campaign
    revision: int


class CampaignStore:
    """All campaigns. Every change is durable when the call returns."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                folder / FILE, timeout=10.0, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            rule = "be a folder that can be written"
            raise KreachError.rule("store", rule, f"{folder} ({error})") from None
        self._lock = Lock()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def add(self, campaign: Campaign) -> StoredCampaign:
        """Keep a new campaign; its id must be new."""
        with self._changing() as connection:
            known = connection.execute("SELECT 1 FROM campaigns WHERE id = ?", (campaign.id,))
            if known.fetchone():
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
                rule = f"be one of {', '.join(_CHANGEABLE)} to be changed"
                raise KreachError.rule("field", rule, name)
        with self._changing() as connection:
            before = self._found(campaign_id)
            if before.campaign.state == "ended":
                raise CampaignEnded
            changed = campaign_from(before.campaign.document() | changes)
            connection.execute(
                f"UPDATE campaigns SET document = ?, revision = {_NEXT} WHERE id = ?",
                (json.dumps(changed.document()), campaign_id),
            )
        return self.get(campaign_id)

    def replicate(self, told: Mapping[int, tuple[int, str]]) -> None:
        """Take over campaigns of another store: by number, revision and definition."""
        with self._changing() as connection:
            for number, (revision, text) in told.items():
                campaign = campaign_from(json.loads(text))
                connection.execute(
                    "INSERT OR REPLACE INTO campaigns VALUES (?, ?, ?, ?)",
                    (number, campaign.id, json.dumps(campaign.document()), revision),
                )

    def get(self, campaign_id: str) -> StoredCampaign:
        """One campaign."""
        with self._lock:
            return self._found(campaign_id)

    def _found(self, campaign_id: str) -> StoredCampaign:
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


_NEXT = "(SELECT coalesce(max(revision), 0) + 1 FROM campaigns)"
