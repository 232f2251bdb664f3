"""Bits of the base64url text that IAB's strings are made of."""

import binascii

from kreach.errors import KreachError

__all__ = ["MAX_TEXT_CHARS", "BitReader", "check_length"]

MAX_TEXT_CHARS = 16_384
"""A longer string is not read. TC strings of all vendors with restrictions have some 5,000."""

_MAX_FIBONACCI = 1 << 20  # ids have 16 bits
_STANDARD = bytes.maketrans(b"-_", b"+/")


def check_length(text: str) -> None:
    """Refuse a string, with all its parts, that would take long to read."""
    if len(text) > MAX_TEXT_CHARS:
        raise KreachError(f"a consent string has at most {MAX_TEXT_CHARS} characters")


class BitReader:
    """Reads numbers, most significant bit first; six bits to a character.

    >>> bits = BitReader("DBAA")
    >>> bits.number(6), bits.number(6), bits.number(12)
    (3, 1, 0)
    """

    __slots__ = ("_data", "at", "count")

    def __init__(self, text: str) -> None:
        check_length(text)
        # Encoders may end at any character. Whole bytes need multiples of four: fill with zeros,
        # which `count` keeps from being read.
        try:
            filled = text.encode("ascii").translate(_STANDARD) + b"A" * (-len(text) % 4)
            self._data = binascii.a2b_base64(filled, strict_mode=True)
        except ValueError:  # of which binascii.Error is one
            raise KreachError("a consent string has only characters of base64url") from None
        if 4 * len(self._data) != 3 * len(filled):  # it ended in "="
            raise KreachError("a consent string has no padding")
        self.count = 6 * len(text)
        self.at = 0

    def number(self, width: int) -> int:
        """The next `width` bits as a number."""
        start = self.at
        end = start + width
        if end > self.count:
            raise KreachError("a consent string is cut short")
        self.at = end
        chunk = int.from_bytes(self._data[start >> 3 : (end + 7) >> 3], "big")
        return chunk >> (-end & 7) & ((1 << width) - 1)

    def numbers(self, widths: tuple[int, ...]) -> list[int]:
        """The next numbers of these widths; faster than one by one."""
        left = sum(widths)
        field = self.number(left)
        found = []
        for width in widths:
            left -= width
            found.append(field >> left & ((1 << width) - 1))
        return found

    def fibonacci(self) -> int:
        """A number as a sum of Fibonacci numbers 1, 2, 3, 5, …, ended by the bits 11."""
        total, term, following, previous = 0, 1, 2, 0
        while term < _MAX_FIBONACCI:
            bit = self.number(1)
            if bit and previous:
                return total
            total += bit * term
            term, following, previous = following, term + following, bit
        raise KreachError(f"a consent string has numbers below {_MAX_FIBONACCI}")
