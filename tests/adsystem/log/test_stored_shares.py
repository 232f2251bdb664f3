"""Which questions the shares of a prepared log answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kreach.adsystem.log.stored_shares import StoredShares, slot_heads
from kreach.boundary.times import Window
from tests.adsystem.visit_models import sample_model

MODEL = sample_model()  # looks back two hours
SHARES = StoredShares(MODEL.session_digest, "v1", campaigns=2, deduplicated=True, copies=0)
START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_shares_fit_what_they_were_computed_for() -> None:
    assert SHARES.fit(MODEL, "spring", "v1", True)
    assert SHARES.fit(MODEL, "spring", "v1", False)  # there are no copies
    assert SHARES.fit(replace(MODEL, regulars=0.2), "spring", "v1", True)
    assert not SHARES.fit(MODEL.at_traffic(1.01), "spring", "v1", True)
    assert not SHARES.fit(sample_model(lags=2), "spring", "v1", True)
    assert not SHARES.fit(MODEL, "spring", "v2", True)
    assert not SHARES.fit(MODEL, "spring", None, True)
    assert not SHARES.fit(MODEL, None, "v1", True)
    assert replace(SHARES, campaigns=1).fit(MODEL, None, "v1", True)


@pytest.mark.parametrize(
    ("deduplicated", "copies", "may_repeat", "fits"),
    [
        (True, 3, True, True),
        (True, 3, False, False),
        (False, 0, False, True),
        (False, 0, True, False),  # nobody looked for copies
    ],
)
def test_copies_count_in_the_log_as_in_the_report(
    deduplicated: bool, copies: int, may_repeat: bool, fits: bool
) -> None:
    shares = replace(SHARES, deduplicated=deduplicated, copies=copies)
    assert shares.fit(MODEL, "spring", "v1", may_repeat) is fits


def test_the_digest_is_of_all_that_shares_depend_on() -> None:
    others = (
        replace(MODEL, continuation_odds=MODEL.continuation_odds * 1.001),
        replace(MODEL, gap_edges_seconds=(60.0, 600.0, 1800.0, 7201.0)),
        MODEL.at_traffic(2.0),
        sample_model(lags=2),
    )
    assert len({one.session_digest for one in (MODEL, *others)}) == 5
    assert replace(MODEL, errors=(), people=1).session_digest == MODEL.session_digest


def test_heads_are_as_long_as_the_model_looks_back() -> None:
    assert slot_heads([Window()], MODEL) == []
    assert slot_heads([Window(START, None)], MODEL) == [Window(START, START + 2 * HOUR)]
    days = [Window(START + 24 * HOUR * at, START + 24 * HOUR * (at + 1)) for at in range(3)]
    heads = slot_heads(days, MODEL)
    assert heads == [
        Window(day.start, START + 24 * HOUR * at + 2 * HOUR) for at, day in enumerate(days)
    ]


def test_short_slots_have_no_heads_of_their_own() -> None:
    hours = [Window(START + HOUR * at, START + HOUR * (at + 1)) for at in range(5)]
    assert slot_heads(hours, MODEL) is None
    assert slot_heads([Window(START, START + 4 * HOUR)], MODEL) is not None
    last = datetime.max.replace(tzinfo=UTC)
    assert slot_heads([Window(last - HOUR, None)], MODEL) is None
