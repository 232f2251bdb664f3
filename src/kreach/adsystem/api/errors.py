"""Errors as data: one form, one table of statuses, every wrong field at once."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import Response

from kreach.adsystem.campaigns.campaign import REMOVED
from kreach.adsystem.campaigns.review import CreativeChanged, UnknownCreative
from kreach.adsystem.campaigns.store import (
    CampaignEnded,
    CampaignExists,
    FamilyExists,
    UnknownCampaign,
    UnknownFamily,
)
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.report import (
    Allowed,
    ErrorDocument,
    ErrorInfo,
    FieldError,
    to_json,
)
from kreach.errors import KreachError, KreachErrors, short_value

__all__ = ["error_response", "json_response", "kreach_error_response", "validation_response"]

_STATUS: Mapping[type[KreachError], int] = {
    UnknownCampaign: 404,
    CampaignExists: 409,
    CampaignEnded: 409,
    UnknownFamily: 404,
    FamilyExists: 409,
    UnknownCreative: 404,
    CreativeChanged: 409,
}
_CODES = {"missing": "required", "extra_forbidden": "unknown"}
_MAX_MESSAGE = 300
_CHOICES = re.compile(r"\^\(([a-z_|]+)\)\$")
_SUBJECTS = ("Input", "String", "List", "Value")


def json_response(
    document: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A struct as JSON."""
    return Response(to_json(document), status, headers, media_type="application/json")


def error_response(
    status: int,
    message: str,
    fields: Iterable[FieldError] = (),
    *,
    reason: str | None = None,
    allowed: Allowed | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The one form of error."""
    info = ErrorInfo(message=message, fields=tuple(fields), reason=reason, allowed=allowed)
    return json_response(ErrorDocument(error=info), status, headers)


def kreach_error_response(error: KreachError) -> Response:
    """An error of ours: 404, 409 or 422, with its fields."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
    parts = error.errors if isinstance(error, KreachErrors) else (error,)
    fields = [
        FieldError(field=part.field, code=part.code, message=str(part))
        for part in parts
        if part.field is not None
    ]
    if isinstance(error, Withheld):
        return error_response(
            status, str(error), fields, reason=error.reason, allowed=error.allowed
        )
    return error_response(status, str(error), fields)


def validation_response(errors: Sequence[Any]) -> Response:
    """What FastAPI found wrong with a request: every field with its rule and a short value."""
    if any(one["type"] == "json_invalid" for one in errors):
        return error_response(400, "the body must be JSON")
    fields = [_field_error(one) for one in errors]
    message = fields[0].message if len(fields) == 1 else f"{len(fields)} fields are wrong"
    if len(fields) > 1:
        message += ": " + "; ".join(field.message for field in fields)
    return error_response(422, message[:_MAX_MESSAGE], fields)


def _pattern_rule(pattern: str) -> str:
    """A rule in words: our patterns are choices, such as ^(running|paused)$."""
    choices = _CHOICES.fullmatch(pattern)
    return f"be one of {', '.join(choices[1].split('|'))}" if choices else f"match {pattern}"


def _field_error(error: Any) -> FieldError:
    place = [str(part) for part in error["loc"]]
    if len(place) > 1 and place[0] in ("query", "path", "body", "header"):
        place = place[1:]
    field = ".".join(place) or "request"
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        message = f"{field} is required"
    elif error["type"] == "extra_forbidden":
        message = REMOVED.get(field, f"{field} is not a known field")
    elif error["type"] == "string_pattern_mismatch":
        message = f"{field} must {_pattern_rule(error['ctx']['pattern'])}"
    elif " should " in text and text.split(" ")[0] in _SUBJECTS:
        message = f"{field} must {text.partition(' should ')[2]}"
    else:
        message = f"{field} {text[:1].lower()}{text[1:]}"
    value = error.get("input")
    if error["type"] not in _CODES and isinstance(value, (str, int, float, bool)):
        message += f", got {short_value(value)}"
    code = _CODES.get(error["type"], "invalid")
    return FieldError(field=field[:_MAX_MESSAGE], code=code, message=message[:_MAX_MESSAGE])
