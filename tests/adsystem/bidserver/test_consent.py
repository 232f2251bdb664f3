"""Consent and law: who is bid for, who is not, and what is counted and kept."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kreach.adsystem.bidserver import consent
from kreach.adsystem.bidserver.consent import REASONS, ConsentPolicy, decide
from kreach.adsystem.settings import BidderSettings, ConsentSettings
from kreach.boundary.consent.signals import Signals
from kreach.boundary.openrtb import decode_request
from kreach.errors import KreachError
from kreach.service.config import load_settings
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
    user_data,
)

# Of tests/golden/consent: purposes 1 to 11 with consent, vendor 755 alone.
CONSENT = "CQlVK8AQlVK8AxD4zqDEAAE8AP_gAP_gAIYgF5wAQF5gY_ABgV4Bj4AA"
# The same without purpose 4, ads by profiles.
NO_PROFILES = "CQlVK8AQlVK8AxD4zqDEAAE8AO_gAP_gAIYgF5wAQF5gY_ABgV4Bj4AA"
CALIFORNIA = "DBABBg~BVoAAABA"  # all notices given, nobody opted out
CALIFORNIA_OUT = "DBABBg~BVYAAABA"  # opted out of sale
USER = {"data": [user_data()]}


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with bidding(tmp_path_factory.mktemp("consent"), [sample_campaign()]) as made:
        yield made


NO_BIDS: list[tuple[str, dict[str, Any]]] = [
    ("coppa", {"regs": {"coppa": 1}}),
    ("coppa", {"regs": {"coppa": "1"}}),
    ("coppa", {"regs": {"coppa": {"odd": 1}}}),
    ("coppa", {"regs": {"coppa": 1, "gdpr": 0}}),
    ("gdpr no string", {"regs": {"gdpr": 1}}),
    ("gdpr no string", {"regs": {"ext": {"gdpr": 1}}}),
    ("gdpr no string", {"regs": {"gdpr": 1}, "user": USER | {"consent": ""}}),
    ("gdpr no string", {"regs": {"gpp_sid": [2]}}),
    ("gdpr invalid string", {"regs": {"gdpr": 1}, "user": USER | {"consent": "BOEFEAyOEFEAy"}}),
    ("gdpr invalid string", {"regs": {"gdpr": 1}, "user": USER | {"consent": 7}}),
    ("gdpr invalid string", {"user": USER | {"consent": "x"}}),
    ("gdpr invalid string", {"user": USER | {"ext": {"consent": ["C"]}}}),
    ("gdpr no consent", {"regs": {"gdpr": 1}, "user": USER | {"consent": NO_PROFILES}}),
    ("gdpr no consent", {"user": USER | {"consent": NO_PROFILES}}),
    (
        "gdpr invalid string",
        {"regs": {"gpp": "x", "gpp_sid": [2]}, "user": USER | {"consent": CONSENT}},
    ),
    ("us opt-out", {"regs": {"us_privacy": "1YYN"}}),
    ("us opt-out", {"regs": {"ext": {"us_privacy": "1YYN"}}}),
    ("us opt-out", {"regs": {"ext": {"gpc": "1"}}}),
    ("us opt-out", {"regs": {"gpp": CALIFORNIA_OUT, "gpp_sid": [8]}}),
    ("us opt-out", {"regs": {"ext": {"gpp": CALIFORNIA_OUT}}}),
    ("us opt-out", {"regs": {"gpp": CALIFORNIA + ".YA", "gpp_sid": [8]}}),
    ("us no notice", {"regs": {"us_privacy": "1NNN"}}),
    ("us unreadable", {"regs": {"us_privacy": "yes"}}),
    ("us unreadable", {"regs": {"us_privacy": 1}}),
    ("us unreadable", {"regs": {"gpp": CALIFORNIA, "gpp_sid": [7]}}),
    ("us unreadable", {"regs": {"gpp_sid": [8]}}),
    ("gpp unreadable", {"regs": {"gpp": "what"}}),
    ("gpp unreadable", {"regs": ["what"]}),
    ("gpp unreadable", {"regs": {"ext": "what"}}),
    ("gpp unreadable", {"regs": {"ext": [{"coppa": 1}]}}),
    ("gpp unreadable", {"regs": {"gpp_sid": {}}}),
    ("gpp section unknown", {"regs": {"gpp": CALIFORNIA, "gpp_sid": [5]}}),
    ("gpp section unknown", {"regs": {"gpp": CALIFORNIA, "gpp_sid": [8, 99]}}),
]


@pytest.mark.parametrize(("reason", "change"), NO_BIDS)
def test_no_bid_where_law_or_choice_says_no(
    exchange: Exchange, reason: str, change: dict[str, Any]
) -> None:
    before = no_bids(exchange)
    reply = exchange.bid(sample_request(**change))
    assert (reply.status, reply.body) == (204, b"")
    assert no_bids(exchange) == before | {reason: before.get(reason, 0) + 1}
    assert reason in REASONS


def no_bids(exchange: Exchange) -> dict[str, float]:
    """Requests without a bid, by reason."""
    lines = exchange.ask("GET", "/metrics").body.decode()
    found = re.findall(r'kreach_bidder_no_bids_total\{reason="([^"]*)"\} (.*)', lines)
    return {reason: float(count) for reason, count in found}


BIDS: list[dict[str, Any]] = [
    {"regs": {}},
    {"regs": {"coppa": 0, "gdpr": 0, "us_privacy": "", "gpp": "", "ext": {"gdpr": 0}}},
    {"regs": {"gdpr": 1}, "user": USER | {"consent": CONSENT}},
    {"regs": {"ext": {"gdpr": 1}}, "user": USER | {"ext": {"consent": CONSENT, "eids": []}}},
    {"regs": {"gdpr": 0}, "user": USER | {"consent": "x"}},  # the law does not apply
    {"regs": {"gpp": f"DBABMA~{CONSENT}", "gpp_sid": [2]}},
    {"regs": {"us_privacy": "1YNN"}},
    {"regs": {"us_privacy": "1---"}},
    {"regs": {"gpp": CALIFORNIA, "gpp_sid": [8]}},
    {"regs": {"gpp": CALIFORNIA + ".QA"}},
    {"regs": {"gpp": CALIFORNIA_OUT, "gpp_sid": [-1]}},  # no section applies
    {"regs": {"ext": []}, "user": USER | {"ext": []}, "device": []},
    {"device": {"lmt": 1, "dnt": 1}},
]


@pytest.mark.parametrize("change", BIDS)
def test_what_is_bid_on(exchange: Exchange, change: dict[str, Any]) -> None:
    assert as_response(exchange.bid(sample_request(**change))).seatbid[0].bid


def test_a_request_without_consent_is_no_traffic_either(exchange: Exchange) -> None:
    """Not even one that is too late to be bid on: its group is not looked at."""
    (bidder,) = exchange.state.catalogue_bidders.values()
    before = bidder.own_requests
    exchange.bid(sample_request(tmax=1, regs={"coppa": 1}))
    assert bidder.own_requests == before
    exchange.bid(sample_request(tmax=1))
    assert bidder.own_requests == before + 1


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "signals", "reason"),
    [
        ({"children": "allow"}, Signals(coppa=True), ""),
        ({"children": "require_consent"}, Signals(coppa=True), "coppa"),
        ({"gdpr": "allow"}, Signals(gdpr=True), ""),
        ({"gdpr": "deny"}, Signals(gdpr=True, tc_string=CONSENT), "gdpr denied"),
        ({"gdpr": "deny"}, Signals(gdpr=False), ""),
        ({"gdpr_default": True}, Signals(), "gdpr no string"),
        ({"gdpr_default": True}, Signals(gdpr=False), ""),
        ({"gdpr_default": True}, Signals(tc_string=CONSENT), ""),
        ({"purposes": (2, 7)}, Signals(gdpr=True, tc_string=NO_PROFILES), ""),
        ({"vendor_id": 755}, Signals(gdpr=True, tc_string=CONSENT), ""),
        ({"vendor_id": 754}, Signals(gdpr=True, tc_string=CONSENT), "gdpr no consent"),
        ({"us": "allow"}, Signals(us_privacy="1YYN", gpc=True), ""),
        ({"us": "allow"}, Signals(us_privacy="odd", gpp="odd", gpp_sections=(8,)), ""),
        ({"us": "deny"}, Signals(us_privacy="1YNN"), "us denied"),
        ({"us": "deny"}, Signals(us_privacy="1---"), ""),
        ({"us": "deny"}, Signals(gpp=CALIFORNIA), "us denied"),
        ({"us_notice": False}, Signals(us_privacy="1NNN"), ""),
        ({"us_notice": False}, Signals(us_privacy="1NYN"), "us opt-out"),
        ({"other": "allow"}, Signals(gpp="odd"), ""),
        ({"other": "allow"}, Signals(gpp_sections=(5, 99)), ""),
    ],
)
def test_operators_can_relax_and_tighten(
    settings: dict[str, Any], signals: Signals, reason: str
) -> None:
    assert decide(signals, ConsentSettings(**settings)) == reason


@pytest.mark.parametrize(
    ("children", "text", "reason"),
    [
        ("deny", "DBABBg~BVoAAABA", ""),
        ("deny", "DBABBg~BVoAAJBA", "known child"),  # consents 2, 1
        ("deny", "DBABBg~BVoAAKBA", "known child"),  # consents 2, 2
        ("require_consent", "DBABBg~BVoAAJBA", "known child"),
        ("require_consent", "DBABBg~BVoAAKBA", ""),
        ("allow", "DBABBg~BVoAAJBA", ""),
    ],
)
@pytest.mark.parametrize("us", ["require_consent", "allow"])
def test_a_known_child_is_a_child_in_every_state(
    children: str, text: str, reason: str, us: str
) -> None:
    assert decide(Signals(gpp=text), ConsentSettings(children=children, us=us)) == reason


def test_two_strings_of_one_law_must_both_permit() -> None:
    both = Signals(gdpr=True, tc_string=CONSENT, gpp=f"DBABMA~{NO_PROFILES}")
    assert decide(both, ConsentSettings()) == "gdpr no consent"
    us = Signals(us_privacy="1YYN", gpp=CALIFORNIA)
    assert decide(us, ConsentSettings()) == "us opt-out"


@pytest.mark.parametrize(
    "flag", [{"lmt": 1}, {"dnt": 1}, {"lmt": "1"}, {"lmt": [], "dnt": 0}, "what", [{"lmt": 1}]]
)
def test_limited_tracking_can_be_refused(flag: Any) -> None:
    request = decode_request(json.dumps({"id": "1", "imp": [], "device": flag}).encode())
    assert ConsentPolicy(ConsentSettings(limited_tracking="deny")).refusal(request) == (
        "limited tracking"
    )
    assert ConsentPolicy(ConsentSettings()).refusal(request) == ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gdpr", "maybe"),
        ("us", ""),
        ("children", True),
        ("other", "require_consent"),
        ("limited_tracking", "require_consent"),
        ("vendor_id", 0),
        ("vendor_id", 65_536),
        ("purposes", []),
        ("purposes", [0]),
        ("purposes", [25]),
        ("legitimate_interests", [4]),
        ("legitimate_interests", [9]),
        ("flexible_purposes", [1]),
        ("gdpr_defualt", True),
    ],
)
def test_settings_are_checked(field: str, value: Any) -> None:
    with pytest.raises(KreachError) as caught:
        load_settings(BidderSettings, "bidder", {"bidder": {"consent": {field: value}}})
    assert str(caught.value).startswith("config [bidder]: consent")
    assert field in str(caught.value)


def test_settings_come_from_file_and_environment() -> None:
    table = {"gdpr": "deny", "purposes": [2, 7], "legitimate_interests": [7]}
    made = load_settings(BidderSettings, "bidder", {"bidder": {"consent": table}}, environment={})
    assert made.consent == ConsentSettings(gdpr="deny", purposes=(2, 7), legitimate_interests=(7,))
    variables = {"KREACH_BIDDER_CONSENT": '{ us = "allow", vendor_id = 755 }'}
    made = load_settings(BidderSettings, "bidder", {}, environment=variables)
    assert made.consent == ConsentSettings(us="allow", vendor_id=755)


def test_the_page_lists_every_reason_and_every_setting() -> None:
    page = (Path(__file__).parents[3] / "docs" / "consent.md").read_text("utf-8")
    example = (Path(__file__).parents[3] / "examples" / "kreach.toml").read_text("utf-8")
    assert [reason for reason in REASONS if f"`{reason}`" not in page] == []
    for field in msgspec.structs.fields(ConsentSettings):
        assert f"| `{field.name}` |" in page
        assert field.name in example
    written = tomllib.loads(example)["bidder"]["consent"]
    assert msgspec.convert(written, ConsentSettings) == ConsentSettings()


# -- the cache ------------------------------------------------------------------------------------


def test_decisions_are_remembered_and_strings_are_not() -> None:
    policy = ConsentPolicy(ConsentSettings())
    body = {"id": "1", "imp": [], "regs": {"gdpr": 1}, "user": {"consent": CONSENT}}
    request = decode_request(json.dumps(body).encode())
    assert [policy.refusal(request) for _ in range(3)] == ["", "", ""]
    ((key, reason),) = policy._recent.items()
    assert isinstance(key, int)
    assert reason == ""
    body["user"] = {"consent": NO_PROFILES}
    assert policy.refusal(decode_request(json.dumps(body).encode())) == "gdpr no consent"
    assert policy.refusal(request) == ""


def test_the_cache_is_bounded_and_what_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consent, "_CACHED_DECISIONS", 10)
    policy = ConsentPolicy(ConsentSettings())

    def refusal(text: str) -> str:
        body = {"id": "1", "imp": [], "regs": {"us_privacy": text}}
        return policy.refusal(decode_request(json.dumps(body).encode()))

    assert refusal("1YYN") == "us opt-out"
    (in_use,) = policy._recent
    for at in range(200):
        assert refusal(f"odd {at}") == "us unreadable"
        assert len(policy._recent) <= 10
        assert len(policy._older) <= 10
        if at % 5 == 0:
            assert refusal("1YYN") == "us opt-out"
            assert in_use in policy._recent


def test_any_signals_are_decided() -> None:
    """Random signals of odd and official strings under random settings: a reason or none."""
    chance = Random(2)
    texts = [
        "",
        "",
        "?",
        "x",
        CONSENT,
        NO_PROFILES,
        f"DBABMA~{CONSENT}",
        CALIFORNIA,
        "1YYN",
        "1YNN",
    ]
    sections = [None, (), (2,), (7, 8), (5,), (2, 6, 8, 99), (10**30,)]
    seen = set()
    for _ in range(3_000):
        settings = ConsentSettings(
            children=chance.choice(["deny", "require_consent", "allow"]),
            gdpr=chance.choice(["deny", "require_consent", "allow"]),
            us=chance.choice(["deny", "require_consent", "allow"]),
            other=chance.choice(["deny", "allow"]),
            vendor_id=chance.choice([None, 755, 1]),
        )
        signals = Signals(
            coppa=chance.random() < 0.1,
            gdpr=chance.choice([None, True, False]),
            tc_string=chance.choice(texts),
            us_privacy=chance.choice(texts),
            gpp=chance.choice(texts),
            gpp_sections=chance.choice(sections),
            gpc=chance.random() < 0.1,
        )
        reason = decide(signals, settings)
        assert reason == "" or reason in REASONS
        seen.add(reason)
        if reason:  # and allowing everything always bids
            assert decide(signals, ALL_ALLOWED) == ""
    assert len(seen) >= 10


ALL_ALLOWED = ConsentSettings(children="allow", gdpr="allow", us="allow", other="allow")
