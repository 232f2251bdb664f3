"""Rows of the journal about notices: bids that were lost, and prices that contradict."""

import sqlite3
from collections.abc import Sequence

import numpy as np

from kreach.adsystem.ledger.tokens import Claim
from kreach.numeric.types import IntArray

__all__ = ["add_conflict", "count_conflicts", "losses_row", "read_losses"]

_MAX_CONFLICTS = 8  # of one impression: who has a token can name any number of prices


def losses_row(claims: Sequence[Claim]) -> tuple[int, bytes]:
    """A row to submit as "losses": many to a row, and to be forgotten when the last expires."""
    numbers = np.array([claim.impression for claim in claims], dtype="<i8")
    return max(claim.expires for claim in claims), numbers.tobytes()


def read_losses(connection: sqlite3.Connection, now: float) -> IntArray:
    """Bids that were lost, as far as their notices may still come."""
    rows = connection.execute("SELECT impressions FROM losses WHERE until > ?", (now,))
    return np.frombuffer(b"".join(row[0] for row in rows), dtype="<i8").astype(np.int64)


def add_conflict(connection: sqlite3.Connection, claim: Claim, micros: int, at_us: int) -> bool:
    """Whether an impression was booked at another price; that one stands, this one is kept."""
    booked = connection.execute(
        "SELECT micros FROM impressions WHERE impression = ?", (claim.impression,)
    ).fetchone()
    if booked is None or booked[0] == micros:
        return False
    connection.execute(
        """INSERT OR IGNORE INTO conflicts SELECT ?1, ?2, ?3, ?4, ?5
        WHERE (SELECT count(*) FROM conflicts WHERE impression = ?1) < ?6""",
        (claim.impression, claim.campaign, booked[0], micros, at_us, _MAX_CONFLICTS),
    )
    return True


def count_conflicts(connection: sqlite3.Connection, campaign: int) -> int:
    """Impressions of a campaign for which notices named several prices."""
    try:
        found = connection.execute(
            "SELECT count(DISTINCT impression) FROM conflicts WHERE campaign = ?", (campaign,)
        )
    except sqlite3.OperationalError:  # a log of an older kreach has none
        return 0
    return int(found.fetchone()[0])
