"""Keys and their texts: what they may be, and what is kept of a secret."""

import hashlib
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.access.key import (
    LOOKS_LIKE_A_KEY,
    Key,
    as_advertiser,
    as_key_id,
    digest_of,
    new_id,
    new_secret,
    parts_of,
    text_of,
)
from kreach.errors import KreachError

ID = "abcdefghjkmn"


@given(st.binary(min_size=32, max_size=32))
def test_a_secret_holds_every_bit_of_what_was_drawn(drawn: bytes) -> None:
    secret = new_secret(lambda size: drawn[:size])
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = sum(letters.index(letter) * 62**at for at, letter in enumerate(secret))
    assert number == int.from_bytes(drawn)
    assert parts_of(text_of(ID, secret)) == (ID, secret)
    assert LOOKS_LIKE_A_KEY.search(f"x{text_of(ID, secret)}y")


def test_ids_and_secrets_are_drawn_anew() -> None:
    assert len({new_id() for _ in range(500)}) == 500
    assert len({new_secret() for _ in range(500)}) == 500
    assert all(as_key_id(new_id()) for _ in range(50))
    asked: list[int] = []

    def draw(size: int) -> bytes:
        asked.append(size)
        return secrets.token_bytes(size)

    new_secret(draw)
    assert asked == [32]


NO_KEYS = [
    "",
    "kreach",
    "kreach_",
    f"kreach_{ID}",
    f"kreach_{ID}_",
    f"kreach_{ID}_{'a' * 42}",
    f"kreach_{ID}_{'a' * 44}",
    f"kreach_{ID}_{'a' * 42}-",
    f"kreach_{ID[:-1]}_{'a' * 43}",
    f"KREACH_{ID}_{'a' * 43}",
    f"kreach_{ID}_{'a' * 43}\n",
    f" kreach_{ID}_{'a' * 43}",
    f"kreach_{ID}_{'ä' * 43}",
]


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_is_no_key_has_no_parts(text: str) -> None:
    assert parts_of(text) == ("", "")


def test_the_digest_is_of_id_and_secret() -> None:
    assert digest_of(ID, "s" * 43) == hashlib.sha256(f"{ID}:{'s' * 43}".encode()).digest()
    assert digest_of("nmkjhgfedcba", "s" * 43) != digest_of(ID, "s" * 43)


BAD = [
    ({"role": "boss"}, "role must be one of operator, advertiser, publisher"),
    ({"role": "advertiser"}, "advertiser must"),
    ({"role": "publisher", "advertiser": "acme"}, "left out"),
    ({"advertiser": "acme"}, "left out"),
    ({"role": "advertiser", "advertiser": "Acme"}, "advertiser must"),
    ({"rate_per_minute": 0}, "rate_per_minute must"),
    ({"rate_per_minute": 2_000_000}, "rate_per_minute must"),
    ({"rate_per_minute": True}, "rate_per_minute must"),
    ({"id": "short"}, "id must"),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_a_key_that_breaks_a_rule_is_not_made(change: dict[str, object], told: str) -> None:
    good: dict[str, object] = {
        "id": ID,
        "role": "operator",
        "advertiser": None,
        "rate_per_minute": 600,
        "created_ts": 0.0,
    }
    Key(**good)  # type: ignore[arg-type]
    with pytest.raises(KreachError, match=told):
        Key(**(good | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "-acme", "a" * 33, "a.b", "a_b", "ACME", "acme\n", "ä", None])
def test_names_that_no_advertiser_has(name: object) -> None:
    with pytest.raises(KreachError, match="advertiser must"):
        as_advertiser(name)


def test_a_whole_key_in_place_of_its_id_is_not_repeated() -> None:
    secret = new_secret()
    with pytest.raises(KreachError, match="exposed") as caught:
        as_key_id(text_of(ID, secret))
    assert secret not in str(caught.value)


def test_when_a_key_is_over() -> None:
    key = Key(ID, "operator", None, 600, created_ts=0.0, expires_ts=100.0)
    assert [key.state(now) for now in (99.9, 100.0)] == ["valid", "expired"]
    over = Key(ID, "operator", None, 600, created_ts=0.0, expires_ts=100.0, revoked_ts=50.0)
    assert {over.state(now) for now in (0.0, 99.0, 200.0)} == {"revoked"}
