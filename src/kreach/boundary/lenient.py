"""JSON into structs, as lenient as a request from strangers needs.

Well-formed requests are decoded in one step. What that refuses is decoded field by field: numbers
that are written as text or with a point are taken for what they mean, null for absent, a single
value for a list of one. A field that its struct names as `foreign` belongs to somebody else: if it
cannot be read, it counts as absent. Any other field that cannot be read is an error.

Fields that a struct does not have are never decoded, here as in msgspec: no object holds them.
"""

from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

__all__ = ["Unreadable", "decode_leniently"]

_ABSENT = msgspec.Raw(b"")
_NULL = b"null"


class Unreadable(ValueError):
    """A value that cannot be read: where it is and what it should be, never what it is."""

    def __init__(self, rule: str, path: str = "") -> None:
        super().__init__(rule)
        self.rule, self.path = rule, path

    def within(self, place: str) -> "Unreadable":
        """The same error, seen from outside."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Unreadable(self.rule, f"{place}{joint}{self.path}")


def decode_leniently(data: bytes | msgspec.Raw, kind: Any) -> Any:
    """A value of this type from JSON; raises `Unreadable`, or `msgspec.DecodeError` for no JSON."""
    kind = _without_none(kind)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _struct(data, kind)
        if get_origin(kind) is list:
            return _list(data, get_args(kind)[0])
        if kind in (int, float):
            return _number(data, kind)
        raise Unreadable(str(error).partition(" - at")[0].replace("`", "")) from None


def _struct(data: bytes | msgspec.Raw, kind: type[msgspec.Struct]) -> Any:
    try:
        raw = msgspec.json.decode(data, type=_raw_twin(kind))
    except msgspec.ValidationError as error:
        raise Unreadable(str(error).partition(" - at")[0].replace("`", "")) from None
    foreign = getattr(kind, "foreign", ())
    values = {}
    for info in msgspec.structs.fields(kind):
        part = getattr(raw, info.name)
        if part is _ABSENT or bytes(part) == _NULL:
            if info.required:
                raise Unreadable(f"Object missing required field {info.encode_name}")
            continue
        try:
            values[info.name] = decode_leniently(part, info.type)
        except Unreadable as error:
            if info.name not in foreign:
                raise error.within(info.encode_name) from None
    return kind(**values)


def _list(data: bytes | msgspec.Raw, kind: Any) -> list[Any]:
    """The readable entries, of structs with foreign fields; of others all must be readable."""
    try:
        parts = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        if kind not in (str, int):
            raise Unreadable("Expected array") from None
        parts = [msgspec.Raw(bytes(data))]
    values = []
    for at, part in enumerate(parts):
        try:
            values.append(decode_leniently(part, kind))
        except Unreadable as error:
            if not getattr(kind, "foreign", ()):
                raise error.within(f"[{at}]") from None
    return values


def _number(data: bytes | msgspec.Raw, kind: Any) -> int | float:
    try:
        value = msgspec.json.decode(data, type=float | bool, strict=False)
    except msgspec.ValidationError:
        raise Unreadable("Expected number") from None
    if not isfinite(value):
        raise Unreadable("Expected number")
    return int(value) if kind is int else float(value)


@cache
def _raw_twin(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A struct with the same fields, none of them decoded."""
    fields = [
        (info.name, msgspec.Raw, msgspec.field(default=_ABSENT, name=info.encode_name))
        for info in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(f"Raw{kind.__name__}", fields, kw_only=True)


def _without_none(kind: Any) -> Any:
    """`T` of `T | None`."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        if len(kinds) == 1:
            return kinds[0]
    return kind
