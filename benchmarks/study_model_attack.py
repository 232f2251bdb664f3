"""Whether one person's visits can be told from a released visit model: the membership game.

    python -m benchmarks.study_model_attack [--people N ...] [--worlds W] [--visits F] [--errors]

For every number of people and every target: how many numbers of the file she changes, by field, for
who knows all others; and the advantage over guessing (0: a coin, 1: knows) of who knows nine in ten
of them, with one release and with two a day apart. People are simulated readers of a news portal
over two weeks, or taken from a visits file. `simulations/model_attack.py` has the rules.
"""

import argparse
from pathlib import Path

from simulations.model_attack import (
    FIELDS,
    TARGETS,
    Pool,
    changed_fields,
    membership_scores,
    target_visits,
)

from kreach.numeric.types import IntArray
from kreach.publisher.directory import Directory

__all__ = ["main"]

_DAYS = 14
_SPARE = 3  # people of the pool for each of the site: strangers differ from world to world


def _pool(visits: Path | None, people: int, seed: int) -> Pool:
    if visits is None:
        return Pool.simulated(_SPARE * people, _DAYS, seed)
    every = Directory(visits).visits()
    return Pool.of(every.user, every.at_us)


def _exact(
    pool: Pool, people: int, targets: dict[str, IntArray], excluded: list[int], errors: bool
) -> None:
    changes = changed_fields(pool, people, targets, excluded=excluded, errors=errors)
    print("knows all others: numbers of the file that change")
    for target, fields in changes.items():
        counts = ", ".join(f"{field} {count}" for field, count in fields.items())
        print(f"  {target:<12}{counts or 'none: the same file'}", flush=True)


def _statistical(
    pool: Pool, people: int, targets: dict[str, IntArray], excluded: list[int], worlds: int
) -> None:
    scores = {
        (score.fields, score.target, score.knows): score
        for score in membership_scores(pool, people, targets, worlds=worlds, excluded=excluded)
    }
    print(f"knows nine in ten: advantage with one release, with two; {worlds} worlds")
    print(f"{'':28}" + "".join(f"{target:>16}" for target in targets))
    for field in ("all", *FIELDS):
        line = f"  {field:<26}"
        for target in targets:
            one, two = (scores[field, target, knows] for knows in ("most others", "two releases"))
            line += f"{f'{one.advantage:+.2f} {two.advantage:+.2f}':>16}"
        print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Play the game for sites of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--people", type=int, nargs="+", default=[1_000, 4_000, 16_000])
    parser.add_argument("--worlds", type=int, default=40, help="0: only who knows all others")
    parser.add_argument("--visits", type=Path, help="a visits file to take people from")
    parser.add_argument("--errors", action="store_true", help="replay history, too (slow)")
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args(arguments)
    for people in given.people:
        pool = _pool(given.visits, people, given.seed)
        found = {target: target_visits(pool, target) for target in TARGETS}
        targets = {target: visits for target, (visits, _) in found.items()}
        excluded = [who for _, who in found.values() if who is not None]
        requests = ", ".join(f"{target} {len(visits)}" for target, visits in targets.items())
        print(f"\n{people:,} people; requests of the targets: {requests}")
        _exact(pool, people, targets, excluded, given.errors)
        if given.worlds:
            _statistical(pool, people, targets, excluded, given.worlds)


if __name__ == "__main__":
    main()
