"""Request bodies: read from an ASGI connection, decompressed, decoded from JSON.

No error quotes a body.
"""

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kreach.errors import KreachError

__all__ = [
    "BodyTimeout",
    "BodyTooLong",
    "UnsupportedEncoding",
    "check_length",
    "content_encoding",
    "decode_body",
    "decompressed",
    "read_body",
]

T = TypeVar("T")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class BodyTooLong(KreachError):
    """The body has more bytes than the service reads."""


class UnsupportedEncoding(KreachError):
    """The body is compressed in a way that the service does not read."""

    def __init__(self) -> None:
        super().__init__("content-encoding must be gzip or left out", field="content-encoding")


class BodyTimeout(Exception):
    """The body did not arrive in time."""


async def read_body(
    message: Mapping[str, Any], receive: Receive, max_bytes: int, seconds: float
) -> bytes | None:
    """The body that begins with a message; None if the client has disconnected."""
    if message["type"] == "http.disconnect":
        return None
    body: bytes | None = message.get("body", b"")
    if message.get("more_body"):
        try:
            body = await asyncio.wait_for(_read_rest(body or b"", receive, max_bytes), seconds)
        except TimeoutError:
            raise BodyTimeout from None
    if body is not None:
        check_length(body, max_bytes)
    return body


async def _read_rest(body: bytes, receive: Receive, max_bytes: int) -> bytes | None:
    chunks, size = [body], len(body)
    while size <= max_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if not message.get("more_body"):
            break
    return b"".join(chunks)


def check_length(body: bytes, max_bytes: int) -> None:
    """Refuse a body of more than `max_bytes`."""
    if len(body) > max_bytes:
        raise BodyTooLong(f"body must have at most {max_bytes} bytes", field="body")


def content_encoding(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """How a body is compressed; empty if it is not."""
    found = b""
    for name, value in headers:  # on the bid path: nothing is made where there is none
        if name == b"content-encoding":
            found = b"%b,%b" % (found, value) if found else value
    return found.strip().lower() if found else found


def decompressed(body: bytes, encoding: bytes, max_bytes: int) -> bytes:
    """A body as it was before compression; never more than `max_bytes` of it are unpacked."""
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"x-gzip"):
        raise UnsupportedEncoding
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error:
        raise KreachError("body must be gzip, as content-encoding says", field="body") from None
    check_length(plain, max_bytes)
    if not inflater.eof or inflater.unused_data:
        raise KreachError("body must be one whole gzip member", field="body")
    return plain


def decode_body(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """The body as the decoder's type, or an error that names the field at fault."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")  # types and bounds, never values
        field = where.strip("`").lstrip(".")
        missing = _MISSING.fullmatch(problem)
        if missing:
            field = f"{field}.{missing[1]}".lstrip(".")
            raise KreachError(f"{field} is required", field=field, code="required") from None
        field = field or "body"
        raise KreachError(f"{field}: {problem}", field=field) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KreachError("body must be JSON in UTF-8", field="body") from None
