"""Signed user tokens: how a browser says who it is without being able to say who it is not.

A token is `v1.USER.EXPIRY.MAC`: the user id in base64url without padding, seconds since 1970, and
HMAC-SHA256 of all before the last dot in base64url without padding. The publisher's own server
signs it at sign-in and sets it as a cookie that scripts cannot read (HttpOnly), so neither a page
nor a third party's script on it learns the user id, and nobody can ask for another's group.
"""

import base64
import hashlib
import hmac
import os
from pathlib import Path

from kreach.errors import KreachError

__all__ = ["UserTokens", "read_user_key"]

_VERSION = "v1"
_MIN_KEY_BYTES = 32
_MAX_TOKEN = 4_096  # what browsers keep of a cookie
_MAX_SECONDS = 400 * 86_400.0  # the longest life of a cookie


class UserTokens:
    """Signs and reads tokens with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _MIN_KEY_BYTES:
            rule = f"have at least {_MIN_KEY_BYTES} bytes"
            raise KreachError.rule("user_key", rule, f"{len(key)} bytes")
        self._key = key

    def sign(self, user_id: str, expires_ts: float) -> str:
        """A token for a user, good until a time in seconds since 1970."""
        signed = f"{_VERSION}.{_encoded(user_id.encode())}.{int(expires_ts)}"
        return f"{signed}.{self._mac(signed)}"

    def user_id(self, token: str, now: float) -> str | None:
        """The user of a token that this key signed and that has not expired, or None.

        Compared in constant time, and before anything of it is used.
        """
        signed, dot, mac = token.rpartition(".")
        if not dot or len(token) > _MAX_TOKEN or not token.isascii():
            return None
        if not hmac.compare_digest(mac, self._mac(signed)):
            return None
        try:  # the key's holder wrote it, who may have made a mistake
            version, user, expiry = signed.split(".")
            if version != _VERSION or not now < int(expiry) <= now + _MAX_SECONDS:
                return None
            return base64.urlsafe_b64decode(user + "=" * (-len(user) % 4)).decode() or None
        except ValueError:
            return None

    def _mac(self, signed: str) -> str:
        return _encoded(hmac.new(self._key, signed.encode(), hashlib.sha256).digest())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_user_key(path: Path) -> bytes:
    """The key in a file, in hexadecimal; only its owner and group may read it."""
    try:
        text = path.read_text(encoding="ascii")
        others = path.stat().st_mode & 0o007
        key = bytes.fromhex(text.strip())
    except OSError as error:
        rule = "be a file that can be read"
        raise KreachError.rule("user_key_file", rule, f"{path} ({error.strerror})") from None
    except ValueError:
        key, others = b"", 0
    if len(key) < _MIN_KEY_BYTES:
        rule = f"hold at least {_MIN_KEY_BYTES} bytes in hexadecimal"
        raise KreachError.rule("user_key_file", rule, str(path))
    if os.name == "posix" and others:
        rule = "not be readable by others (chmod 640)"
        raise KreachError.rule("user_key_file", rule, str(path))
    return key
