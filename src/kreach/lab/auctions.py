"""An auction loop. The bidder sees only group, time and outcome."""

from collections import deque
from dataclasses import dataclass
from math import inf

import numpy as np

from kreach.adsystem.bidding.bidder import Bidder
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Gateway", "Outcome", "Stream", "paper_stream", "run_auctions"]


@dataclass(frozen=True, eq=False)
class Stream:
    """Requests in time order: person (the truth), group, time and competing bid."""

    person: IntArray
    group: IntArray
    at: FloatArray
    price: FloatArray  # the highest competing bid
    people: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a bidder; `reach` is the truth, which it never sees."""

    reach: int
    spend: float
    impressions: int
    expected_reach: float  # as the ad system would measure it
    won: IntArray  # requests, by index


def paper_stream(
    group_size: int,
    generator: np.random.Generator,
    *,
    people: int = 120,
    requests: int = 2000,
    mu: float = 0.0,
    variance: float = 0.5,
) -> Stream:
    """The setting of the paper's Figure 2: people visit evenly, prices are log-normal."""
    if people % group_size:
        raise KreachError.rule("group_size", f"divide the {people} people", group_size)
    person = generator.integers(people, size=requests)
    price = generator.lognormal(mu, np.sqrt(variance), size=requests)
    return Stream(person, person // group_size, np.arange(requests, dtype=float), price, people)


class Gateway:
    """The publisher's cap by person on one campaign, with a memory."""

    def __init__(self, cap: int, memory_seconds: float) -> None:
        self._cap, self._memory = cap, memory_seconds
        self._shown: dict[int, deque[float]] = {}

    def allows(self, person: int, now: float) -> bool:
        """Whether a bid for this person is let through."""
        shown = self._shown.get(person)
        while shown and shown[0] <= now - self._memory:
            shown.popleft()
        return not shown or len(shown) < self._cap

    def show(self, person: int, now: float) -> None:
        """The person saw the ad."""
        self._shown.setdefault(person, deque()).append(now)


def run_auctions(
    bidder: Bidder,
    stream: Stream,
    cap: int,
    *,
    auction: str = "second_price",
    gateway_cap: int | None = None,
    gateway_memory_seconds: float = inf,
) -> Outcome:
    """Offer every request to the bidder; it wins with at least the competing bid.

    With `gateway_cap` the publisher drops bids for people whom it showed the ad so many times in
    the last `gateway_memory_seconds`: lost auctions.
    """
    seen = [0] * stream.people
    gateway = None if gateway_cap is None else Gateway(gateway_cap, gateway_memory_seconds)
    won, expected = [], 0.0
    rows = zip(
        stream.person.tolist(),
        stream.group.tolist(),
        stream.at.tolist(),
        stream.price.tolist(),
        strict=True,
    )
    for at, (person, group, now, price) in enumerate(rows):
        bid = bidder.bid(group, now)
        if bid <= 0.0:
            continue
        if bid >= price and (gateway is None or gateway.allows(person, now)):
            paid = price if auction == "second_price" else bid
            bidder.won(group, bid, paid, now)
            seen[person] += 1
            if gateway is not None:
                gateway.show(person, now)
            won.append(at)
        else:
            bidder.lost(group, bid)
    meter = getattr(bidder.valuation, "meter", None)
    if meter is not None:
        expected = float(meter.reach[cap])
    reach = int(np.minimum(np.array(seen), cap).sum())
    requests = np.array(won, dtype=np.int64)
    return Outcome(reach, bidder.purse.spent, len(won), expected, requests)
