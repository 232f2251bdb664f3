"""What hours of the day are dear in a market, as all campaigns of a bidder have learned together.

A new campaign would know no hours until its second day. Prices by hour are the market's and not a
campaign's, so it starts with what the others have learned, and keeps to that until its own auctions
say otherwise (`rhythm.believed_offsets`).

**What crosses between campaigns**, perhaps of rival advertisers, is 24 numbers by auction type: how
dear each hour is relative to the others, over all campaigns but the one that asks. It says nothing
about how high prices are, about bids, budgets, wins or losses, or about any one campaign. No
report, status or metric shows it.

Campaigns report two estimates of each hour, from even and from odd days, with their information
(inverse variance). A campaign may buy at a higher level than another, and at other hours: with x of
campaign c in hour h the fit is x_ch ≈ level_c + o_h, by least squares, even and odd days apart. The
o_h are then shrunk as those of one campaign are: where even and odd days do not agree, there is no
rhythm, and nothing is handed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kreach.adsystem.bidding.rhythm import HOURS, HourEstimates, shrunk_offsets
from kreach.boundary.money import AUCTIONS
from kreach.boundary.times import DAY_SECONDS
from kreach.numeric.types import FloatArray

__all__ = ["CampaignHours", "MarketHours"]

_HALF_LIFE_DAYS = 14.0
_MAX_CAMPAIGNS = 200  # that an auction type remembers, the latest
_ROUNDS = 20  # of fitting levels and hours in turns


@dataclass(frozen=True)
class _Reported:
    location: FloatArray  # of ln price, of even and odd days by hour
    information: FloatArray
    moment: float  # of its last auction


class MarketHours:
    """Estimates of prices by hour, by auction type and campaign. Used by one thread."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, _Reported]] = {auction: {} for auction in AUCTIONS}
        self.version = 0  # rises with every report

    def of(self, campaign: str) -> "CampaignHours":
        """The part of it that one campaign sees."""
        return CampaignHours(self, campaign)

    def report(self, auction: str, campaign: str, own: HourEstimates, moment: float) -> None:
        """Take up what a campaign has learned by now."""
        information = np.where(np.isfinite(own.variance), 1.0 / own.variance, 0.0)
        reported = self._reported[auction]
        reported.pop(campaign, None)
        reported[campaign] = _Reported(own.location, information, moment)
        while len(reported) > _MAX_CAMPAIGNS:
            del reported[min(reported, key=lambda name: reported[name].moment)]
        self.version += 1

    def offsets(self, auction: str, asking: str) -> FloatArray | None:
        """Offsets of ln price by hour, from all campaigns but one; None without a rhythm."""
        others = [one for name, one in self._reported[auction].items() if name != asking]
        if not others:
            return None
        moment = np.array([one.moment for one in others])
        fade = 0.5 ** ((moment.max() - moment) / DAY_SECONDS / _HALF_LIFE_DAYS)
        location = np.stack([one.location for one in others])
        weight = np.stack([one.information for one in others]) * fade[:, None, None]
        total = weight.sum(axis=0)
        by_campaign = np.maximum(weight.sum(axis=2, keepdims=True), 1e-300)
        level = (weight * location).sum(axis=2, keepdims=True) / by_campaign
        for _ in range(_ROUNDS):
            hours = (weight * (location - level)).sum(axis=0) / np.maximum(total, 1e-300)
            level = (weight * (location - hours)).sum(axis=2, keepdims=True) / by_campaign
        variance = np.where(total > 0.0, 1.0 / np.where(total > 0.0, total, 1.0), np.inf)
        return shrunk_offsets(hours, variance)

    def memory(self) -> dict[str, Any]:
        """What was reported, as plain values."""
        return {
            auction: {
                name: {
                    "location": _rounded(one.location),
                    "information": _rounded(one.information),
                    "moment": one.moment,
                }
                for name, one in reported.items()
            }
            for auction, reported in self._reported.items()
        }

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what an earlier run was told."""
        for auction in AUCTIONS:
            for name, one in memory.get(auction, {}).items():
                location, information = (
                    np.array(one[part], dtype=np.float64) for part in ("location", "information")
                )
                if location.shape != (2, HOURS) or information.shape != (2, HOURS):
                    raise ValueError(f"prices by hour must be {HOURS} of even and of odd days")
                moment = float(one["moment"])
                self._reported[auction][str(name)] = _Reported(location, information, moment)
        self.version += 1


@dataclass(frozen=True)
class CampaignHours:
    """What one campaign is told of the market's hours, and tells."""

    market: MarketHours
    campaign: str

    @property
    def version(self) -> int:
        """Rises when there is news."""
        return self.market.version

    def offsets(self, auction: str) -> FloatArray | None:
        """What all others have learned; None without a rhythm."""
        return self.market.offsets(auction, self.campaign)

    def report(self, auction: str, own: HourEstimates, moment: float) -> None:
        """Tell what this one has learned."""
        self.market.report(auction, self.campaign, own, moment)


def _rounded(array: FloatArray) -> list[Any]:
    rounded: list[Any] = [[float(f"{x:.5g}") for x in row] for row in array.tolist()]
    return rounded
