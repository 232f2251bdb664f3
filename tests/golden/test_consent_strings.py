"""Decoders and decisions against strings of IAB Tech Lab's encoders (see consent/generate.mjs)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.bidserver.consent import decide
from kreach.adsystem.settings import ConsentSettings
from kreach.boundary.consent.gpp import split_gpp_string
from kreach.boundary.consent.signals import Signals
from kreach.boundary.consent.tcf import decode_tc_string
from kreach.boundary.consent.us_privacy import decode_us_privacy
from kreach.boundary.consent.us_sections import US_SECTIONS, decode_us_section

STRINGS = json.loads((Path(__file__).parent / "consent" / "strings.json").read_text("utf-8"))
VENDOR: int = STRINGS["vendor"]
TCF: list[dict[str, Any]] = STRINGS["tcf"]
GPP: list[dict[str, Any]] = STRINGS["gpp"]
FIELDS = {
    int(section): [re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in names]
    for section, names in STRINGS["fields"].items()
}
NOT_APPLICABLE, YES, NO = 0, 1, 2


def ids(told: list[int] | str) -> frozenset[int]:
    """Ids that the generator wrote as a list, or as a number with their bits set."""
    if isinstance(told, list):
        return frozenset(told)
    field = int(told, 16)
    return frozenset(at for at in range(field.bit_length()) if field >> at & 1)


def us_answers(section: int, told: list[str]) -> dict[str, tuple[int, ...]]:
    values = (tuple(int(digit) for digit in answers) for answers in told)
    return dict(zip(FIELDS[section], values, strict=True))


def test_hundreds_of_combinations_and_every_section_are_there() -> None:
    assert len(TCF) + len(GPP) >= 300
    assert set(FIELDS) == US_SECTIONS
    lengths = {len(case["text"]) for case in TCF}
    assert min(lengths) < 60
    assert max(lengths) > 300
    assert any(case["restrictions"] for case in TCF)


@pytest.mark.parametrize("case", TCF, ids=range(len(TCF)))
def test_a_tc_string_says_what_its_encoder_was_told(case: dict[str, Any]) -> None:
    decoded = decode_tc_string(case["text"])
    assert decoded.created == decoded.last_updated == case["created"]
    for name in (
        *("cmp_id", "cmp_version", "consent_screen", "consent_language", "publisher_country"),
        *("policy_version", "service_specific", "non_standard_texts", "purpose_one_treatment"),
    ):
        assert getattr(decoded, name) == case[name], name
    for name in ("special_features", "purpose_consents", "purpose_legitimate_interests"):
        assert getattr(decoded, name).ids() == ids(case[name]), name
    assert decoded.vendor_consents.ids() == ids(case["vendor_consents"])
    assert decoded.vendor_legitimate_interests.ids() == ids(case["vendor_legitimate_interests"])
    imposed = {(one.purpose, one.kind): one.vendors.ids() for one in decoded.restrictions}
    told = {(one["purpose"], one["kind"]): set(one["vendors"]) for one in case["restrictions"]}
    assert imposed == told
    if case["disclosed_vendors"] is None:
        assert decoded.disclosed_vendors is None
    else:
        assert decoded.disclosed_vendors is not None
        assert decoded.disclosed_vendors.ids() == ids(case["disclosed_vendors"])
    if case["publisher_purposes"] is None:
        assert decoded.publisher_purposes is None
    else:
        consents, interests = case["publisher_purposes"]
        assert decoded.publisher_purposes is not None
        assert decoded.publisher_purposes.consents.ids() == ids(consents)
        assert decoded.publisher_purposes.legitimate_interests.ids() == ids(interests)


def permitted_purposes(
    case: dict[str, Any], interests: tuple[int, ...], flexible: tuple[int, ...]
) -> set[int]:
    """Purposes that a vendor may pursue, by the rules of the specification, from what was told."""
    vendor_ok = {
        "consent": VENDOR in ids(case["vendor_consents"]),
        "interest": VENDOR in ids(case["vendor_legitimate_interests"]),
    }
    purpose_ok = {
        "consent": ids(case["purpose_consents"]),
        "interest": ids(case["purpose_legitimate_interests"]),
    }
    found = set()
    for purpose in range(1, 12):
        bases = ["interest" if purpose in interests else "consent"]
        for one in case["restrictions"]:
            if one["purpose"] != purpose or VENDOR not in one["vendors"]:
                continue
            wanted = [None, "consent", "interest"][one["kind"]]
            if wanted is None:
                bases = []
            elif wanted not in bases:
                bases = [wanted] if purpose in flexible else []
        if any(vendor_ok[basis] and purpose in purpose_ok[basis] for basis in bases):
            found.add(purpose)
    return found


@pytest.mark.parametrize(
    ("purposes", "interests", "flexible"),
    [
        ((2,), (), ()),
        ((2, 7), (), ()),
        ((2, 7), (2, 7), ()),
        ((2, 7), (2, 7), (2, 7)),
        ((2, 7), (), (2, 7)),
        ((2, 4, 7), (7,), (2,)),
        ((1,), (), ()),
    ],
)
def test_a_bid_needs_the_legal_basis_of_every_purpose(
    purposes: tuple[int, ...], interests: tuple[int, ...], flexible: tuple[int, ...]
) -> None:
    settings = ConsentSettings(
        vendor_id=VENDOR,
        purposes=purposes,
        legitimate_interests=interests,
        flexible_purposes=flexible,
    )
    outcomes = set()
    for case in TCF:
        disclosed = case["disclosed_vendors"]
        if not case["service_specific"] or case["policy_version"] < 4:
            expected = "gdpr invalid string"  # all of them are from 2024 or later
        elif disclosed is None and case["policy_version"] >= 5:
            expected = "gdpr invalid string"
        elif disclosed is not None and VENDOR not in ids(disclosed):
            expected = "gdpr no consent"
        elif permitted_purposes(case, interests, flexible).issuperset(purposes):
            expected = ""
        else:
            expected = "gdpr no consent"
        assert decide(Signals(gdpr=True, tc_string=case["text"]), settings) == expected
        outcomes.add(expected)
    assert len(outcomes) == 3


def test_without_a_vendor_id_purposes_decide() -> None:
    outcomes = set()
    for case in TCF:
        if case["service_specific"] and case["policy_version"] >= 4:
            may = ids(case["purpose_consents"]).issuperset((2, 4, 7))
            reason = decide(Signals(gdpr=True, tc_string=case["text"]), ConsentSettings())
            assert reason == ("" if may else "gdpr no consent")
            outcomes.add(reason)
    assert len(outcomes) == 2


@pytest.mark.parametrize("case", GPP, ids=range(len(GPP)))
def test_a_gpp_string_says_what_its_encoder_was_told(case: dict[str, Any]) -> None:
    told = {int(section): value for section, value in case["sections"].items()}
    sections = split_gpp_string(case["text"])
    assert set(sections) == set(told)
    for section, text in sections.items():
        if section == 2:
            tc = decode_tc_string(text)
            assert tc.purpose_consents.ids() == set(told[2]["purpose_consents"])
            assert tc.vendor_consents.ids() == set(told[2]["vendor_consents"])
            assert tc.last_updated == told[2]["last_updated"]
        elif section == 6:
            assert text == told[6]["text"]
        elif section in US_SECTIONS:
            decoded = decode_us_section(section, text)
            assert decoded.version == told[section]["version"]
            assert decoded.answers == us_answers(section, told[section]["told"])
            assert decoded.gpc is told[section]["gpc"]


def us_refusals(section: int, told: dict[str, Any]) -> set[str]:
    """Reasons of one section, from what was told."""
    if section == 6:
        said = decode_us_privacy(told["text"])
        if told["text"].startswith("1--"):
            return set()
        if said.opted_out_of_sale:
            return {"us opt-out"}
        return {"us no notice"} if said.notice is False else set()
    answers = us_answers(section, told["told"])
    if any(answers.get("known_child_sensitive_data_consents", ())):
        return {"known child"}
    out = [name for name in answers if name.endswith("opt_out") and "sensitive" not in name]
    assert out
    served = answers.get("mspa_service_provider_mode") == (YES,) or answers.get("mspa_mode") == (2,)
    if told["gpc"] or served or any(answers[name] == (YES,) for name in out):
        return {"us opt-out"}
    notices = [name for name in answers if name.endswith("notice") and "sensitive" not in name]
    return {"us no notice"} if any(answers[name] == (NO,) for name in notices) else set()


def test_a_bid_needs_that_nobody_opted_out() -> None:
    """Each section alone, by `gpp_sid`, and all sections together without it."""
    settings = ConsentSettings(gdpr="allow", other="allow")
    seen = set()
    for case in GPP:
        together: set[str] = set()
        for name, told in case["sections"].items():
            section = int(name)
            if section in (2, 5):
                continue
            expected = us_refusals(section, told)
            together |= expected
            alone = Signals(gpp=case["text"], gpp_sections=(section,))
            assert decide(alone, settings) == min(expected, default="")
            seen |= expected or {""}
        assert decide(Signals(gpp=case["text"]), settings) == min(together, default="")
    assert seen == {"", "known child", "us opt-out", "us no notice"}


def test_sections_of_europe_and_of_laws_that_are_not_read() -> None:
    for case in GPP:
        text, told = case["text"], case["sections"]
        allowed = ConsentSettings(us="allow", children="allow", vendor_id=VENDOR, purposes=(2,))
        if "2" in told:
            europe = Signals(gpp=text, gpp_sections=(2,))
            # The encoder writes policy version 5 and, disclosing nobody, an empty list.
            assert decide(europe, allowed) == "gdpr no consent"
            may = 2 in told["2"]["purpose_consents"]
            only = ConsentSettings(us="allow", children="allow", purposes=(2,))
            assert decide(europe, only) == ("" if may else "gdpr no consent")
        elsewhere = Signals(gpp=text, gpp_sections=(5,))
        assert decide(elsewhere, allowed) == "gpp section unknown"
        assert decide(Signals(gpp=text, gpp_sections=()), allowed) == ""
