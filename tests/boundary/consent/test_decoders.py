"""Decoders by hand-made strings, and by any text: a value or a `KreachError`."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.consent.bits import MAX_TEXT_CHARS, BitReader
from kreach.boundary.consent.gpp import split_gpp_string
from kreach.boundary.consent.tcf import IdSet, TcString, decode_tc_string
from kreach.boundary.consent.us_privacy import UsPrivacy, decode_us_privacy
from kreach.boundary.consent.us_sections import US_SECTIONS, UsSection, decode_us_section
from kreach.errors import KreachError

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
GOLDEN = Path(__file__).parents[2] / "golden" / "consent" / "strings.json"
STRINGS = json.loads(GOLDEN.read_text("utf-8"))
TC_STRINGS: list[str] = [case["text"] for case in STRINGS["tcf"]]
GPP_STRINGS: list[str] = [case["text"] for case in STRINGS["gpp"]]
SPECIFICATION_EXAMPLE = (
    "CQSbk4AQSbk4ANwAAAENAwCgAAAAAAAAAAYgACPAAAAA.IDKQA4AAgAKAGQAygAAA.YAAAAAAAAAAA"
)


def text_of(bits: str) -> str:
    """Base64url of bits that are written as 0 and 1, filled up with zeros."""
    bits = bits.replace(" ", "")
    bits += "0" * (-len(bits) % 6)
    return "".join(ALPHABET[int(bits[at : at + 6], 2)] for at in range(0, len(bits), 6))


@given(st.lists(st.integers(1, 80), min_size=1, max_size=20), st.integers(0, 1000))
def test_numbers_come_back(widths: list[int], seed: int) -> None:
    chance = Random(seed)
    numbers = [chance.getrandbits(width) for width in widths]
    text = text_of("".join(f"{n:0{w}b}" for n, w in zip(numbers, widths, strict=True)))
    bits = BitReader(text)
    assert [bits.number(width) for width in widths] == numbers
    with pytest.raises(KreachError, match="cut short"):
        bits.number(bits.count - bits.at + 1)


@pytest.mark.parametrize(
    ("bits", "number"),
    [("11", 1), ("011", 2), ("0011", 3), ("1011", 4), ("00011", 5), ("10011", 6), ("01011", 7)],
)
def test_fibonacci_numbers_of_the_specification(bits: str, number: int) -> None:
    assert BitReader(text_of(bits)).fibonacci() == number


@pytest.mark.parametrize("text", ["A=", "AA==", "AAAA=", "A A", "A\nAA", "é", "A~", "\x00", "😀"])
def test_characters_outside_of_base64url_are_refused(text: str) -> None:
    with pytest.raises(KreachError):
        BitReader(text)


def test_text_that_never_ends_costs_little() -> None:
    with pytest.raises(KreachError, match="at most"):
        BitReader("A" * (MAX_TEXT_CHARS + 1))
    for decode, part in ((decode_tc_string, ".IAAA"), (split_gpp_string, "~BAAA")):
        with pytest.raises(KreachError, match="at most"):
            decode("DBAA" + part * (MAX_TEXT_CHARS // 4))
    with pytest.raises(KreachError, match="numbers below"):
        BitReader("A" * MAX_TEXT_CHARS).fibonacci()


def test_the_example_of_the_specification() -> None:
    decoded = decode_tc_string(SPECIFICATION_EXAMPLE)
    assert (decoded.cmp_id, decoded.consent_language, decoded.publisher_country) == (
        880,
        "EN",
        "DE",
    )
    assert decoded.vendor_consents.ids() == {1, 2, 3, 4}
    assert decoded.disclosed_vendors is not None
    assert decoded.disclosed_vendors.ids() == {1, 2, 3, 4, 5, 100, 404}
    assert decoded.publisher_purposes is not None


def test_segments_come_in_any_order_and_unknown_ones_are_skipped() -> None:
    core, disclosed, publisher = SPECIFICATION_EXAMPLE.split(".")
    allowed_vendors, unknown = "QAAA", "_____"
    mixed = ".".join((core, unknown, publisher, allowed_vendors, disclosed))
    assert decode_tc_string(mixed) == decode_tc_string(SPECIFICATION_EXAMPLE)
    assert decode_tc_string(core).disclosed_vendors is None


@pytest.mark.parametrize("version", [0, 1, 3, 63])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(KreachError, match="version 2"):
        decode_tc_string(ALPHABET[version] + SPECIFICATION_EXAMPLE[1:])


def test_every_tc_string_that_is_cut_is_refused() -> None:
    """To the character, until only the filling is cut."""
    core = SPECIFICATION_EXAMPLE.partition(".")[0]
    needed = -(-(6 + 72 + 24 + 6 + 12 + 12 + 6 + 2 + 12 + 48 + 13 + 17 + 4 + 17 + 12) // 6)
    for length in range(needed):
        with pytest.raises(KreachError):
            decode_tc_string(core[:length])
    assert decode_tc_string(core[:needed]) == decode_tc_string(core)


def test_ids_beyond_the_highest_do_not_count() -> None:
    vendors = IdSet(10, ranges=((3, 4), (9, 60_000)))
    assert vendors.ids() == {3, 4, 9, 10}
    assert 60_000 not in vendors
    assert 0 not in vendors
    assert -1 not in IdSet(8, field=255)


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("DBABMA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA", {2}),
        ("DBACNYA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN", {2, 6}),
        ("DBAA", set()),
    ],
)
def test_headers_of_the_specification(text: str, sections: set[int]) -> None:
    assert set(split_gpp_string(text)) == sections


@pytest.mark.parametrize(
    "text",
    [
        *("", "~", "DBAB", "DBABMA", "DBABMA~", "DBABMA~x~y", "DBAA~x", "DBACNYA~~1YNN"),
        *("CBABMA~x", "DCABMA~x", "1YNN", SPECIFICATION_EXAMPLE),
        text_of("000011 000001 000000000001 1 11 0000000000000000000000011") + "~x" * 64,
    ],
)
def test_gpp_strings_without_their_sections_are_refused(text: str) -> None:
    with pytest.raises(KreachError):
        split_gpp_string(text)


@pytest.mark.parametrize("section", [24, 25, 26, 27])
def test_sections_with_the_header_of_the_specification(section: int) -> None:
    """IAB's encoder writes none: with or without, the answers are the same."""
    core = text_of("000001 01 00 01 01 01 10 01" + " 00" * 2)
    header = text_of(f"{section:06b} 000001 000000000001 0 11")
    plain = decode_us_section(section, core)
    assert plain.answer("targeted_advertising_opt_out") == 1
    assert plain.answer("sale_opt_out") == 2
    assert decode_us_section(section, f"{header}.{core}") == plain
    if section == 24:
        assert decode_us_section(section, f"{header}.{core}.YA").gpc is True


