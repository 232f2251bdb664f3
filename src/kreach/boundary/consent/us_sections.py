"""The sections of a GPP string for the United States: the national one, and one per state.

Layout: "Sections/US-National" and "Sections/US-States" of IAB Tech Lab's Global Privacy Platform.
After a version every field is one or more answers of two bits: 0 is not applicable; for a notice 1
is given and 2 not given; for an opt-out 1 is opted out and 2 not; for a consent 1 is no and 2 yes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kreach.boundary.consent.bits import BitReader
from kreach.errors import KreachError

__all__ = ["US_NATIONAL", "US_SECTIONS", "US_STATES", "UsSection", "decode_us_section"]

US_NATIONAL = 7
_Layout = tuple[tuple[str, int], ...]

_MSPA: _Layout = (
    ("mspa_covered_transaction", 1),
    ("mspa_opt_out_option_mode", 1),
    ("mspa_service_provider_mode", 1),
)
_OPT_OUTS: _Layout = (
    ("sale_opt_out_notice", 1),
    ("targeted_advertising_opt_out_notice", 1),
    ("sale_opt_out", 1),
    ("targeted_advertising_opt_out", 1),
)


def _national(sensitive: int, children: int) -> _Layout:
    return (
        ("sharing_notice", 1),
        ("sale_opt_out_notice", 1),
        ("sharing_opt_out_notice", 1),
        ("targeted_advertising_opt_out_notice", 1),
        ("sensitive_data_processing_opt_out_notice", 1),
        ("sensitive_data_limit_use_notice", 1),
        ("sale_opt_out", 1),
        ("sharing_opt_out", 1),
        ("targeted_advertising_opt_out", 1),
        ("sensitive_data_processing", sensitive),
        ("known_child_sensitive_data_consents", children),
        ("personal_data_consents", 1),
        *_MSPA,
    )


def _state(notice: str, sensitive: int, children: int, additional: str = "") -> _Layout:
    """A state on the common plan; `additional` is for states that ask about further processing."""
    more = ((additional, 1),) if additional else ()
    return (
        (notice, 1),
        *_OPT_OUTS,
        ("sensitive_data_processing", sensitive),
        ("known_child_sensitive_data_consents", children),
        *more,
        *_MSPA,
    )


def _opt_out_state(notice: str, sensitive_notice: str) -> _Layout:
    """Utah and Iowa: sensitive data may be used until people opt out, and a notice says so."""
    return (
        (notice, 1),
        *_OPT_OUTS[:2],
        (sensitive_notice, 1),
        *_OPT_OUTS[2:],
        ("sensitive_data_processing", 8),
        ("known_child_sensitive_data_consents", 1),
        *_MSPA,
    )


def _late_state(children: int) -> _Layout:
    """The states of 2025: the agreement first, sensitive data in a subsection of its own."""
    child: _Layout = (("known_child_sensitive_data_consents", 1),) if children else ()
    return (
        ("mspa_covered_transaction", 1),
        ("mspa_mode", 1),
        ("processing_notice", 1),
        *_OPT_OUTS,
        *child,
        ("additional_data_processing_consent", 1),
    )


_CALIFORNIA: _Layout = (
    ("sale_opt_out_notice", 1),
    ("sharing_opt_out_notice", 1),
    ("sensitive_data_limit_use_notice", 1),
    ("sale_opt_out", 1),
    ("sharing_opt_out", 1),
    ("sensitive_data_processing", 9),
    ("known_child_sensitive_data_consents", 2),
    ("personal_data_consents", 1),
    *_MSPA,
)
_SHARING, _PROCESSING = "sharing_notice", "processing_notice"
_ADDITIONAL = "additional_data_processing_consent"

US_STATES = {
    8: "CA",
    9: "VA",
    10: "CO",
    11: "UT",
    12: "CT",
    13: "FL",
    14: "MT",
    15: "OR",
    16: "TX",
    17: "DE",
    18: "IA",
    19: "NE",
    20: "NH",
    21: "NJ",
    22: "TN",
    23: "MN",
    24: "MD",
    25: "IN",
    26: "KY",
    27: "RI",
}
"""Sections by id, and the state that each is for."""
US_SECTIONS = frozenset({US_NATIONAL, *US_STATES})

_NATIONAL_V1, _NATIONAL_V1_MAX_BITS = _national(12, 2), 66
_LAYOUTS: Mapping[int, _Layout] = {
    US_NATIONAL: _national(16, 3),
    8: _CALIFORNIA,
    9: _state(_SHARING, 8, 1),
    10: _state(_SHARING, 7, 1),
    11: _opt_out_state(_SHARING, "sensitive_data_processing_opt_out_notice"),
    12: _state(_SHARING, 8, 3),
    13: _state(_PROCESSING, 8, 3, _ADDITIONAL),
    14: _state(_SHARING, 8, 3, _ADDITIONAL),
    15: _state(_PROCESSING, 11, 3, _ADDITIONAL),
    16: _state(_PROCESSING, 8, 1, _ADDITIONAL),
    17: _state(_PROCESSING, 9, 5, _ADDITIONAL),
    18: _opt_out_state(_PROCESSING, "sensitive_data_opt_out_notice"),
    19: _state(_PROCESSING, 8, 1, _ADDITIONAL),
    20: _state(_PROCESSING, 8, 3, _ADDITIONAL),
    21: _state(_PROCESSING, 10, 5, _ADDITIONAL),
    22: _state(_PROCESSING, 8, 1, _ADDITIONAL),
    23: _state(_PROCESSING, 8, 1, _ADDITIONAL),
    24: _late_state(0),
    25: _late_state(1),
    26: _late_state(1),
    27: _late_state(1),
}
_WITH_HEADER = range(24, 28)
_WITH_SENSITIVE_SUBSECTION = frozenset({25, 26, 27})
_SENSITIVE: _Layout = (("sensitive_data_processing", 8),)
_GPC_SUBSECTION = 1
_MAX_SUBSECTIONS = 8
_UNDEFINED = 3


@dataclass(frozen=True, slots=True)
class UsSection:
    """What a section says; `gpc` is None where it does not say."""

    version: int
    answers: Mapping[str, tuple[int, ...]]
    gpc: bool | None

    def answer(self, name: str) -> int:
        """The answer of a field of one; 0, not applicable, where the section has no such field."""
        found = self.answers.get(name)
        return found[0] if found else 0


def decode_us_section(section: int, text: str) -> UsSection:
    """A US section by its id: a core, and with dots between, subsections such as that of GPC."""
    core, *subsections = text.split(".", _MAX_SUBSECTIONS)
    if section in _WITH_HEADER and subsections and BitReader(core).number(6) == section:
        # The specification has a header before the core, IAB Tech Lab's encoder (3.2.0) has none.
        core, *subsections = subsections
    bits = BitReader(core)
    layout = _LAYOUTS[section]
    if section == US_NATIONAL and bits.count <= _NATIONAL_V1_MAX_BITS:
        layout = _NATIONAL_V1  # by length: encoders called both 1 for a while
    version = bits.number(6)
    answers = _answers(bits, layout)
    gpc: bool | None = None
    for subsection in map(BitReader, subsections):
        if section in _WITH_SENSITIVE_SUBSECTION:
            answers |= _answers(subsection, _SENSITIVE)
        elif subsection.number(2) == _GPC_SUBSECTION:
            gpc = bool(subsection.number(1)) or gpc is True
    return UsSection(version, answers, gpc)


def _answers(bits: BitReader, layout: _Layout) -> dict[str, tuple[int, ...]]:
    found = bits.numbers((2,) * sum(count for _, count in layout))
    if _UNDEFINED in found:
        raise KreachError("a US section of the GPP string has answers from 0 to 2 only")
    answers, at = {}, 0
    for name, count in layout:
        answers[name] = tuple(found[at : at + count])
        at += count
    return answers
