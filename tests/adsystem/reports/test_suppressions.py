"""What was withheld is counted by reason and listed, the newest first, within bounds."""

from itertools import count

import msgspec

from kreach.adsystem.reports.suppressions import Suppressions


def test_the_same_question_again_is_the_same_entry() -> None:
    ticks = count(1_000.0, 60.0)
    kept = Suppressions(lambda: next(ticks))
    kept.add("too few so far", "spring", "status")
    kept.add("window not of whole chapters", "spring", "reach from a to b")
    kept.add("too few so far", "spring", "status")
    told = msgspec.to_builtins(kept.document())
    assert told["by_reason"] == {"too few so far": 2, "window not of whole chapters": 1}
    newest, other = told["suppressions"]
    assert newest == {
        "reason": "too few so far",
        "campaign": "spring",
        "asked": "status",
        "first": "1970-01-01T00:16:40Z",
        "last": "1970-01-01T00:18:40Z",
        "times": 2,
    }
    assert other["asked"] == "reach from a to b"
    assert kept.by_reason() == told["by_reason"]


def test_the_oldest_are_forgotten_and_counts_are_not() -> None:
    kept = Suppressions(lambda: 0.0, max_entries=3)
    for at in range(5):
        kept.add("too few so far", f"c{at}", "list")
    kept.add("too few so far", "c2", "list")  # fresh again
    kept.add("too few so far", "c9", "list")
    told = msgspec.to_builtins(kept.document())
    assert [entry["campaign"] for entry in told["suppressions"]] == ["c9", "c2", "c4"]
    assert told["by_reason"] == {"too few so far": 7}
