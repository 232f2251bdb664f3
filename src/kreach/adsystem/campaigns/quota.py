"""Quotas of an advertiser: how many campaigns, and how much money they may spend in all.

A campaign counts while it can spend: until it is ended, or its flight is over. What it may spend
is its budget, whatever it has spent: money that was spent is owed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.settings import AdvertiserLimits
from kreach.boundary.money import MICROS, as_micros
from kreach.errors import KreachError, check_all

__all__ = ["Quota", "QuotaExceeded"]


class QuotaExceeded(KreachError):
    """More than an advertiser may have; an operator can raise the limit (`kreach keys limit`)."""

    code = "quota"


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of an advertiser at a time, in seconds since 1970.

    Whoever is over a limit that was lowered may still change what does not add to it.
    """

    limits: AdvertiserLimits
    now: float

    def check_new(self, campaign: Campaign, others: Sequence[Campaign]) -> None:
        """Refuse a new campaign beyond the limits; `others` are those of the same advertiser."""
        if self._counts(campaign):
            check_all(lambda: self._check_count(others), lambda: self._check(campaign, others))

    def check_change(self, before: Campaign, after: Campaign, others: Sequence[Campaign]) -> None:
        """Refuse a change that adds a campaign or money beyond the limits."""
        if not self._counts(after):
            return
        if not self._counts(before):
            self.check_new(after, others)  # its flight was over and is extended
        elif after.budget > before.budget:
            self._check(after, others)

    def check_families(self, count: int) -> None:
        """Refuse more families than campaigns."""
        most = self.limits.max_campaigns
        if count > most:
            raise QuotaExceeded(f"at most {most} families are allowed", field="id")

    def _counts(self, campaign: Campaign) -> bool:
        return campaign.state != "ended" and campaign.end.timestamp() > self.now

    def _check_count(self, others: Sequence[Campaign]) -> None:
        count, most = sum(map(self._counts, others)), self.limits.max_campaigns
        if count >= most:
            message = f"at most {most} campaigns may run or be planned, got {count}: end one first"
            raise QuotaExceeded(message, field="id")

    def _check(self, campaign: Campaign, others: Sequence[Campaign]) -> None:
        used = sum(as_micros("budget", one.budget) for one in others if self._counts(one))
        limit = round(self.limits.credit_limit * MICROS)
        left = max(limit - used, 0)
        if as_micros("budget", campaign.budget) > left:
            message = (
                f"budget must be at most {left / MICROS:.15g}: the credit limit is "
                f"{limit / MICROS:.15g}, and other campaigns have {used / MICROS:.15g} of it"
            )
            raise QuotaExceeded(message, field="budget")
