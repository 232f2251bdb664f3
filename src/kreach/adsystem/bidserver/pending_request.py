"""A bid request while it is answered."""

from collections.abc import Sequence

import msgspec

from kreach.adsystem.bidding.recent_wins import GroupShares
from kreach.adsystem.bidserver.campaign_runtime import CampaignRuntime
from kreach.adsystem.bidserver.exchanges import FIRST_PRICE, SECOND_PRICE
from kreach.boundary.openrtb import BidRequest

__all__ = ["PendingRequest"]


class PendingRequest(msgspec.Struct, gc=False):
    """A bid request being answered, place by place. (A struct is made quicker than a class.)"""

    group: int
    requests: int  # of the group so far
    share: float
    now: float
    request: BidRequest
    individual: Sequence[tuple[float, float, CampaignRuntime]]  # not on the board: value, luck
    shares: GroupShares | None  # by slot, where a session may have been won already
    sampled: bool  # what campaigns compete for it is looked at
    venue: int = SECOND_PRICE
    first_price_venue: int = FIRST_PRICE  # of its exchange, where a deal has that type
    bidding: tuple[CampaignRuntime, ...] = ()  # campaigns that have a place already