def test_a_section_has_no_answer_of_three() -> None:
    with pytest.raises(KreachError, match="0 to 2"):
        decode_us_section(8, "B" + "_" * 10)


@pytest.mark.parametrize("section", sorted(US_SECTIONS))
def test_sections_that_are_cut_are_refused(section: int) -> None:
    for length in range(4):
        with pytest.raises(KreachError):
            decode_us_section(section, "BAAA"[:length])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1---", UsPrivacy(None, None, None)),
        ("1YNN", UsPrivacy(True, False, False)),
        ("1NYY", UsPrivacy(False, True, True)),
        ("1yn-", UsPrivacy(True, False, None)),
    ],
)
def test_us_privacy(text: str, said: UsPrivacy) -> None:
    assert decode_us_privacy(text) == said


@pytest.mark.parametrize(
    "text", ["", "1", "1YN", "1YNNN", "2YNN", "1YNX", " 1YNN", "1YN\n", "YYNN"]
)
def test_what_is_no_us_privacy_string(text: str) -> None:
    with pytest.raises(KreachError):
        decode_us_privacy(text)


# -- any text -----------------------------------------------------------------------------------


def assert_decided(text: str) -> None:
    """Every decoder returns a value, or raises the one error, which does not quote the text."""
    for decode in (decode_tc_string, split_gpp_string, decode_us_privacy):
        _value_or_error(decode, text)
    for section in (7, 8, 24, 27):
        _value_or_error(partial(decode_us_section, section), text)


def _value_or_error(decode: Callable[[str], object], text: str) -> None:
    try:
        value = decode(text)
    except KreachError as error:
        value = str(error)
    assert isinstance(value, TcString | dict | UsPrivacy | UsSection) or (
        isinstance(value, str) and (len(text) < 12 or text not in value)
    )


@given(st.text(max_size=100) | st.text(ALPHABET + ".~", max_size=100))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    assert_decided(text)


def test_official_strings_that_were_damaged() -> None:
    """Characters replaced, cut or repeated, 4,000 times."""
    chance = Random(1)
    for _ in range(4_000):
        text = chance.choice(TC_STRINGS if chance.random() < 0.5 else GPP_STRINGS)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(text) + 1)
            put = "".join(chance.choices(ALPHABET + ".~", k=chance.randrange(4)))
            text = text[:at] + put + text[at + chance.randrange(4) :]
        assert_decided(text)
