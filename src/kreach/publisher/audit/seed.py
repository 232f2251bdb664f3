"""Attack: form the groups again with a seed that can be guessed, or that was given away.

An observer who has the visits, say as a partner or after a leak, runs `kreach groups build` on
them. With the right seed everybody is in the right group, and k protects nobody.

Renewed groups cannot be formed again from visits and their own seed: newcomers are where a keyed
hash put them, all others where the first version did. So it is the seed of that which counts.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.duckdb import file_reader, scratch_connection, translate_errors
from kreach.errors import KreachError
from kreach.publisher.audit.report import FirstSeed, SeedView
from kreach.publisher.grouping.base import Assignment, Strategy, form_groups
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.people import People
from kreach.publisher.seeds import draw_seed

__all__ = ["seed_view"]

_OBVIOUS = (0, 1, 42, *range(2, 10), 100, 123, 1234, 12345)
_MAX_TRIED_PEOPLE = 2_000_000  # people times seeds
_MIN_TRIED = 2
_TELLING = 1_000_000  # a number that is larger does not stand in a release by chance


def seed_view(
    folder: Path, people: People, assignment: Assignment, facts: Mapping[str, Any]
) -> SeedView:
    """Try the recorded seed and obvious ones, and look for the seed where it must not be."""
    seed = facts.get("seed")
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 else None
    origin = str(facts.get("seed_origin") or ("unknown" if seed is None else "given"))
    bits = 0 if seed is None else seed.bit_length()
    exposed = _in_release(folder / "release", seed), _readable(folder / "publisher")
    if "renewal" in facts:
        return SeedView(origin, bits, False, False, 0, True, *exposed, _first_seed(facts))
    strategy = NamedStrategy.of_facts(facts).strategy()
    obvious = _obvious(str(facts["version"]), people.count)
    guessed = any(_forms(people, assignment, strategy, obvious_seed) for obvious_seed in obvious)
    reproduced = seed is not None and _forms(people, assignment, strategy, seed)
    by_chance = not guessed or not _forms(people, assignment, strategy, draw_seed())
    return SeedView(origin, bits, reproduced, guessed, len(obvious), by_chance, *exposed)


def _first_seed(facts: Mapping[str, Any]) -> FirstSeed:
    """Where the seed of the first version came from, as its renewals recorded it."""
    try:
        first = facts["renewal"]["first"]
        version = first["version"]
        return FirstSeed(
            None if version is None else str(version),
            str(first["seed_origin"]),
            int(first["seed_bits"]),
        )
    except (KeyError, TypeError, ValueError):
        return FirstSeed(None, "unknown", 0)


def _obvious(version: str, people: int) -> list[int]:
    """Seeds that people choose: small ones, and the day of the build."""
    days = [int(text) for text in (version[:8], version[:4]) if text.isdigit()]
    most = max(_MIN_TRIED, _MAX_TRIED_PEOPLE // max(people, 1))
    return list(dict.fromkeys((*_OBVIOUS, *days)))[:most]


def _forms(people: People, assignment: Assignment, strategy: Strategy, seed: int) -> bool:
    try:
        again = form_groups(people, assignment.group_size, strategy, seed)
    except KreachError:  # floors that these people no longer hold: other groups, for certain
        return False
    return bool(np.array_equal(again.groups, assignment.groups))


def _in_release(release: Path, seed: int | None) -> bool:
    """Whether a file of the release has a field for a seed, or the number itself."""
    for path in sorted(release.glob("*.json")):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise KreachError.rule("folder", f"hold a readable {path.name}", str(error)) from None
        if _tells(document, seed):
            return True
    with scratch_connection() as engine, translate_errors("folder", "hold a readable release"):
        for path in sorted(release.glob("*.parquet")):
            rows = engine.execute(f"DESCRIBE SELECT * FROM {file_reader('folder', path)}")
            if any("seed" in str(row[0]).lower() for row in rows.fetchall()):
                return True
    return False


def _tells(document: Any, seed: int | None) -> bool:
    if isinstance(document, dict):
        return any("seed" in str(k).lower() or _tells(v, seed) for k, v in document.items())
    if isinstance(document, list):
        return any(_tells(value, seed) for value in document)
    return seed is not None and seed > _TELLING and document in (seed, str(seed))


def _readable(private: Path) -> bool:
    """Whether accounts other than the owner may enter the publisher's half."""
    try:
        return bool(private.stat().st_mode & 0o077)
    except OSError:
        return False
