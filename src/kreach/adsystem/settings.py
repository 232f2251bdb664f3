"""The settings of the ad side: what bidder and reporting share, and what each has of its own."""

import ipaddress
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import ClassVar

import msgspec

from kreach.boundary.currencies import Rates
from kreach.errors import KreachError
from kreach.service.config import Settings
from kreach.service.request_checks import check_names

__all__ = [
    "EVERYONE",
    "AdSystemSettings",
    "AdvertiserLimits",
    "BidderSettings",
    "ConsentSettings",
    "ConsoleSettings",
    "GuardSettings",
    "NoiseSettings",
    "OidcSettings",
    "RedisSettings",
    "ReportingSettings",
    "key_bytes",
]

EVERYONE = "everyone"
"""The audience that every catalogue has: all its people."""
MAX_CREDIT = 1e12
_URL = re.compile(r"https?://[A-Za-z0-9._~:/\[\]@!&'()*+,;=%-]+")

_CONSENT_ONLY = (1, 3, 4, 5, 6)  # purposes of the TCF that nothing but consent permits


class AdSystemSettings(Settings, frozen=True, kw_only=True):
    """`[adsystem]`: where the state is, and what publishers released.

    `catalogues` are folders that publishers released, the newest last; requests of each are
    answered, so a publisher can go over to the next without a gap. `audiences` names groups files
    (of the newest catalogue) with head-counts of targeted people; `everyone` is always there.
    `corrections` are files that publishers' panels write, and rewrite (docs/panel.md).
    `rates` say what one unit of another currency is worth in ours, as of `rates_date`.
    With `creative_review` "required" an advertiser's creative is not served before an operator
    approved it; campaigns that operators make are approved at once.
    """

    store: Path = Path("kreach-store")
    catalogues: tuple[Path, ...] = ()
    audiences: dict[str, Path] = {}  # noqa: RUF012 - msgspec copies it
    corrections: tuple[Path, ...] = ()
    currency: str = "USD"
    rates: dict[str, float] = {}  # noqa: RUF012 - msgspec copies it
    rates_date: date | None = None
    creative_review: str = "required"

    def __post_init__(self) -> None:
        Rates(self.currency, self.rates)
        if self.creative_review not in ("required", "off"):
            raise KreachError.rule("creative_review", "be required or off", self.creative_review)
        if self.rates and self.rates_date is None:
            raise KreachError("rates_date is required where rates are given", field="rates_date")


class ConsentSettings(Settings, frozen=True, kw_only=True):
    """`[bidder.consent]`: where law or people's choices say no, do not bid (docs/consent.md).

    For each of `children`, `gdpr` and `us` the policy is `deny` (never bid where the law applies),
    `require_consent` (bid where the signals permit it) or `allow` (bid whatever they say); for
    `other` laws, whose signals the bidder cannot read, and for `limited_tracking` (`device.lmt` and
    `dnt`) it is `deny` or `allow`.

    Under the GDPR `purposes` of the TCF must have consent, or those of `legitimate_interests` that
    basis; a publisher's restriction can change the basis of `flexible_purposes` only. `vendor_id`
    is the bidder's in the Global Vendor List; without one, only purposes are checked.
    `gdpr_default` says whether the GDPR applies where a request does not say.
    """

    children: str = "deny"
    gdpr: str = "require_consent"
    us: str = "require_consent"
    other: str = "deny"
    limited_tracking: str = "allow"
    gdpr_default: bool = False
    vendor_id: int | None = None
    purposes: tuple[int, ...] = (2, 4, 7)
    legitimate_interests: tuple[int, ...] = ()
    flexible_purposes: tuple[int, ...] = ()
    us_notice: bool = True  # do not bid where notice of the right to opt out was not given

    def __post_init__(self) -> None:
        for name in ("children", "gdpr", "us", "other", "limited_tracking"):
            policy: str = getattr(self, name)
            choices = ["deny", "require_consent", "allow"]
            if name in ("other", "limited_tracking"):
                choices.remove("require_consent")
            if policy not in choices:
                raise KreachError.rule(name, f"be {_either(choices)}", policy)
        if self.vendor_id is not None:
            _at_least("vendor_id", self.vendor_id, 1, 65_535)
        if not self.purposes:
            rule = 'name at least one purpose of the TCF; for none, set gdpr = "allow"'
            raise KreachError.rule("purposes", rule, self.purposes)
        for purpose in self.purposes:
            _at_least("purposes", purpose, 1, 24)
        for name in ("legitimate_interests", "flexible_purposes"):
            for purpose in getattr(self, name):
                if purpose not in self.purposes or purpose in _CONSENT_ONLY:
                    rule = "name purposes that are required, and of them only 2 and those above 6"
                    raise KreachError.rule(name, rule, purpose)


