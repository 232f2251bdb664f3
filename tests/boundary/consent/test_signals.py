"""Where signals stand in a request, and what odd ones count as."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.consent.signals import Signals, read_signals
from kreach.boundary.openrtb import decode_request


def signals(regs: Any = None, user: Any = None) -> Signals:
    """The signals of a request, over the wire."""
    request = {"id": "1", "imp": [], "regs": regs, "user": user}
    decoded = decode_request(json.dumps(request).encode())
    consent = None if decoded.user is None else decoded.user.consent
    ext = None if decoded.user is None else decoded.user.ext
    return read_signals(decoded.regs, consent, ext)


FULL = Signals(
    coppa=True,
    gdpr=True,
    tc_string="C",
    us_privacy="1YNN",
    gpp="D",
    gpp_sections=(2, 7),
    gpc=True,
)


def test_the_places_of_openrtb_2_6_and_of_extensions() -> None:
    regs = {
        "gdpr": 1,
        "us_privacy": "1YNN",
        "gpp": "D",
        "gpp_sid": [2, 7],
        "gpc": "1",
        "coppa": 1,
    }
    assert signals(regs, {"consent": "C"}) == FULL
    assert signals({"ext": regs}, {"ext": {"consent": "C"}}) == FULL
    assert signals() == signals({}) == signals({"ext": {}}, {"ext": {}}) == Signals()


def test_the_newer_place_comes_first_but_a_flag_counts_in_either() -> None:
    both = {"gdpr": 0, "us_privacy": "1YNN", "ext": {"gdpr": 1, "us_privacy": "1YYN"}}
    assert signals(both) == Signals(gdpr=True, us_privacy="1YNN")
    assert signals({}, {"consent": "new", "ext": {"consent": "old"}}).tc_string == "new"
    assert signals({}, {"consent": "", "ext": {"consent": "old"}}).tc_string == "old"


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        *((None, None), ("", None), (0, False), (0.0, False), (False, False), ("0", False)),
        *(("false", False), (1, True), (1.0, True), (True, True), ("1", True), ("yes", True)),
        *((2, True), (-1, True), ([], True), ({}, True), ([0], True)),
    ],
)
def test_a_flag_that_cannot_be_read_is_set(value: object, flag: bool | None) -> None:
    assert signals({"gdpr": value}).gdpr is flag
    assert signals({"coppa": value}).coppa is bool(flag)


@pytest.mark.parametrize("value", [1, True, [], ["1YNN"], {"a": 1}, 1.5])
def test_a_text_that_is_none_is_there_but_unreadable(value: object) -> None:
    found = signals({"us_privacy": value, "gpp": value}, {"consent": value})
    assert found.us_privacy == found.gpp == found.tc_string == "?"


@pytest.mark.parametrize(
    ("value", "sections"),
    [
        *(([2], (2,)), ([7, 8], (7, 8)), (["7", 8.0], (7, 8)), ("7,8", (7, 8)), (7, (7,))),
        *(([-1], ()), (-1, ()), ("-1", ())),  # none applies
        *(([], None), ([0], None), ("", None), (None, None)),  # not said
    ],
)
def test_section_ids(value: object, sections: tuple[int, ...] | None) -> None:
    assert signals({"gpp_sid": value}) == Signals(gpp_sections=sections)


@pytest.mark.parametrize("value", [["x"], [None], {"a": 1}, [7, [8]], "7;8", [10**30], [7, 2**61]])
def test_section_ids_that_cannot_be_read_let_all_sections_apply(value: object) -> None:
    assert signals({"gpp_sid": value, "gpp": "D"}) == Signals(gpp="D")
    assert signals({"gpp_sid": value}) == Signals(gpp="?")


@pytest.mark.parametrize("odd", ["x", 3, 1.5, True, [], [{"coppa": 1}]])
def test_what_is_no_object_is_no_bad_request(odd: object) -> None:
    assert signals(odd).gpp == "?"  # regs that cannot be read might say anything
    unreadable = "?" if odd else ""  # an empty list is how some write an empty object
    assert signals({"ext": odd}, {"ext": odd}) == Signals(gpp=unreadable)


def test_the_rest_of_user_and_device_has_no_field() -> None:
    canary = "canary-5f3a"
    person = {"id": canary, "ifa": canary, "ip": canary, "eids": [canary], "buyeruid": canary}
    request = {
        "id": "1",
        "imp": [],
        "user": person | {"ext": person | {"consent": "C"}, "consent": "C"},
        "device": person | {"lmt": 1, "ext": person},
        "regs": person | {"ext": person | {"gdpr": 1}},
    }
    decoded = decode_request(json.dumps(request).encode())
    assert canary.encode() not in msgspec.json.encode(decoded)


_odd = st.sampled_from(
    [None, True, 0, 1, -1.5, 10**30, "", "0", "1YNN", "DBAA", "2,7", [], [7], [[7]], {}, {"a": [1]}]
)
_names = ["coppa", "gdpr", "us_privacy", "gpp", "gpp_sid", "gpc", "ext", "consent"]
_object = st.dictionaries(st.sampled_from(_names), _odd)


@given(_odd | _object, _odd, _object)
def test_anything_is_read_as_signals_that_have_a_hash(
    regs: object, ext: object, user: dict[str, object]
) -> None:
    found = signals({**regs, "ext": ext} if isinstance(regs, dict) else regs, user)
    assert isinstance(hash(found), int)
    assert all(isinstance(value, str) for value in (found.tc_string, found.gpp, found.us_privacy))
