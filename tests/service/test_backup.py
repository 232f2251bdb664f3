"""Backups: copied at one instant, complete or not there, verified before anything is restored."""

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from kreach.errors import KreachError
from kreach.service.backup import writer as writer_module
from kreach.service.backup.manifest import Manifest
from kreach.service.backup.reader import check_backup, restore_backup
from kreach.service.backup.stores import StoreFile, migrate, store_versions
from kreach.service.backup.writer import BackupWriter
from kreach.service.sqlite import OtherSchema, Schema, open_store, transaction

ITEMS = Schema(1, "CREATE TABLE IF NOT EXISTS items (name INTEGER PRIMARY KEY);")
SCHEMAS = {"items": ITEMS}


def fill(path: Path, rows: int = 3) -> None:
    with closing(open_store(path, ITEMS)) as connection, transaction(connection):
        connection.executemany("INSERT INTO items VALUES (?)", [(at,) for at in range(rows)])


def rows_of(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM items ORDER BY name")]


def add_seven(connection: sqlite3.Connection) -> None:
    """An upgrade that shows."""
    connection.execute("INSERT INTO items VALUES (7)")


def nothing(_: Mapping[str, Path]) -> None:
    """Nothing to fence."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    (made / "log").mkdir(parents=True)
    fill(made / "items.sqlite3")
    (made / "log" / "part.parquet").write_bytes(b"rows" * 1_000)
    return made


def take(store: Path, out: Path, *, link: bool = False) -> Manifest:
    with BackupWriter(out, (store,), link=link) as writer:
        writer.database(store / "items.sqlite3", "store/items.sqlite3", "items", ITEMS)
        writer.file(store / "log" / "part.parquet", "store/log/part.parquet", immutable=True)
        return writer.finish("adsystem", "1.0", "2026-11-18T00:00:00Z", {"rows": 3})


def restore(backup: Path, place: Path, side: str = "adsystem", digest: str | None = None) -> None:
    manifest = check_backup(backup, side, SCHEMAS, digest)
    restore_backup(backup, manifest, {"store": place}, SCHEMAS, nothing)


def test_a_backup_is_restored_as_it_was_and_only_its_owner_reads_it(
    store: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    manifest = take(store, backup)
    assert [(file.store, file.version) for file in manifest.files] == [("items", 1), (None, None)]
    for path in (backup, *backup.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    restore(backup, tmp_path / "again", digest=manifest.digest())
    assert rows_of(tmp_path / "again" / "items.sqlite3") == [0, 1, 2]
    part = tmp_path / "again" / "log" / "part.parquet"
    assert part.read_bytes() == (store / "log" / "part.parquet").read_bytes()
    assert part.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"store", "backup", "again"}


def test_linked_files_share_their_bytes_and_databases_never_do(store: Path, tmp_path: Path) -> None:
    take(store, tmp_path / "backup", link=True)
    files = tmp_path / "backup" / "files" / "store"
    assert os.path.samefile(files / "log" / "part.parquet", store / "log" / "part.parquet")
    assert not os.path.samefile(files / "items.sqlite3", store / "items.sqlite3")
    restore(tmp_path / "backup", tmp_path / "again")
    assert (tmp_path / "again/log/part.parquet").stat().st_nlink == 1


def test_files_are_copied_where_links_are_not_possible(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    take(store, tmp_path / "backup", link=True)
    restore(tmp_path / "backup", tmp_path / "again")


def test_a_database_that_is_written_meanwhile_is_of_one_instant(
    store: Path, tmp_path: Path
) -> None:
    """Each transaction adds a pair: no copy has half of one."""
    path, ended = store / "items.sqlite3", threading.Event()

    def write() -> None:
        with closing(open_store(path, ITEMS)) as connection:
            at = 100
            while not ended.is_set():
                with transaction(connection):
                    connection.executemany("INSERT INTO items VALUES (?)", [(at,), (at + 1,)])
                at += 2

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(5):
            take(store, tmp_path / f"backup{number}")
    finally:
        ended.set()
        writing.join()
    counts = [
        len(rows_of(tmp_path / f"backup{number}" / "files/store/items.sqlite3"))
        for number in range(5)
    ]
    assert counts == sorted(counts)
    assert all(count % 2 == 1 for count in counts)  # three, and pairs


def test_nothing_is_overwritten(store: Path, tmp_path: Path) -> None:
    for taken in (store, tmp_path):
        with pytest.raises(KreachError, match="out must be a folder that does not exist yet"):
            BackupWriter(taken, (store,))
    with pytest.raises(KreachError, match="out must be outside"):
        BackupWriter(store / "backup", (store,))
    take(store, tmp_path / "backup")
    with pytest.raises(KreachError, match="does not exist yet"):
        take(store, tmp_path / "backup")


def test_an_unfinished_backup_is_none(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "backup"
    (store / "log" / "part.parquet").unlink()
    with pytest.raises(KreachError, match="was removed while the backup was taken"):
        take(store, out)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    killed = tmp_path / ".backup.unfinished"  # what a killed process leaves
    (killed / "files").mkdir(parents=True)
    with pytest.raises(KreachError, match="must be a finished backup"):
        check_backup(killed, "adsystem", SCHEMAS)
    (store / "log" / "part.parquet").write_bytes(b"rows")
    take(store, out)
    assert not killed.exists()


def test_a_folder_that_appears_meanwhile_is_not_replaced(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "backup"
    with BackupWriter(out, (store,)) as writer:
        out.mkdir()
        with pytest.raises(KreachError, match="does not exist yet"):
            writer.finish("adsystem", "1.0", "2026-11-18T00:00:00Z", {})
    assert not list(out.iterdir())


def test_a_damaged_database_is_not_backed_up(store: Path, tmp_path: Path) -> None:
    fill(store / "large.sqlite3", 20_000)
    raw = bytearray((store / "large.sqlite3").read_bytes())
    raw[9_000:40_000] = b"\xff" * 31_000
    (store / "large.sqlite3").write_bytes(raw)
    with (
        BackupWriter(tmp_path / "backup", (store,)) as writer,
        pytest.raises(KreachError, match="store must hold databases that can be read"),
    ):
        writer.database(store / "large.sqlite3", "store/large.sqlite3", "items", ITEMS)
    assert not (tmp_path / "backup").exists()


def test_a_torn_or_tampered_backup_is_refused_and_nothing_is_restored(
    store: Path, tmp_path: Path
) -> None:
    backup, place = tmp_path / "backup", tmp_path / "again"
    take(store, backup)
    part = "files/store/log/part.parquet"

    def refused(match: str, name: str, change: bytes | None) -> None:
        damaged = tmp_path / "damaged"
        shutil.copytree(backup, damaged)
        if change is None:
            (damaged / name).unlink()
        else:
            (damaged / name).write_bytes(change)
        with pytest.raises(KreachError, match=match) as caught:
            restore(damaged, place)
        assert "\n" not in str(caught.value)
        assert not place.exists()
        assert not (tmp_path / ".again.restoring").exists()
        shutil.rmtree(damaged)

    whole = (backup / part).read_bytes()
    refused("part.parquet has another checksum", part, whole[:-1])
    refused("part.parquet has another checksum", part, b"R" + whole[1:])
    refused("part.parquet is missing", part, None)
    refused("more is not in its manifest", "files/store/more", b"")
    refused("must be a finished backup", "manifest.json", None)
    refused("has a damaged manifest.json", "manifest.json", b"{")
    refused("has a damaged manifest.json", "manifest.json", b"[]")
    text = (backup / "manifest.json").read_text()
    for found, other, match in (
        ('"path": "store/log/', '"path": "../log/', "must be relative"),
        ('"path": "store/log/', '"path": "/etc/', "must be relative"),
        ('"size_bytes": 4000', '"size_bytes": 4001', "has another checksum"),
        ('"format": 1', '"format": 2', "has format 2, this kreach knows 1"),
        ('"version": 1', '"version": 2', "newer than this kreach knows: upgrade kreach"),
        ('"store": "items"', '"store": "things"', "newer than this kreach knows"),
    ):
        assert found in text
        refused(match, "manifest.json", text.replace(found, other).encode())


def test_a_manifest_that_was_changed_with_its_files_has_another_digest(
    store: Path, tmp_path: Path
) -> None:
    digest = take(store, tmp_path / "backup").digest()
    shutil.rmtree(tmp_path / "backup")
    (store / "log" / "part.parquet").write_bytes(b"other rows")
    take(store, tmp_path / "backup")
    check_backup(tmp_path / "backup", "adsystem", SCHEMAS)
    with pytest.raises(KreachError, match="digest must be that of the backup"):
        check_backup(tmp_path / "backup", "adsystem", SCHEMAS, digest)


def test_the_sides_are_not_mixed_and_no_store_is_replaced(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    take(store, backup)
    with pytest.raises(KreachError, match=r"is of the adsystem's side .* never mixed"):
        restore(backup, tmp_path / "again", side="publisher")
    with pytest.raises(KreachError, match="store must be empty: move what is there away"):
        restore(backup, store)
    (tmp_path / "file").write_text("")
    with pytest.raises(KreachError, match="store must not exist yet"):
        restore(backup, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(KreachError, match="store must not exist yet"):
        restore(backup, tmp_path / "link")
    manifest = check_backup(backup, "adsystem", SCHEMAS)
    with pytest.raises(KreachError, match="for which the settings have no place"):
        restore_backup(backup, manifest, {"build": tmp_path / "b"}, SCHEMAS, nothing)
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / ".empty.restoring").mkdir()  # of a restore that was killed
    restore(backup, empty)
    assert rows_of(empty / "items.sqlite3") == [0, 1, 2]


def test_a_restore_that_cannot_be_fenced_restores_nothing(store: Path, tmp_path: Path) -> None:
    take(store, tmp_path / "backup")
    manifest = check_backup(tmp_path / "backup", "adsystem", SCHEMAS)

    def fail(places: Mapping[str, Path]) -> None:
        assert rows_of(places["store"] / "items.sqlite3") == [0, 1, 2]
        raise KreachError("cannot be fenced")

    place = tmp_path / "again"
    with pytest.raises(KreachError, match="cannot be fenced"):
        restore_backup(tmp_path / "backup", manifest, {"store": place}, SCHEMAS, fail)
    assert not place.exists()
    assert not (tmp_path / ".again.restoring").exists()


def test_stores_are_migrated_once_and_newer_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.sqlite3"
    with closing(sqlite3.connect(path)) as connection:  # from before there were versions
        connection.execute("CREATE TABLE items (name INTEGER PRIMARY KEY)")
    two = Schema(2, ITEMS.tables, {1: add_seven})
    files = [StoreFile(path, "items")]
    for expected in ((1, True), (2, False)):
        versions = store_versions(files, {"items": two})
        assert [(one.version, one.is_older) for one in versions] == [expected]
        migrate(versions, {"items": two})
    assert rows_of(path) == [7]
    with pytest.raises(OtherSchema, match="newer kreach"):
        store_versions(files, {"items": ITEMS})
    path.write_bytes(b"no database at all, but long enough for a header " * 100)
    with pytest.raises(KreachError, match="store must hold databases that can be read"):
        store_versions(files, {"items": two})


def test_large_files_are_copied_in_pieces(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_CHUNK", 7)
    manifest = take(store, tmp_path / "backup")
    assert json.loads((tmp_path / "backup/manifest.json").read_text())["files"][1] == {
        "path": "store/log/part.parquet",
        "size_bytes": 4_000,
        "sha256": manifest.files[1].sha256,
        "store": None,
        "version": None,
    }
    restore(tmp_path / "backup", tmp_path / "again")
