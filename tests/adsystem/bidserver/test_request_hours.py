"""Requests by whole hour: what a bidder counts, and which hours it does not vouch for."""

from datetime import timedelta
from pathlib import Path

from kreach.adsystem.bidserver.request_hours import RequestHours
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.ledger.request_rows import read_request_rows
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    ManualClock,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
    user_data,
)

HOUR = 3_600.0
FIRST = int(NOW.timestamp() // HOUR)


def hours_of(
    counter: RequestHours, moments: list[float], per_second: float = 1.0
) -> dict[int, int | None]:
    """Rows of a counter that rises evenly and is looked at at these seconds."""
    rows: dict[int, int | None] = {}
    for moment in moments:
        rows |= dict(counter.advance(moment, int(moment * per_second)))
    return rows


def steps(low: float, high: float, step: float = 5.0) -> list[float]:
    return [low + step * at for at in range(int((high - low) / step) + 1)]


def test_the_first_hour_is_not_whole() -> None:
    rows = hours_of(RequestHours(100.0), steps(100.0, 3 * HOUR))
    assert rows == {0: None, 1: 3_600, 2: 3_600}


def test_an_hour_with_a_gap_has_no_total() -> None:
    asleep = steps(0.0, 1.5 * HOUR) + steps(1.5 * HOUR + 60.0, 4 * HOUR)
    assert hours_of(RequestHours(0.0), asleep) == {0: None, 2: 3_600, 3: 3_600}


def test_an_hour_that_was_slept_through_has_no_total() -> None:
    away = steps(0.0, 1.9 * HOUR) + steps(4.1 * HOUR, 6 * HOUR)
    assert hours_of(RequestHours(0.0), away) == {0: None, 5: 3_600}


def rows_in(folder: Path) -> dict[tuple[str, int], int | None]:
    reader = open_reader(folder / "store")
    try:
        return {(version, hour): requests for version, hour, requests in read_request_rows(reader)}
    finally:
        reader.close()


def pass_time(exchange: Exchange, clock: ManualClock, seconds: float) -> None:
    """Let the clock run, with a look at the counters every few seconds."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(clock.now + 8.0, end)
        exchange.state.checkpoints.write_request_hours()


def test_every_visit_of_a_known_group_counts_once(tmp_path: Path) -> None:
    """Also those without a bid; not tests, other catalogues, or requests without a group."""
    clock = ManualClock(NOW - timedelta(seconds=30))
    counted = [
        sample_request(),
        sample_request("g1"),
        sample_request(tmax=1),
        sample_request(cur=["EUR"]),
        sample_request(bseat=["kreach"]),
        sample_request(imp=[{"id": "1", "banner": {}}, {"id": "2", "banner": {}}]),
        sample_request(imp=[{"id": "1", "banner": {}, "bidfloor": 1e6}]),
    ]
    skipped = [
        sample_request(test=1),
        sample_request("nobody"),
        sample_request(user={"data": [user_data("g0", "v9")]}),
        sample_request(user={}),
        sample_request(imp=[]),
    ]
    with bidding(tmp_path, [sample_campaign()], clock=clock) as exchange:
        pass_time(exchange, clock, 31.0)
        for request in counted + skipped:
            exchange.bid(request)
        pass_time(exchange, clock, HOUR)
        exchange.bid(sample_request())
        pass_time(exchange, clock, HOUR)
    assert rows_in(tmp_path) == {
        ("v1", FIRST - 1): None,
        ("v1", FIRST): len(counted),
        ("v1", FIRST + 1): 1,
    }


def test_a_restart_leaves_a_gap_and_keeps_what_was_counted(tmp_path: Path) -> None:
    clock = ManualClock(NOW - timedelta(seconds=8))
    with bidding(tmp_path, clock=clock) as exchange:
        pass_time(exchange, clock, HOUR + 20.0)
    clock.now += 60.0
    with bidding(tmp_path, clock=clock) as exchange:
        pass_time(exchange, clock, 2 * HOUR)
    assert rows_in(tmp_path) == {
        ("v1", FIRST - 1): None,
        ("v1", FIRST): 0,
        ("v1", FIRST + 1): None,
        ("v1", FIRST + 2): 0,
    }


def test_totals_tell_nothing_about_groups(tmp_path: Path) -> None:
    """The rows are the same whichever groups the visitors belong to."""
    found = []
    for at, groups in enumerate((["g0"] * 4, ["g0", "g1", "g2", "g3"])):
        clock = ManualClock(NOW - timedelta(seconds=8))
        folder = tmp_path / str(at)
        with bidding(folder, catalogues=[sample_catalogue()], clock=clock) as exchange:
            pass_time(exchange, clock, 9.0)
            for group in groups:
                exchange.bid(sample_request(group))
            pass_time(exchange, clock, HOUR)
        found.append(rows_in(folder))
    assert found[0] == found[1]
    assert found[0]["v1", FIRST] == 4
