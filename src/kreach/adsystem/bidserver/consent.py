"""Whether law and people's choices let us bid: the policy over consent signals (docs/consent.md).

Decisions are cached by a hash of the signals: a consent string may be personal data, and none is
kept beyond its request.
"""

from collections.abc import Iterable

from kreach.adsystem.settings import ConsentSettings
from kreach.boundary.consent.gpp import TCF_EU, TCF_EU_V1, US_PRIVACY, split_gpp_string
from kreach.boundary.consent.signals import Device, Signals, UserExt, is_set, read_signals
from kreach.boundary.consent.tcf import TcString, decode_tc_string
from kreach.boundary.consent.us_privacy import decode_us_privacy
from kreach.boundary.consent.us_sections import US_SECTIONS, UsSection, decode_us_section
from kreach.boundary.openrtb import BidRequest
from kreach.errors import KreachError

__all__ = ["REASONS", "ConsentPolicy", "decide", "gdpr_refusal", "us_section_refusal"]

REASONS = (
    "coppa",
    "known child",
    "gdpr no string",
    "gdpr invalid string",
    "gdpr no consent",
    "gdpr denied",
    "us opt-out",
    "us no notice",
    "us unreadable",
    "us denied",
    "gpp unreadable",
    "gpp section unknown",
    "limited tracking",
)
"""Why a request gets no bid, as metrics count them."""

_CACHED_DECISIONS = 20_000  # of each of two generations
_POLICY_V4_SINCE = 16_961_184_000  # 2023-10-01 in deciseconds: from then on older ones are invalid
_DISCLOSURE_SINCE_POLICY = 5  # TCF 2.3
_METADATA_SECTIONS = frozenset({3, 4})  # header, integrity
_KNOWN_SECTIONS = US_SECTIONS | _METADATA_SECTIONS | {TCF_EU_V1, TCF_EU, US_PRIVACY}

_NOT_ALLOWED, _CONSENT, _LEGITIMATE_INTEREST = 0, 1, 2  # kinds of a publisher's restrictions
_OPTED_OUT, _NO_NOTICE, _NO_CONSENT, _SERVICE_PROVIDER_MODE = 1, 2, 1, 2
_OPT_OUTS = ("sale_opt_out", "sharing_opt_out", "targeted_advertising_opt_out")
_NOTICES = (
    "sharing_notice",
    "processing_notice",
    "sale_opt_out_notice",
    "sharing_opt_out_notice",
    "targeted_advertising_opt_out_notice",
)


class ConsentPolicy:
    """Decides on requests, and remembers decisions."""

    def __init__(self, settings: ConsentSettings) -> None:
        self._settings = settings
        self._recent: dict[int, str] = {}  # by hash of the signals
        self._older: dict[int, str] = {}
        self._without_signals = decide(Signals(), settings)
        self._check_device = settings.limited_tracking == "deny"

    def refusal(self, request: BidRequest) -> str:
        """Why we may not bid on a request; empty if we may."""
        if self._check_device and _limited_tracking(request.device):
            return "limited tracking"
        user = request.user
        regs = request.regs
        consent, ext = (None, None) if user is None else (user.consent, user.ext)
        if regs is None and consent is None and (ext is None or not _has_consent(ext)):
            return self._without_signals
        signals = read_signals(regs, consent, ext)
        key = hash(signals)
        reason = self._recent.get(key)
        return self._decide(key, signals) if reason is None else reason

    def _decide(self, key: int, signals: Signals) -> str:
        """A decision that is not among the recent ones. Two generations bound the cache."""
        reason = self._older.get(key)
        if reason is None:
            reason = decide(signals, self._settings)
        if len(self._recent) >= _CACHED_DECISIONS:
            self._recent, self._older = {}, self._recent
        self._recent[key] = reason
        return reason


def _has_consent(ext: object) -> bool:
    return isinstance(ext, UserExt) and ext.consent is not None


def _limited_tracking(device: object) -> bool:
    if not isinstance(device, Device):
        return bool(device)  # it cannot be read: the stricter answer
    return bool(is_set(device.lmt) or is_set(device.dnt))


def decide(signals: Signals, settings: ConsentSettings) -> str:
    """Why signals do not let us bid; empty if they do.

    `gpp_sid` says which sections of a GPP string apply; without it all of them do. Where two
    signals are about one law, each of them must permit the bid.
    """
    if signals.coppa and settings.children != "allow":
        return "coppa"
    sections: dict[int, str] = {}
    unreadable = False
    if signals.gpp:
        try:
            sections = split_gpp_string(signals.gpp)
        except KreachError:
            unreadable = True
    applicable = signals.gpp_sections
    scope: Iterable[int] = sections if applicable is None else applicable
    if unreadable and TCF_EU in scope:
        sections = {TCF_EU: signals.gpp}  # a bare TC string, or unreadable
    if _gdpr_applies(signals, sections, settings) and settings.gdpr != "allow":
        reason = _gdpr_decision(signals, sections, settings)
        if reason:
            return reason
    reason = _us_decision(signals, sections, scope, settings)
    if reason or settings.other == "allow":
        return reason
    if unreadable and applicable is None:
        return "gpp unreadable"
    return "" if _KNOWN_SECTIONS.issuperset(scope) else "gpp section unknown"


