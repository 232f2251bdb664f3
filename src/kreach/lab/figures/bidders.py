"""The bidders that the figures compare, and how their results are put in relation."""

import numpy as np

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from kreach.adsystem.bidding.valuation import Valuation
from kreach.lab.scenarios import PAPER_PRICES
from kreach.numeric.types import FloatArray

__all__ = ["PLANS", "ahead_bidder", "paper_bidder", "relative_roas", "spans"]

_PRIOR = (0.5, 1.0)  # a wrong guess at the market, worth ten auctions, to learn from
_LIMITS = (0.0, 10.0)
PLANS = 20  # in a flight; held here, so that figures do not move with a default
_AT_ONCE = 20  # repetitions in a task


def paper_bidder(valuation: Valuation, budget: float, requests: int) -> Bidder:
    """The paper's rule (Section 5.2): λ from 10 by steps of 0.1, base bids in [0.1, 10]."""
    purse = kr.Purse(budget, 0.0, float(requests))
    return kr.PaperBidder(valuation, purse, kr.LogNormalMarket(*PAPER_PRICES), requests)


def ahead_bidder(audience: kr.Audience, cap: int, budget: float, requests: int) -> Bidder:
    """Ours: plans ahead, and learns the market from its own wins and losses."""
    purse, market = kr.Purse(budget, 0.0, float(requests)), kr.LogNormalMarket(*_PRIOR)
    return kr.PlanningBidder(
        audience, cap, purse, market, plans=PLANS, limits=kr.BidLimits(*_LIMITS)
    )


def relative_roas(results: FloatArray, reference: FloatArray) -> tuple[float, float]:
    """ROAS of (reach, spend) rows over that of reference rows, and its standard error.

    ROAS is the ratio of means; rows of one repetition belong together, and the error is that of
    the linearised ratio.
    """
    means, base = results.mean(axis=0), reference.mean(axis=0)
    ratio = float(means[0] / means[1] / (base[0] / base[1]))
    away = results[:, 0] / means[0] - results[:, 1] / means[1]
    away = away - reference[:, 0] / base[0] + reference[:, 1] / base[1]
    return ratio, ratio * float(away.std(ddof=1) / np.sqrt(len(away)))


def spans(repetitions: int) -> list[tuple[int, int]]:
    """Repetitions in tasks of about equal length: (first, one past the last)."""
    starts = range(0, repetitions, _AT_ONCE)
    return [(start, min(start + _AT_ONCE, repetitions)) for start in starts]
