"""Signed tokens: a bid's notice addresses carry all that is needed to book them.

Nothing about a bid is stored when it goes out. What comes back is trusted because of the signature
and counts until its expiry. Tokens are encrypted, by a stream of bytes that follows from the
signature (a synthetic initialisation vector): nobody reads from them how many bids there are, how
often a bidder starts, or which campaign, group and price it was.
"""

import base64
import binascii
import hashlib
import hmac
import struct
from binascii import b2a_base64
from typing import NamedTuple

from kreach.errors import KreachError

__all__ = ["Claim", "Tokens"]

_VERSION = 4
_FORMS = {
    2: struct.Struct("<BIQIIIQQI"),
    3: struct.Struct("<BIQIIIQQIB"),
    _VERSION: struct.Struct("<BIQIIIQQIBQ"),
}
"""By version; those of version 2 said nothing about the auction, those of 3 were not encrypted."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SIGNATURE_BYTES = 16
_FORM = _FORMS[_VERSION]
_as_number = int.from_bytes
_VERSION_OF_LENGTH = {
    -(-(form.size + _SIGNATURE_BYTES) * 4 // 3): version for version, form in _FORMS.items()
}


class Claim(NamedTuple):
    """What a token says: which bid this is and what was promised."""

    epoch: int  # the run of the bidder
    sequence: int  # the bid within the run
    campaign: int
    catalogue: int
    group: int
    micros: int  # the bid
    issued_micros: int  # when, in millionths of a second
    expires: int  # in whole seconds
    venue: int = 0  # 0: a second-price auction; else first-price, by exchange
    rate: int = 0  # of the currency of the bid, in billionths; 0: ours

    @property
    def impression(self) -> int:
        """A number no other bid has."""
        return self.epoch << 40 | self.sequence


class Tokens:
    """Makes tokens and reads them back; a changed one is refused."""

    def __init__(self, key: bytes, bidder: str = "") -> None:
        """Bidders that are given one key do not take each other's tokens for their own."""
        if len(key) < 16:
            raise KreachError.rule("token key", "have at least 16 bytes", f"{len(key)} bytes")
        named = hashlib.blake2b(key, person=b"kreach-token")
        named.update(bidder.encode())
        self._keyed = hashlib.blake2b(key=named.digest(), digest_size=_SIGNATURE_BYTES)
        named.update(b"stream")
        self._stream = hashlib.blake2b(key=named.digest(), digest_size=_FORM.size)

    def make(self, claim: Claim) -> bytes:
        """The token of a claim."""
        body = _FORM.pack(_VERSION, *claim)
        signing = self._keyed.copy()  # `_signature` and `_crypt`, without their calls
        signing.update(body)
        signature = signing.digest()
        stream = self._stream.copy()
        stream.update(signature)
        mixed = _as_number(body, "little") ^ _as_number(stream.digest(), "little")
        signed = mixed.to_bytes(_FORM.size, "little") + signature
        return b2a_base64(signed, newline=False).translate(_URL_SAFE, b"=")

    def read(self, token: str) -> Claim | None:
        """The claim of a token, or None if it is not one of ours."""
        expected = _VERSION_OF_LENGTH.get(len(token))
        if expected is None:
            return None
        form = _FORMS[expected]
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if _text(raw) != token.encode():  # another spelling of the same bytes
            return None
        body, signature = raw[: form.size], raw[form.size :]
        if expected == _VERSION:
            body = self._crypt(body, signature)
        if not hmac.compare_digest(self._signature(body), signature):
            return None
        version, *fields = form.unpack(body)
        return Claim(*fields) if version == expected else None

    def _crypt(self, body: bytes, signature: bytes) -> bytes:
        """Encrypt, or decrypt."""
        stream = self._stream.copy()
        stream.update(signature)
        mixed = int.from_bytes(body, "little") ^ int.from_bytes(stream.digest(), "little")
        return mixed.to_bytes(_FORM.size, "little")

    def _signature(self, body: bytes) -> bytes:
        signing = self._keyed.copy()  # the key is hashed once, not once for every bid
        signing.update(body)
        return signing.digest()


def _text(signed: bytes) -> bytes:
    return b2a_base64(signed, newline=False).translate(_URL_SAFE, b"=")
