"""From a form to a campaign, and from an error of reporting back to the field that it is about."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

__all__ = ["CREATE", "as_document", "field_of", "local_text"]

CREATE = (
    "id",
    "budget",
    "start",
    "end",
    "cap",
    "cap_days",
    "daily_budget",
    "audience",
    "expected_requests",
    "bidder",
    "auction",
    "min_cpm",
    "max_cpm",
    "market_mu",
    "market_sigma",
    "width",
    "height",
    "markup",
)
"""Fields of the form of a new campaign."""

_NUMBERS = ("budget", "daily_budget", "min_cpm", "max_cpm", "market_mu", "market_sigma")
_WHOLE = ("expected_requests",)
_ELSEWHERE = {  # where the message about something is shown that is no field of the form
    "bid limits": "min_cpm",
    "market": "market_mu",
    "creative": "width",
    "caps": "cap",
}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")
_A_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_DAY_SECONDS = 86_400.0


def _number(text: str, *, whole: bool = False) -> Any:
    """The number in a field; what is none stays text, for reporting to say so."""
    if not (_WHOLE_NUMBER if whole else _A_NUMBER).fullmatch(text):
        return text
    found = int(text) if whole else float(text)
    return found if isfinite(found) else text


def _moment(text: str) -> str:
    """A browser's local time taken as UTC; anything else stays, for reporting to say so."""
    return f"{text}:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", text) else text


def local_text(moment: datetime) -> str:
    """A time as fields of a browser hold it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def as_document(given: Mapping[str, Any]) -> dict[str, Any]:
    """The campaign, or the change of one, that a form describes. Empty fields are left out.

    Nothing is checked here: reporting has the rules, and its message goes to the field.
    """
    filled = {name: str(value).strip() for name, value in given.items() if value is not None}
    filled = {name: text for name, text in filled.items() if text}
    made: dict[str, Any] = {}
    for name in ("id", "audience", "auction", "bidder", "state"):
        if name in filled:
            made[name] = filled[name]
    for name in ("start", "end"):
        if name in filled:
            made[name] = _moment(filled[name])
    for name in (*_NUMBERS, *_WHOLE):
        if name in filled:
            made[name] = _number(filled[name], whole=name in _WHOLE)
    if "cap" in filled:
        cap: dict[str, Any] = {"limit": _number(filled["cap"], whole=True)}
        if "cap_days" in filled:
            days = _number(filled["cap_days"])
            cap["span_seconds"] = days * _DAY_SECONDS if isinstance(days, float) else days
        made["caps"] = [cap]
    creative: dict[str, Any] = {
        name: _number(filled[name], whole=True) for name in ("width", "height") if name in filled
    }
    if "markup" in filled:
        creative["markup"] = filled["markup"]
    if creative:
        made["creative"] = creative
    return made


def field_of(message: str, fields: tuple[str, ...] = CREATE) -> str | None:
    """The field of the form that a message of reporting is about; None if it is about none.

    Messages begin with the place: `caps.0.limit: input should ...` or `end must come after ...`.
    """
    place = re.split(r": | must ", message, maxsplit=1)[0]
    if place.endswith("span_seconds") and "cap_days" in fields:
        return "cap_days"
    for name in (place, place.rpartition(".")[2], place.partition(".")[0]):
        found = _ELSEWHERE.get(name, name)
        if found in fields:
            return found
    return None
