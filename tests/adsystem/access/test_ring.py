"""Checks of keys: what is good, when, how soon changes are taken up, and with how much work."""

import hmac
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.access import ring as module
from kreach.adsystem.access.key import digest_of, parts_of, text_of
from kreach.adsystem.access.keys import FILE, KeyStore
from kreach.adsystem.access.ring import Checked, KeyRing, KeysFailing
from kreach.service.logs import Log
from tests.service.service_process import until

NOW = 1_790_000_000.0


class World:
    """A store of keys, a ring on it, and two clocks that the test sets."""

    def __init__(self, folder: Path) -> None:
        self.now, self.monotonic = NOW, 0.0
        self.folder = folder
        self.lines: list[str] = []
        self.store = KeyStore(folder, lambda: self.now)
        log = Log("test", self.lines.append)
        self.ring = KeyRing(folder, lambda: self.now, log, lambda: self.monotonic)

    def check(self, text: str) -> Checked:
        """Check with what is in the file now."""
        self.ring.refresh()
        return self.ring.check(text)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.ring.close()
        made.store.close()


def test_a_key_is_known_by_its_secret(world: World) -> None:
    made = world.store.add("advertiser", "acme")
    found = world.check(made.text)
    assert (found.key, found.reason) == (made.key, "")
    key_id, secret = parts_of(made.text)
    other = "B" if secret[-1] == "A" else "A"
    wrong = world.check(text_of(key_id, secret[:-1] + other))
    assert (wrong.key, wrong.reason, wrong.known) == (None, "wrong secret", key_id)
    strange = world.check(text_of("zzzzzzzzzzzz", secret))
    assert (strange.key, strange.reason, strange.known) == (None, "unknown key", None)
    assert world.check("").reason == "unknown key"
    other_key = world.store.add("operator")
    mixed = text_of(other_key.key.id, secret)  # one key's secret under another's id
    assert world.check(mixed).key is None


def test_expiry_is_to_the_moment(world: World) -> None:
    made = world.store.add("operator", expires_ts=NOW + 100)
    world.now = NOW + 99.999
    assert world.check(made.text).key == made.key
    world.now = NOW + 100
    assert world.check(made.text).reason == "expired key"


def test_rotation_with_and_without_grace(world: World) -> None:
    first = world.store.add("operator")
    second = world.store.rotate(first.key.id)
    assert world.check(first.text).reason == "wrong secret"
    assert world.check(second.text).key is not None
    third = world.store.rotate(first.key.id, grace_seconds=60)
    world.now = NOW + 59.9
    assert world.check(second.text).key is not None
    assert world.check(third.text).key is not None
    assert world.check(first.text).key is None
    world.now = NOW + 60
    assert world.check(second.text).reason == "wrong secret"
    assert world.check(third.text).key is not None
    world.now = NOW
    world.store.rotate(first.key.id, grace_seconds=60)
    assert world.check(second.text).key is None  # only one former secret is good


def test_revocation_ends_a_key_and_its_former_secret(world: World) -> None:
    first = world.store.add("operator")
    second = world.store.rotate(first.key.id, grace_seconds=600)
    world.store.revoke(first.key.id)
    assert world.check(second.text).reason == "revoked key"
    assert world.check(first.text).reason == "revoked key"


class _Counted(dict[str, Any]):
    looked_up = 0

    def get(self, *arguments: Any) -> Any:
        self.looked_up += 1
        return super().get(*arguments)


def test_whatever_is_wrong_the_work_is_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is not measured but counted: look-ups, digests, comparisons and their lengths."""
    good = world.store.add("operator")
    rotated = world.store.add("operator")
    world.store.rotate(rotated.key.id, grace_seconds=600)
    revoked = world.store.add("operator")
    world.store.revoke(revoked.key.id)
    expired = world.store.add("operator", expires_ts=NOW + 1)
    world.now = NOW + 2
    world.ring.refresh()
    secret = parts_of(good.text)[1]
    cases = {
        "good": good.text,
        "former": rotated.text,
        "wrong secret": text_of(good.key.id, secret[::-1]),
        "unknown key": text_of("zzzzzzzzzzzz", secret),
        "revoked key": revoked.text,
        "expired key": expired.text,
        "nothing": "",
        "no key at all": "x" * 10_000,
    }
    steps: list[object] = []

    def digest(key_id: str, told: str) -> bytes:
        steps.append("digest")
        return before_digest(key_id, told)

    def compare(a: bytes, b: bytes) -> bool:
        steps.append(("compare", len(a), len(b)))
        return before_compare(a, b)

    before_digest, before_compare = digest_of, hmac.compare_digest
    monkeypatch.setattr(module, "digest_of", digest)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    entries = _Counted(world.ring._entries)
    monkeypatch.setattr(world.ring, "_entries", entries)
    work = {}
    for name, text in cases.items():
        steps.clear()
        before = entries.looked_up
        found = world.ring.check(text)
        assert (found.key is not None) == (name in ("good", "former"))
        work[name] = (entries.looked_up - before, tuple(steps))
    expected = (1, ("digest", ("compare", 32, 32), ("compare", 32, 32)))
    assert work == dict.fromkeys(cases, expected)


def test_a_check_reads_no_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world.store.add("operator")
    world.ring.refresh()

    def touched(*_: object) -> None:
        raise AssertionError("the store was asked")

    for name in ("all", "version", "replaced"):
        monkeypatch.setattr(KeyStore, name, touched)
    assert world.ring.check(made.text).key == made.key


def test_rows_are_read_only_when_they_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    before = KeyStore.all

    def counted(store: KeyStore) -> Any:
        reads.append(1)
        return before(store)

    monkeypatch.setattr(KeyStore, "all", counted)
    for _ in range(5):
        world.ring.refresh()
    assert reads == []
    world.store.add("operator")
    for _ in range(5):
        world.ring.refresh()
    assert reads == [1]


def test_keys_that_cannot_be_read_let_nobody_in(world: World) -> None:
    made = world.store.add("operator")
    world.ring.refresh()
    (world.folder / FILE).rename(world.folder / "aside")
    world.monotonic = 9.0
    assert world.check(made.text).key == made.key  # for a moment, with what was read
    world.monotonic = 10.1
    with pytest.raises(KeysFailing):
        world.check(made.text)
    assert world.ring.failing
    assert [line for line in world.lines if "keys cannot be read" in line] == world.lines
    assert len(world.lines) == 1
    (world.folder / "aside").rename(world.folder / FILE)
    assert world.check(made.text).key == made.key
    assert "keys can be read again" in world.lines[-1]


def test_another_file_in_place_of_the_first_is_taken_up(world: World, tmp_path: Path) -> None:
    old = world.store.add("operator")
    assert world.check(old.text).key is not None
    with closing(KeyStore(tmp_path / "other")) as other:
        new = other.add("operator")
    for leftover in tmp_path.glob(f"{FILE}-*"):
        leftover.unlink()
    os.replace(tmp_path / "other" / FILE, tmp_path / FILE)
    assert world.check(new.text).key == new.key
    assert world.check(old.text).reason == "unknown key"


def test_changes_are_taken_up_within_a_second(tmp_path: Path) -> None:
    with closing(KeyStore(tmp_path)) as store:
        first = store.add("operator")
        ring = KeyRing(tmp_path, lambda: NOW, Log("test", lambda _: None))
        with closing(ring):
            ring.start()
            assert ring.check(first.text).key is not None
            store.revoke(first.key.id)
            until(lambda: ring.check(first.text).key is None, 1.0)
            second = store.add("operator")
            until(lambda: ring.check(second.text).key is not None, 1.0)
            assert len(ring) == 2
