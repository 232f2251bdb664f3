"""Review of creatives: an advertiser's markup is not served before an operator approved it.

A review is about content. A creative that comes back unchanged keeps its review, also if the rest
of the campaign changed; one that changed in anything is new.
"""

import msgspec

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.creative import Creative
from kreach.errors import KreachError

__all__ = ["DECISIONS", "CreativeChanged", "UnknownCreative", "decided", "with_reviews"]

DECISIONS = {"approve": "approved", "reject": "rejected"}


class UnknownCreative(KreachError):
    """A campaign has no such creative."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no creative {key!r} in this campaign", field="creative", code="unknown")


class CreativeChanged(KreachError):
    """The creative is not the one that was looked at."""

    def __init__(self, key: str) -> None:
        message = f"creative {key!r} has changed since: look at it again"
        super().__init__(message, field="version", code="conflict")


def with_reviews(campaign: Campaign, before: Campaign | None, *, required: bool) -> Campaign:
    """A new or changed campaign whose new creatives wait for review, or are approved at once."""
    known = {} if before is None else {one.content(): one for one in before.creatives}
    review = "pending" if required else "approved"
    creatives = tuple(
        known.get(one.content()) or msgspec.structs.replace(one, review=review, review_reason=None)
        for one in campaign.creatives
    )
    return _replaced(campaign, creatives)


def decided(
    campaign: Campaign, key: str, decision: str, reason: str | None, version: str | None
) -> Campaign:
    """A campaign with an operator's decision on one of its creatives.

    An approval names the version that was looked at: an advertiser may have put another creative
    under the same id in the meantime.
    """
    if decision not in DECISIONS:
        rule = f"be one of {', '.join(DECISIONS)}"
        raise KreachError.rule("decision", rule, decision)
    if decision == "reject" and not reason:
        message = "reason is required to reject: the advertiser reads it"
        raise KreachError(message, field="reason", code="required")
    creative = next((one for one in campaign.creatives if one.key == key), None)
    if creative is None:
        raise UnknownCreative(key)
    if decision == "approve" and version is None:
        message = "version is required to approve: that of the creative you looked at"
        raise KreachError(message, field="version", code="required")
    if version is not None and version != creative.version:
        raise CreativeChanged(key)
    changes = {"review": DECISIONS[decision], "review_reason": reason}
    creatives = tuple(
        msgspec.structs.replace(one, **changes) if one.key == key else one
        for one in campaign.creatives
    )
    return _replaced(campaign, creatives)


def _replaced(campaign: Campaign, creatives: tuple[Creative, ...]) -> Campaign:
    if not creatives:
        return campaign
    return msgspec.structs.replace(campaign, creatives=creatives, creative=creatives[0])
