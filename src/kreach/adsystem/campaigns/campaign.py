"""A campaign as an advertiser defines it, checked when it is made. Money is in the currency."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.campaigns.creative import MAX_CREATIVES, Creative, check_new_texts
from kreach.adsystem.settings import EVERYONE
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.money import as_micros
from kreach.boundary.times import as_instant, iso_text
from kreach.errors import KreachError, KreachErrors, check_all

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
    "check_new_creatives",
    "check_runnable",
    "from_document",
    "owner_of",
]

BIDDERS = ("planning", "paper")
STATES = ("running", "paused", "ended")
MAX_CPM = 1_000_000.0
MAX_NAME = 100
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
_MAX_DEALS = 100
_CREATIVE_FIELDS = ("creative", "creatives")
T = TypeVar("T", bound=msgspec.Struct)


class Cap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most `limit` impressions a person within `span_seconds`; None for the whole flight."""

    limit: int
    span_seconds: float | None = None


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Budget, flight, caps, targeting and how to bid.

    `name` is for people: any text of a line; programs use the id.
    `caps` with one entry for the whole flight is the usual cap; several are rolling and stacked,
    with a higher limit for a longer span. Limits of bids and the market are per thousand (CPM).
    A campaign of a `family` stays in it: money and counts never move between families.
    A further person reached costs at most `max_cost_per_reach`; without, ten times the first.
    `creatives` rotate by their weights; `creative` is the first of them, or the only one. Without
    one that is complete and approved a campaign can be stored, but does not bid.
    It uses the `deals` that it names where an exchange offers them, with `deals_only` nothing else.
    """

    id: str
    name: str | None = None
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
    creatives: tuple[Creative, ...] = ()
    deals: tuple[str, ...] = ()
    deals_only: bool = False
    state: str = "running"
    family: str | None = None

    def __post_init__(self) -> None:
        check_all(
            self._check_id,
            self._check_name,
            self._check_flight,
            self._check_budget,
            self._check_choices,
            self._check_bid_limits,
            self._check_cost,
            self._check_caps,
            self._check_market,
            self._check_requests,
            self._check_family,
            self._check_creatives,
            self._check_deals,
        )

    def _check_id(self) -> None:
        check_id("id", self.id)

    def _check_name(self) -> None:
        name = self.name
        if name is None:
            return
        if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
            rule = f"be 1 to {MAX_NAME} printable characters, without spaces at its ends"
            raise KreachError.rule("name", rule, name)

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

    def _check_creatives(self) -> None:
        if not self.creatives and self.creative != Creative():
            msgspec.structs.force_setattr(self, "creatives", (self.creative,))
        elif self.creatives and self.creative == Creative():
            msgspec.structs.force_setattr(self, "creative", self.creatives[0])
        if self.creatives and self.creatives[0] != self.creative:
            rule = "be the first of creatives, or be left out"
            raise KreachError.rule("creative", rule, self.creative.id)
        if len(self.creatives) > MAX_CREATIVES:
            rule = f"be at most {MAX_CREATIVES}"
            raise KreachError.rule("creatives", rule, len(self.creatives))
        keys = [creative.key for creative in self.creatives]
        if len(set(keys)) < len(keys):
            raise KreachError.rule("creatives", "have different ids and content", keys)

    def _check_deals(self) -> None:
        for deal in self.deals:
            if not 0 < len(deal) <= 256:
                rule = "be ids of 1 to 256 characters"
                raise KreachError.rule("deals", rule, f"{len(deal)} characters")
        if len(self.deals) > _MAX_DEALS:
            raise KreachError.rule("deals", f"be at most {_MAX_DEALS}", len(self.deals))
        if self.deals_only and not self.deals:
            raise KreachError.rule("deals_only", "be false where no deals are named", True)

    @property
    def servable(self) -> tuple[Creative, ...]:
        """Creatives that are complete and approved."""
        return tuple(one for one in self.creatives if one.complete and one.review == "approved")

    @property
    def not_bidding(self) -> str | None:
        """What a running campaign lacks to bid; None if nothing."""
        if self.servable:
            return None
        reviews = {one.review for one in self.creatives if one.complete}
        if "pending" in reviews:
            return "creative in review"
        return "creative rejected" if reviews else "no creative"

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


def campaign_from(document: object, *, new_creatives: bool = False) -> Campaign:
    """A campaign from plain values; an error names the field, the rule and the value.

    All wrong fields are named together, those of creatives with their places. With `new_creatives`
    they must not have what stored ones may have.
    """
    if not isinstance(document, dict):
        return from_document(document, Campaign, "campaign")
    for name, message in REMOVED.items():
        if name in document:
            raise KreachError(message, field=name, code="unknown")
    checks: list[Callable[[], None]] = [
        partial(_check_placed, place, partial(_check_creative, one, new=new_creatives))
        for place, one in _given_creatives(document)
    ]
    if checks:
        without = {name: value for name, value in document.items() if name not in _CREATIVE_FIELDS}
        check_all(*checks, lambda: _check_campaign(without))
    return from_document(document, Campaign, "campaign")


def _given_creatives(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The creatives of a document, with the place of each."""
    several, one = document.get("creatives"), document.get("creative")
    if isinstance(several, (list, tuple)) and several:
        yield from ((f"creatives.{at}", each) for at, each in enumerate(several))
    elif one:
        yield "creative", one


def _check_campaign(document: object) -> None:
    from_document(document, Campaign, "campaign")


def check_new_creatives(creatives: Sequence[Creative]) -> None:
    """Refuse what stored creatives may have and new ones must not."""
    check_all(
        *(
            partial(_check_placed, f"creatives.{at}", one.check_new)
            for at, one in enumerate(creatives)
        )
    )


def _check_creative(document: object, *, new: bool) -> None:
    texts = document if new and isinstance(document, dict) else {}
    check_all(
        lambda: _convert_creative(document),
        lambda: check_new_texts(texts.get("markup"), texts.get("domains")),
    )


def _convert_creative(document: object) -> None:
    from_document(document, Creative, "creative")


def _check_placed(place: str, check: Callable[[], None]) -> None:
    """Refuse a creative with every wrong field, by its place."""
    try:
        check()
    except KreachError as error:
        errors = error.errors if isinstance(error, KreachErrors) else (error,)
        raise KreachErrors([_placed(one, place) for one in errors]) from None


def _placed(error: KreachError, place: str) -> KreachError:
    field = (error.field or "creative").removeprefix("creative").removeprefix(".")
    message = str(error)
    for own in (f"creative.{field}", field, "creative"):
        if own and message.startswith(own):
            message = message.removeprefix(own).lstrip(". ")
            break
    name = f"{place}.{field}" if field else place
    joint = "" if message.startswith(":") else " "
    return KreachError(f"{name}{joint}{message}", field=name, code=error.code)


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