class BidderSettings(Settings, frozen=True, kw_only=True):
    """`[bidder]`: the server, the notices, and how to bid."""

    renamed: ClassVar[Mapping[str, str]] = {
        "least_tmax_ms": "min_tmax_ms",
        "most_body_bytes": "max_body_bytes",
    }

    name: str | None = None  # of several bidders that share their state in Redis
    host: str = "127.0.0.1"
    port: int = 8402
    public_url: str | None = None  # where exchanges reach this bidder; default: host and port
    names: tuple[str, ...] = ()  # further host names of requests for health and metrics
    provider: str = "kreach"  # whose user data carries the group
    segtax: int = 812  # the taxonomy number of groups, in entries without the provider's name
    token_key: str | None = None  # hex; default: a key of its own, kept in the store
    seat: str = "kreach"
    profile: str = "openrtb"  # how exchanges differ from the specification (docs/bidder.md)
    profiles: dict[str, str] = {}  # noqa: RUF012 - by exchange, as its address names it
    profiles_folder: Path | None = None  # with further profiles
    expiry_seconds: int = 900  # how long after a bid its notices are honoured
    win_notices: bool = True
    min_tmax_ms: int = 10  # requests that leave less time are not bid on
    plans: int = 100  # per flight
    hourly: tuple[float, ...] | None = None  # 24 weights of traffic by the hour, UTC
    market_mu: float = 0.0  # ln of the price per thousand, believed at first
    market_sigma: float = 1.0
    first_bid_share: float = 0.1  # of the believed median price: bids until the first plan
    compaction_seconds: float = 300.0
    compaction_rows: int = 50_000
    compaction_at_stop: bool = False  # however few have expired by then
    pacing_seconds: float = 10.0
    pacing_days: float = 90.0
    max_body_bytes: int = 256_000
    consent: ConsentSettings = msgspec.field(default_factory=ConsentSettings)

    def __post_init__(self) -> None:
        check_port(self.port)
        check_url("public_url", self.public_url)
        check_names(self.names)
        _at_least("expiry_seconds", self.expiry_seconds, 1, 86_400)
        _at_least("plans", self.plans, 1, 100_000)
        _at_least("segtax", self.segtax, 500, 2**31 - 1)  # below are the registered ones
        _at_least("min_tmax_ms", self.min_tmax_ms, 0, 10_000)
        _at_least("compaction_seconds", self.compaction_seconds, 0.05, 86_400)
        _at_least("compaction_rows", self.compaction_rows, 1, 10_000_000)
        _at_least("pacing_seconds", self.pacing_seconds, 0.05, 3_600)
        _at_least("max_body_bytes", self.max_body_bytes, 1_000, 100_000_000)
        _at_least("market_sigma", self.market_sigma, 1e-6, 20.0)
        _at_least("market_mu", self.market_mu, -50.0, 50.0)
        _at_least("first_bid_share", self.first_bid_share, 1e-6, 1e3)
        if self.hourly is not None and (
            len(self.hourly) != 24
            or not all(w >= 0.0 for w in self.hourly)
            or sum(self.hourly) <= 0
        ):
            raise KreachError.rule("hourly", "be 24 weights ≥ 0, not all 0", self.hourly)
        if self.token_key is not None:
            key_bytes(self.token_key)
        if self.name is not None:
            check_bidder_name("name", self.name)

    @property
    def notices(self) -> str:
        """The address that notices come back to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")


class RedisSettings(Settings, frozen=True, kw_only=True):
    """`[redis]`: where bidders share counts and budgets. Without `url` nothing is shared.

    `bidders` names all of them: money is given out only while each of them has told this Redis
    what it holds, so that one which lost its memory cannot give the same money twice.
    """

    url: str | None = None
    bidders: tuple[str, ...] = ()
    prefix: str = "kreach"
    sync_seconds: float = 0.2
    timeout_seconds: float = 2.0
    max_clock_difference_seconds: float = 1.0  # between bidders; beyond, they say so

    def __post_init__(self) -> None:
        if self.url is None:
            return
        if not re.match(r"(redis|rediss|unix)://", self.url):  # it may hold a password
            raise KreachError.rule("url", "begin with redis://, rediss:// or unix://", "another")
        if not self.bidders or len(set(self.bidders)) != len(self.bidders):
            raise KreachError.rule("bidders", "name each bidder once", self.bidders)
        for name in self.bidders:
            check_bidder_name("bidders", name)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.prefix):
            raise KreachError.rule("prefix", "be 1 to 64 letters, digits, - or _", self.prefix)
        _at_least("sync_seconds", self.sync_seconds, 0.01, 60.0)
        _at_least("timeout_seconds", self.timeout_seconds, 0.05, 60.0)
        apart = self.max_clock_difference_seconds
        _at_least("max_clock_difference_seconds", apart, 0.01, 3_600.0)

    def check_name(self, name: str | None) -> None:
        """A bidder has a name if and only if there is a Redis that knows of it."""
        if (name is not None) != (self.url is not None) or (name and name not in self.bidders):
            rule = "be left out without redis"
            if self.url is not None:
                rule = f"be one of {', '.join(self.bidders)}"
            raise KreachError.rule("bidder name", rule, name)


class AdvertiserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one advertiser may have at a time, over all its campaigns that can still spend.

    `credit_limit` is the sum of their budgets, in the ad system's currency.
    """

    max_campaigns: int = 1_000
    credit_limit: float = 1_000_000.0

    def __post_init__(self) -> None:
        _at_least("max_campaigns", self.max_campaigns, 0, 1_000_000)
        if not 0.0 <= self.credit_limit < MAX_CREDIT:
            rule = f"be at least 0 and below {MAX_CREDIT:g}"
            raise KreachError.rule("credit_limit", rule, self.credit_limit)


