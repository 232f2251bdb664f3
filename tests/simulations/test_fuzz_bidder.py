"""Odd requests over the wire: a short run against a real bidder, and what counts as a failure."""

from collections import Counter
from pathlib import Path

import pytest
from simulations.fuzz_bidder import Fuzz, fuzz

MB = 1 << 20


@pytest.mark.xdist_group("serve")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_real_bidder_answers_odd_requests() -> None:
    counts = fuzz(requests=400, seed=7, seconds=120.0)
    assert counts.answers.total() + counts.cut == 400
    assert set(counts.answers) <= {200, 204, 400, 413}
    assert counts.answers[200] > 20
    assert set(counts.notices) == {200}
    assert counts.failures(max_growth=1_000 * MB) == []


def test_what_must_not_be_is_a_failure() -> None:
    good = Fuzz(answers=Counter({200: 5, 400: 5}), bids_afterwards=True)
    assert good.failures(MB) == []
    bad = Fuzz(
        answers=Counter({200: 5, 500: 2}),
        notices=Counter({503: 1}),
        unanswered=4,
        errors=["request failed", "request failed"],
        memory_before=MB,
        memory_after=4 * MB,
    )
    assert bad.failures(2 * MB) == [
        "3 server errors",
        "4 requests without an answer",
        "logged: request failed",
        "no bid afterwards",
        "memory grew by 3 MB",
    ]
