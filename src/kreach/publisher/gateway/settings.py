"""The section [gateway] of a settings file."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kreach.boundary.correction import set_name
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS, as_period
from kreach.errors import KreachError
from kreach.publisher.group_lookup import CHOICES
from kreach.publisher.panel.ledger import Terms
from kreach.service.config import Settings
from kreach.service.request_checks import check_names, check_origins

__all__ = [
    "MAX_NAME",
    "SEGTAX",
    "BrowserSettings",
    "FamilyCap",
    "GatewaySettings",
    "HardCap",
    "PanelSettings",
]

MAX_NAME = 256  # characters of a campaign or a provider
SEGTAX = 812  # our taxonomy of segments: a number above those that are registered
_MAX_CAP = 1_000_000
_MAX_PANEL_CAP = 20
_MIN_HOURS = 1e-3
_MAX_SECONDS = 10 * 366.0 * DAY_SECONDS


class HardCap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nobody sees `campaign` more than `cap` times: in any `span_seconds`, or ever.

    With `enabled` false the cap is not applied, nothing is recorded, and earlier showings stay.
    """

    campaign: str
    cap: int
    span_seconds: float | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        _check_name("campaign", self.campaign)
        if not 1 <= self.cap <= _MAX_CAP:
            raise KreachError.rule("cap", f"be a whole number from 1 to {_MAX_CAP}", self.cap)
        if self.span_seconds is not None:
            _check_seconds("span_seconds", self.span_seconds, minimum=1.0)


