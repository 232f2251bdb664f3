"""Stores as they were before they had versions, one row in each."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.service_processes import make_campaign

_JOURNAL = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE catalogues (number INTEGER PRIMARY KEY, version TEXT UNIQUE NOT NULL);
CREATE TABLE impressions (
    row INTEGER PRIMARY KEY AUTOINCREMENT, impression INTEGER UNIQUE NOT NULL,
    campaign INTEGER NOT NULL, catalogue INTEGER NOT NULL, grp INTEGER NOT NULL,
    ts INTEGER NOT NULL, bid_ts INTEGER NOT NULL, expires INTEGER NOT NULL, micros INTEGER NOT NULL
);
CREATE TABLE grants (campaign INTEGER PRIMARY KEY, micros INTEGER NOT NULL);
CREATE TABLE pacing (
    campaign INTEGER NOT NULL, ts INTEGER NOT NULL, multiplier REAL, spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL, carried INTEGER NOT NULL, requests INTEGER NOT NULL,
    bids INTEGER NOT NULL, wins INTEGER NOT NULL, losses INTEGER NOT NULL,
    PRIMARY KEY (campaign, ts)
) WITHOUT ROWID;
CREATE TABLE memory (name TEXT PRIMARY KEY, ts INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE compacted (
    file TEXT PRIMARY KEY, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,
    rows INTEGER NOT NULL
);
INSERT INTO meta VALUES ('epoch', 4), ('id', 99);
INSERT INTO catalogues VALUES (1, 'v1');
INSERT INTO impressions VALUES (1, 4398046511105, 1, 1, 0, 1000000, 1000000, 60, 1500);
"""
_CAMPAIGNS = """
CREATE TABLE campaigns (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
    document TEXT NOT NULL, revision INTEGER NOT NULL
);
CREATE INDEX by_revision ON campaigns (revision);
"""
_KEYS = """
CREATE TABLE keys (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, role TEXT NOT NULL,
    advertiser TEXT, rate_per_minute INTEGER NOT NULL, created_ts REAL NOT NULL, expires_ts REAL,
    revoked_ts REAL, rotated_ts REAL, former_until_ts REAL, digest BLOB NOT NULL, former BLOB
);
INSERT INTO keys VALUES
    (1, 'abcdefghjkmn', 'operator', NULL, 600, 1.0, NULL, NULL, NULL, NULL, x'00', NULL);
"""
_NOISE = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, campaign TEXT NOT NULL, catalogue TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('point', 'window')),
    start INTEGER NOT NULL, end INTEGER NOT NULL CHECK (start < end),
    rho_nanos INTEGER NOT NULL CHECK (rho_nanos > 0),
    most_per_person INTEGER NOT NULL CHECK (most_per_person > 0),
    answer TEXT NOT NULL, UNIQUE (campaign, catalogue, kind, start, end)
);
INSERT INTO meta VALUES ('ledger', 'abc');
INSERT INTO answers VALUES
    (1, 'spring', 'v1', 'window', 0, 10, 10, 10, '{"strength": {"most_frequency": 5}}');
"""
_CHAPTERS = """
CREATE TABLE chapters (
    campaign INTEGER NOT NULL, catalogue TEXT NOT NULL, number INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, impressions INTEGER NOT NULL,
    rows INTEGER NOT NULL, spend INTEGER NOT NULL, final INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (campaign, catalogue, number)
);
CREATE TABLE flights (
    campaign INTEGER PRIMARY KEY, end INTEGER NOT NULL, moved INTEGER, ended INTEGER
);
CREATE TABLE audiences (
    catalogue TEXT NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, counts BLOB NOT NULL,
    PRIMARY KEY (catalogue, number), UNIQUE (catalogue, name)
);
INSERT INTO chapters VALUES (1, 'v1', 0, 0, 10, 5, 5, 900, 1, x'00');
"""
_SHOWINGS = """
CREATE TABLE showing (
    user BLOB NOT NULL, impression BLOB NOT NULL, campaign TEXT NOT NULL, at_us INTEGER NOT NULL,
    PRIMARY KEY (user, impression)) WITHOUT ROWID;
CREATE INDEX showing_age ON showing (campaign, at_us);
CREATE TABLE latest (one INTEGER PRIMARY KEY CHECK (one = 1), at_us INTEGER NOT NULL);
INSERT INTO showing VALUES (x'01', x'02', 'spring', 5);
PRAGMA application_id = 1802658664;
"""
_PANEL = """
CREATE TABLE panel (
    campaign TEXT NOT NULL, catalogue TEXT NOT NULL, terms TEXT NOT NULL,
    PRIMARY KEY (campaign, catalogue)) WITHOUT ROWID;
CREATE TABLE release (
    campaign TEXT NOT NULL, catalogue TEXT NOT NULL, number INTEGER NOT NULL,
    end_us INTEGER NOT NULL, totals TEXT NOT NULL, roots TEXT NOT NULL,
    spreads TEXT NOT NULL, spread_std TEXT NOT NULL,
    PRIMARY KEY (campaign, catalogue, number)) WITHOUT ROWID;
INSERT INTO panel VALUES ('spring', 'v1', '{"share": 0.5}');
PRAGMA application_id = 1802661998;
"""


def write_old_adsystem(store: Path) -> None:
    """The stores of an ad system; its bidder has no name."""
    store.mkdir(parents=True)
    for name, tables in (
        ("live.sqlite3", _JOURNAL),
        ("keys.sqlite3", _KEYS),
        ("noise.sqlite3", _NOISE),
        ("chapters.sqlite3", _CHAPTERS),
        ("control.sqlite3", _CAMPAIGNS),
    ):
        _write(store / name, tables)
    (store / "keys.sqlite3").chmod(0o600)
    campaign: dict[str, Any] = make_campaign("one", 5.0).document()
    campaign["least_cpm"], campaign["most_cpm"] = campaign.pop("min_cpm"), campaign.pop("max_cpm")
    campaign["auction"] = "second_price"
    del campaign["creatives"]
    with closing(sqlite3.connect(store / "control.sqlite3")) as file:
        file.execute("INSERT INTO campaigns VALUES (1, 'one', ?, 1)", (json.dumps(campaign),))
        file.commit()


def write_old_gateway(store: Path) -> None:
    """The stores of a gateway with a hard cap and a panel."""
    (store / "panel").mkdir(parents=True)
    for folder in (store, store / "panel"):
        _write(folder / "showings.sqlite", _SHOWINGS)
        (folder / "key").write_text("ab" * 32)
        (folder / "key").chmod(0o600)
    _write(store / "panel" / "panel.sqlite3", _PANEL)


def _write(path: Path, tables: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(tables)
