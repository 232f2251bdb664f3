"""Keys on disk: digests only, for the owner only, durable, and changed as the rules say."""

import multiprocessing
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from kreach.adsystem.access.key import digest_of, parts_of
from kreach.adsystem.access.keys import FILE, KeyStore, UnknownKey, count_keys
from kreach.errors import KreachError

NOW = 1_790_000_000.0


def opened(folder: Path, now: float = NOW) -> "closing[KeyStore]":
    return closing(KeyStore(folder, lambda: now))


def test_secrets_are_nowhere_on_disk(tmp_path: Path) -> None:
    texts = []
    with opened(tmp_path) as store:
        texts.append(store.add("operator").text)
        first = store.add("advertiser", "acme")
        texts += [first.text, store.rotate(first.key.id, 60.0).text]
        assert first.text not in repr(first)
        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # with the log of SQLite
    held += b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for text in texts:
        key_id, secret = parts_of(text)
        assert key_id.encode() in held
        assert digest_of(key_id, secret) in held
        assert secret.encode() not in held
        assert secret[:16].encode() not in held


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "new") as store:
            store.add("operator")
            files = list((tmp_path / "new").iterdir())
            assert len(files) > 1  # beside the file itself, what SQLite keeps while it is open
            modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
    finally:
        os.umask(before)
    assert modes == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    with opened(tmp_path) as store:
        store.add("operator")
    (tmp_path / FILE).chmod(mode)
    with pytest.raises(KreachError, match=f"owner only.*{mode:o}"):
        KeyStore(tmp_path)


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        made = [
            store.add("operator").key,
            store.add("advertiser", "acme", expires_ts=NOW + 5, rate_per_minute=7).key,
            store.add("publisher").key,
        ]
        assert [kept.key for kept in store.all()] == made
    with opened(tmp_path) as store:
        assert [kept.key for kept in store.all()] == made
    assert made[1].rate_per_minute == 7
    assert made[1].expires_ts == NOW + 5


def test_rotation_replaces_the_secret_and_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = store.add("advertiser", "acme", rate_per_minute=9)
        second = store.rotate(first.key.id)
        (kept,) = store.all()
        assert second.text != first.text
        assert kept.digest == digest_of(*parts_of(second.text))
        assert (kept.former, kept.key.former_until_ts) == (None, None)
        third = store.rotate(first.key.id, 30.0)
        (kept,) = store.all()
        assert kept.former == digest_of(*parts_of(second.text))
        assert kept.key.former_until_ts == NOW + 30.0
        assert kept.key == third.key
        store.rotate(first.key.id)
        (kept,) = store.all()
        assert (kept.former, kept.key.former_until_ts) == (None, None)
        assert (kept.key.id, kept.key.role, kept.key.advertiser) == (
            first.key.id,
            "advertiser",
            "acme",
        )
        assert kept.key.rate_per_minute == 9


def test_what_is_over_is_not_rotated(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        gone = store.add("operator").key
        short = store.add("operator", expires_ts=NOW + 10).key
        revoked = store.revoke(gone.id)
        assert revoked.revoked_ts == NOW
        with pytest.raises(KreachError, match=r"is revoked and cannot be rotated"):
            store.rotate(gone.id)
    with opened(tmp_path, NOW + 100) as later:
        assert later.revoke(gone.id).revoked_ts == NOW  # the first time counts
        with pytest.raises(KreachError, match=r"is expired and cannot be rotated"):
            later.rotate(short.id)


def test_bad_input_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        key = store.add("operator").key
        before = store.all()
        for grace in (-1.0, float("nan"), float("inf"), 31 * 86_400.0):
            with pytest.raises(KreachError, match="grace_seconds must"):
                store.rotate(key.id, grace)
        for expires in (NOW, NOW - 1, 1e300, float("nan")):
            with pytest.raises(KreachError, match="expires must"):
                store.add("operator", expires_ts=expires)
        with pytest.raises(KreachError, match="role must"):
            store.add("boss")
        for missing in (store.revoke, store.rotate):
            with pytest.raises(UnknownKey, match=r"^no key "):
                missing("abcdefghjkmn")
            with pytest.raises(KreachError, match="id must"):
                missing("x' OR 1=1")
        assert store.all() == before


def test_a_store_without_keys_or_with_something_else(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="has no keys: create one first"):
        KeyStore(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []
    assert count_keys(tmp_path) == {"operator": 0, "advertiser": 0, "publisher": 0}
    path = tmp_path / FILE
    path.write_bytes(b"no database " * 100)
    path.chmod(0o600)
    with pytest.raises(KreachError, match="store must"):
        KeyStore(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(KreachError, match="store must"):
        KeyStore(tmp_path)


def test_valid_keys_are_counted(tmp_path: Path) -> None:
    with closing(KeyStore(tmp_path)) as store:
        store.add("operator")
        store.add("advertiser", "acme")
        store.revoke(store.add("advertiser", "acme").key.id)
    assert count_keys(tmp_path) == {"operator": 1, "advertiser": 1, "publisher": 0}


def _add_some(folder: str, count: int) -> None:
    with closing(KeyStore(Path(folder))) as store:
        for _ in range(count):
            store.add("operator")


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_some, args=(str(tmp_path), 20)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert count_keys(tmp_path)["operator"] == 40


def test_commits_are_on_disk_when_a_call_returns(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        made = store.add("operator").key
        with closing(sqlite3.connect(tmp_path / FILE)) as other:
            assert other.execute("SELECT id FROM keys").fetchall() == [(made.id,)]
        settings = [
            store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "secure_delete")
        ]
        assert settings == [2, "wal", 1]  # 2 is FULL


def test_the_version_tells_of_changes_by_others(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        before = store.version()
        assert store.version() == before
        other.add("operator")
        assert store.version() != before
        assert not store.replaced()
        (tmp_path / FILE).rename(tmp_path / "aside")
        with pytest.raises(FileNotFoundError):
            store.replaced()
        (tmp_path / FILE).touch()
        assert store.replaced()
