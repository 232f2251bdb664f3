"""`kreach keys`: secrets come out once, on standard output, and never go in."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kreach.adsystem.access.key import digest_of, parts_of
from kreach.adsystem.access.keys import FILE, KeyStore
from tests.cli.command import kreach, kreach_process

TEXT = re.compile(r"kreach_[a-z0-9]{12}_[0-9A-Za-z]{43}")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KREACH_ADSYSTEM_STORE", raising=False)


def added(folder: Path, *more: str) -> str:
    done = kreach("keys", "add", "--store", str(folder), *(more or ("--role", "operator")))
    assert done.code == 0, done.err
    assert TEXT.fullmatch(done.out.strip())
    assert not TEXT.search(done.err)
    return done.out.strip()


def test_a_key_is_shown_once(tmp_path: Path) -> None:
    text = added(tmp_path, "--role", "advertiser", "--advertiser", "acme", "--rate", "30")
    key_id, secret = parts_of(text)
    with closing(KeyStore(tmp_path, create=False)) as store:
        (kept,) = store.all()
    assert kept.digest == digest_of(key_id, secret)
    assert (kept.key.advertiser, kept.key.rate_per_minute) == ("acme", 30)
    for more in ([], ["--json"]):
        done = kreach("keys", "list", "--store", str(tmp_path), *more)
        assert done.code == 0
        assert key_id in done.out
        assert secret not in done.out + done.err
    (shown,) = json.loads(done.out)["keys"]
    assert shown["state"] == "valid"
    assert shown["expires"] is None


def test_add_with_json(tmp_path: Path) -> None:
    where = ("--store", str(tmp_path), "--json")
    done = kreach("keys", "add", "--role", "publisher", "--expires", "2099-01-01", *where)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert TEXT.fullmatch(found["key"])
    assert found["id"] == parts_of(found["key"])[0]
    assert (found["role"], found["expires"]) == ("publisher", "2099-01-01T00:00:00Z")


def test_rotate_and_revoke(tmp_path: Path) -> None:
    first = added(tmp_path)
    key_id = parts_of(first)[0]
    where = ("--store", str(tmp_path))
    done = kreach("keys", "rotate", key_id, "--grace-seconds", "60", *where)
    second = done.out.strip()
    assert parts_of(second)[0] == key_id
    assert second != first
    assert "valid until" in done.err
    found = json.loads(kreach("keys", "rotate", key_id, "--json", *where).out)
    assert parts_of(found["key"])[0] == key_id
    assert found["key"] not in (first, second)
    assert found["former_until"] is None
    done = kreach("keys", "revoke", key_id, *where)
    assert (done.code, done.out) == (0, f"key {key_id} is revoked\n")
    done = kreach("keys", "revoke", key_id, "--json", *where)
    assert json.loads(done.out)["state"] == "revoked"
    assert kreach("keys", "rotate", key_id, *where).code == 1
    shown = kreach("keys", "list", *where).out.splitlines()
    assert len(shown) == 2
    assert "revoked" in shown[1]


def test_the_store_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "kreach.toml"
    config.write_text('[adsystem]\nstore = "here"\n')
    assert kreach("keys", "add", "--role", "operator", "--config", str(config)).code == 0
    assert (tmp_path / "here" / FILE).exists()
    monkeypatch.setenv("KREACH_ADSYSTEM_STORE", str(tmp_path / "there"))
    assert kreach("keys", "add", "--role", "operator", "--config", str(config)).code == 0
    assert kreach("keys", "add", "--role", "operator").code == 0
    assert len(json.loads(kreach("keys", "list", "--json").out)["keys"]) == 2


BAD = [
    (("add", "--role", "boss"), "role must be one of"),
    (("add", "--role", "advertiser"), "advertiser must"),
    (("add", "--role", "advertiser", "--advertiser", "A B"), "advertiser must"),
    (("add", "--role", "operator", "--advertiser", "acme"), "left out"),
    (("add", "--role", "operator", "--expires", "soon"), "expires must"),
    (("add", "--role", "operator", "--expires", "2020-01-01"), "expires must be in the future"),
    (("add", "--role", "operator", "--rate", "0"), "rate_per_minute must"),
    (("rotate", "zzzzzzzzzzzz"), "no key 'zzzzzzzzzzzz'"),
    (("rotate", "zz"), "id must"),
    (("rotate", "zzzzzzzzzzzz", "--grace-seconds", "-1"), "grace_seconds must"),
    (("revoke", "zzzzzzzzzzzz"), "no key 'zzzzzzzzzzzz'"),
    (("revoke", "'; DROP TABLE keys"), "id must"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD)
def test_bad_input_is_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    added(tmp_path)
    done = kreach("keys", *arguments, "--store", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert len(done.err.strip().splitlines()) == 1
    assert told in done.err
    assert len(json.loads(kreach("keys", "list", "--json", "--store", str(tmp_path)).out)["keys"])


def test_a_key_on_the_command_line_is_refused_and_not_repeated(tmp_path: Path) -> None:
    text = added(tmp_path)
    for command in ("rotate", "revoke"):
        done = kreach("keys", command, text, "--store", str(tmp_path))
        assert (done.code, done.out) == (1, "")
        assert "exposed" in done.err
        assert parts_of(text)[1] not in done.err
    (shown,) = json.loads(kreach("keys", "list", "--json", "--store", str(tmp_path)).out)["keys"]
    assert (shown["state"], shown["rotated"]) == ("valid", None)


def test_a_store_without_keys_is_said_and_not_made(tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "typo"))
    for arguments in (("list",), ("rotate", "zzzzzzzzzzzz"), ("revoke", "zzzzzzzzzzzz")):
        done = kreach("keys", *arguments, *where)
        assert done.code == 1
        assert "has no keys: create one first" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("add",),
        ("add", "--role", "operator", "--rate", "x"),
        ("rotate",),
        ("revoke",),
        ("nonsense",),
        ("list", "--store", "a", "--config", "b"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = kreach("keys", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "--help`)" in done.err


@pytest.mark.parametrize("command", ["add", "list", "rotate", "revoke"])
def test_every_command_has_help_an_example_and_json(command: str) -> None:
    done = kreach("keys", command, "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert f"kreach keys {command}" in " ".join(done.out.split())


def test_help_loads_nothing_heavy() -> None:
    check = "import sys; print('HEAVY', 'numpy' in sys.modules, file=sys.stderr)"
    done = kreach_process("keys", "add", "-h", after=check)
    assert done.code == 0
    assert done.err.strip() == "HEAVY False"


def test_limits_of_an_advertiser(tmp_path: Path) -> None:
    added(tmp_path, "--role", "advertiser", "--advertiser", "acme")
    where = ("--store", str(tmp_path))
    done = kreach("keys", "limit", "acme", "--credit-limit", "50000", *where)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == ["max_campaigns: as in [reporting]", "credit_limit: 50000.0"]
    done = kreach("keys", "limit", "acme", "--max-campaigns", "7", "--json", *where)
    row = {"advertiser": "acme", "max_campaigns": 7, "credit_limit": None}
    assert json.loads(done.out) == row
    assert json.loads(kreach("keys", "list", "--json", *where).out)["limits"] == [row]
    for wrong in (["Acme"], ["acme", "--credit-limit", "-1"], ["acme", "--max-campaigns", "-1"]):
        done = kreach("keys", "limit", *wrong, *where)
        assert done.code == 1
        assert len(done.err.splitlines()) == 1


def test_keys_of_a_store_without_limits_are_upgraded(tmp_path: Path) -> None:
    text = added(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.executescript("DROP TABLE limits; PRAGMA user_version = 1")
    with closing(KeyStore(tmp_path, create=False)) as store:
        assert [kept.key.id for kept in store.all()] == [parts_of(text)[0]]
        assert store.limits() == []
