"""The fold of a log is what adding its rows up one by one gives."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.fold import Folded, fold_log
from kreach.adsystem.ledger.journal import ImpressionRow
from tests.adsystem.ledger.sample_journals import (
    CAMPAIGNS,
    DAY_MICROS,
    FIRST,
    GROUPS,
    journal,
    wait,
)

STARTS = {1: FIRST / 1e6 - 5_000.25, 2: FIRST / 1e6 - 40_000.5, 3: FIRST / 1e6}


def some_rows(seed: int, count: int) -> list[ImpressionRow]:
    chance = random.Random(seed)
    made = []
    for at in range(count):
        bid_ts = FIRST + chance.randrange(4 * DAY_MICROS)
        ts = bid_ts + chance.randrange(60_000_000)
        campaign, catalogue, group = chance.choice([1, 1, 2]), chance.choice([1, 2]), at % 3
        price = chance.choice([0, 1, 1_234, 10**9, 4 * 10**9])
        number = chance.randint(1, 9) << 40 | at
        made.append((number, campaign, catalogue, group, ts, bid_ts, bid_ts // 10**6 + 60, price))
    return sorted(made, key=lambda row: row[4])


def naive(rows: list[ImpressionRow], since: dict[int, float], now: float) -> dict[str, Any]:
    counts: Counter[tuple[int, int, int]] = Counter()
    spent: Counter[tuple[int, int]] = Counter()
    times = []
    repeatable = []
    for number, campaign, catalogue, group, _, bid_ts, expires, price in rows:
        counts[campaign, catalogue, group] += 1
        spent[campaign, (bid_ts - round(STARTS[campaign] * 1e6)) // DAY_MICROS] += price
        if campaign in since and bid_ts > since[campaign] * 1e6:
            times.append((campaign, catalogue, group, bid_ts / 1e6))
        if expires > now:
            repeatable.append((number, expires))
    return {
        "counts": dict(counts),
        "spent": {key: micros for key, micros in spent.items() if micros},
        "times": sorted(times),
        "repeatable": sorted(repeatable),
        "rows": len(rows),
    }


def told(folded: Folded) -> dict[str, Any]:
    counts: Counter[tuple[int, int, int]] = Counter()
    for (campaign, catalogue), (groups, numbers) in folded.counts.items():
        for group, number in zip(groups.tolist(), numbers.tolist(), strict=True):
            counts[campaign, catalogue, group] += number
    spent = {
        (campaign, day): micros
        for campaign, days in folded.spent.items()
        for day, micros in days.items()
        if micros
    }
    times = sorted((n, *rest) for n, held in folded.times.items() for rest in held)
    return {
        "counts": dict(counts),
        "spent": spent,
        "times": times,
        "repeatable": sorted(folded.repeatable),
        "rows": folded.rows,
    }


@pytest.mark.parametrize("seed", range(6))
def test_fold_is_the_sum_of_the_rows(tmp_path: Path, seed: int) -> None:
    rows = some_rows(seed, 400)
    chance = random.Random(seed)
    end = FIRST / 1e6 + 4 * 86_400
    with journal(tmp_path) as made:
        for at in range(0, 400, 100):
            for row in rows[at : at + 100]:
                made.submit("impression", row)
            wait(made)
            now = FIRST / 1e6 + (at / 100 + chance.random()) * 86_400
            compact(made, tmp_path, CAMPAIGNS, GROUPS, now)
            since = {2: end - chance.choice([0.0, 3_600.0, 86_400.0 * 2.5, end])}
            # What was moved into files has expired, so nothing of it can be repeated.
            folded = told(fold_log(made, tmp_path, STARTS, since, now))
            assert folded == naive(rows[: at + 100], since, now)


def test_an_empty_log(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        folded = fold_log(made, tmp_path, STARTS, {1: 0.0}, 0.0)
    assert told(folded) == naive([], {}, 0.0)


def test_large_sums_stay_exact(tmp_path: Path) -> None:
    """Beyond 2⁵³, where a float would lose micros."""
    price = 2**52 + 1
    base = some_rows(1, 12)
    rows = [(*row[:1], 1, *row[2:5], FIRST, FIRST // 10**6 + 60, price) for row in base]
    with journal(tmp_path) as made:
        for at in range(2):
            for row in rows[6 * at : 6 * at + 6]:
                made.submit("impression", row)
            wait(made)
            if not at:
                assert compact(made, tmp_path, CAMPAIGNS, GROUPS, FIRST / 1e6 + 9e5) == 6
        folded = fold_log(made, tmp_path, STARTS, {}, FIRST / 1e6)
    assert folded.spent[1] == {0: 12 * price}
    assert int(np.concatenate([counts for _, counts in folded.counts.values()]).sum()) == 12
