"""From a form to the JSON body of a request, and from a field of an error back to its input.

Inputs are named by the path of their value in the body, such as `budget` or `caps.0.limit`.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from math import isfinite

from kreach.boundary.times import DAY_SECONDS

__all__ = [
    "CAP_LIMIT",
    "CAP_SPAN",
    "id_from",
    "input_for",
    "local_text",
    "number_text",
    "request_body",
]

CAP_LIMIT, CAP_SPAN = "caps.0.limit", "caps.0.span_seconds"

_DECIMAL = {"budget", "daily_budget", "min_cpm", "max_cpm", "market_mu", "market_sigma", CAP_SPAN}
_DECIMAL |= {"max_cost_per_reach"}
_WHOLE = {"expected_requests", CAP_LIMIT, "creative.width", "creative.height"}
_TIMES = {"start", "end"}
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_WHOLE_TEXT = re.compile(r"[+-]?[0-9]{1,100}")
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def local_text(moment: datetime) -> str:
    """A time as the value of a `datetime-local` input."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def number_text(value: float | None) -> str:
    """A number as the value of an input: no exponent, at most six decimals.

    >>> number_text(1_000_000.0), number_text(0.25), number_text(None)
    ('1000000', '0.25', '')
    """
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def id_from(name: str) -> str:
    """An id for a campaign from its name: letters and digits, joined by hyphens.

    >>> id_from("Spring shoes & socks"), id_from("Frühling 2027"), id_from("!")
    ('spring-shoes-socks', 'fruhling-2027', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-")


def _value(name: str, text: str) -> object:
    """The JSON value of an input. What cannot be converted stays text: reporting rejects it."""
    if name in _WHOLE and _WHOLE_TEXT.fullmatch(text):
        return int(text)
    if name in _DECIMAL and _DECIMAL_TEXT.fullmatch(text) and isfinite(float(text)):
        return float(text) * (DAY_SECONDS if name == CAP_SPAN else 1)
    if name in _TIMES and _LOCAL_TIME.fullmatch(text):
        return f"{text}:00Z"
    return text


def request_body(values: Mapping[str, str | None]) -> dict[str, object]:
    """The JSON body that a form describes, without empty inputs. A cap spans days in the form.

    Nothing is validated here: reporting has the rules, and its errors go to the inputs.

    >>> request_body({"budget": "10", "caps.0.limit": "2", "creative.width": "", "start": None})
    {'budget': 10.0, 'caps': [{'limit': 2}]}
    """
    body: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {"caps.0": {}, "creative": {}}
    for name, value in values.items():
        text = (value or "").strip()
        if text:
            part, _, key = name.rpartition(".")
            parts.get(part, body)[key] = _value(name, text)
    if parts["caps.0"]:
        body["caps"] = [parts["caps.0"]]
    if parts["creative"]:
        body["creative"] = parts["creative"]
    return body


def input_for(field: str, inputs: Collection[str]) -> str | None:
    """The input for a field of an error: the same path, or one inside or around it.

    >>> input_for("creative", ("budget", "creative.width")), input_for("state", ("budget",))
    ('creative.width', None)
    """
    if field in inputs:
        return field
    related = (name for name in inputs if f"{name}.".startswith(f"{field}."))
    around = (name for name in inputs if f"{field}.".startswith(f"{name}."))
    return next(related, None) or next(around, None)
