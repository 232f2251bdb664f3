"""Opening SQLite stores: durable, versioned, upgraded or refused."""

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread

import pytest

from kreach.errors import KreachError
from kreach.service.sqlite import (
    OtherSchema,
    Schema,
    check_intact,
    open_empty,
    open_read_only,
    open_store,
    store_errors,
    transaction,
)

TABLES = """
CREATE TABLE IF NOT EXISTS items (name TEXT PRIMARY KEY);
CREATE INDEX IF NOT EXISTS by_name ON items (name);
"""
ONE = Schema(1, TABLES)


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE items ADD COLUMN size INTEGER NOT NULL DEFAULT 7")


def fill_column(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE items SET size = size + 1")


THREE = Schema(3, TABLES, {1: add_column, 2: fill_column})


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def old_file(path: Path) -> None:
    """A file from before there were versions."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE items (name TEXT PRIMARY KEY)")
        connection.execute("INSERT INTO items VALUES ('a')")
        connection.commit()


def test_a_new_store_is_durable_and_has_its_version(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "new", THREE, secure_delete="ON")) as connection:
        names = ("journal_mode", "synchronous", "secure_delete", "user_version")
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
        assert values == ["wal", 2, 1, 3]  # 2 is FULL
        columns = connection.execute("PRAGMA table_info(items)").fetchall()
        assert len(columns) == 1  # upgrades are for files that are older


def test_an_unversioned_file_is_version_one(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)
    with closing(open_store(path, ONE)) as connection:
        assert connection.execute("SELECT name FROM items").fetchall() == [("a",)]
    assert version(path) == 1


def test_an_older_file_is_upgraded_step_by_step_once(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)
    for _ in range(2):
        with closing(open_store(path, THREE)) as connection:
            assert connection.execute("SELECT * FROM items").fetchall() == [("a", 8)]
    assert version(path) == 3


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)

    def fail(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk full")

    with pytest.raises(sqlite3.OperationalError):
        open_store(path, Schema(3, TABLES, {1: add_column, 2: fail}))
    assert version(path) == 0
    with closing(open_store(path, THREE)) as connection:
        assert connection.execute("SELECT * FROM items").fetchall() == [("a", 8)]


def test_two_openers_upgrade_once(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)
    barrier = Barrier(4)

    def work() -> None:
        barrier.wait()
        open_store(path, THREE).close()

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(open_store(path, THREE)) as connection:
        assert connection.execute("SELECT * FROM items").fetchall() == [("a", 8)]


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer"
    open_store(path, THREE).close()
    before = path.read_bytes()
    for opener in (open_store, open_read_only):
        with pytest.raises(OtherSchema) as caught:
            opener(path, ONE)
        message = str(caught.value)
        assert message.startswith(f"{path} has the schema of a newer kreach (3, this one knows 1):")
        assert "\n" not in message
    assert path.read_bytes() == before


def test_an_older_file_without_an_upgrade_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)
    with pytest.raises(OtherSchema, match=r"older kreach \(1, not 3\) and cannot be upgraded"):
        open_store(path, Schema(3, TABLES, {1: add_column}))
    assert version(path) == 0


def test_a_reader_does_not_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "old"
    old_file(path)
    with pytest.raises(OtherSchema, match="upgrade it with `kreach migrate`"):
        open_read_only(path, THREE)
    with closing(open_read_only(path, THREE, older=True)) as connection:
        assert connection.execute("SELECT name FROM items").fetchall() == [("a",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM items")
    assert version(path) == 0


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        open_read_only(tmp_path / "none", ONE)
    assert list(tmp_path.iterdir()) == []


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    old_file(path)
    before = path.read_bytes()
    with pytest.raises(OtherSchema, match="is the database of another program: name another file"):
        open_store(path, Schema(1, TABLES, application_id=5))
    assert path.read_bytes() == before


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "new", ONE)) as connection:
        with transaction(connection):
            connection.execute("INSERT INTO items VALUES ('a')")
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.executemany("INSERT INTO items VALUES (?)", [("b",), ("a",)])
        assert not connection.in_transaction
        assert connection.execute("SELECT name FROM items").fetchall() == [("a",)]


def test_an_empty_store_has_tables_and_no_rows() -> None:
    with closing(open_empty(ONE)) as connection:
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (0,)


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with closing(open_store(path, ONE)) as connection:
        check_intact(connection)
        with transaction(connection):
            rows = [(f"{n:0200}",) for n in range(500)]
            connection.executemany("INSERT INTO items VALUES (?)", rows)
    content = bytearray(path.read_bytes())
    content[8_192:12_288] = b"x" * 4_096
    path.write_bytes(bytes(content))
    damaged = pytest.raises(sqlite3.DatabaseError, match=r"^damaged: ")
    with closing(open_store(path, ONE)) as connection, damaged:
        check_intact(connection)


def test_errors_name_the_store_and_schemas_speak_for_themselves(tmp_path: Path) -> None:
    refused = pytest.raises(KreachError, match=r"^store must be there, got .*unable to open")
    with refused, store_errors("be there", tmp_path):
        open_read_only(tmp_path / "none", ONE)
    open_store(tmp_path / "newer", THREE).close()
    with pytest.raises(OtherSchema), store_errors("be there", tmp_path):
        open_store(tmp_path / "newer", ONE)
