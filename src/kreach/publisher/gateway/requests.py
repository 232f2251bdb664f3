"""The request bodies of the gateway. An error names the field and the rule, never the value."""

from typing import Annotated, TypeVar

import msgspec

from kreach.errors import KreachError
from kreach.publisher.gateway.settings import MAX_NAME
from kreach.service.bodies import decode_body

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_ID",
    "AllowRequest",
    "IdentifyRequest",
    "ShownRequest",
    "decode_request",
]

MAX_ID = 1_024  # characters
MAX_BODY_BYTES = 400_000
_MAX_CAMPAIGNS = 1_000

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class IdentifyRequest(msgspec.Struct, frozen=True):
    """POST /v1/identify: which group is this user in?"""

    user_id: Id


class AllowRequest(msgspec.Struct, frozen=True):
    """POST /v1/allow: which of these campaigns may this user see?"""

    user_id: Id
    campaigns: Annotated[tuple[Name, ...], msgspec.Meta(max_length=_MAX_CAMPAIGNS)]
    hold: bool = False


class ShownRequest(msgspec.Struct, frozen=True):
    """POST /v1/shown: this user saw this campaign."""

    user_id: Id
    campaign: Name
    impression_id: Id


R = TypeVar("R", IdentifyRequest, AllowRequest, ShownRequest)


def decode_request(decoder: "msgspec.json.Decoder[R]", body: bytes) -> R:
    """A body as a request, or a KreachError that quotes nothing of it."""
    request = decode_body(decoder, body)
    for name in ("user_id", "impression_id"):
        if "\0" in getattr(request, name, ""):
            raise KreachError(f"{name} must not contain a NUL character", field=name)
    return request
