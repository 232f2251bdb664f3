"""Sampled requests count for a campaign as if it had checked each of them itself."""

from dataclasses import dataclass, field

import numpy as np

from kreach.adsystem.bidserver.places import Requirements, is_eligible, traits_of
from kreach.adsystem.bidserver.request_samples import RequestSamples
from kreach.adsystem.campaigns.campaign import Creative
from kreach.boundary.openrtb import Banner, BidRequest, Imp


def requirements(*sizes: tuple[int, int], domains: tuple[str, ...] = ()) -> Requirements:
    creatives = [
        Creative(markup="<b>ad</b>", width=width, height=height, domains=domains)
        for width, height in sizes
    ]
    return Requirements(tuple(map(traits_of, creatives)), (), deals_only=False)


SMALL = requirements((300, 250), domains=("shop.example",))
LARGE = requirements((970, 250))
ANY = requirements((300, 250), (970, 250), (1, 1), domains=("news.example",))


@dataclass
class Campaign:
    """As much of a campaign as samples need."""

    requirements: Requirements
    slot: int | None
    auctions: list[str | None] = field(default_factory=list)

    def sample(self, auction: str | None, requests: int = 1) -> None:
        self.auctions += [auction] * requests


def requests(count: int = 200) -> list[BidRequest]:
    generator = np.random.default_rng(2)
    sizes = [(300, 250), (970, 250), (1, 1)]
    result = []
    for _ in range(count):
        picked = [sizes[int(at)] for at in generator.integers(3, size=generator.integers(1, 3))]
        imps = [Imp(str(at), Banner(w, h)) for at, (w, h) in enumerate(picked)]
        badv = ["SHOP.example"] if generator.random() < 0.3 else None
        result.append(BidRequest("r", imps, at=int(generator.integers(1, 3)), badv=badv))
    return result


def test_campaigns_count_what_they_are_eligible_for() -> None:
    samples = RequestSamples()
    samples.add_slots(4)
    campaigns = [
        Campaign(each, slot) for slot, each in enumerate((SMALL, LARGE, ANY, SMALL, LARGE))
    ]
    campaigns[4].slot = None  # valued on its own
    for campaign in campaigns:
        samples.place(campaign)
    expected: list[list[str | None]] = [[] for _ in campaigns]
    for turn, request in enumerate(requests()):
        samples.add(request)
        auction = "first_price" if request.at == 1 else "second_price"
        for mine, campaign in zip(expected, campaigns, strict=True):
            fits = any(is_eligible(campaign.requirements, request, imp) for imp in request.imp)
            mine.append(auction if fits else None)
        if turn % 7 == 0:
            samples.count(campaigns)
        by_slot = samples.by_slot([samples.eligible(request, imp) for imp in request.imp])
        assert by_slot.tolist() == [
            [is_eligible(campaign.requirements, request, imp) for campaign in campaigns[:4]]
            for imp in request.imp
        ]
    samples.count(campaigns)
    samples.count(campaigns)  # nothing is counted twice
    assert [campaign.auctions for campaign in campaigns] == expected
    assert {None, "first_price", "second_price"} == set(expected[0])