class FamilyCap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nobody sees the `campaigns` of a family more than `cap` times in all.

    It holds beside the caps of the campaigns and like these in any `span_seconds`, or ever. What
    is shown counts for the family from the moment that the campaign is listed here.
    """

    family: str
    campaigns: tuple[str, ...]
    cap: int
    span_seconds: float | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        _check_name("family", self.family)
        if not self.campaigns:
            raise KreachError.rule("campaigns", "name at least one campaign", "none")
        for name in self.campaigns:
            _check_name("campaigns", name)
        duplicate = _duplicate(self.campaigns)
        if duplicate is not None:
            raise KreachError.rule("campaigns", "name each campaign once", duplicate)
        if not 1 <= self.cap <= _MAX_CAP:
            raise KreachError.rule("cap", f"be a whole number from 1 to {_MAX_CAP}", self.cap)
        if self.span_seconds is not None:
            _check_seconds("span_seconds", self.span_seconds, minimum=1.0)


class PanelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[gateway.panel]`: count true reach in a secret sample of groups, release corrections.

    `share` of the groups is counted for each of `campaigns` (all that are shown, where none is
    named), and for each set of campaigns in `together` as if it were one campaign. At the end of
    every hour, day or week, `late_seconds` after it, the corrections file `out` gets a release, at
    most `max_releases` for a campaign or set; all of them together cost `rho` (ρ-zCDP). Showings of
    a campaign are erased when it was not shown for `quiet_days`.
    """

    share: float
    out: Path = Path("corrections.json")
    campaigns: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    every: str = "day"
    late_seconds: float = 600.0
    max_cap: int = 3
    max_releases: int = 31
    rho: float = 0.05
    min_people: int = 400
    min_reach: int = 50
    quiet_days: float = 30.0

    def __post_init__(self) -> None:
        self.terms()  # checks them
        as_period(self.every)
        for name in self.campaigns:
            _check_name("campaigns", name)
        self._check_together()
        _check_seconds("late_seconds", self.late_seconds, minimum=0.0)
        for field in ("min_people", "min_reach"):
            if getattr(self, field) < 1:
                raise KreachError.rule(field, "be a whole number from 1", getattr(self, field))
        if not 0.0 < self.quiet_days <= _MAX_SECONDS / DAY_SECONDS:
            raise KreachError.rule("quiet_days", "be above 0", self.quiet_days)

    def _check_together(self) -> None:
        for names in self.together:
            for name in names:
                _check_name("together", name)
                if self.campaigns and name not in self.campaigns:
                    rule = f"name campaigns that are counted ({', '.join(self.campaigns)})"
                    raise KreachError.rule("together", rule, name)
            if len(names) < 2 or len(set(names)) < len(names):
                rule = "be sets of two or more different campaigns"
                raise KreachError.rule("together", rule, ", ".join(names) or "an empty set")
            _check_name("together", set_name(names))
        duplicate = _duplicate([set_name(names) for names in self.together])
        if duplicate is not None:
            raise KreachError.rule("together", "list each set once", duplicate)

    def terms(self) -> Terms:
        """What is fixed for a campaign at its first release."""
        if not 1 <= self.max_cap < _MAX_PANEL_CAP:
            rule = f"be a whole number from 1 to {_MAX_PANEL_CAP - 1}"
            raise KreachError.rule("max_cap", rule, self.max_cap)
        return Terms(self.share, self.max_cap + 1, self.max_releases, self.rho)


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[gateway.browser]`: a port for browsers, which may be public (docs/prebid.md).

    Pages of `allowed_origins` may read the group of their visitor, who is in the cookie `cookie`,
    signed with the key in `user_key_file`. `names` are the host names of this port.
    """

    allowed_origins: tuple[str, ...]
    user_key_file: Path
    names: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8411
    cookie: str = "kreach_user"

    def __post_init__(self) -> None:
        if not self.allowed_origins:
            raise KreachError.rule("allowed_origins", "name at least one origin", "none")
        check_origins(self.allowed_origins)
        check_names(self.names)
        if not 0 <= self.port <= 65_535:
            raise KreachError.rule("port", "be a whole number from 0 to 65535", self.port)
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.cookie):
            raise KreachError.rule("cookie", "be 1 to 64 letters, digits, - or _", self.cookie)


class GatewaySettings(Settings, frozen=True, kw_only=True):
    """The settings of a gateway.

    `build` is a folder that `kreach groups build` wrote, or a link to one; every `reload_seconds`
    the gateway checks for another build. `store` is the folder of the hard caps' file and key; it
    is used only with an enabled cap. `families` have caps for several campaigns together. After
    `memory_hours` showings of every campaign are erased and no longer count; without it each cap
    has its own span. A release may tell the buyer the hours. With a `panel` showings of its groups
    are counted, in a folder of their own in the store. With `browser` pages ask for the group of
    their visitor, on another port.
    """

    build: Path
    host: str = "127.0.0.1"
    port: int = 8401
    names: tuple[str, ...] = ()  # host names of clients' requests, beside addresses
    store: Path = Path("gateway-store")
    choice: str = "sticky"
    provider: str = "kreach"
    caps: tuple[HardCap, ...] = ()
    families: tuple[FamilyCap, ...] = ()
    memory_hours: float | None = None
    hold_seconds: float = 30.0
    reload_seconds: float = 10.0
    panel: PanelSettings | None = None
    browser: BrowserSettings | None = None
    segtax: int = SEGTAX  # of the segment taxonomy, in the user object

    def __post_init__(self) -> None:
        if not self.host:
            raise KreachError.rule("host", "not be empty", self.host)
        if not 0 <= self.port <= 65_535:
            raise KreachError.rule("port", "be a whole number from 0 to 65535", self.port)
        check_names(self.names)
        if self.choice not in CHOICES:
            raise KreachError.rule("choice", f"be one of {', '.join(CHOICES)}", self.choice)
        _check_name("provider", self.provider)
        if not 500 <= self.segtax < 2**31:  # below are the registered ones
            raise KreachError.rule("segtax", "lie between 500 and 2147483647", self.segtax)
        if self.browser is not None and self.port and self.browser.port == self.port:
            raise KreachError.rule("port", "differ from that of [gateway.browser]", self.port)
        _check_seconds("hold_seconds", self.hold_seconds, minimum=0.1)
        _check_seconds("reload_seconds", self.reload_seconds, minimum=0.01)
        if self.memory_hours is not None:
            _check_hours(self.memory_hours)
            spans = [hard.campaign for hard in self.caps if hard.span_seconds is not None]
            spans += [each.family for each in self.families if each.span_seconds is not None]
            if spans:
                rule = "be left out of caps with memory_hours, which holds for all"
                raise KreachError.rule("span_seconds", rule, spans[0])
        duplicate = _duplicate([hard.campaign for hard in self.caps])
        if duplicate is not None:
            raise KreachError.rule("caps", "list each campaign once", duplicate)
        duplicate = _duplicate([each.family for each in self.families])
        if duplicate is not None:
            raise KreachError.rule("families", "list each family once", duplicate)
        duplicate = _duplicate([name for each in self.families for name in each.campaigns])
        if duplicate is not None:
            raise KreachError.rule("families", "have each campaign in one family only", duplicate)

    @property
    def memory_seconds(self) -> float | None:
        """How long showings are remembered at most; None: as long as their caps need."""
        return None if self.memory_hours is None else self.memory_hours * HOUR_SECONDS

    @property
    def enabled_caps(self) -> dict[str, HardCap]:
        """The enabled caps, by campaign."""
        return {hard.campaign: hard for hard in self.caps if hard.enabled}

    @property
    def enabled_families(self) -> dict[str, FamilyCap]:
        """The enabled caps of families, by family."""
        return {each.family: each for each in self.families if each.enabled}


def _duplicate(names: Sequence[str]) -> str | None:
    return next((name for at, name in enumerate(names) if name in names[:at]), None)


def _check_name(name: str, value: str) -> None:
    if not value or len(value) > MAX_NAME or not value.isprintable():
        raise KreachError.rule(name, f"be 1 to {MAX_NAME} printable characters", value)


def _check_hours(hours: float) -> None:
    most = _MAX_SECONDS / HOUR_SECONDS
    if not (math.isfinite(hours) and _MIN_HOURS <= hours <= most):
        rule = f"be from {_MIN_HOURS:g} to {most:.0f}"
        raise KreachError.rule("memory_hours", rule, hours)


def _check_seconds(name: str, value: float, minimum: float) -> None:
    if not (math.isfinite(value) and minimum <= value <= _MAX_SECONDS):
        raise KreachError.rule(name, f"be from {minimum:g} to {_MAX_SECONDS:.0f}", value)
