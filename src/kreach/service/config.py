"""Settings: one TOML file with a section per service, and the environment on top of it.

A variable that ends in `_FILE` names a file with the value: that is how orchestrators hand over
secrets, which then appear neither in the environment nor in the settings file.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, TypeVar, get_args

import msgspec

from kreach.errors import KreachError

__all__ = ["SECTIONS", "Settings", "load_settings", "read_file"]

SECTIONS = (
    "adsystem",
    "bidder",
    "redis",
    "shipping",
    "releases",
    "reporting",
    "guard",
    "noise",
    "gateway",
    "console",
    "clock",
    "server",
    "tracing",
)
_PREFIX = "KREACH_"
_FILE = "_FILE"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section: fields with defaults, checked when it is read. Paths are made absolute.

    `renamed` maps the former name of a field to its present one: files and environments that still
    use the former name are refused with a line that says so.
    """

    renamed: ClassVar[Mapping[str, str]] = {}


S = TypeVar("S", bound=Settings)
T = TypeVar("T", bound=msgspec.Struct)


def read_file(path: Path | None) -> dict[str, Any]:
    """The sections of a settings file; without one, none."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KreachError.rule("config", "be a file that can be read", str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KreachError.rule("config", "be TOML", f"{path} ({error})") from None
    for section, fields in document.items():
        if section not in SECTIONS or not isinstance(fields, dict):
            rule = f"have the sections {', '.join(SECTIONS)} only"
            raise KreachError.rule("config", rule, section)
    return document


def load_settings(
    kind: type[S],
    section: str,
    document: Mapping[str, Any],
    *,
    base: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> S:
    """One section, with KREACH_SECTION_FIELD of the environment taking precedence.

    KREACH_SECTION_FIELD_FILE names a file whose text is the value of the field. Relative paths
    (fields of type Path) count from `base`, the folder of the file.
    """
    environment = os.environ if environment is None else environment
    values = dict(document.get(section, {}))
    _refuse_renamed(kind, section, values, environment)
    for info in msgspec.structs.fields(kind):
        name = _variable(section, info.name)
        text = _from_file(name, environment) if name + _FILE in environment else None
        text = environment.get(name) if text is None else text
        if text is not None:
            values[info.name] = _value(text, info.type)
    try:
        settings = msgspec.convert(values, kind, strict=True, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise KreachError(f"config [{section}]: {_readable(str(error))}") from None
    return _absolute(settings, base or Path.cwd())


def _variable(section: str, field: str) -> str:
    return f"{_PREFIX}{section}_{field}".upper()


def _from_file(variable: str, environment: Mapping[str, str]) -> str:
    """The text of the file that VARIABLE_FILE names, without the newline at its end."""
    path = environment[variable + _FILE]
    if variable in environment:
        raise KreachError(f"environment: set {variable} or {variable}{_FILE}, not both")
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        rule = "name a text file that can be read"
        raise KreachError.rule(f"environment: {variable}{_FILE}", rule, path) from None


def _refuse_renamed(
    kind: type[Settings], section: str, values: Mapping[str, Any], environment: Mapping[str, str]
) -> None:
    for old, new in kind.renamed.items():
        if old in values:
            raise KreachError(f"config [{section}]: {old} was renamed: use {new}")
        variable = _variable(section, old)
        if variable in environment:
            now = _variable(section, new)
            raise KreachError(f"environment: {variable} was renamed: use {now}")


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError("Expected a path")


def _value(text: str, kind: Any) -> object:
    """A value of the environment: as TOML writes it, or else text."""
    if kind is str or kind is Path or (isinstance(kind, UnionType) and str in get_args(kind)):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _readable(message: str) -> str:
    """`Expected int, got str - at $.port` with the field in front."""
    problem, _, where = message.partition(" - at `$")
    field = where.strip("`").lstrip(".")
    return f"{field}: {problem}" if field else problem


def _absolute(settings: T, base: Path) -> T:
    changes: dict[str, Any] = {}
    for info in msgspec.structs.fields(type(settings)):
        value = getattr(settings, info.name)
        if isinstance(value, Path):
            changes[info.name] = base.absolute() / value  # a link stays one: it may be swapped
        elif isinstance(value, tuple) and value and isinstance(value[0], Path):
            changes[info.name] = tuple(base.absolute() / path for path in value)
        elif isinstance(value, dict) and all(isinstance(path, Path) for path in value.values()):
            changes[info.name] = {name: base.absolute() / path for name, path in value.items()}
        elif isinstance(value, msgspec.Struct):
            changes[info.name] = _absolute(value, base)
    return msgspec.structs.replace(settings, **changes) if changes else settings
