"""Keyed pseudonyms of people and impressions: the store holds no other ids."""

import hashlib
import os
import secrets
from pathlib import Path

from kreach.errors import KreachError

__all__ = ["KEY_FILE", "Pseudonyms", "make_key", "read_key"]

KEY_FILE = "key"
_KEY_BYTES = 32
_NAME_BYTES = 16


class Pseudonyms:
    """Keyed hashes of user ids and impression ids, different for each campaign.

    Without the key nobody can test a guessed user id against the store, nor link a person's rows
    of two campaigns.
    """

    def __init__(self, key: bytes, campaigns: tuple[str, ...]) -> None:
        self._digests = {name: _start_digest(key, name) for name in campaigns}

    def user(self, campaign: str, user_id: str) -> bytes:
        """The pseudonym of a user for a campaign."""
        digest = self._digests[campaign].copy()
        digest.update(user_id.encode())
        return digest.digest()

    def impression(self, campaign: str, user_id: str, impression_id: str) -> bytes:
        """The pseudonym of an impression. Ids hold no NUL, so distinct triples hash apart."""
        digest = self._digests[campaign].copy()
        digest.update(f"{user_id}\0{impression_id}".encode())
        return digest.digest()


def _start_digest(key: bytes, campaign: str) -> "hashlib.blake2b":
    start = f"{campaign}\0".encode()
    return hashlib.blake2b(start, key=key, person=b"kreach showing", digest_size=_NAME_BYTES)


def read_key(folder: Path) -> bytes | None:
    """The key of a store, or None if it has none yet."""
    path = folder / KEY_FILE
    try:
        text = path.read_text(encoding="ascii")
        open_to_all = path.stat().st_mode & 0o007
        key = bytes.fromhex(text.strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        rule = "hold a key that can be read"
        raise KreachError.rule("store", rule, f"{path} ({error.strerror})") from None
    except ValueError:
        key, open_to_all = b"", 0
    if len(key) != _KEY_BYTES:
        rule = f"hold a key of {_KEY_BYTES} bytes in hexadecimal"
        raise KreachError.rule("store", rule, str(path))
    if os.name == "posix" and open_to_all:
        raise KreachError.rule("store", "hold a key that others cannot read (mode 0600)", str(path))
    return key


def make_key(folder: Path) -> bytes:
    """Create a key, durably; if another process was first, return that one."""
    unfinished = folder / f".{KEY_FILE}.{secrets.token_hex(8)}"
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _link_once(unfinished, folder / KEY_FILE)
    except OSError as error:
        rule = "be a folder in which a key can be created"
        raise KreachError.rule("store", rule, f"{folder} ({error.strerror})") from None
    finally:
        unfinished.unlink(missing_ok=True)
    key = read_key(folder)
    if key is None:
        raise KreachError.rule("store", "keep the key that was created", str(folder))
    return key


def _link_once(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        return
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
