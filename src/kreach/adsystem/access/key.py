"""An API key: its role, rate and expiry. Only a digest of its secret is stored."""

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Any

from kreach.boundary.checks import as_whole_number
from kreach.boundary.times import iso_seconds
from kreach.errors import KreachError

__all__ = [
    "ADVERTISER",
    "LOOKS_LIKE_A_KEY",
    "RATE_PER_MINUTE",
    "ROLES",
    "Draw",
    "Key",
    "as_advertiser",
    "as_key_id",
    "digest_of",
    "iso_of",
    "new_id",
    "new_secret",
    "parts_of",
    "text_of",
]

ROLES = ("operator", "advertiser", "publisher")
RATE_PER_MINUTE = 600
MAX_RATE_PER_MINUTE = 1_000_000
ADVERTISER = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
LOOKS_LIKE_A_KEY = re.compile(r"kreach_[a-z0-9]{12}_[0-9A-Za-z]{8}")

_ID_LETTERS = "abcdefghjkmnpqrstvwxyz0123456789"  # 32, none that is read as another
_SECRET_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_BYTES = 32
_SECRET_LENGTH = 43  # 62^43 > 2^256
_ID = re.compile(r"[a-z0-9]{12}")
_TEXT = re.compile(r"kreach_([a-z0-9]{12})_([0-9A-Za-z]{43})")

Draw = Callable[[int], bytes]
"""So many random bytes."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret. Times are seconds since 1970.

    The id is public. `former_until_ts`: until when the secret from before the last rotation is
    good. `rate_per_minute` is how many requests the key is good for in the long run.
    """

    id: str
    role: str
    advertiser: str | None
    rate_per_minute: int
    created_ts: float
    expires_ts: float | None = None
    revoked_ts: float | None = None
    rotated_ts: float | None = None
    former_until_ts: float | None = None

    def __post_init__(self) -> None:
        as_key_id(self.id)
        if self.role not in ROLES:
            raise KreachError.rule("role", f"be one of {', '.join(ROLES)}", self.role)
        if self.role == "advertiser":
            as_advertiser(self.advertiser)
        elif self.advertiser is not None:
            raise KreachError.rule(
                "advertiser", f"be left out for the role {self.role}", self.advertiser
            )
        as_whole_number(
            "rate_per_minute", self.rate_per_minute, minimum=1, maximum=MAX_RATE_PER_MINUTE
        )

    def state(self, now: float) -> str:
        """`valid`, `revoked` or `expired`."""
        if self.revoked_ts is not None:
            return "revoked"
        expired = self.expires_ts is not None and now >= self.expires_ts
        return "expired" if expired else "valid"

    def document(self, now: float) -> dict[str, Any]:
        """Plain values without secrets."""
        return {
            "id": self.id,
            "role": self.role,
            "advertiser": self.advertiser,
            "rate_per_minute": self.rate_per_minute,
            "created": iso_of(self.created_ts),
            "expires": iso_of(self.expires_ts),
            "revoked": iso_of(self.revoked_ts),
            "rotated": iso_of(self.rotated_ts),
            "former_until": iso_of(self.former_until_ts),
            "state": self.state(now),
        }


def as_advertiser(name: object) -> str:
    """The name of an advertiser."""
    if not isinstance(name, str) or not ADVERTISER.fullmatch(name):
        rule = "be 1 to 32 small letters, digits or -, and begin with a letter or digit"
        raise KreachError.rule("advertiser", rule, name)
    return name


def as_key_id(text: str) -> str:
    """The public id of a key. A whole key in its place is refused without being repeated."""
    if LOOKS_LIKE_A_KEY.search(text):
        raise KreachError(
            "id must be the public id of a key, got the key itself: it has now been exposed "
            "(shells and process lists keep what is typed), so rotate or revoke it"
        )
    if not _ID.fullmatch(text):
        raise KreachError.rule("id", "be the 12 letters and digits of a key's public id", text)
    return text


def new_id(draw: Draw = secrets.token_bytes) -> str:
    """A public id: 60 random bits."""
    number = int.from_bytes(draw(8))
    return "".join(_ID_LETTERS[number >> 5 * at & 31] for at in range(12))


def new_secret(draw: Draw = secrets.token_bytes) -> str:
    """A secret: 256 random bits in letters and digits, so that it needs no quotes anywhere."""
    number = int.from_bytes(draw(_SECRET_BYTES))
    letters = []
    for _ in range(_SECRET_LENGTH):
        number, at = divmod(number, 62)
        letters.append(_SECRET_LETTERS[at])
    return "".join(letters)


def text_of(key_id: str, secret: str) -> str:
    """The string that its holder gets. The prefix lets code scanners find leaked keys."""
    return f"kreach_{key_id}_{secret}"


def parts_of(text: str) -> tuple[str, str]:
    """Id and secret; two empty texts if it is not a key."""
    match = _TEXT.fullmatch(text)
    return (match[1], match[2]) if match else ("", "")


def digest_of(key_id: str, secret: str) -> bytes:
    """The digest of a secret, which is stored instead of it.

    One round of SHA-256 and no slow hash: those make up for passwords that can be guessed. Nobody
    guesses one of 2^256 secrets, however fast a guess is, and every request pays for the hash.
    """
    return hashlib.sha256(f"{key_id}:{secret}".encode()).digest()


def iso_of(ts: float | None) -> str | None:
    """A time in UTC as text, to the second."""
    return None if ts is None else iso_seconds(floor(ts))
