"""A campaign's creatives in rotation, each with the fields of its bids ready."""

from collections.abc import Callable
from typing import Any

from kreach.adsystem.bidserver.native import native_markup
from kreach.adsystem.bidserver.places import Traits, mismatch, size_in, traits_of
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.creative import Creative
from kreach.boundary.openrtb import BidRequest, as_json
from kreach.boundary.openrtb_places import Imp

__all__ = ["Accepted", "ReadyCreative", "Rotation"]

_MARKUP_TYPES = {"banner": 1, "video": 2, "audio": 3, "native": 4}


class ReadyCreative:
    """A creative and what its bids say about it."""

    def __init__(self, campaign: Campaign, creative: Creative) -> None:
        self.creative = creative
        self.traits: Traits = traits_of(creative)
        self.weight = creative.weight
        self.owed = 0  # of its share of the rotation so far
        sizes: list[tuple[int, int] | None] = [*self.traits.sizes, None]
        self._tails = {size: _fields(campaign, creative, size) for size in sizes}
        self._only = self._tails[sizes[0]] if len(sizes) == 2 and creative.native is None else None

    def tail(self, imp: Imp) -> bytes:
        """The last fields of a bid for a place, and the brace that ends it."""
        if self._only is not None:
            return self._only
        creative = self.creative
        if creative.kind == "banner" and imp.banner is not None:
            return self._tails[size_in(self.traits, imp.banner)]
        if creative.native is not None and imp.native is not None:
            markup = as_json(native_markup(creative.native, imp.native.request))
            return b'"adm":%b,%b' % (markup, self._tails[None])
        return self._tails[self.traits.sizes[0] if self.traits.sizes else None]


def _fields(campaign: Campaign, creative: Creative, size: tuple[int, int] | None) -> bytes:
    fields: dict[str, Any] = {
        "cid": campaign.id,
        "crid": creative.key,
        "adomain": creative.domains,
        "adm": creative.markup,
        "mtype": _MARKUP_TYPES[creative.kind],
        "cat": creative.categories,
        "cattax": creative.category_taxonomy if creative.categories else None,
        "attr": creative.attributes,
        "apis": creative.apis,
        "language": creative.language,
        "bundle": creative.bundle,
        "protocol": creative.protocols[0] if creative.protocols else None,
        "dur": creative.duration_seconds,
        "w": None if size is None else size[0],
        "h": None if size is None else size[1],
    }
    return as_json({k: v for k, v in fields.items() if v is not None and v != ()}).lstrip(b"{")


Accepted = Callable[[ReadyCreative], bool]
"""A condition beside the rules of the place: an exchange's, or a deal's."""


class Rotation:
    """Creatives of a campaign that may be shown. Each gets bids in proportion to its weight.

    Of those that fit a place the one is taken that is owed most. So rotation needs no chance, and
    shares are right within one bid of each (smooth weighted round-robin).
    """

    def __init__(self, campaign: Campaign) -> None:
        self.creatives = [ReadyCreative(campaign, creative) for creative in campaign.servable]

    def fits(self, request: BidRequest, imp: Imp, accepted: Accepted) -> bool:
        """Whether a creative that is accepted fits a place."""
        return bool(self._fitting(request, imp, accepted))

    def choose(
        self, request: BidRequest, imp: Imp, accepted: Accepted | None = None
    ) -> ReadyCreative:
        """The next creative for a place that at least one fits."""
        creatives = self.creatives
        if len(creatives) == 1:
            return creatives[0]
        fitting = self._fitting(request, imp, accepted)
        for each in fitting:
            each.owed += each.weight
        best = max(fitting, key=lambda each: each.owed)
        best.owed -= sum(each.weight for each in fitting)
        return best

    def _fitting(
        self, request: BidRequest, imp: Imp, accepted: Accepted | None
    ) -> list[ReadyCreative]:
        return [
            each
            for each in self.creatives
            if (accepted is None or accepted(each)) and not mismatch(each.traits, request, imp)
        ]
