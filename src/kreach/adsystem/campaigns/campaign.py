"""A campaign as an advertiser defines it, checked when it is made. Money is in the currency."""

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from math import isfinite
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.settings import EVERYONE
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.money import as_micros
from kreach.boundary.times import as_instant, iso_text
from kreach.errors import KreachError, check_all

__all__ = [
    "BIDDERS",
    "MAX_COST_MULTIPLE",
    "REMOVED",
    "STATES",
    "Campaign",
    "Cap",
    "Creative",
    "campaign_from",
    "check_caps",
    "check_id",
    "check_runnable",
    "from_document",
    "owner_of",
]

BIDDERS = ("planning", "paper")
STATES = ("running", "paused", "ended")
MAX_CPM = 1_000_000.0
MAX_COST_MULTIPLE = 10.0
"""Of what it costs to reach somebody first: the limit of a campaign that has none of its own."""
REMOVED = {"auction": "auction is not a field any more: every bid request says its type (`at`)"}
"""Fields of earlier versions, and what to do without them."""
ID_PART = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
ID_RULE = "be 1 to 64 letters, digits, - or _, and begin with a letter or digit"
ID = rf"{ID_PART}(?:\.{ID_PART})?"
"""`advertiser.id`, or without a dot a campaign that no advertiser has."""
_ID = re.compile(ID)
_MAX_CAP = 1_000
_MAX_TEXT = 20_000
T = TypeVar("T", bound=msgspec.Struct)


