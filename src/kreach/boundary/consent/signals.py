"""Where OpenRTB 2.6, and before it 2.5 with its extensions, puts consent and policy signals.

Senders write odd things here: a flag as text, a list where an object should be. None of it makes a
request a bad one. What can be read is; what cannot be read counts as the stricter answer.
"""

from typing import Any, NamedTuple

import msgspec

__all__ = [
    "NOT_AN_OBJECT",
    "Device",
    "Regs",
    "RegsExt",
    "Signals",
    "UserExt",
    "is_set",
    "read_signals",
]

UNREADABLE = "?"
"""In place of a text that is none; no decoder takes it."""

NOT_AN_OBJECT = str | int | float | bool | list[Any] | None
"""What may stand where an object should: it does not make the request a bad one."""


class RegsExt(msgspec.Struct, gc=False):
    """`regs.ext`, where extensions of OpenRTB 2.5 had them."""

    coppa: Any = None
    gdpr: Any = None
    us_privacy: Any = None
    gpp: Any = None
    gpp_sid: Any = None
    gpc: Any = None


class Regs(msgspec.Struct, gc=False):
    """`regs`: the laws that apply."""

    coppa: Any = None
    gdpr: Any = None
    us_privacy: Any = None
    gpp: Any = None
    gpp_sid: Any = None
    gpc: Any = None
    ext: RegsExt | NOT_AN_OBJECT = None


class UserExt(msgspec.Struct, gc=False):
    """`user.ext`, of which only the TC string has a field: no id, no `eids`."""

    consent: Any = None


class Device(msgspec.Struct, gc=False):
    """`device`, of which only two flags have a field: no address, no id, no agent."""

    dnt: Any = None
    lmt: Any = None


class Signals(NamedTuple):
    """The signals of one request, with one meaning each.

    A flag is None where it is not said. A text is empty where there is none. `gpp_sections` is
    None where it is not said which sections apply; empty where it is said that none does.
    """

    coppa: bool = False
    gdpr: bool | None = None
    tc_string: str = ""
    us_privacy: str = ""
    gpp: str = ""
    gpp_sections: tuple[int, ...] | None = None
    gpc: bool = False


def read_signals(regs: object, consent: object, user_ext: object) -> Signals:
    """The signals of a request: of OpenRTB 2.6 first, where it has none those of extensions.

    Where two places have the same flag, it is set if either sets it. On the path of every bid:
    most fields are None, and those cost one comparison.
    """
    if not isinstance(regs, Regs):
        regs = _NO_REGS if regs is None else _UNREADABLE_REGS
    coppa, gdpr, gpc = regs.coppa, regs.gdpr, regs.gpc
    us_privacy, gpp, sections = regs.us_privacy, regs.gpp, regs.gpp_sid
    ext = regs.ext
    if isinstance(ext, RegsExt):
        if ext.coppa is not None:
            coppa = _either(coppa, ext.coppa)
        if ext.gdpr is not None:
            gdpr = _either(gdpr, ext.gdpr)
        if ext.gpc is not None:
            gpc = _either(gpc, ext.gpc)
        if ext.us_privacy is not None:
            us_privacy = _first(us_privacy, ext.us_privacy)
        if ext.gpp is not None:
            gpp = _first(gpp, ext.gpp)
        sections = ext.gpp_sid if sections is None else sections
    elif ext:  # something that is no object; an empty list is how some write an empty object
        gpp = gpp or UNREADABLE
    if user_ext is not None and isinstance(user_ext, UserExt):
        consent = _first(consent, user_ext.consent)
    if sections is not None:
        sections = _section_ids(sections)
        if sections == _UNREADABLE_IDS:  # all sections apply, and without a string that is unclear
            sections, gpp = None, gpp or UNREADABLE
    if gdpr is not None:
        gdpr = gdpr != 0 if gdpr.__class__ is int else is_set(gdpr)
    fields = (
        coppa is not None and coppa != 0 and is_set(coppa) is True,
        gdpr,
        "" if consent is None else _text(consent),
        "" if us_privacy is None else _text(us_privacy),
        "" if gpp is None else _text(gpp),
        sections,
        gpc is not None and is_set(gpc) is True,
    )
    return tuple.__new__(Signals, fields)  # what `_make` does, in half the time


_NO_REGS = Regs()
_UNREADABLE_REGS = Regs(gpp=UNREADABLE)
_MAX_SECTION_ID = 65_535
_UNREADABLE_IDS = (-1,)
_NO = ("0", "false", "no")


def _first(newer: object, older: object) -> object:
    """A text in two places."""
    return older if newer is None or newer == "" else newer


def _either(first: object, second: object) -> object:
    """A flag in two places."""
    if first is None or second is None:
        return second if first is None else first
    flags = (is_set(first), is_set(second))
    return True in flags or (False if False in flags else None)


def is_set(value: object) -> bool | None:
    """A flag that may be a number or text: None if there is none, and set if it cannot be read."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value.strip().lower() not in _NO
    return value != 0  # a list or an object is not 0 either


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else UNREADABLE


def _section_ids(value: object) -> tuple[int, ...] | None:
    """Section ids from a list, or from text with commas.

    -1 says that no section applies. 0 and an empty list do not say which: None.
    """
    if isinstance(value, str):
        value = value.split(",") if value.strip() else []
    elif isinstance(value, int | float):
        value = [value]
    if not isinstance(value, list):
        return _UNREADABLE_IDS
    ids = []
    for each in value:
        try:
            number = int(each)
        except (TypeError, ValueError, OverflowError):
            return _UNREADABLE_IDS
        if number > _MAX_SECTION_ID:
            return _UNREADABLE_IDS
        ids.append(number)
    return tuple(number for number in ids if number > 0) if ids and 0 not in ids else None
