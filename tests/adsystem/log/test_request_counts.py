"""Requests of several bidders by hour: which hours count, and for which catalogue."""

from contextlib import closing
from pathlib import Path

from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.ledger.request_rows import request_row
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.service.logs import Log

Rows = dict[str, dict[int, int | None]]


def write(store: Path, rows: Rows, bidder: str | None = None) -> None:
    """Rows by version and hour, in the journal of a bidder."""
    folder = store if bidder is None else store / "bidders" / bidder
    with closing(Journal(folder, Log("bidder", lambda _: None))) as journal:
        for version, hours in rows.items():
            for hour, requests in hours.items():
                journal.submit("memory", request_row(version, hour, requests, 0))
        journal.submit("memory", ("traffic:v1", 0, b"no count"))


def covered(store: Path, version: str = "v1", bidders: tuple[str, ...] = ()) -> dict[int, int]:
    history = RequestCounts(store, bidders, max_age_seconds=0.0).history()
    return history.covered(version, 0, 1_000_000)


def test_a_store_without_counts_covers_nothing(tmp_path: Path) -> None:
    assert covered(tmp_path) == {}
    write(tmp_path, {})
    assert covered(tmp_path) == {}


def test_whole_hours_of_one_bidder(tmp_path: Path) -> None:
    write(tmp_path, {"v1": {5: None, 6: 10, 7: 0, 9: 12}})
    assert covered(tmp_path) == {6: 10, 7: 0, 9: 12}
    history = RequestCounts(tmp_path).history()
    assert history.covered("v1", 7, 9) == {7: 0}
    assert history.end_hour == 10


def test_bidders_add_up_in_hours_that_all_counted(tmp_path: Path) -> None:
    """The second starts in hour 6 and is away in hour 8: those hours lack what it got."""
    write(tmp_path, {"v1": {5: 10, 6: 10, 7: 6, 8: 6, 9: 6}}, "a")
    write(tmp_path, {"v1": {6: None, 7: 5, 9: 7}}, "b")
    assert covered(tmp_path) == {5: 10, 7: 11, 9: 13}


def test_a_bidder_that_went_away_ends_the_cover_until_it_is_no_longer_named(tmp_path: Path) -> None:
    write(tmp_path, {"v1": {5: 10, 6: 10, 7: 10, 8: 10}}, "a")
    write(tmp_path, {"v1": {5: 10, 6: 10}}, "b")
    assert covered(tmp_path) == {5: 20, 6: 20}
    assert covered(tmp_path, bidders=("a", "b")) == {5: 20, 6: 20}
    # it stopped in hour 7, and nobody knows how many requests it had had by then
    assert covered(tmp_path, bidders=("a",)) == {5: 20, 6: 20, 8: 10}


def test_hours_shared_with_another_catalogue_count_for_neither(tmp_path: Path) -> None:
    """While a new release is rolled out, each of both gets part of the visits."""
    write(
        tmp_path,
        {"v1": {4: 100, 5: 60, 6: 2, 7: 0}, "v2": {4: 0, 5: 40, 6: 98, 7: 100}},
    )
    assert covered(tmp_path, "v1") == {4: 100}
    assert covered(tmp_path, "v2") == {6: 98, 7: 100}
    assert covered(tmp_path, "v3") == {}


def test_versions_may_hold_colons(tmp_path: Path) -> None:
    write(tmp_path, {"v:1": {4: 100}})
    assert covered(tmp_path, "v:1") == {4: 100}
    assert covered(tmp_path, "v") == {}
