"""The backup of the ad system, in the order that keeps what stores say about each other true.

While services run, a store that is copied later knows more. So what refers is copied before what
it refers to:

1. the marker of the noise ledger, then the ledger: the ledger is never behind its marker;
2. chapters: the log has all rows that they hold;
3. each journal, then the files that its copy lists: files are complete before they are listed and
   never change. A mirror of a remote bidder's log is copied the same way, as a mirror;
4. campaigns, last: every campaign that anything above mentions by its number is there, and its
   number is not given again.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from kreach.adsystem.access import keys
from kreach.adsystem.backup.stores import SCHEMAS
from kreach.adsystem.campaigns import store as campaigns
from kreach.adsystem.disclosure.chapters import store as chapters
from kreach.adsystem.disclosure.noise import ledger as noise
from kreach.adsystem.ledger import journal
from kreach.adsystem.ledger.compaction import LOG_FOLDER, NAMES_FOLDER
from kreach.adsystem.store_layout import GUARD_KEY, TOKEN_KEY, log_folders, mirror_of
from kreach.errors import KreachError
from kreach.service.backup.writer import BackupWriter
from kreach.service.sqlite import connect_source

__all__ = ["ROOT", "copy_adsystem"]

ROOT = "store"


def copy_adsystem(store: Path, writer: BackupWriter) -> dict[str, Any]:
    """Copy a store; the facts for its manifest."""
    if not any((folder / campaigns.FILE).exists() for folder in log_folders(store)):
        raise KreachError.rule("store", f"hold campaigns ({campaigns.FILE})", str(store))
    facts: dict[str, Any] = {}
    _copy_if_there(writer, store / noise.MARKER, noise.MARKER)
    copy = _copy_database(writer, store, noise.FILE, "noise")
    facts["noise_answers"] = _number(copy, "SELECT coalesce(max(number), 0) FROM answers")
    copy = _copy_database(writer, store, chapters.FILE, "chapters")
    facts["chapters"] = _number(copy, "SELECT count(*) FROM chapters")
    _copy_if_there(writer, store / GUARD_KEY, GUARD_KEY)
    copy = _copy_database(writer, store, keys.FILE, "keys")
    facts["valid_keys"] = _number(copy, "SELECT count(*) FROM keys WHERE revoked_ts IS NULL")
    journals, mirrors = facts["journals"], facts["mirrors"] = {}, {}
    folders = []
    for folder in log_folders(store):
        mirror = mirror_of(store, folder)
        if mirror is not None:
            mirrors[folder.name] = _copy_bidder(writer, mirror, store.resolve())
        else:
            journals["" if folder == store else folder.name] = _copy_bidder(writer, folder, store)
            folders.append(folder)
    for folder in reversed(folders):  # that of reporting is the last
        copy = _copy_database(writer, store, _inside(folder, store, campaigns.FILE), "campaigns")
    facts["campaigns"] = _number(copy, "SELECT count(*) FROM campaigns")
    return facts


def _copy_bidder(writer: BackupWriter, folder: Path, store: Path) -> dict[str, int]:
    """The journal of a bidder, its files, the names of groups, and the key of its tokens."""
    copy = _copy_database(writer, store, _inside(folder, store, journal.FILE), "journal")
    facts = {"rows": 0, "files": 0}
    for name, rows in _listed(copy):
        place = f"{LOG_FOLDER}/{name}"
        writer.file(folder / place, f"{ROOT}/{_inside(folder, store, place)}", immutable=True)
        facts = {"rows": facts["rows"] + rows, "files": facts["files"] + 1}
    facts["rows"] += _number(copy, "SELECT count(*) FROM impressions")
    for names in sorted((folder / NAMES_FOLDER).glob("*.json")):
        place = f"{NAMES_FOLDER}/{names.name}"
        writer.file(names, f"{ROOT}/{_inside(folder, store, place)}", immutable=True)
    _copy_if_there(writer, folder / TOKEN_KEY, _inside(folder, store, TOKEN_KEY))
    return facts


def _listed(copy: Path | None) -> Iterator[tuple[str, int]]:
    """The files that a copied journal lists, with their rows."""
    if copy is None:
        return
    with closing(connect_source(copy)) as connection:
        yield from connection.execute("SELECT file, rows FROM compacted ORDER BY file").fetchall()


def _copy_database(writer: BackupWriter, store: Path, name: str, kind: str) -> Path | None:
    return writer.database(store / name, f"{ROOT}/{name}", kind, SCHEMAS[kind])


def _copy_if_there(writer: BackupWriter, source: Path, name: str) -> None:
    if source.exists():
        writer.file(source, f"{ROOT}/{name}")


def _inside(folder: Path, store: Path, name: str) -> str:
    return (folder.relative_to(store) / name).as_posix()


def _number(copy: Path | None, sql: str) -> int:
    if copy is None:
        return 0
    with closing(connect_source(copy)) as connection:
        return int(connection.execute(sql).fetchone()[0])
