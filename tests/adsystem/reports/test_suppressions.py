"""What was withheld is counted by reason and listed, the newest first, within bounds."""

from itertools import count

import msgspec

from kreach.adsystem.reports.suppressions import Suppressions


def test_the_same_question_again_is_the_same_entry() -> None:
    ticks = count(1_000.0, 60.0)
    log = Suppressions(lambda: next(ticks))
    log.add("too few so far", "spring", "status")
    log.add("window not of whole chapters", "spring", "reach from a to b")
    log.add("too few so far", "spring", "status")
    listing = msgspec.to_builtins(log.document())
    assert listing["by_reason"] == {"too few so far": 2, "window not of whole chapters": 1}
    newest, other = listing["suppressions"]
    assert newest == {
        "reason": "too few so far",
        "campaign": "spring",
        "asked": "status",
        "first": "1970-01-01T00:16:40Z",
        "last": "1970-01-01T00:18:40Z",
        "times": 2,
    }
    assert other["asked"] == "reach from a to b"
    assert log.by_reason() == listing["by_reason"]


def test_the_oldest_are_forgotten_and_counts_are_not() -> None:
    log = Suppressions(lambda: 0.0, max_entries=3)
    for at in range(5):
        log.add("too few so far", f"c{at}", "list")
    log.add("too few so far", "c2", "list")  # fresh again
    log.add("too few so far", "c9", "list")
    listing = msgspec.to_builtins(log.document())
    assert [entry["campaign"] for entry in listing["suppressions"]] == ["c9", "c2", "c4"]
    assert listing["by_reason"] == {"too few so far": 7}
