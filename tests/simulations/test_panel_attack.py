"""Noise hides which groups are in a panel for the most part, and what one person saw."""

import pytest
from simulations.panel_attack import BUYING, group_score, largest_advantage, person_score

GAMES = 160
MAX_SIGMAS = 4.0


@pytest.mark.parametrize("buying", BUYING)
def test_without_noise_a_buyer_finds_panel_groups(buying: str) -> None:
    score = group_score(buying, rho=None, right=False, games=GAMES)
    assert score.advantage > 0.9


@pytest.mark.parametrize(
    ("buying", "right", "advantage"),  # of 800 games, rounded up
    [
        ("one release", True, 0.1),
        ("quiet groups", True, 0.2),
        ("quiet groups", False, 0.3),
        ("one session", False, 0.65),  # a model that knows no sessions gives a group away
    ],
)
def test_noise_hides_panel_groups(buying: str, right: bool, advantage: float) -> None:
    """With one release a day of a month: the attacker has something, but far from all."""
    score = group_score(buying, rho=0.05, right=right, games=GAMES)
    assert score.advantage < advantage + MAX_SIGMAS * score.error


@pytest.mark.parametrize(("later", "releases", "games"), [(None, 1, 4_000), (3, 7, 1_000)])
@pytest.mark.parametrize("rho", [0.05, 1.0])
def test_nobody_learns_more_of_a_person_than_rho_allows(
    later: int | None, releases: int, games: int, rho: float
) -> None:
    score = person_score(rho=rho, games=games, later=later, max_releases=releases)
    assert score.bound == largest_advantage(rho)
    assert score.advantage < score.bound + MAX_SIGMAS * score.error
    if rho == 1.0:  # the attack is worth the name
        assert score.advantage > score.bound / 2.0 - MAX_SIGMAS * score.error


def test_bounds_of_the_advantage() -> None:
    assert largest_advantage(0.0) == 0.0
    assert largest_advantage(0.05) == pytest.approx(0.1257, abs=1e-4)
    assert largest_advantage(200.0) == pytest.approx(1.0)
