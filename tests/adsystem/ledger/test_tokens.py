"""Tokens: what was signed comes back, and nothing else does."""

import base64
import hashlib
import itertools
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.ledger import tokens as module
from kreach.adsystem.ledger.tokens import Claim, Tokens
from kreach.errors import KreachError

KEY = bytes(range(32))
CLAIM = Claim(3, 70_000, 12, 1, 999_999, 4_321, 1_790_000_000_123_456, 1_790_000_900)
ALPHABET = string.ascii_letters + string.digits + "-_"

claims = st.builds(
    Claim,
    epoch=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**40 - 1),
    campaign=st.integers(0, 2**32 - 1),
    catalogue=st.integers(0, 2**16 - 1),
    group=st.integers(0, 2**32 - 1),
    micros=st.integers(0, 2**63),
    issued_micros=st.integers(0, 2**63),
    expires=st.integers(0, 2**32 - 1),
    venue=st.integers(0, 255),
    rate=st.integers(0, 2**63),
)


@given(claims)
def test_a_claim_comes_back_as_it_went_out(claim: Claim) -> None:
    tokens = Tokens(KEY)
    assert tokens.read(tokens.make(claim).decode()) == claim


@given(claims, claims)
def test_no_two_bids_share_a_number(one: Claim, other: Claim) -> None:
    same = (one.epoch, one.sequence) == (other.epoch, other.sequence)
    assert (one.impression == other.impression) == same


def test_a_token_needs_no_escaping_in_an_address() -> None:
    assert set(Tokens(KEY).make(CLAIM).decode()) <= set(ALPHABET)


def test_any_other_character_anywhere_is_refused() -> None:
    tokens = Tokens(KEY)
    token = tokens.make(CLAIM).decode()
    for at, was in enumerate(token):
        for character in (set(ALPHABET) | set("+/=. %é\n\0")) - {was}:
            assert tokens.read(token[:at] + character + token[at + 1 :]) is None, (at, character)


def test_any_flipped_bit_is_refused() -> None:
    tokens = Tokens(KEY)
    token = tokens.make(CLAIM).decode()
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for bit in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        assert tokens.read(base64.urlsafe_b64encode(changed).decode().rstrip("=")) is None, bit


def test_what_is_longer_shorter_or_made_up_is_refused() -> None:
    tokens = Tokens(KEY)
    token = tokens.make(CLAIM).decode()
    chance = random.Random(1)
    made_up = ["".join(chance.choices(ALPHABET, k=len(token))) for _ in range(200)]
    padded = token + "=" * (-len(token) % 4)
    for other in ["", token[:-1], token[1:], token + "A", padded, token * 2, *made_up]:
        assert tokens.read(other) is None


def test_halves_of_two_tokens_are_refused() -> None:
    tokens = Tokens(KEY)
    one = tokens.make(CLAIM).decode()
    other = tokens.make(CLAIM._replace(sequence=7, micros=9)).decode()
    for at in range(1, len(one)):
        mixed = one[:at] + other[at:]
        if mixed not in {one, other}:
            assert tokens.read(mixed) is None, at


def test_another_key_reads_nothing() -> None:
    token = Tokens(KEY).make(CLAIM).decode()
    for key in (bytes(16), KEY[:-1], KEY + b"\0", bytes(reversed(KEY))):
        assert Tokens(key).read(token) is None


def test_another_version_is_refused_though_it_is_signed() -> None:
    tokens = Tokens(KEY)
    key = hashlib.blake2b(KEY, person=b"kreach-token").digest()
    for version in (0, 1, 2, 3, 4, 255):
        body = module._FORM.pack(version, *CLAIM)
        signature = hashlib.blake2b(body, key=key, digest_size=16).digest()
        signed = tokens._crypt(body, signature) + signature
        token = base64.urlsafe_b64encode(signed).decode().rstrip("=")
        assert tokens.read(token) == (CLAIM if version == 4 else None)


@pytest.mark.parametrize(("version", "fields"), [(2, 8), (3, 9)])
def test_tokens_of_earlier_versions_are_read(version: int, fields: int) -> None:
    """Their bids may be open while a bidder is upgraded."""
    key = hashlib.blake2b(KEY, person=b"kreach-token").digest()
    body = module._FORMS[version].pack(version, *CLAIM[:fields])
    signed = body + hashlib.blake2b(body, key=key, digest_size=16).digest()
    token = base64.urlsafe_b64encode(signed).decode().rstrip("=")
    assert Tokens(KEY).read(token) == CLAIM


def test_tokens_of_consecutive_bids_have_nothing_in_common() -> None:
    """Who reads tokens learns neither how many bids there are nor what they are about."""
    tokens = Tokens(KEY)
    made = [tokens.make(CLAIM._replace(sequence=at)).decode() for at in range(400)]
    raw = [base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)) for token in made]
    for column in zip(*raw, strict=True):  # every byte takes many values, in no order
        assert len(set(column)) > 150
        rising = sum(one < other for one, other in itertools.pairwise(column))
        assert 140 < rising < 260


@pytest.mark.parametrize("key", [b"", b"short", bytes(15)])
def test_a_short_key_is_refused(key: bytes) -> None:
    with pytest.raises(KreachError, match="16 bytes"):
        Tokens(key)
