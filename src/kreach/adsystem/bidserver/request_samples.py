"""Sampled requests: for which campaigns they have an eligible place.

Campaigns with creatives of the same traits and deals are eligible for the same places, so a
request is checked once for all of them. What comes out is noted, and counted campaign by campaign a
few times a second: a sampled request that visits a hundred campaigns makes the next ones wait.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kreach.adsystem.bidserver.places import Requirements, is_eligible, mismatch
from kreach.boundary.openrtb import BidRequest, Imp

__all__ = ["RequestSamples"]


class SampledCampaign(Protocol):
    """A campaign that counts sampled requests."""

    requirements: Requirements
    slot: int | None

    def sample(self, auction: str | None, requests: int = 1) -> None:
        """Count requests, and their auction type if they have an eligible place."""


class RequestSamples:
    """Sampled requests of one catalogue that campaigns have not counted yet."""

    def __init__(self) -> None:
        self.mismatches: Counter[str] = Counter()  # of creatives with places, by kind and rule
        self._numbers: dict[Requirements, int] = {}  # of all campaigns so far
        self._of_slot = np.zeros(0, dtype=np.intp)
        self._auctions: list[list[str | None]] = []  # by number: None where no place is eligible
        self._uncounted = False

    def add_slots(self, slots: int) -> None:
        """Make room for campaigns on the board."""
        self._of_slot = np.concatenate([self._of_slot, np.zeros(slots, dtype=np.intp)])

    def place(self, campaign: SampledCampaign) -> None:
        """A campaign is new or was changed; all samples so far are counted."""
        number = self._numbers.setdefault(campaign.requirements, len(self._numbers))
        if number == len(self._auctions):
            self._auctions.append([])
        if campaign.slot is not None:
            self._of_slot[campaign.slot] = number

    def add(self, request: BidRequest) -> None:
        """Note a request. The request is not stored."""
        auction = "first_price" if request.first_price else "second_price"
        for requirements, number in self._numbers.items():
            eligible = any(is_eligible(requirements, request, imp) for imp in request.imp)
            self._auctions[number].append(auction if eligible else None)
            if not eligible:
                self._note_mismatch(requirements, request)
        self._uncounted = True

    def _note_mismatch(self, requirements: Requirements, request: BidRequest) -> None:
        """Count why a campaign has no eligible place: its first creative, the first place."""
        if requirements.creatives and request.imp:
            traits = requirements.creatives[0]
            why = mismatch(traits, request, request.imp[0]) or "deal"
            self.mismatches[f"{traits.kind} {why}"] += 1

    def count(self, campaigns: Iterable[SampledCampaign]) -> None:
        """Have campaigns count what was noted."""
        if not self._uncounted:
            return
        noted = [
            [(auction, len(list(same))) for auction, same in groupby(auctions)]
            for auctions in self._auctions
        ]
        for campaign in campaigns:
            for auction, requests in noted[self._numbers[campaign.requirements]]:
                campaign.sample(auction, requests)
        for auctions in self._auctions:
            auctions.clear()
        self._uncounted = False

    def eligible(self, request: BidRequest, imp: Imp) -> list[bool]:
        """Whether a place is eligible, for what campaigns require (`by_slot`)."""
        return [is_eligible(requirements, request, imp) for requirements in self._numbers]

    def by_slot(self, eligible: Sequence[list[bool]]) -> npt.NDArray[np.bool_]:
        """A row for each place, by slot: whether it is eligible. Of places since the last change
        of a campaign."""
        result: npt.NDArray[np.bool_] = np.array(eligible, dtype=np.bool_)[:, self._of_slot]
        return result