def _gdpr_applies(signals: Signals, sections: dict[int, str], settings: ConsentSettings) -> bool:
    """Whether anything says so; a TC string does, unless a request says that the law does not."""
    applicable = signals.gpp_sections
    if signals.gdpr or (applicable and (TCF_EU in applicable or TCF_EU_V1 in applicable)):
        return True
    if signals.gdpr is False:
        return False
    said = signals.tc_string or (applicable is None and TCF_EU in sections)
    return bool(said) or settings.gdpr_default


def _gdpr_decision(signals: Signals, sections: dict[int, str], settings: ConsentSettings) -> str:
    if settings.gdpr == "deny":
        return "gdpr denied"
    strings = {signals.tc_string, sections.get(TCF_EU, "")} - {""}
    if not strings:
        return "gdpr no string"
    for text in sorted(strings):
        try:
            reason = gdpr_refusal(decode_tc_string(text), settings)
        except KreachError:
            reason = "gdpr invalid string"
        if reason:
            return reason
    return ""


def gdpr_refusal(choices: TcString, settings: ConsentSettings) -> str:
    """Why a TC string does not let us bid: every purpose needs its legal basis."""
    if not choices.service_specific or (
        choices.policy_version < 4 and choices.last_updated >= _POLICY_V4_SINCE
    ):
        return "gdpr invalid string"  # by the specification, since 2021 and 2023
    vendor = settings.vendor_id
    if vendor is not None:
        disclosed = choices.disclosed_vendors
        if disclosed is None:
            if choices.policy_version >= _DISCLOSURE_SINCE_POLICY:
                return "gdpr invalid string"
        elif vendor not in disclosed:
            return "gdpr no consent"
    for purpose in settings.purposes:
        basis = _legal_basis(choices, purpose, settings)
        if basis == _CONSENT:
            purposes, vendors = choices.purpose_consents, choices.vendor_consents
        elif basis == _LEGITIMATE_INTEREST:
            purposes = choices.purpose_legitimate_interests
            vendors = choices.vendor_legitimate_interests
        else:
            return "gdpr no consent"
        if purpose not in purposes or (vendor is not None and vendor not in vendors):
            return "gdpr no consent"
    return ""


def _legal_basis(choices: TcString, purpose: int, settings: ConsentSettings) -> int:
    """The basis that a purpose rests on, after the publisher's restrictions."""
    declared = _LEGITIMATE_INTEREST if purpose in settings.legitimate_interests else _CONSENT
    if settings.vendor_id is None:
        return declared
    kind = choices.restriction(purpose, settings.vendor_id)
    if kind is None or kind == declared:
        return declared
    if kind in (_CONSENT, _LEGITIMATE_INTEREST) and purpose in settings.flexible_purposes:
        return kind
    return _NOT_ALLOWED


def _us_decision(
    signals: Signals, sections: dict[int, str], scope: Iterable[int], settings: ConsentSettings
) -> str:
    enforced = settings.us != "allow"
    reasons = set()
    if enforced and signals.gpc:
        reasons.add("us opt-out")
    if enforced and signals.us_privacy:
        reasons.add(_us_privacy_refusal(signals.us_privacy, settings))
    for section in scope:
        text = sections.get(section, "")
        if section == US_PRIVACY and enforced:
            reasons.add(_us_privacy_refusal(text, settings))
        elif section in US_SECTIONS and (enforced or settings.children != "allow"):
            try:
                reasons.add(us_section_refusal(decode_us_section(section, text), settings))
            except KreachError:
                reasons.add("us unreadable" if enforced else "")
    return min(reasons - {""}, default="")  # one of several: always the same


def _us_privacy_refusal(text: str, settings: ConsentSettings) -> str:
    try:
        said = decode_us_privacy(text)
    except KreachError:
        return "us unreadable"
    if said.notice is None and said.opted_out_of_sale is None:
        return ""  # 1---: the law does not apply
    if settings.us == "deny":
        return "us denied"
    if said.opted_out_of_sale:
        return "us opt-out"
    return "us no notice" if said.notice is False and settings.us_notice else ""


def us_section_refusal(section: UsSection, settings: ConsentSettings) -> str:
    """Why a section of a GPP string for the United States does not let us bid."""
    children = section.answers.get("known_child_sensitive_data_consents", ())
    if (settings.children == "deny" and any(children)) or (
        settings.children == "require_consent" and _NO_CONSENT in children
    ):
        return "known child"
    if settings.us != "require_consent":
        return "us denied" if settings.us == "deny" else ""
    answer = section.answer
    if (
        section.gpc
        or any(answer(name) == _OPTED_OUT for name in _OPT_OUTS)
        or answer("mspa_service_provider_mode") == 1
        or answer("mspa_mode") == _SERVICE_PROVIDER_MODE
    ):
        return "us opt-out"
    if settings.us_notice and any(answer(name) == _NO_NOTICE for name in _NOTICES):
        return "us no notice"
    return ""