class ReportingSettings(Settings, frozen=True, kw_only=True):
    """`[reporting]`: the server. Without keys it is open, so only this machine may reach it.

    `traffic` says how busy a site with a visit model is: as in its history, or by the requests
    that the bidders counted. Choose "counted" only if exchanges send them every request.
    """

    host: str = "127.0.0.1"
    port: int = 8403
    names: tuple[str, ...] = ()  # host names of clients' requests, beside addresses
    keys: bool = False  # ask everybody for a key (docs/keys.md)
    memory: str = "1500MB"  # for questions to the log
    traffic: str = "history"  # or "counted": the bidders see every request (docs/visit-model.md)
    max_campaigns: int = 1_000  # of an advertiser without limits of its own (docs/keys.md)
    credit_limit: float = 1_000_000.0  # the same: budgets in all

    def __post_init__(self) -> None:
        check_port(self.port)
        check_names(self.names)
        _ = self.limits  # which checks them
        if self.traffic not in ("history", "counted"):
            raise KreachError.rule("traffic", "be history or counted", self.traffic)
        if not self.keys and not _is_loopback(self.host):
            rule = "be true unless host is a loopback address: anybody could use the service"
            raise KreachError.rule("keys", rule, f"keys = false with host = {self.host!r}")

    @property
    def limits(self) -> AdvertiserLimits:
        """Those of an advertiser that has none of its own."""
        return AdvertiserLimits(max_campaigns=self.max_campaigns, credit_limit=self.credit_limit)


