"""Campaigns and families on disk: written by reporting, read by bidders, which poll for revisions.

A family is stored before its first member. So whoever reads campaigns first and families second
has the family of every campaign.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from kreach.adsystem.campaigns.campaign import (
    REMOVED,
    Campaign,
    campaign_from,
    check_new_creatives,
    owner_of,
)
from kreach.adsystem.campaigns.family import Family, family_from
from kreach.adsystem.campaigns.quota import Quota
from kreach.adsystem.campaigns.review import decided, with_reviews
from kreach.errors import KreachError
from kreach.service.sqlite import Schema, open_store, store_errors, transaction

__all__ = [
    "FILE",
    "SCHEMA",
    "CampaignEnded",
    "CampaignExists",
    "CampaignStore",
    "FamilyExists",
    "NoSuchFamily",
    "StoredCampaign",
    "StoredFamily",
    "UnknownCampaign",
    "UnknownFamily",
]

FILE = "control.sqlite3"
_TABLES = """
CREATE TABLE IF NOT EXISTS campaigns (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_revision ON campaigns (revision);
CREATE TABLE IF NOT EXISTS families (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
"""
_NEXT = "(SELECT coalesce(max(revision), 0) + 1 FROM campaigns)"
_NEXT_FAMILY = "(SELECT coalesce(max(revision), 0) + 1 FROM families)"
_CHANGEABLE = (
    *("budget", "daily_budget", "end", "state", "min_cpm", "max_cpm", "max_cost_per_reach"),
    *("creative", "creatives", "deals", "deals_only", "name"),
)
_FAMILY_CHANGEABLE = ("budget",)


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


def _add_families(connection: sqlite3.Connection) -> None:
    """From version 3: the table of families, which is there by now. No campaign is in one."""


def _list_creatives(connection: sqlite3.Connection) -> None:
    """From version 4: a campaign had one creative, which nobody reviewed: it is approved."""
    rows = connection.execute("SELECT number, document FROM campaigns").fetchall()
    for number, text in rows:
        document = json.loads(text)
        creative = document.get("creative") or {}
        given = any(creative.get(name) for name in ("id", "markup", "width", "domains"))
        document["creatives"] = [creative] if given else []
        values = (json.dumps(document), number)
        connection.execute("UPDATE campaigns SET document = ? WHERE number = ?", values)


_STEPS = {1: _rename_limits, 2: _drop_auction, 3: _add_families, 4: _list_creatives}
SCHEMA = Schema(5, _TABLES, _STEPS)


def _with_creatives(changes: dict[str, Any]) -> dict[str, Any]:
    """A new `creative` replaces all; new `creatives` make the first of them `creative`."""
    if "creatives" in changes:
        return {"creative": {}} | changes
    if "creative" in changes:
        return changes | {"creatives": []}
    return changes


class UnknownCampaign(KreachError):
    """No campaign has this id."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"no campaign {campaign_id!r}", code="unknown")
        self.campaign_id = campaign_id


class CampaignExists(KreachError):
    """A new campaign has the id of an existing one."""

    def __init__(self, campaign_id: str) -> None:
        super().__init__(f"campaign {campaign_id!r} exists already", field="id", code="conflict")


class CampaignEnded(KreachError):
    """An ended campaign cannot be changed."""

    def __init__(self) -> None:
        super().__init__("campaign has ended and cannot be changed", code="conflict")


class UnknownFamily(KreachError):
    """No family has this id."""

    def __init__(self, family_id: str) -> None:
        super().__init__(f"no family {family_id!r}", code="unknown")


class NoSuchFamily(KreachError):
    """A new campaign names a family that does not exist."""

    def __init__(self, family_id: str) -> None:
        message = f"family {family_id!r} does not exist: create it first"
        super().__init__(message, field="family", code="unknown")


class FamilyExists(KreachError):
    """A new family has the id of an existing one."""

    def __init__(self, family_id: str) -> None:
        super().__init__(f"family {family_id!r} exists already", field="id", code="conflict")


@dataclass(frozen=True)
class StoredFamily:
    """A family, its number in ledger and log, and the revision of its last change."""

    number: int
    family: Family
    revision: int


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign, its number in ledger and log, and the revision of its last change."""

    number: int
    campaign: Campaign
    revision: int


def _range(owner: str) -> tuple[str, str]:
    """The ids of an advertiser lie between these: from "acme." up to "acme/"."""
    return f"{owner}.", f"{owner}/"


class CampaignStore:
    """All campaigns. Every change is durable when the call returns."""

    def __init__(self, folder: Path) -> None:
        with store_errors("be a folder that can be written", folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = open_store(folder / FILE, SCHEMA)
        self._lock = Lock()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, transaction(self._connection) as connection:
            yield connection

    def check_writable(self) -> None:
        """Raise what keeps this store from being written."""
        with self._transaction():
            pass

    def add(
        self, campaign: Campaign, quota: Quota | None = None, *, review_required: bool = False
    ) -> StoredCampaign:
        """Store a new campaign; its id must be new, its family must exist, its quota hold."""
        campaign = with_reviews(campaign, None, required=review_required)
        check_new_creatives(campaign.creatives)
        with self._transaction() as connection:
            if campaign.family is not None and not self._families("id = ?", (campaign.family,)):
                raise NoSuchFamily(campaign.family)
            same = connection.execute("SELECT 1 FROM campaigns WHERE id = ?", (campaign.id,))
            if same.fetchone():
                raise CampaignExists(campaign.id)
            if quota is not None:
                quota.check_new(campaign, self._siblings(campaign.id))
            connection.execute(
                f"INSERT INTO campaigns (id, document, revision) VALUES (?, ?, {_NEXT})",
                (campaign.id, json.dumps(campaign.document())),
            )
        return self.get(campaign.id)

    def change(
        self,
        campaign_id: str,
        changes: dict[str, Any],
        quota: Quota | None = None,
        *,
        review_required: bool = False,
    ) -> StoredCampaign:
        """Change what may change while a campaign runs; an ended one stays ended."""
        for name in changes:
            if name not in _CHANGEABLE:
                raise KreachError(f"{name}: only {', '.join(_CHANGEABLE)} can be changed")
        with self._transaction() as connection:
            campaign = self._get(campaign_id).campaign
            if campaign.state == "ended":
                raise CampaignEnded
            whole = _with_creatives(changes)
            new = whole is not changes
            changed = campaign_from(campaign.document() | whole, new_creatives=new)
            if new:
                check_new_creatives(changed.creatives)
                changed = with_reviews(changed, campaign, required=review_required)
            if quota is not None:
                quota.check_change(campaign, changed, self._siblings(campaign_id))
            self._update(connection, changed)
        return self.get(campaign_id)

    def review(
        self,
        campaign_id: str,
        creative: str,
        decision: str,
        reason: str | None = None,
        version: str | None = None,
    ) -> StoredCampaign:
        """Approve or reject a creative of a campaign, by its key and version."""
        with self._transaction() as connection:
            campaign = self._get(campaign_id).campaign
            if campaign.state == "ended":
                raise CampaignEnded
            self._update(connection, decided(campaign, creative, decision, reason, version))
        return self.get(campaign_id)

    def _update(self, connection: sqlite3.Connection, campaign: Campaign) -> None:
        connection.execute(
            f"UPDATE campaigns SET document = ?, revision = {_NEXT} WHERE id = ?",
            (json.dumps(campaign.document()), campaign.id),
        )

    def _siblings(self, campaign_id: str) -> list[Campaign]:
        """The other campaigns of its advertiser."""
        owner = owner_of(campaign_id) or ""
        rows = self._rows("WHERE id > ? AND id < ? AND id <> ?", (*_range(owner), campaign_id))
        return [row.campaign for row in rows]

    def replicate(
        self,
        campaigns: Mapping[int, tuple[int, str]],
        families: Mapping[int, tuple[int, str]] | None = None,
    ) -> None:
        """Copy campaigns and families of another store: number to revision and JSON document."""
        with self._transaction() as connection:
            for number, (revision, text) in (families or {}).items():
                family = family_from(json.loads(text))
                connection.execute(
                    "INSERT OR REPLACE INTO families VALUES (?, ?, ?, ?)",
                    (number, family.id, json.dumps(family.document()), revision),
                )
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
        if owner is not None:  # the plus leaves the index of ids alone
            where = "WHERE +revision > ? AND id > ? AND id < ?"
            values = (*values, *_range(owner))
        with self._lock:
            return self._rows(where, values)

    def add_family(self, family: Family, quota: Quota | None = None) -> StoredFamily:
        """Store a new family; its id must be new, and its advertiser's quota hold."""
        with self._transaction() as connection:
            if self._families("id = ?", (family.id,)):
                raise FamilyExists(family.id)
            if quota is not None:
                owned = self._families("id > ? AND id < ?", _range(owner_of(family.id) or ""))
                quota.check_families(len(owned) + 1)
            connection.execute(
                f"INSERT INTO families (id, document, revision) VALUES (?, ?, {_NEXT_FAMILY})",
                (family.id, json.dumps(family.document())),
            )
        return self.get_family(family.id)

    def change_family(self, family_id: str, changes: dict[str, Any]) -> StoredFamily:
        """Change a family's budget. Caps stay: what members won was valued by them."""
        for name in changes:
            if name not in _FAMILY_CHANGEABLE:
                raise KreachError(f"{name}: only {', '.join(_FAMILY_CHANGEABLE)} can be changed")
        with self._transaction() as connection:
            family = self._get_family(family_id).family
            changed = family_from(family.document() | changes)
            connection.execute(
                f"UPDATE families SET document = ?, revision = {_NEXT_FAMILY} WHERE id = ?",
                (json.dumps(changed.document()), family_id),
            )
        return self.get_family(family_id)

    def get_family(self, family_id: str) -> StoredFamily:
        """One family."""
        with self._lock:
            return self._get_family(family_id)

    def _get_family(self, family_id: str) -> StoredFamily:
        rows = self._families("id = ?", (family_id,))
        if not rows:
            raise UnknownFamily(family_id)
        return rows[0]

    def families(self, after_revision: int = 0, owner: str | None = None) -> list[StoredFamily]:
        """All families, or those that changed after a revision; with an owner, that one's only."""
        where, values = "revision > ?", (after_revision,)
        if owner is None:
            with self._lock:
                return self._families(where, values)
        with self._lock:
            owned = (*values, *_range(owner))
            return self._families(f"{where} AND id > ? AND id < ?", owned)

    def _families(self, where: str, values: tuple[Any, ...]) -> list[StoredFamily]:
        rows = self._connection.execute(
            f"SELECT number, document, revision FROM families WHERE {where} ORDER BY number",
            values,
        )
        return [StoredFamily(row[0], family_from(json.loads(row[1])), row[2]) for row in rows]

    def _rows(self, where: str, values: tuple[Any, ...]) -> list[StoredCampaign]:
        rows = self._connection.execute(
            f"SELECT number, document, revision FROM campaigns {where} ORDER BY number", values
        )
        return [StoredCampaign(row[0], campaign_from(json.loads(row[1])), row[2]) for row in rows]
