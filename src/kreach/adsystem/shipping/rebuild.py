"""Rebuilds the folder of a bidder whose disk is lost, from its stream and its shipped files."""

import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from kreach.adsystem.ledger.compaction import LOG_FOLDER, listed_files
from kreach.adsystem.ledger.journal import FILE, LOCK, end_copy, open_copy
from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.manifest import RefusedEntry, catalogues_folder
from kreach.adsystem.shipping.messages import decode_batch
from kreach.adsystem.shipping.mirror import BidderMirror
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import LogStream, StreamUnavailable, open_stream
from kreach.adsystem.store_layout import MIRRORS_FOLDER, sync_path
from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.boundary.times import from_seconds
from kreach.errors import KreachError

__all__ = ["RebuiltBidder", "rebuild_bidder"]

_EPOCHS = 1_000  # a bidder does not restart so often while nothing of it can be published
_ALIVE_BEATS = 3.0
_TOKEN_KEY = "token.key"  # without it, notices of open bids would be refused


@dataclass(frozen=True)
class RebuiltBidder:
    """What a rebuilt folder holds."""

    folder: str
    impressions: int
    files: int
    live_rows: int
    last_row: int
    spent_micros: dict[int, int]  # by campaign number
    granted_micros: dict[int, int]  # and by family, as `family_key` says
    published_at: str  # the newest that the bidder published

    def document(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def rebuild_bidder(
    folder: Path, bidder: str, settings: ShippingSettings, seconds: float = 600.0
) -> RebuiltBidder:
    """Write a bidder's folder anew; it must not exist, and the bidder must not run anywhere."""
    if (folder / FILE).exists():
        raise KreachError.rule("store", "have no log that would be replaced", str(folder / FILE))
    work = folder.with_name(f".{folder.name}.rebuilding")
    shutil.rmtree(work, ignore_errors=True)
    files = FileStore(settings)
    stream = open_stream(settings, bidder)
    try:
        published_us = _refuse_running(stream, bidder, settings)
        mirror = BidderMirror(work, bidder, stream, files)
        try:
            _fill(mirror, bidder, seconds)
        finally:
            mirror.close()
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    filled = max((work / MIRRORS_FOLDER / bidder).glob("g*"))
    _fetch_catalogues(filled, bidder, files)
    facts = _finish(filled, folder, published_us)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.is_dir():  # of an attempt that did not end, or of a bidder that lost its log only
        if (folder / _TOKEN_KEY).exists():
            shutil.copy2(folder / _TOKEN_KEY, filled / _TOKEN_KEY)
        shutil.rmtree(folder)
    filled.rename(folder)
    sync_path(folder.parent)
    shutil.rmtree(work, ignore_errors=True)
    return facts


def _refuse_running(stream: LogStream, bidder: str, settings: ShippingSettings) -> int:
    """When the bidder published last, in µs; refuses one that still publishes."""
    first = stream.newest()
    if first is None:
        raise KreachError(
            f"the stream has nothing of bidder {bidder}: check its name and [shipping]"
        )
    newest = decode_batch(first.data, bidder)
    if not newest.stopped:
        time.sleep(_ALIVE_BEATS * settings.heartbeat_seconds)
        second = stream.newest()
        if second is not None and second.position != first.position:
            raise KreachError(f"bidder {bidder} is running and publishes: stop it first")
    return newest.at_us


def _fill(mirror: BidderMirror, bidder: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    failure: KreachError | None = None
    while not mirror.status(time.time()).ready:
        if time.monotonic() > until:
            raise failure or KreachError(f"the log of bidder {bidder} did not arrive in time")
        try:
            mirror.step(0.2, 1.0)
        except StreamUnavailable as error:
            failure = error
            time.sleep(0.5)


def _fetch_catalogues(folder: Path, bidder: str, files: FileStore) -> None:
    """The group ids of catalogues, by which old rows are written out."""
    target = folder / "catalogues"
    target.mkdir(exist_ok=True)
    for name in files.list_names(catalogues_folder(bidder)):
        short = name.rpartition("/")[2]
        if not short.removesuffix(".json").isdigit():
            raise RefusedEntry(f"{name} in the object store is foreign: delete it")
        (target / short).write_bytes(files.get(name))
        sync_path(target / short)
    sync_path(target)


def _finish(filled: Path, folder: Path, published_us: int) -> RebuiltBidder:
    """Make a journal of the copy: a later epoch than any that was, and the next row number."""
    with closing(open_copy(filled)) as connection:
        row = _fact(connection, "row")
        last_row = max(row, _fact(connection, "file_row"))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM meta WHERE name LIKE 'mirror %'")
        end_copy(connection)
        connection.execute("UPDATE meta SET value = value + ? WHERE name = 'epoch'", (_EPOCHS,))
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'impressions'")
        connection.execute("INSERT INTO sqlite_sequence VALUES ('impressions', ?)", (last_row,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        facts = _facts(connection, filled, folder, last_row, published_us)
    (filled / LOCK).touch(0o600)
    return facts


def _fact(connection: sqlite3.Connection, name: str) -> int:
    found = connection.execute("SELECT value FROM meta WHERE name = ?", (f"mirror {name}",))
    row = found.fetchone()
    return 0 if row is None else int(row[0])


def _facts(
    connection: sqlite3.Connection, filled: Path, folder: Path, last_row: int, published_us: int
) -> RebuiltBidder:
    live = connection.execute(
        "SELECT campaign, count(*), sum(micros) FROM impressions GROUP BY 1"
    ).fetchall()
    spent = {int(campaign): int(micros) for campaign, _, micros in live}
    rows = sum(int(count) for _, count, _ in live)
    files, _ = listed_files(connection, filled)
    moved = 0
    if files:
        listed = ", ".join(f"'{sql_text(file)}'" for file in files)
        with scratch_connection() as engine:
            found = engine.execute(
                f"""SELECT campaign_number, count(*), sum(price_micros)::BIGINT
                FROM read_parquet([{listed}]) GROUP BY ALL"""
            ).fetchall()
        for campaign, count, micros in found:
            spent[int(campaign)] = spent.get(int(campaign), 0) + int(micros)
            moved += int(count)
    assert (filled / LOG_FOLDER).is_dir() or not files
    return RebuiltBidder(
        str(folder),
        rows + moved,
        len(files),
        rows,
        last_row,
        spent,
        dict(connection.execute("SELECT campaign, micros FROM grants")),
        from_seconds(published_us / 1e6).isoformat(timespec="seconds"),
    )
