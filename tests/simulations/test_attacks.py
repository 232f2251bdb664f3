"""Attacks on reports: they work where nothing is guarded, and are worth little where it is.

Games are few here, on campaigns a third as busy as those of `python -m benchmarks attacks`, which
plays more: what the attacker looks for is one impression on either. They are seeded, the
guard's key too, but for the noise; bounds are such that an attack without advantage passes them by
chance less than once in ten thousand runs.
"""

from functools import cache, partial
from unittest.mock import patch

import pytest
from simulations.attacks import ATTACKS, AttackScore, attack_table

from kreach.adsystem.settings import GuardSettings
from simulations import attacks

GAMES = 4
ON_PEOPLE = tuple(ATTACKS)[:10]  # without those who know all other impressions
ANSWERED = {  # behind the guard, with numbers that do not move
    "polling of the spend",
    "campaigns together, before and after",
}

pytestmark = pytest.mark.xdist_group("attacks")


@cache
def scored(attack: str, mode: str, games: int = GAMES) -> AttackScore:
    with patch.object(attacks, "_IMPRESSIONS", 1_000):
        return attack_table(games, 3, (attack,), (mode,))[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_open_reports_tell_all(attack: str) -> None:
    assert scored(attack, "open").advantage == 1.0
    assert scored(attack, "open").refused == 0.0


@pytest.mark.parametrize("mode", ["guard", "noise"])
def test_guarded_reports_tell_next_to_nothing(mode: str) -> None:
    found = [scored(attack, mode) for attack in ON_PEOPLE]
    assert sum(one.advantage for one in found) / len(found) < 0.15  # all of one attack's games
    for one in found:
        if one.attack not in ANSWERED:
            assert one.refused == 1.0, one


def test_pairs_alone_do_not_hold_off_sums() -> None:
    pairs = partial(GuardSettings, audiences_together=2)
    with (
        patch.object(attacks, "GuardSettings", pairs),
        patch.object(attacks, "_IMPRESSIONS", 1_000),
    ):
        found = attack_table(GAMES, 3, ("audiences that add up to her",), ("guard",))[0]
    assert (found.advantage, found.refused) == (1.0, 0.0)


def test_only_noise_holds_against_who_knows_all_others() -> None:
    knowing = ("knowing all other impressions", "the same question fifty times")
    for attack in knowing:
        assert scored(attack, "guard").advantage == 1.0
    told = [scored(attack, "noise", 10).advantage for attack in knowing]
    assert sum(told) / len(told) < 0.9  # 19 of 20