class GuardSettings(Settings, frozen=True, kw_only=True):
    """`[guard]`: what of a log advertisers are shown. Operators are not guarded.

    A campaign's log is cut at points of a grid, counted from midnight UTC, into chapters of at
    least `min_impressions`, served to groups with at least `min_people` targeted people. A
    point counts when `settle_seconds` have passed since, final numbers are made `closing_seconds`
    after the flight: as long as bidders take notices (`expiry_seconds`), and some. An audience for
    advertisers has at least `min_audience` people, and at least `min_difference` people tell it
    from every other, and from what others add up to, `audiences_together` at most. It targets
    nobody in a group, or at least `min_visible` people (or k, if that is less).
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "least_impressions": "min_impressions",
        "least_people": "min_people",
        "least_audience": "min_audience",
        "least_difference": "min_difference",
    }

    enabled: bool = True
    grid_seconds: int = 3_600
    min_impressions: int = 100
    min_people: int = 500
    min_audience: int = 1_000
    min_difference: int = 200
    min_visible: int = 5
    audiences_together: int = 4
    settle_seconds: float = 60.0
    closing_seconds: float = 1_800.0

    def __post_init__(self) -> None:
        _at_least("grid_seconds", self.grid_seconds, 1, 86_400)
        if 86_400 % self.grid_seconds:
            rule = "divide a day, so that days begin at points of the grid"
            raise KreachError.rule("grid_seconds", rule, self.grid_seconds)
        _at_least("min_impressions", self.min_impressions, 1, 1_000_000_000)
        _at_least("min_people", self.min_people, 1, 1_000_000_000)
        _at_least("min_difference", self.min_difference, 0, 1_000_000_000)
        _at_least("min_visible", self.min_visible, 1, 1_000_000_000)
        _at_least("audiences_together", self.audiences_together, 2, 6)
        _at_least("settle_seconds", self.settle_seconds, 0.0, 86_400.0)
        _at_least("closing_seconds", self.closing_seconds, 0.0, 7 * 86_400.0)
        if not self.min_people <= self.min_audience <= 1_000_000_000:
            rule = f"be at least min_people ({self.min_people}), or nothing would be shown"
            raise KreachError.rule("min_audience", rule, self.min_audience)


class NoiseSettings(Settings, frozen=True, kw_only=True):
    """`[noise]`: differential privacy on what advertisers are shown (docs/noise.md).

    `rho` is the privacy budget, in zero-concentrated differential privacy, of any
    `max_per_person` impressions of one person. A share of it, `series_share`, is for the numbers
    so far, of which a campaign has at most `max_points`, one per `point_seconds` (from midnight
    UTC) or more; the rest is for `max_questions` windows over any one stretch. `delta` is only
    for telling the budget as (ε, δ). People are counted up to `max_frequency` impressions, and a
    price up to `max_price_cpm`. A stretch is over `settle_seconds` after its end, a flight
    `closing_seconds` after its own: as long as bidders take notices, and some.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "most_points": "max_points",
        "most_questions": "max_questions",
        "most_per_person": "max_per_person",
        "most_frequency": "max_frequency",
        "most_price_cpm": "max_price_cpm",
    }

    enabled: bool = False
    rho: float = 0.25
    series_share: float = 0.5
    max_points: int = 60
    max_questions: int = 20
    delta: float = 1e-6
    max_per_person: int = 10
    max_frequency: int = 10
    max_price_cpm: float = 20.0
    point_seconds: int = 86_400
    settle_seconds: float = 300.0
    closing_seconds: float = 1_800.0

    def __post_init__(self) -> None:
        _at_least("rho", self.rho, 1e-4, 100.0)
        _at_least("series_share", self.series_share, 0.01, 0.99)
        _at_least("max_points", self.max_points, 1, 1_000)
        _at_least("max_questions", self.max_questions, 1, 1_000)
        _at_least("delta", self.delta, 1e-15, 0.01)
        _at_least("max_per_person", self.max_per_person, 1, 10_000)
        _at_least("max_frequency", self.max_frequency, 2, 100)
        _at_least("max_price_cpm", self.max_price_cpm, 0.001, 1_000_000.0)
        _at_least("point_seconds", self.point_seconds, 60, 86_400)
        if 86_400 % self.point_seconds:
            rule = "divide a day, so that days begin at points"
            raise KreachError.rule("point_seconds", rule, self.point_seconds)
        _at_least("settle_seconds", self.settle_seconds, 0.0, 86_400.0)
        _at_least("closing_seconds", self.closing_seconds, 0.0, 7 * 86_400.0)


