"""Substitution macros of OpenRTB 2.6 (4.4): what exchanges fill in, in notice addresses and markup.

The exchange substitutes, not the bidder. `${AUCTION_PRICE}` stands for the plain value, and
`${AUCTION_PRICE:B64}` for its Base64 form.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping

__all__ = ["MACROS", "plain_value", "substitute", "unknown_macros"]

MACROS = frozenset(
    {
        "AUCTION_ID",
        "AUCTION_BID_ID",
        "AUCTION_IMP_ID",
        "AUCTION_SEAT_ID",
        "AUCTION_AD_ID",
        "AUCTION_PRICE",
        "AUCTION_CURRENCY",
        "AUCTION_MBR",
        "AUCTION_LOSS",
        "AUCTION_MIN_TO_WIN",
        "AUCTION_MULTIPLIER",
        "AUCTION_IMP_TS",
    }
)
_MACRO = re.compile(r"\$\{(AUCTION_[A-Z_]*)(?::([A-Za-z0-9]*))?\}")


def unknown_macros(text: str) -> list[str]:
    """Macros that look like OpenRTB's and are none.

    >>> unknown_macros("<img src=x?p=${AUCTION_PRICE:B64}&a=${AUCTION_PRIZE}>")
    ['${AUCTION_PRIZE}']
    """
    return [
        found.group(0)
        for found in _MACRO.finditer(text)
        if found.group(1) not in MACROS or found.group(2) not in (None, "B64")
    ]


def substitute(text: str, values: Mapping[str, str]) -> str:
    """The text as an exchange sends it; macros without a value become empty.

    >>> substitute("p=${AUCTION_PRICE}&b=${AUCTION_PRICE:B64}&l=${AUCTION_LOSS}",
    ...            {"AUCTION_PRICE": "1.25"})
    'p=1.25&b=MS4yNQ==&l='
    """

    def value(found: re.Match[str]) -> str:
        if found.group(1) not in MACROS:
            return found.group(0)
        plain = values.get(found.group(1), "")
        return b64encode(plain.encode()).decode() if found.group(2) else plain

    return _MACRO.sub(value, text)


def plain_value(text: str) -> str:
    """A value from Base64, with or without padding and with either alphabet; "" if it is not.

    >>> plain_value("MS4yNQ=="), plain_value("MS4yNQ"), plain_value("!")
    ('1.25', '1.25', '')
    """
    padded = text.replace(" ", "+").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return b64decode(padded + "=" * (-len(padded) % 4), validate=True).decode("ascii")
    except (Error, ValueError):
        return ""
