"""The backup of the publisher's side: showings, the panel and its ledger, and the build.

While a gateway runs, a store that is copied later knows more. So corrections are copied before the
ledger that can repeat each of them, and the ledger before the showings that it has counted.

What happened after the backup is not in it, and happened all the same. Of a panel, releases that
were drawn are lost, and so are showings to count: no campaign that the backup knows gets another
release (`close_panels`). Hard caps do not know of showings since; that heals as caps forget.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from kreach.boundary.times import MICROS
from kreach.errors import KreachError
from kreach.publisher.gateway.panel import PANEL_FOLDER
from kreach.publisher.gateway.pseudonyms import KEY_FILE
from kreach.publisher.gateway.settings import GatewaySettings
from kreach.publisher.gateway.showings import FILE
from kreach.publisher.gateway.showings import SCHEMA as SHOWINGS
from kreach.publisher.panel.ledger import SCHEMA as LEDGER_SCHEMA
from kreach.publisher.panel.ledger import close_panels
from kreach.publisher.panel.offline import LEDGER
from kreach.publisher.store import FILES
from kreach.service.backup.stores import StoreFile
from kreach.service.backup.writer import BackupWriter
from kreach.service.sqlite import connect_source

__all__ = ["SCHEMAS", "SIDE", "copy_gateway", "fence_gateway", "roots", "store_files"]

SIDE = "publisher"
SCHEMAS = {"panel": LEDGER_SCHEMA, "showings": SHOWINGS}
_OFFLINE_LEDGER = f"publisher/{LEDGER}"  # of `kreach panel`, in the build


def roots(settings: GatewaySettings) -> dict[str, Path]:
    """Where each part of a backup belongs."""
    found = {"store": settings.store, "build": settings.build}
    if settings.panel is not None:
        found["corrections"] = settings.panel.out
    return found


def store_files(settings: GatewaySettings) -> Iterator[StoreFile]:
    """The databases of a gateway that exist."""
    panel = settings.store / PANEL_FOLDER
    found = [
        StoreFile(panel / LEDGER, "panel"),
        StoreFile(panel / FILE, "showings"),
        StoreFile(settings.store / FILE, "showings"),
        StoreFile(settings.build / _OFFLINE_LEDGER, "panel"),
    ]
    return (file for file in found if file.path.exists())


def copy_gateway(settings: GatewaySettings, writer: BackupWriter) -> dict[str, Any]:
    """Copy all that a gateway stores; the facts for the manifest."""
    missing = [name for name in FILES if not (settings.build / name).is_file()]
    if missing:
        rule = f"be a folder that `kreach groups build` wrote, with {missing[0]}"
        raise KreachError.rule("build", rule, str(settings.build))
    if settings.panel is not None and settings.panel.out.exists():
        writer.file(settings.panel.out, "corrections")
    panel = settings.store / PANEL_FOLDER
    writer.database(panel / LEDGER, f"store/{PANEL_FOLDER}/{LEDGER}", "panel", LEDGER_SCHEMA)
    facts = {"panel_showings": _copy_showings(writer, panel, f"store/{PANEL_FOLDER}")}
    facts["showings"] = _copy_showings(writer, settings.store, "store")
    ledger = settings.build / _OFFLINE_LEDGER
    writer.database(ledger, f"build/{_OFFLINE_LEDGER}", "panel", LEDGER_SCHEMA)
    build = settings.build.resolve()  # a link may be pointed to another one meanwhile
    for path in sorted(build.rglob("*")):
        if path.is_file() and not path.name.startswith(LEDGER):  # nor its side files
            writer.file(path, f"build/{path.relative_to(build).as_posix()}", immutable=True)
    return facts


def fence_gateway(places: Mapping[str, Path], now: float) -> None:
    """Close the panels of campaigns that a restored backup knows, before it is in place."""
    panel = places["store"] / PANEL_FOLDER if "store" in places else None
    ledgers = [] if panel is None else [panel / LEDGER]
    shown: list[str] = []
    if panel is not None and (panel / FILE).exists():
        with closing(connect_source(panel / FILE)) as database:
            shown = [row[0] for row in database.execute("SELECT DISTINCT campaign FROM showing")]
    if "build" in places:
        ledgers.append(places["build"] / _OFFLINE_LEDGER)
    for ledger in ledgers:
        if ledger.exists():
            close_panels(ledger, shown, int(now * MICROS))


def _copy_showings(writer: BackupWriter, folder: Path, place: str) -> int:
    """A store of showings and the key of its pseudonyms; how many showings."""
    copy = writer.database(folder / FILE, f"{place}/{FILE}", "showings", SHOWINGS)
    if (folder / KEY_FILE).exists():
        writer.file(folder / KEY_FILE, f"{place}/{KEY_FILE}")
    if copy is None:
        return 0
    try:
        with closing(connect_source(copy)) as database:
            return int(database.execute("SELECT count(*) FROM showing").fetchone()[0])
    except sqlite3.Error as error:
        rule = "hold showings that can be read"
        raise KreachError.rule("store", rule, f"{folder} ({error})") from None
