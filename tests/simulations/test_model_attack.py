"""The membership game on visit models: it is won where a model tells, and lost where it does not.

Sites are small here; `python -m benchmarks.study_model_attack` plays on larger ones.
"""

from unittest.mock import patch

import numpy as np
import pytest
from simulations.model_attack import (
    FIELDS,
    TARGETS,
    MembershipScore,
    Pool,
    changed_fields,
    membership_scores,
    target_visits,
)

from kreach.numeric.types import IntArray
from kreach.publisher import visit_fit

PEOPLE = 1_000
WORLDS = 10


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.simulated(3 * PEOPLE, 14, seed=5)


@pytest.fixture(scope="module")
def targets(pool: Pool) -> dict[str, IntArray]:
    return {name: target_visits(pool, name)[0] for name in TARGETS}


@pytest.fixture(scope="module")
def excluded(pool: Pool) -> list[int]:
    found = (target_visits(pool, name)[1] for name in TARGETS)
    return [who for who in found if who is not None]


def scored(
    pool: Pool, targets: dict[str, IntArray], excluded: list[int], *names: str
) -> dict[tuple[str, str, str], MembershipScore]:
    chosen = {name: targets[name] for name in names}
    scores = membership_scores(pool, PEOPLE, chosen, worlds=WORLDS, excluded=excluded)
    return {(score.target, score.fields, score.knows): score for score in scores}


def test_targets_are_what_they_are_called(pool: Pool, targets: dict[str, IntArray]) -> None:
    assert len(targets["heaviest"]) == pool.counts.max()
    assert len(targets["ordinary"]) == np.median(pool.counts[pool.counts > 1])
    assert len(set(targets["at night"] // 3_600_000_000 % 24)) == 1
    assert targets["long gaps"][0] < pool.at_us.min() - 19 * 86_400_000_000


def test_nobody_changes_nothing(pool: Pool, excluded: list[int]) -> None:
    nobody = {"nobody": np.zeros(0, dtype=np.int64)}
    assert changed_fields(pool, PEOPLE, nobody, excluded=excluded) == {"nobody": {}}


def test_who_alone_comes_early_makes_history_no_longer(
    pool: Pool, targets: dict[str, IntArray], excluded: list[int]
) -> None:
    """Two requests, one of them weeks before all others: without limits, hundreds move."""
    early = {"long gaps": targets["long gaps"]}
    changes = changed_fields(pool, PEOPLE, early, excluded=excluded)["long gaps"]
    assert "history_days" not in changes
    bounded = sum(changes.values())
    with patch.object(visit_fit, "bound_contributions", lambda history: history):
        changes = changed_fields(pool, PEOPLE, early, excluded=excluded)["long gaps"]
    assert changes["history_days"] == 1
    assert bounded < sum(changes.values()) / 3


def test_who_knows_most_others_guesses_about_ordinary_people(
    pool: Pool, targets: dict[str, IntArray], excluded: list[int]
) -> None:
    scores = scored(pool, targets, excluded, "ordinary", "heaviest")
    assert {field for _, field, _ in scores} == {"all", *FIELDS}
    ordinary = scores["ordinary", "all", "most others"]
    assert abs(ordinary.advantage) < 0.9  # four standard errors
    # the attack works: with two releases a thousand people do not hide the heaviest
    assert scores["heaviest", "all", "two releases"].advantage > 0.5