class OidcSettings(Settings, frozen=True, kw_only=True):
    """`[console.oidc]`: sign-in at an OpenID Connect provider (docs/console.md).

    `keys` maps values of `claim` to files with the API key that people with that value use; of
    several the first in the settings counts.
    """

    issuer: str
    client_id: str
    client_secret_file: Path | None = None
    claim: str = "groups"
    keys: dict[str, Path]
    scope: str = "openid profile email"

    def __post_init__(self) -> None:
        check_url("issuer", self.issuer)
        if self.issuer.startswith("http://") and not _is_loopback(_host_of(self.issuer)):
            rule = "begin with https:// unless it is a loopback address"
            raise KreachError.rule("issuer", rule, self.issuer)
        for name in ("client_id", "claim"):
            if not getattr(self, name):
                raise KreachError.rule(name, "be given", "")
        if "openid" not in self.scope.split():
            raise KreachError.rule("scope", "contain openid", self.scope)
        if not self.keys:
            rule = "map at least one value of the claim to a file with an API key"
            raise KreachError.rule("keys", rule, "none")


class ConsoleSettings(Settings, frozen=True, kw_only=True):
    """`[console]`: the pages, and what they may read (docs/console.md).

    With `sign_in` (`key`, `oidc` or both) every browser has a session with the API key of its
    person, for `session_hours` at most. Without, who reaches the console uses the key in
    `key_file`: beyond this machine it then needs a proxy that asks for a password, under `names`.
    """

    host: str = "127.0.0.1"
    port: int = 8400
    names: tuple[str, ...] = ()
    public_url: str | None = None  # where browsers reach it; https makes cookies secure
    reporting_url: str = "http://127.0.0.1:8403"
    reporting_ca: Path | None = None  # PEM: who may sign reporting's certificate (https)
    key_file: Path | None = None  # holds the key that reporting asks for
    sign_in: tuple[str, ...] = ()
    session_hours: float = 8.0
    oidc: OidcSettings | None = None
    groups_audit: Path | None = None  # that a publisher handed over, JSON or HTML
    tradeoff: Path | None = None  # what `kreach tradeoff` wrote: its folder or summary.json
    truth_file: Path | None = None  # demonstrations only: what no ad system knows

    def __post_init__(self) -> None:
        check_port(self.port)
        check_url("reporting_url", self.reporting_url)
        check_url("public_url", self.public_url)
        check_names(self.names)
        if not self.names and not _is_loopback(self.host):
            rule = "say who serves the console, unless host is a loopback address"
            raise KreachError.rule("names", rule, f"no names with host = {self.host!r}")
        self._check_sign_in()

    def _check_sign_in(self) -> None:
        _at_least("session_hours", self.session_hours, 1 / 3600, 720)
        for way in self.sign_in:
            if way not in ("key", "oidc"):
                raise KreachError.rule("sign_in", "list key, oidc or both", way)
        if ("oidc" in self.sign_in) != (self.oidc is not None):
            raise KreachError.rule("sign_in", "list oidc exactly where [console.oidc] is set", "")
        if self.oidc is not None and self.public_url is None:
            raise KreachError.rule("public_url", "be given for sign-in with oidc", None)
        plain = (self.public_url or "").startswith("http://")
        if self.sign_in and plain and not _is_loopback(_host_of(self.public_url or "")):
            rule = "begin with https:// with sign_in, unless it is a loopback address"
            raise KreachError.rule("public_url", rule, self.public_url)
        if self.sign_in and self.key_file is not None:
            rule = "be left out with sign_in: each person has a key"
            raise KreachError.rule("key_file", rule, str(self.key_file))


def check_bidder_name(argument: str, name: str) -> None:
    """A name that can be that of a folder."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", name):
        rule = "be 1 to 32 small letters, digits or -, and begin with a letter or digit"
        raise KreachError.rule(argument, rule, name)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(url: str) -> str:
    """The host of an address that `check_url` takes."""
    authority = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]


def check_port(port: int) -> None:
    """A port to listen on; 0 takes any that is free."""
    _at_least("port", port, 0, 65_535)


def check_url(name: str, url: str | None) -> None:
    """An address that others are told."""
    if url is not None and not _URL.fullmatch(url):
        rule = "begin with http:// or https:// and have none of the characters that need escaping"
        raise KreachError.rule(name, rule, url)


def _either(choices: list[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _at_least(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise KreachError.rule(name, f"lie between {least:g} and {most:g}", value)


def key_bytes(text: str) -> bytes:
    """A key from its hexadecimal text."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < 16:
        rule = "be at least 16 bytes written in hexadecimal"
        raise KreachError.rule("token_key", rule, f"{len(text)} characters")
    return key
