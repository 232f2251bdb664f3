"""The study of a demonstration: what groups of another size would cost. A process of its own.

It takes the processor only where nobody else wants it: the services have to keep up with visits.
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
    """Study `visits.csv` of a demonstration; `tradeoff/summary.json` is there when it is done."""
    if hasattr(os, "nice"):
        os.nice(19)
    prices = generator_for(seed, 1).lognormal(mu, sigma, _PRICES) / 1_000.0
    listed = "".join(f"{price:.9f},1\n" for price in np.sort(prices))
    (folder / "prices.csv").write_text(f"market_price,count\n{listed}")
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
    found = json.dumps(summary | {"advice": advice_of(summary, sizes)})
    out = folder / "tradeoff"
    out.mkdir(exist_ok=True)
    draft = out / "summary.json.draft"
    draft.write_text(found)
    draft.replace(out / "summary.json")


if __name__ == "__main__":
    _, told, people_told, *numbers = sys.argv
    seed_told, mu_told, sigma_told = numbers
    main(Path(told), int(people_told), int(seed_told), float(mu_told), float(sigma_told))
