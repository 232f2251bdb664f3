"""The background study of a demo: what other group sizes would cost. Runs as its own process.

It runs at the lowest priority, because the services have to keep up with the visits.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from kreach.lab.evaluate import StudyOptions
from kreach.lab.tradeoff import advice_of, summary_of, tradeoff
from kreach.lab.trials import generator_for

__all__ = ["main"]

_SIZES = (1, 2, 5, 10, 20, 50)
_PRICES = 2_000
_CAMPAIGNS = 3


def main(folder: Path, people: int, seed: int, mu: float, sigma: float) -> None:
    """Study `visits.csv` of a demo and write `tradeoff/summary.json`."""
    if hasattr(os, "nice"):
        os.nice(19)
    prices = generator_for(seed, 1).lognormal(mu, sigma, _PRICES) / 1_000.0
    lines = "".join(f"{price:.9f},1\n" for price in np.sort(prices))
    (folder / "prices.csv").write_text(f"market_price,count\n{lines}")
    options = StudyOptions(
        folder / "visits.csv",
        folder / "prices.csv",
        _SIZES[-1],
        "random",
        (),
        campaigns=_CAMPAIGNS,
        campaign_size=min(max(people // 4, 200), 2_500),
        seed=seed,
        processes=1,
    )
    sizes = [size for size in _SIZES if size * 20 <= options.campaign_size]
    site, rows = tradeoff(options, sizes)
    summary = summary_of(options, site, rows)
    document = json.dumps(summary | {"advice": advice_of(summary, sizes)})
    out = folder / "tradeoff"
    out.mkdir(exist_ok=True)
    draft = out / "summary.json.draft"
    draft.write_text(document)
    draft.replace(out / "summary.json")


if __name__ == "__main__":
    _, directory, people_count, *numbers = sys.argv
    main(Path(directory), int(people_count), int(numbers[0]), *map(float, numbers[1:]))
