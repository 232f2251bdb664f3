"""The delivery state of a campaign: one word and its reason, the same for pages, files and API."""

from datetime import datetime

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.boundary.money import as_micros

__all__ = ["DELIVERY_STATES", "delivery_state"]

DELIVERY_STATES = (
    "running",
    "limited",
    "budget spent",
    "no creative",
    "creative in review",
    "creative rejected",
    "paused",
    "scheduled",
    "completed",
    "ended",
)
_SPENT = 0.999  # of the budget: what is left buys hardly an impression
_LACKS = {
    "no creative": "add an ad with its size to start bidding",
    "creative in review": "an operator has to approve the creative",
    "creative rejected": "the creative was rejected: change it",
}


def delivery_state(  # noqa: PLR0911 - one answer per state
    campaign: Campaign,
    now: datetime,
    spend_micros: int | None = None,
    under_delivery: str | None = None,
) -> tuple[str, str | None]:
    """The state for people, and why a campaign does not deliver as it should, if it does not.

    Without `spend_micros` (withheld) nothing is said about the budget.
    """
    if campaign.state == "ended":
        return "ended", None
    if now >= campaign.end:
        return "completed", None
    if campaign.state == "paused":
        return "paused", None
    lacks = campaign.not_bidding
    if lacks is not None:
        return lacks, _LACKS.get(lacks)
    if now < campaign.start:
        return "scheduled", None
    if spend_micros is not None:
        if spend_micros >= _SPENT * as_micros("budget", campaign.budget):
            return "budget spent", "raise the budget to go on"
        if under_delivery:
            return "limited", f"cannot spend the whole budget: {under_delivery}"
    return "running", None
