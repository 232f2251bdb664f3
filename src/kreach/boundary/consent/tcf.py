"""The TC string of IAB Europe's Transparency and Consent Framework, versions 2.0 to 2.3.

Layout: "Consent string and vendor list formats v2" of IAB Tech Lab, sections "The Core String",
"Disclosed Vendors" and "Publisher Purposes Transparency and Consent".
"""

import msgspec

from kreach.boundary.consent.bits import BitReader, check_length
from kreach.errors import KreachError

__all__ = ["IdSet", "PublisherPurposes", "Restriction", "TcString", "decode_tc_string"]

_VERSION = 2
_PURPOSES = 24
_SPECIAL_FEATURES = 12
_DISCLOSED_VENDORS, _PUBLISHER_PURPOSES = 1, 3  # types of segments after the core
_HEAD_WIDTHS = (36, 36, 12, 12, 6, 12, 12, 6, 1, 1, _SPECIAL_FEATURES, _PURPOSES, _PURPOSES, 1, 12)
"""Of the core after its version, up to the vendors; in the order of `TcString`."""
_MAX_SEGMENTS = 8
_MAX_VENDOR = 65_535


class IdSet(msgspec.Struct, frozen=True, gc=False):
    """Ids of vendors, purposes or features: a bit for each up to `max_id`, or ranges."""

    max_id: int
    field: int = 0  # the first id has the most significant of `max_id` bits
    ranges: tuple[tuple[int, int], ...] = ()

    def __contains__(self, id_: int) -> bool:
        if not 1 <= id_ <= self.max_id:
            return False
        if self.field >> (self.max_id - id_) & 1:
            return True
        return any(first <= id_ <= last for first, last in self.ranges)

    def ids(self) -> frozenset[int]:
        """All of them."""
        return frozenset(id_ for id_ in range(1, self.max_id + 1) if id_ in self)


class Restriction(msgspec.Struct, frozen=True, gc=False):
    """What a publisher imposes on some vendors for a purpose.

    `kind` 0: not allowed; 1: only with consent; 2: only with legitimate interest; 3: undefined.
    """

    purpose: int
    kind: int
    vendors: IdSet


class PublisherPurposes(msgspec.Struct, frozen=True, gc=False):
    """What the publisher itself may do."""

    consents: IdSet
    legitimate_interests: IdSet


class TcString(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The choices that a TC string records. Times are deciseconds since 1970, UTC."""

    created: int
    last_updated: int
    cmp_id: int
    cmp_version: int
    consent_screen: int
    consent_language: str
    vendor_list_version: int
    policy_version: int
    service_specific: bool
    non_standard_texts: bool
    special_features: IdSet
    purpose_consents: IdSet
    purpose_legitimate_interests: IdSet
    purpose_one_treatment: bool
    publisher_country: str
    vendor_consents: IdSet
    vendor_legitimate_interests: IdSet
    restrictions: tuple[Restriction, ...]
    disclosed_vendors: IdSet | None  # None: the string does not have this segment
    publisher_purposes: PublisherPurposes | None

    def restriction(self, purpose: int, vendor: int) -> int | None:
        """The strictest kind that is imposed on a vendor for a purpose, if any is."""
        kinds = [
            one.kind
            for one in self.restrictions
            if one.purpose == purpose and vendor in one.vendors
        ]
        return min(kinds, default=None)


def decode_tc_string(text: str) -> TcString:
    """A TC string: the core, then segments that say what they are, with dots between."""
    check_length(text)
    core, *segments = text.split(".", _MAX_SEGMENTS)
    disclosed: IdSet | None = None
    publisher: PublisherPurposes | None = None
    for segment in segments:
        bits = BitReader(segment)
        kind = bits.number(3)
        if kind == _DISCLOSED_VENDORS:
            disclosed = _vendors(bits)
        elif kind == _PUBLISHER_PURPOSES:
            publisher = PublisherPurposes(_purposes(bits), _purposes(bits))
    bits = BitReader(core)
    if bits.number(6) != _VERSION:
        raise KreachError("the TC string must have version 2")
    head = bits.numbers(_HEAD_WIDTHS)
    return TcString(
        created=head[0],
        last_updated=head[1],
        cmp_id=head[2],
        cmp_version=head[3],
        consent_screen=head[4],
        consent_language=_two_letters(head[5]),
        vendor_list_version=head[6],
        policy_version=head[7],
        service_specific=bool(head[8]),
        non_standard_texts=bool(head[9]),
        special_features=IdSet(_SPECIAL_FEATURES, head[10]),
        purpose_consents=IdSet(_PURPOSES, head[11]),
        purpose_legitimate_interests=IdSet(_PURPOSES, head[12]),
        purpose_one_treatment=bool(head[13]),
        publisher_country=_two_letters(head[14]),
        vendor_consents=_vendors(bits),
        vendor_legitimate_interests=_vendors(bits),
        restrictions=_restrictions(bits),
        disclosed_vendors=disclosed,
        publisher_purposes=publisher,
    )


def _two_letters(code: int) -> str:
    """A language or country: capital letters of six bits each, A is 0."""
    first, second = divmod(code, 64)
    return chr(65 + first) + chr(65 + second)


def _purposes(bits: BitReader) -> IdSet:
    return IdSet(_PURPOSES, bits.number(_PURPOSES))


def _vendors(bits: BitReader) -> IdSet:
    head = bits.number(17)  # the highest id, and one bit: whether there are ranges
    max_id = head >> 1
    if head & 1:
        return IdSet(max_id, ranges=_ranges(bits))
    return IdSet(max_id, field=bits.number(max_id))


def _ranges(bits: BitReader) -> tuple[tuple[int, int], ...]:
    ranges = []
    for _ in range(bits.number(12)):
        entry = bits.number(17)  # one bit: whether there is a last one, and the first
        first = entry & 0xFFFF
        ranges.append((first, bits.number(16) if entry >> 16 else first))
    return tuple(ranges)


def _restrictions(bits: BitReader) -> tuple[Restriction, ...]:
    found = []
    for _ in range(bits.number(12)):
        head = bits.number(8)  # six bits for the purpose, two for the kind
        found.append(Restriction(head >> 2, head & 3, IdSet(_MAX_VENDOR, ranges=_ranges(bits))))
    return tuple(found)
