"""The US Privacy string of IAB Tech Lab's CCPA framework, such as 1YNN.

"U.S. Privacy String" version 1: the version, then Y, N or - (not applicable) for notice given,
opted out of sale, and covered by the Limited Service Provider Agreement.
"""

import re
from dataclasses import dataclass

from kreach.errors import KreachError

__all__ = ["UsPrivacy", "decode_us_privacy"]

_FORM = re.compile(r"1[YN-]{3}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UsPrivacy:
    """What a US Privacy string says; each is True, False, or None where it is not applicable."""

    notice: bool | None
    opted_out_of_sale: bool | None
    service_provider_agreement: bool | None


def decode_us_privacy(text: str) -> UsPrivacy:
    """A US Privacy string.

    >>> decode_us_privacy("1YN-")
    UsPrivacy(notice=True, opted_out_of_sale=False, service_provider_agreement=None)
    """
    if not _FORM.fullmatch(text):
        raise KreachError("the US Privacy string must be 1 and three of Y, N and -")
    answers = {"Y": True, "N": False, "-": None}
    return UsPrivacy(*(answers[letter] for letter in text[1:].upper()))
