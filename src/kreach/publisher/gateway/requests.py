"""What may be asked of the gateway. An error names the field and the rule, never the value."""

from typing import Annotated, TypeVar

import msgspec

from kreach.errors import KreachError
from kreach.publisher.gateway.settings import MAX_NAME

__all__ = ["MAX_BODY_BYTES", "MAX_ID", "Allow", "Identify", "Shown", "read_body"]

MAX_ID = 1_024  # characters
MAX_BODY_BYTES = 400_000
_MAX_CAMPAIGNS = 1_000

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class Identify(msgspec.Struct, frozen=True):
    """Which group?"""

    user_id: Id


class Allow(msgspec.Struct, frozen=True):
    """Which of these campaigns may this user be shown?"""

    user_id: Id
    campaigns: Annotated[tuple[Name, ...], msgspec.Meta(max_length=_MAX_CAMPAIGNS)]
    hold: bool = False


class Shown(msgspec.Struct, frozen=True):
    """This user was shown this campaign."""

    user_id: Id
    campaign: Name
    impression_id: Id


B = TypeVar("B", Identify, Allow, Shown)


def read_body(decoder: "msgspec.json.Decoder[B]", body: bytes) -> B:
    """A body as its kind, or a KreachError that quotes nothing of it."""
    try:
        asked = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise KreachError(_readable(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KreachError("body must be JSON in UTF-8") from None
    for name in ("user_id", "impression_id"):
        if "\0" in getattr(asked, name, ""):
            raise KreachError(f"{name} must not hold a NUL character")
    return asked


def _readable(message: str) -> str:
    """`Expected str, got int - at $.user_id` with the field in front: kinds and bounds only."""
    said, _, where = message.partition(" - at `$")
    field = where.strip("`").lstrip(".")
    return f"{field or 'body'}: {said}"
