"""A family of campaigns: a frequency cap and a budget that its members share.

A brand, an advertiser or a household budget. Each member keeps its own cap and budget; those of the
family hold beside them, for all members together.
"""

from typing import Any

import msgspec

from kreach.adsystem.campaigns.campaign import (
    Campaign,
    Cap,
    check_caps,
    check_id,
    from_document,
)
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.money import as_micros
from kreach.errors import KreachError, check_all

__all__ = ["Family", "check_family", "counts_by_time", "family_from", "longest_span"]


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps on what a person sees of all members together, and a budget for all of them.

    `caps` are as a campaign's, "the whole flight" being all flights of the members; they may be
    empty. Without a budget only the members' own budgets hold.

    >>> family = Family(id="acme.brand", caps=(Cap(limit=3),), budget=500.0)
    >>> family.cap
    3
    """

    id: str
    caps: tuple[Cap, ...] = ()
    budget: float | None = None

    def __post_init__(self) -> None:
        check_all(self._check_id, self._check_caps, self._check_budget)

    def _check_id(self) -> None:
        check_id("id", self.id)

    def _check_caps(self) -> None:
        check_caps(self.caps)
        if not self.caps and self.budget is None:
            raise KreachError.rule("caps", "hold a cap where the family has no budget", "none")

    def _check_budget(self) -> None:
        if self.budget is not None:
            as_micros("budget", self.budget)

    @property
    def cap(self) -> int | None:
        """The cap for all time, if that is all there is."""
        only = self.caps[0] if len(self.caps) == 1 else None
        return only.limit if only is not None and only.span_seconds is None else None

    def document(self) -> dict[str, Any]:
        """Plain values, as the API shows them."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def family_from(document: object) -> Family:
    """A family from plain values; an error names the field, the rule and the value."""
    return from_document(document, Family, "family")


def check_family(family: Family, audience: Audience) -> None:
    """Refuse caps of a family that no bidder can value on this audience."""
    if family.caps and isinstance(audience, OverlappingAudience):
        rule = "be without caps on overlapping groups"
        raise KreachError.rule("family", rule, family.id)


def counts_by_time(campaign: Campaign, family: Family | None) -> bool:
    """Whether the times of a campaign's impressions matter: a cap of its own or its family rolls.

    >>> from datetime import UTC, datetime
    >>> start, end = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC)
    >>> spring = Campaign(id="spring", budget=9.0, start=start, end=end, max_cpm=5.0)
    >>> weekly = Family(id="brand", caps=(Cap(limit=2, span_seconds=604_800.0),))
    >>> counts_by_time(spring, None), counts_by_time(spring, weekly)
    (False, True)
    """
    rolls = family is not None and bool(family.caps) and family.cap is None
    return campaign.cap is None or rolls


def longest_span(campaign: Campaign, family: Family | None, now: float) -> float:
    """The longest span of a cap in seconds, the family's included; `now` for all time."""
    spans = [cap.span_seconds or now for cap in family.caps] if family is not None else []
    return max([campaign.longest_span(now), *spans])
