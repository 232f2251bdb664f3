"""What a panel has released, and at what cost: one SQLite file that stays with the publisher.

A campaign's terms are fixed by its first release; releases are numbered and never drawn again. The
exact sums are kept too, since a running sum goes on from them.
"""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import FloatArray
from kreach.service.sqlite import Schema, create_private, open_store, transaction

__all__ = ["SCHEMA", "PanelLedger", "StoredRelease", "Terms", "close_panels"]

_TABLES = """
CREATE TABLE IF NOT EXISTS panel (
    campaign TEXT NOT NULL, catalogue TEXT NOT NULL, terms TEXT NOT NULL,
    PRIMARY KEY (campaign, catalogue)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS release (
    campaign TEXT NOT NULL, catalogue TEXT NOT NULL, number INTEGER NOT NULL,
    end_us INTEGER NOT NULL, totals TEXT NOT NULL, roots TEXT NOT NULL,
    spreads TEXT NOT NULL, spread_std TEXT NOT NULL,
    PRIMARY KEY (campaign, catalogue, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS closed (campaign TEXT PRIMARY KEY, at_us INTEGER NOT NULL) WITHOUT ROWID;
"""


def _add_closed(connection: sqlite3.Connection) -> None:
    """From version 1: the table of closed panels, which is there by now."""


SCHEMA = Schema(2, _TABLES, {1: _add_closed}, application_id=0x6B72706E)  # "krpn"


def close_panels(path: Path, campaigns: Iterable[str], now_us: int) -> None:
    """Have a restored ledger make no more releases of these campaigns, nor of those it knows.

    Releases since the backup are lost, and drawing them again would disclose more than they cost;
    showings since are lost too, so that later ones would be wrong.
    """
    with closing(open_store(path, SCHEMA)) as database, transaction(database):
        known = [row[0] for row in database.execute("SELECT DISTINCT campaign FROM panel")]
        rows = [(name, now_us) for name in {*known, *campaigns}]
        database.executemany("INSERT OR IGNORE INTO closed VALUES (?, ?)", rows)


@dataclass(frozen=True)
class Terms:
    """What is fixed for a campaign: the sample, what is released, how often, and what it costs."""

    share: float
    max_frequency: int = 4
    max_releases: int = 1
    rho: float | None = 0.05  # None: no noise

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise KreachError.rule("share", "be above 0 and at most 1", self.share)
        for name, most in (("max_frequency", 20), ("max_releases", 1_000)):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= most:
                raise KreachError.rule(name, f"be a whole number from 1 to {most}", value)
        if self.rho is not None and not 1e-6 <= self.rho <= 1e3:
            raise KreachError.rule("rho", "be from 0.000001 to 1000", self.rho)


@dataclass(frozen=True, eq=False)
class StoredRelease:
    """One release. `totals` is exact and secret; the rest is what crossed, or makes it up."""

    end_us: int
    totals: FloatArray
    roots: tuple[int, ...]  # thousandths, with noise
    spreads: tuple[float, ...]
    spread_std: tuple[float, ...]


class PanelLedger:
    """The ledger. Each release is one transaction: what was drawn is on disk before it is shown."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        create_private(path)
        self._database = open_store(path, SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def terms(self, campaign: str, catalogue: str) -> Terms | None:
        """The terms of a campaign that has released something."""
        row = self._database.execute(
            "SELECT terms FROM panel WHERE campaign = ? AND catalogue = ?", (campaign, catalogue)
        ).fetchone()
        return None if row is None else Terms(**json.loads(row[0]))

    def releases(self, campaign: str, catalogue: str) -> list[StoredRelease]:
        """The releases of a campaign, in order."""
        rows = self._database.execute(
            """SELECT end_us, totals, roots, spreads, spread_std FROM release
            WHERE campaign = ? AND catalogue = ? ORDER BY number""",
            (campaign, catalogue),
        ).fetchall()
        return [
            StoredRelease(
                int(end_us),
                np.array(json.loads(totals)),
                tuple(json.loads(roots)),
                tuple(json.loads(spreads)),
                tuple(json.loads(spread_std)),
            )
            for end_us, totals, roots, spreads, spread_std in rows
        ]

    def closed(self, campaign: str) -> bool:
        """Whether a restore ended the releases of a campaign."""
        sql = "SELECT 1 FROM closed WHERE campaign = ?"
        return self._database.execute(sql, (campaign,)).fetchone() is not None

    def campaigns(self) -> list[tuple[str, str]]:
        """(campaign, catalogue) of everything that has terms."""
        rows = self._database.execute("SELECT campaign, catalogue FROM panel ORDER BY 1, 2")
        return [(str(campaign), str(catalogue)) for campaign, catalogue in rows.fetchall()]

    def fix_terms(self, campaign: str, catalogue: str, terms: Terms) -> None:
        """Set the terms of a campaign, or refuse others than it has."""
        with transaction(self._database) as database:
            database.execute(
                "INSERT OR IGNORE INTO panel VALUES (?, ?, ?)",
                (campaign, catalogue, json.dumps(asdict(terms))),
            )
        fixed = self.terms(campaign, catalogue)
        if fixed is not None and fixed != terms:
            changed = next(k for k, v in asdict(terms).items() if asdict(fixed)[k] != v)
            rule = f"stay {getattr(fixed, changed)} for campaign {campaign}, which has releases"
            raise KreachError.rule(changed, rule, getattr(terms, changed))

    def add(self, campaign: str, catalogue: str, number: int, release: StoredRelease) -> None:
        """Record a release; refuses a number that is taken (another process was faster)."""
        row = (
            campaign,
            catalogue,
            number,
            release.end_us,
            json.dumps(release.totals.tolist()),
            json.dumps(release.roots),
            json.dumps(release.spreads),
            json.dumps(release.spread_std),
        )
        try:
            with transaction(self._database) as database:
                database.execute("INSERT INTO release VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            message = f"release {number} of {campaign} was made by another process meanwhile"
            raise KreachError(message, field="campaign") from None
