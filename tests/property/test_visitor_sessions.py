"""The visitor filter against a list of everything that can happen, in exact fractions.

Exact model: requests point at earlier ones and form sessions, sessions fall on members by a Pólya
urn (`tests/golden/sessions.py`). The filter keeps marginal states. It is exact

- where at most two wins precede a request, only the nearest one can be continued, and the cap is 1;
- where nothing is continued, for every cap.

Beyond that it is an approximation, as its number of won sessions is a mean and independent of the
state of each request, and with two lags the list lets two requests continue the same one, which
"the nearest request of the same session" rules out. The bounds below are the worst of all wins and
gaps in groups of two and three, where people meet again with probability 0.6 to 0.7: far more than
on any site.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from tests.golden.sessions import Truth, truth, weights
from tests.golden.test_sessions import URNS, lasting, meeting

F = Fraction
EDGES_SECONDS = (60.0, 600.0, 3600.0)
CONTINUING = ((F(1, 2), F(3, 4), F(1, 10)), (F(1, 4), F(1, 2), F(0)))  # e by lag and gap
GAPS_SECONDS = (30.0, 300.0, 1800.0, 7200.0)


def model_of(k: int, lags: int) -> kr.VisitModel:
    alpha, h = URNS[k]
    odds = [[float(e / (1 - e)) for e in row] for row in CONTINUING[:lags]]
    return kr.VisitModel(
        group_size=float(k),
        gap_edges_seconds=EDGES_SECONDS,
        continuation_odds=np.array(odds),
        hourly_traffic=np.ones(24),
        requests_per_session=np.array([0.5, 0.3, 0.2]),
        meetings=np.full((12, 12, 9), float(meeting(alpha))),
        regulars=float(h),
        lasting=float(lasting(alpha)),
    )


@cache
def exact(
    k: int, targeted: int, lags: int, gaps: tuple[float, ...], won: tuple[bool, ...], cap: int
) -> Truth:
    times = np.cumsum([0.0, *gaps])
    requests = []
    for t, now in enumerate(times):
        continuing = []
        for lag in range(1, min(lags, t) + 1):
            column = int(np.searchsorted(EDGES_SECONDS, now - times[t - lag], side="right"))
            continuing.append(CONTINUING[lag - 1][column] if column < 3 else F(0))
        requests.append(weights(continuing))
    return truth(URNS[k][0], [F(targeted, k)] * k, requests, won, cap)


def filtered(
    k: int, targeted: int, lags: int, gaps: Sequence[float], won: Sequence[bool], cap: int
) -> tuple[list[float], kr.VisitorFilter]:
    visitors = kr.VisitorFilter(
        kr.Audience.disjoint([k], targeted_counts=[targeted]), model_of(k, lags), caps=[cap]
    )
    values = []
    for now, is_won in zip(np.cumsum([0.0, *gaps]).tolist(), won, strict=True):
        value = visitors.request(0, now)
        assert isinstance(value, float)
        values.append(value)
        if is_won:
            assert visitors.won(0, now) == value
    return values, visitors


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("gaps", list(product(GAPS_SECONDS, repeat=2)))
def test_three_requests_and_one_lag_are_exact_at_cap_1(k: int, gaps: tuple[float, ...]) -> None:
    for won in product((False, True), repeat=3):
        wanted = exact(k, 1, 1, gaps, won, 1)
        values, visitors = filtered(k, 1, 1, gaps, won, 1)
        assert values == pytest.approx([float(v) for v in wanted.values], abs=1e-12)
        assert visitors.reach[1] == pytest.approx(float(wanted.reach), abs=1e-12)
        assert visitors.draws(0) == pytest.approx(float(wanted.won_sessions), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_sessions_of_one_request_are_exact_at_every_cap(k: int, cap: int) -> None:
    gaps = (7200.0,) * 3
    for won in product((False, True), repeat=4):
        wanted = exact(k, k - 1, 2, gaps, won, cap)
        values, visitors = filtered(k, k - 1, 2, gaps, won, cap)
        assert values == pytest.approx([float(v) for v in wanted.values], abs=1e-12)
        assert visitors.reach[cap] == pytest.approx(float(wanted.reach), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("cap", [1, 2])
def test_the_truth_is_a_law(k: int, cap: int) -> None:
    """The list itself: the law of the one kernel holds in it, and its mean is that of its law."""
    gaps, won = (30.0, 300.0, 30.0), (True, False, True, True)
    found = exact(k, k, 2, gaps, won, cap)
    assert sum(found.distribution.values()) == 1
    assert sum(r * p for r, p in found.distribution.items()) == found.reach
    assert sum(v for v, w in zip(found.values, won, strict=True) if w) == found.reach


WORST = {  # (lags, cap): value of a request, relative reach
    (1, 1): (0.025, 0.016),
    (2, 1): (0.08, 0.07),
    (1, 2): (0.20, 0.115),
    (2, 2): (0.32, 0.18),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([2, 3]),
    st.sampled_from(list(WORST)),
    st.lists(st.tuples(st.sampled_from(GAPS_SECONDS), st.booleans()), min_size=3, max_size=3),
    st.booleans(),
)
def test_how_far_off_marginal_states_are(
    k: int, kind: tuple[int, int], rest: list[tuple[float, bool]], first: bool
) -> None:
    lags, cap = kind
    gaps, won = tuple(g for g, _ in rest), (first, *(w for _, w in rest))
    wanted = exact(k, k, lags, gaps, won, cap)
    values, visitors = filtered(k, k, lags, gaps, won, cap)
    most, relative = WORST[kind]
    assert values == pytest.approx([float(v) for v in wanted.values], abs=most)
    assert visitors.reach[cap] == pytest.approx(float(wanted.reach), rel=relative)