class Creative(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ad: its markup, size and advertiser domains."""

    id: str | None = None
    markup: str | None = None
    width: int | None = None
    height: int | None = None
    domains: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there is something to show: markup and its size."""
        return self.markup is not None and self.width is not None and self.height is not None

    def __post_init__(self) -> None:
        if (self.width is None) != (self.height is None):
            raise KreachError.rule("creative", "have width and height, or neither", self.width)
        for name in ("width", "height"):
            if getattr(self, name) is not None:
                as_whole_number(f"creative.{name}", getattr(self, name), minimum=1, maximum=100_000)
        for name, text in (("id", self.id), ("markup", self.markup)):
            if text is not None and not 0 < len(text) <= _MAX_TEXT:
                rule = f"have from 1 to {_MAX_TEXT} characters"
                raise KreachError.rule(f"creative.{name}", rule, f"{len(text)} characters")
        for text in (self.id, self.markup, *self.domains):
            if text is not None and any("\ud800" <= c <= "\udfff" for c in text):
                raise KreachError("creative must be text that can be written as UTF-8")


class Cap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most `limit` impressions a person within `span_seconds`; None for the whole flight."""

    limit: int
    span_seconds: float | None = None


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Budget, flight, caps, targeting and how to bid.

    `caps` with one entry for the whole flight is the usual cap; several are rolling and stacked,
    with a higher limit for a longer span. Limits of bids and the market are per thousand (CPM).
    A campaign of a `family` stays in it: money and counts never move between families.
    A further person reached costs at most `max_cost_per_reach`; without, ten times the first.
    Without markup, width and height of its creative a campaign can be stored, but does not bid.
    """

    id: str
    budget: float
    start: datetime
    end: datetime
    caps: tuple[Cap, ...] = (Cap(limit=1),)
    daily_budget: float | None = None
    audience: str = EVERYONE
    bidder: str = "planning"
    min_cpm: float = 0.0
    max_cpm: float
    market_mu: float | None = None  # ln of a price per thousand
    market_sigma: float | None = None
    expected_requests: int | None = None
    max_cost_per_reach: float | None = None
    creative: Creative = Creative()
    state: str = "running"
    family: str | None = None

    def __post_init__(self) -> None:
        check_all(
            self._check_id,
            self._check_flight,
            self._check_budget,
            self._check_choices,
            self._check_bid_limits,
            self._check_cost,
            self._check_caps,
            self._check_market,
            self._check_requests,
            self._check_family,
        )

    def _check_id(self) -> None:
        check_id("id", self.id)

    def _check_flight(self) -> None:
        for name in ("start", "end"):
            msgspec.structs.force_setattr(self, name, as_instant(name, getattr(self, name)))
        if not self.start < self.end:
            rule = f"come after start ({iso_text(self.start)})"
            raise KreachError.rule("end", rule, iso_text(self.end))

    def _check_budget(self) -> None:
        budget = as_micros("budget", self.budget)
        if self.daily_budget is not None and as_micros("daily_budget", self.daily_budget) > budget:
            raise KreachError.rule("daily_budget", "be at most the budget", self.daily_budget)

    def _check_choices(self) -> None:
        for name, choices in (("bidder", BIDDERS), ("state", STATES)):
            if getattr(self, name) not in choices:
                rule = f"be one of {', '.join(choices)}"
                raise KreachError.rule(name, rule, getattr(self, name))
        if not self.audience:
            raise KreachError.rule("audience", "be named", self.audience)

    def _check_bid_limits(self) -> None:
        if not 0.0 < self.max_cpm <= MAX_CPM:
            raise KreachError.rule("max_cpm", f"be above 0, up to {MAX_CPM:.0f}", self.max_cpm)
        if not 0.0 <= self.min_cpm <= self.max_cpm:
            rule = f"lie between 0 and max_cpm ({self.max_cpm:g})"
            raise KreachError.rule("min_cpm", rule, self.min_cpm)

    def _check_cost(self) -> None:
        if self.max_cost_per_reach is not None:
            as_micros("max_cost_per_reach", self.max_cost_per_reach)

    def _check_caps(self) -> None:
        if not self.caps:
            raise KreachError.rule("caps", "hold at least one cap", "none")
        check_caps(self.caps)

    def _check_market(self) -> None:
        mu, sigma = self.market_mu, self.market_sigma
        if (mu is None) != (sigma is None):
            missing, given = ("market_mu", "market_sigma")[:: 1 if mu is None else -1]
            message = f"{missing} is required where {given} is given"
            raise KreachError(message, field=missing, code="required")
        if mu is not None and not (isfinite(mu) and abs(mu) < 50):
            raise KreachError.rule("market_mu", "lie between -50 and 50", mu)
        if sigma is not None and not 0.0 < sigma < 20:
            raise KreachError.rule("market_sigma", "lie between 0 and 20", sigma)

    def _check_requests(self) -> None:
        if self.bidder == "paper" and self.expected_requests is None:
            rule = "be given for the paper's bidder: its pace is a budget per request"
            raise KreachError.rule("expected_requests", rule, None)
        if self.expected_requests is not None:
            as_whole_number("expected_requests", self.expected_requests, minimum=1)

    def _check_family(self) -> None:
        if self.family is None:
            return
        check_id("family", self.family)
        if owner_of(self.family) != owner_of(self.id):
            rule = f"be a family of the campaign's advertiser ({owner_of(self.id) or 'none'})"
            raise KreachError.rule("family", rule, self.family)

    @property
    def not_bidding(self) -> str | None:
        """What a running campaign lacks to bid; None if nothing."""
        return None if self.creative.complete else "no creative"

    @property
    def cap(self) -> int | None:
        """The cap of the whole flight, if that is all there is."""
        only = self.caps[0] if len(self.caps) == 1 else None
        return only.limit if only is not None and only.span_seconds is None else None

    def longest_span(self, now: float) -> float:
        """The longest span of a cap in seconds; `now` (all time) for a cap of the whole flight."""
        return max(cap.span_seconds or now for cap in self.caps)

    @property
    def largest_cap(self) -> int:
        """The limit of the longest span: what a report counts up to unless asked otherwise."""
        return max(cap.limit for cap in self.caps)

    @property
    def report_caps(self) -> tuple[int, ...]:
        """The caps of a report unless asked otherwise: 1, and the limit of every own cap."""
        return tuple(sorted({1, *(cap.limit for cap in self.caps)}))

    def document(self) -> dict[str, Any]:
        """Plain values, as the API shows them."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def check_id(name: str, value: str) -> None:
    """Refuse what is not an id of a campaign or a family."""
    if not _ID.fullmatch(value):
        rule = f"{ID_RULE}; at most one dot after an advertiser's name"
        raise KreachError.rule(name, rule, value)


def owner_of(name: str) -> str | None:
    """The advertiser of a campaign or a family; None if it has none."""
    owner, dot, _ = name.partition(".")
    return owner if dot else None


def check_caps(caps: Sequence[Cap]) -> None:
    """Refuse caps of which one makes another redundant, and limits that are none."""
    for cap in caps:
        as_whole_number("caps.limit", cap.limit, minimum=1, maximum=_MAX_CAP)
        if cap.span_seconds is not None and not 0.0 < cap.span_seconds < float("inf"):
            rule = "be a number > 0, or null for the whole flight"
            raise KreachError.rule("caps.span_seconds", rule, cap.span_seconds)
    endless = float("inf")
    ordered = sorted(caps, key=lambda cap: cap.span_seconds or endless)
    for short, long in pairwise(ordered):
        if short.limit >= long.limit or short.span_seconds == long.span_seconds:
            rule = "have a higher limit for a longer span, each span once"
            raise KreachError.rule("caps", rule, [(c.limit, c.span_seconds) for c in ordered])


def check_runnable(campaign: Campaign, audience: Audience) -> None:
    """Refuse caps that no bidder can value on this audience."""
    if campaign.cap is None and isinstance(audience, OverlappingAudience):
        rule = "be one cap for the whole flight on overlapping groups"
        raise KreachError.rule("caps", rule, f"{len(campaign.caps)} with spans")


def campaign_from(document: object) -> Campaign:
    """A campaign from plain values; an error names the field, the rule and the value."""
    for name, message in REMOVED.items():
        if isinstance(document, dict) and name in document:
            raise KreachError(message, field=name, code="unknown")
    return from_document(document, Campaign, "campaign")


def from_document(document: object, kind: type[T], name: str) -> T:
    """A struct from plain values; an error names the field, the rule and the value."""
    try:
        return msgspec.convert(document, kind, strict=True, str_keys=True)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, KreachError):
            raise error.__cause__ from None
        problem, _, where = str(error).partition(" - at `$")
        field = where.strip("`").lstrip(".") or name
        if not where and problem.startswith("Object missing required field `"):
            field = problem.rpartition(" ")[2].strip("`")
            raise KreachError(f"{field} is required", field=field, code="required") from None
        if "datetime" in problem:
            problem = "must be a time such as 2026-11-01T00:00:00Z"
        raise KreachError(f"{field}: {problem.replace('`', '')}", field=field) from None
