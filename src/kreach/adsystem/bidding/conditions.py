"""What a plan starts from: where groups stand, and what limits a campaign besides its budget."""

from dataclasses import dataclass

from kreach.adsystem.bidding.competition import Availability
from kreach.adsystem.bidding.responses import PlannedMarket, market_response
from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Conditions", "GroupState"]


@dataclass(frozen=True)
class GroupState:
    """Where each group stands: its kind, impressions so far, and requests still expected.

    With a visit model impressions are effective draws. `evidence` is how many independent requests
    were behind the estimate of each that is expected: infinite if traffic is known.
    """

    kind: IntArray
    impressions: IntArray | FloatArray
    requests_left: FloatArray
    evidence: float = float("inf")


@dataclass(frozen=True)
class Conditions:
    """What limits a campaign besides its budget: the most it may bid, and other campaigns.

    `delivered` is what plans have spent so far over what they expected to.
    """

    max_bid: float = float("inf")
    availability: Availability | None = None
    delivered: float = 1.0

    def response(self, market: PlannedMarket) -> Response:
        """How the market answers at most that bid."""
        return market_response(market, self.max_bid)

    def at(self, response: Response, multiplier: float) -> Response:
        """How it answers with what others leave over at this multiplier."""
        left = 1.0 if self.availability is None else self.availability.at(multiplier)
        left = min(left * self.delivered, 1.0)
        return response if left == 1.0 else response.contested(left)
