"""What a restore means for money and for what was disclosed since the backup.

What happened after the backup is not in it, and happened all the same. So a restored store does
less than it could, never more:

* No bidder starts before an operator says what was spent since (`settle`), and no notice of a bid
  from before the restore is honoured.
* The next chapter of each campaign meets the floors with rows from after the restore alone.
* About moments before the restore nothing new is answered with noise.

Mirrors of remote bidders' logs are not fenced: their bidders lost nothing. A restored mirror reads
on in the stream from where it was.
"""

import csv
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from kreach.adsystem.backup.take import ROOT
from kreach.adsystem.campaigns import store as campaigns
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.chapters import store as chapters
from kreach.adsystem.disclosure.noise import ledger as noise
from kreach.adsystem.ledger import journal
from kreach.adsystem.ledger.restored_rows import (
    fence_journal,
    restored_micros,
    settle_journal,
)
from kreach.adsystem.store_layout import MIRRORS_FOLDER, link_mirror, log_folders, mirror_of
from kreach.boundary.money import as_micros
from kreach.boundary.times import MICROS, iso_seconds
from kreach.errors import KreachError
from kreach.service.sqlite import connect_source, open_store, store_errors, transaction

__all__ = ["Settlement", "fence_adsystem", "read_spend", "redraw_noise", "settle"]

_GRACE_SECONDS = 2.0  # as after a crash: tokens expire in whole seconds
_HEADER = ["campaign", "spend"]


def fence_adsystem(roots: Mapping[str, Path], now: float) -> None:
    """Fence what was restored, before it is in place."""
    store = roots[ROOT]
    for folder in _own_logs(store):
        with _journal(folder) as connection:
            fence_journal(connection, int(now * MICROS))
    for folder in (store / MIRRORS_FOLDER).glob("*/*"):
        link_mirror(store, folder.parent.name, folder)
    if (store / chapters.FILE).exists():
        chapters.fence_chapters(store / chapters.FILE, int(now * MICROS))
    if (store / noise.FILE).exists():
        noise.fence_ledger(store / noise.FILE, ceil(now))


@dataclass(frozen=True)
class Settlement:
    """What was booked: micros by campaign, and the journals whose fence was lifted."""

    spent_micros: dict[str, int]
    journals: tuple[str, ...]


def read_spend(path: Path) -> dict[str, int]:
    """A table of what campaigns spent since the backup (CSV: campaign, spend), in micros."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except OSError as error:
        raise KreachError.rule("spend", "be a file that can be read", str(path)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise KreachError.rule("spend", "be CSV in UTF-8", f"{path} ({error})") from None
    if not rows or [name.strip().lower() for name in rows[0]] != _HEADER:
        found = ",".join(rows[0]) if rows else "an empty file"
        raise KreachError.rule("spend", f"begin with the line {','.join(_HEADER)}", found)
    spent: dict[str, int] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        name = row[0].strip()
        if len(row) != len(_HEADER) or not name or name in spent:
            raise KreachError.rule("spend", "have each campaign once", f"line {number}: {row}")
        try:
            amount = float(row[1])
        except ValueError:
            amount = -1.0
        if not amount >= 0.0:
            raise KreachError.rule("spend", "be a number from 0", f"line {number}: {row[1]!r}")
        spent[name] = as_micros("spend", amount) if amount else 0
    return spent


def settle(
    store: Path, spent: Mapping[str, int] | None, now: float, expiry_seconds: float
) -> Settlement:
    """Book what was spent since the backup, by campaign, and let bidders start again.

    None says that nothing was. All of it is booked in the first journal, once, also if this is
    repeated after a crash: what bidders spend together is within budgets.
    """
    fenced = _fenced(store)
    if not fenced:
        raise KreachError(f"store {store} was not restored, or is settled: nothing to settle")
    restored = max(fenced.values())
    numbers: dict[int, int] = {}
    if spent is not None:
        until = restored / MICROS + expiry_seconds + _GRACE_SECONDS
        if now < until:
            raise KreachError(
                f"bids from before the restore may be shown until {iso_seconds(ceil(until))}: "
                "settle after that, by the exchanges' figures up to then"
            )
        numbers = _by_number(store, spent, restored / MICROS)
    first = _own_logs(store)[0]
    folders = [first, *(folder for folder in fenced if folder != first)]
    locks = [journal.lock_store(folder) for folder in folders]
    try:
        for folder in folders:
            with _journal(folder) as connection:
                settle_journal(connection, restored, numbers if folder == first else None)
    finally:
        for lock in locks:
            os.close(lock)
    return Settlement(dict(spent or {}), tuple(str(folder) for folder in fenced))


def redraw_noise(store: Path, now: float) -> int:
    """Have noisy answers about the time before the restore drawn again; up to which moment."""
    path = store / noise.FILE
    until = noise.reopen_ledger(path, int(now)) if path.exists() else None
    if until is None:
        raise KreachError(f"store {store} has no restored noise ledger: nothing to draw again")
    return until


def _fenced(store: Path) -> dict[Path, int]:
    """Journals that were restored and not settled, and when."""
    found = {}
    for folder in _own_logs(store):
        with (
            store_errors("hold a log that can be read", folder),
            closing(connect_source(folder / journal.FILE)) as connection,
        ):
            restored = restored_micros(connection)
        if restored:
            found[folder] = restored
    return found


def _own_logs(store: Path) -> list[Path]:
    """The folders with logs that bidders of this store write; mirrors are none."""
    folders = (one for one in log_folders(store) if mirror_of(store, one) is None)
    return [one for one in folders if (one / journal.FILE).exists()]


def _by_number(store: Path, spent: Mapping[str, int], restored: float) -> dict[int, int]:
    """The spend by campaign's number; every campaign that may have spent must be there."""
    stored = _campaigns(store)
    for name in spent:
        if name not in stored:
            rule = "name campaigns of the store"
            raise KreachError.rule("spend", rule, name)
    missing = [
        name
        for name, one in stored.items()
        if name not in spent
        and one.campaign.state != "ended"
        and one.campaign.start.timestamp() <= restored
    ]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise KreachError(
            f"spend must have every campaign that may have spent, with 0 where it did not: "
            f"{shown} missing"
        )
    return {stored[name].number: micros for name, micros in spent.items()}


def _campaigns(store: Path) -> dict[str, StoredCampaign]:
    """The campaigns by id: reporting's, or on a machine without it the copies of its bidders."""
    found: dict[str, StoredCampaign] = {}
    for folder in (store, *_own_logs(store)):
        if (folder / campaigns.FILE).exists():
            with closing(campaigns.CampaignStore(folder)) as opened:
                found = {one.campaign.id: one for one in opened.all()} | found
    return found


@contextmanager
def _journal(folder: Path) -> Iterator[sqlite3.Connection]:
    with (
        store_errors("hold a log that can be written", folder),
        closing(open_store(folder / journal.FILE, journal.SCHEMA)) as connection,
        transaction(connection),
    ):
        yield connection
