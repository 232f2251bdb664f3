"""What a panel gives away: which groups are in it, and what one person saw.

    python -m benchmarks.study_panel_attack [--games N] [--rho 0.05 0.5]

The advantage over guessing (0: a coin, 1: knows), give or take its standard error, of an ad system
that buys so as to find out whether a group is in the panel, without noise and with it; and of
somebody who knows everything but what one person saw, beside the most that ρ allows.
`simulations/panel_attack.py` has the rules.
"""

import argparse
from itertools import product

from simulations.panel_attack import BUYING, group_score, person_score

__all__ = ["main"]


def _groups(games: int, rhos: list[float]) -> None:
    noises = [None, *rhos]
    print("is a group in the panel? 600 groups, a tenth in the panel")
    print(f"{'':36}" + "".join(f"{'no noise' if r is None else f'ρ = {r:g}':>18}" for r in noises))
    for buying, right, releases in product(BUYING, (False, True), (31, 1)):
        if buying == "one release" and releases == 1:
            continue  # it needs two
        name = f"{buying}, {'right' if right else 'wrong'} model, of {releases}"
        line = f"{name:36}"
        for rho in noises:
            score = group_score(buying, rho=rho, right=right, games=games, max_releases=releases)
            line += f"{f'{score.advantage:+.2f} ± {score.error:.2f}':>18}"
        print(line, flush=True)


def _people(games: int, rhos: list[float]) -> None:
    print("\ndid she see it? (bound by ρ)")
    print(f"{'':32}" + "".join(f"{f'ρ = {rho:g}':>28}" for rho in rhos))
    cases = [
        ("one release: at all", None, 1),
        ("31 releases: at all", None, 31),
        ("31 releases: day 1 or day 2", 1, 31),
        ("31 releases: day 1 or day 10", 9, 31),
        ("31 releases: day 1 or day 31", 30, 31),
    ]
    for name, later, releases in cases:
        line = f"{name:32}"
        for rho in rhos:
            played = games if releases == 1 else games // 4
            score = person_score(rho=rho, games=played, later=later, max_releases=releases)
            shown = f"{score.advantage:+.3f} ± {score.error:.3f} (≤ {score.bound:.3f})"
            line += f"{shown:>28}"
        print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Play both games."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--games", type=int, default=2_000)
    parser.add_argument("--rho", type=float, nargs="+", default=[0.05, 0.5])
    given = parser.parse_args(arguments)
    _groups(given.games, given.rho)
    _people(given.games * 4, given.rho)


if __name__ == "__main__":
    main()
