"""The string of IAB Tech Lab's Global Privacy Platform: a header, and a section per law.

Layout: "Global Privacy Platform String" 1.0, and "Section Information" for ids.
"""

from kreach.boundary.consent.bits import BitReader, check_length
from kreach.errors import KreachError

__all__ = ["CANADA", "TCF_EU", "TCF_EU_V1", "US_PRIVACY", "split_gpp_string"]

TCF_EU_V1, TCF_EU, CANADA, US_PRIVACY = 1, 2, 5, 6
"""Ids of sections. US_PRIVACY is the unencoded US Privacy string."""

_HEADER_TYPE, _HEADER_VERSION = 3, 1
_MAX_SECTIONS = 64


def split_gpp_string(text: str) -> dict[int, str]:
    """The sections of a GPP string by id, as text.

    The header names ids as ranges of differences in Fibonacci code, and sections follow in that
    order, separated by tildes.

    >>> split_gpp_string("DBABTA~1YNN")
    {6: '1YNN'}
    """
    check_length(text)
    header, *sections = text.split("~", _MAX_SECTIONS)
    bits = BitReader(header)
    if bits.number(6) != _HEADER_TYPE or bits.number(6) != _HEADER_VERSION:
        raise KreachError("the GPP string must begin with a header of version 1")
    ids: list[int] = []
    last = 0
    for _ in range(bits.number(12)):
        several = bits.number(1)
        first = last + bits.fibonacci()
        last = first + bits.fibonacci() if several else first
        if len(ids) + last - first >= _MAX_SECTIONS:
            raise KreachError(f"the GPP string must have at most {_MAX_SECTIONS} sections")
        ids.extend(range(first, last + 1))
    if len(ids) != len(sections) or not all(sections):
        raise KreachError("the GPP string must have the sections that its header names")
    return dict(zip(ids, sections, strict=True))
