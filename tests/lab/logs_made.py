"""Small made logs: visits of unequal people in sessions, and prices of two campaigns."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np

from kreach.adsystem.bidding import bidder
from kreach.lab import buyers
from kreach.lab.evaluate import Row, Task, study_campaign

__all__ = ["END", "START", "few_plans", "study_quickly", "write_prices", "write_visits"]

START = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = 20
END = datetime(2026, 3, 21, tzinfo=UTC)


def write_visits(
    path: Path,
    people: int = 400,
    *,
    sessions: float = 4.0,
    per_session: float = 1.5,
    sigma: float = 1.2,
    seed: int = 5,
) -> Path:
    """Log-normal rates of sessions; a session is some page views, a minute or so apart.

    `town` is of unequal sizes and says nothing about visits; `device` changes now and then.
    """
    generator = np.random.default_rng(seed)
    rate = generator.lognormal(-(sigma**2) / 2.0, sigma, people) * sessions
    begun = np.repeat(np.arange(people), generator.poisson(rate))
    views = 1 + generator.poisson(per_session - 1.0, len(begun))
    who = np.repeat(begun, views)
    start = np.repeat(generator.random(len(begun)) * (DAYS - 1) * 86_400.0, views)
    at = start + np.round(generator.exponential(60.0, len(who)), 3)
    town = generator.choice(4, people, p=[0.4, 0.3, 0.2, 0.1])
    device = np.where(generator.random(len(who)) < 0.1, 1 - who % 2, who % 2)
    lines = ["user_id,ts,town,device"]
    for person, seconds, which in zip(who.tolist(), at.tolist(), device.tolist(), strict=True):
        moment = datetime.fromtimestamp(START.timestamp() + seconds, UTC)
        stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines.append(f"u{person:05},{stamp},{'ABCD'[town[person]]},{'xy'[which]}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_prices(path: Path, names: str = "ab") -> Path:
    """Log-normal prices with counts, one list per campaign, each in a unit of money of its own."""
    lines = ["market_price,count,campaign"]
    for at, name in enumerate(names):
        generator = np.random.default_rng(40 + at)
        prices = np.unique(np.round(generator.lognormal(4.0 + at, 0.7, 60), 2))
        counts = generator.integers(1, 30, len(prices))
        lines += [f"{p:.2f},{c},{name}" for p, c in zip(prices, counts, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def few_plans() -> Iterator[None]:
    """Bidders that plan ahead do it 4 times a flight, not 100: a study of seconds.

    Those with a visit model neither, which else plan in every part of the day. Only in this
    process; `study_quickly` is the same for another one.
    """
    with patch.object(buyers, "_PLANS", 4), patch.object(bidder, "PART_US", 10**18):
        yield


def study_quickly(task: Task) -> list[Row]:
    """Everything about one campaign, with few plans in whatever process this runs."""
    with few_plans():
        return study_campaign(task)
