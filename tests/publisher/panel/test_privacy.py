"""What one person can change in all that a panel releases, and what that costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.boundary.discrete_noise import NANOS, Draw, Part, opendp_draw, privacy_epsilon
from kreach.numeric.panel import root_coefficients, root_distance
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.panel.differences import PanelDifferences, true_at_least
from kreach.publisher.panel.ledger import StoredRelease, Terms
from kreach.publisher.panel.release import correction_of, next_release
from kreach.publisher.panel.sample import Panel, choose_panel
from tests.publisher.panel.panel_worlds import FixedReach, catalogue_of

GROUPS, SIZE = 9, 4
CATALOGUE = catalogue_of([SIZE] * GROUPS)
GAMES = 4_000
MAX_SIGMAS = 4.5


@dataclass(frozen=True, eq=False)
class World:
    """Showings: whose, in which place of the panel, and in which release they are known first."""

    person: IntArray
    place: IntArray
    release: IntArray


@cache
def panel_of(share: float) -> Panel:
    return choose_panel(CATALOGUE, np.arange(GROUPS), share, b"k" * 32, "c")


class Recorded:
    """Writes down what noise is added to, and adds none."""

    def __init__(self) -> None:
        self.parts: list[tuple[Part, IntArray]] = []

    def __call__(self, part: Part, values: Sequence[int]) -> list[int]:
        self.parts.append((part, np.array(values, dtype=np.int64)))
        return list(values)


def released(
    world: World, panel: Panel, terms: Terms, model: FloatArray, draw: Draw
) -> list[StoredRelease]:
    """All releases of a campaign; the model knows the log only, which no person changes."""
    known: list[StoredRelease] = []
    for number in range(terms.max_releases):
        seen = world.release <= number
        truth = true_at_least(
            world.place[seen], world.person[seen], len(panel), terms.max_frequency
        )
        reach = FixedReach(model * (number + 1), 0.01 * (number + 1))
        differences = PanelDifferences(panel, truth, reach)
        known.append(next_release(known, differences, number, terms, panel, draw))
    return known


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[World, World, Panel, Terms, FloatArray]:
    """Two worlds that differ in which impressions one person saw, and when it came to be known."""
    panel = panel_of(draw(st.sampled_from([0.25, 0.5, 0.7])))
    terms = Terms(0.5, draw(st.integers(1, 4)), draw(st.integers(1, 9)), 0.05)
    places, releases = st.integers(0, len(panel) - 1), st.integers(0, terms.max_releases - 1)
    rows = draw(st.lists(st.tuples(places, st.integers(1, SIZE - 1), releases), max_size=30))
    her_place = draw(places)
    hers = [draw(st.lists(releases, max_size=6)) for _ in range(2)]
    worlds = []
    for times in hers:
        every = [*((p, p * SIZE + m, r) for p, m, r in rows)]
        every += [(her_place, her_place * SIZE, r) for r in times]
        place, person, release = np.array(every, dtype=np.int64).reshape(-1, 3).T
        worlds.append(World(person, place, release))
    people = st.floats(0.0, SIZE, allow_subnormal=False)
    cells = len(panel) * terms.max_frequency
    model = np.array(draw(st.lists(people, min_size=cells, max_size=cells)))
    return worlds[0], worlds[1], panel, terms, model.reshape(len(panel), terms.max_frequency)


def distances(one: Recorded, other: Recorded) -> dict[Part, list[float]]:
    """L2 distances by part: of sums, of spreads, of what is expected of spreads."""
    moved: dict[Part, list[float]] = {}
    for (part, left), (_, right) in zip(one.parts, other.parts, strict=True):
        moved.setdefault(part, []).append(float(np.linalg.norm(left - right)))
    return moved


@given(neighbours())
@settings(max_examples=300, deadline=None)
def test_nobody_moves_the_releases_further_than_is_stated(
    case: tuple[World, World, Panel, Terms, FloatArray],
) -> None:
    one, other, panel, terms, model = case
    recorded = Recorded(), Recorded()
    for world, draw in zip((one, other), recorded, strict=True):
        released(world, panel, terms, model, draw)
    (sums, moved), (spreads, bent), (_, expected) = distances(*recorded).items()
    assert len(moved) == terms.max_releases
    assert np.linalg.norm(moved) <= sums.distance  # all releases together
    assert max(bent) <= spreads.distance
    assert max(expected) == 0.0  # the log alone says what the model expects
    assert terms.rho is not None
    assert sums.rho_nanos + len(bent) * spreads.rho_nanos <= terms.rho * NANOS


@pytest.mark.parametrize("releases", [1, 2, 3, 7, 31])
def test_the_stated_distance_is_attained(releases: int) -> None:
    """She saw everything in the first release, or everything in a later one."""
    panel, terms = panel_of(0.5), Terms(0.5, 3, releases, 0.05)
    place = int(panel.weights.argmax())
    model = np.zeros((len(panel), 3))
    worst = 0.0
    nobody = np.zeros(0, dtype=np.int64)
    early = World(np.zeros(3, dtype=np.int64), np.full(3, place), np.zeros(3, dtype=np.int64))
    for later in [*range(1, releases), None]:
        at = World(early.person, early.place, np.full(3, later or 0))
        other = World(nobody, nobody, nobody) if later is None else at
        recorded = Recorded(), Recorded()
        for world, draw in zip((early, other), recorded, strict=True):
            released(world, panel, terms, model, draw)
        part, moved = next(iter(distances(*recorded).items()))
        worst = max(worst, float(np.linalg.norm(moved)) / part.distance)
    assert 0.99 < worst <= 1.0


@given(st.integers(1, 12), st.data())
@settings(deadline=None)
def test_distance_of_roots_covers_every_move(count: int, data: st.DataObject) -> None:
    matrix = np.zeros((count, count))
    for at in range(count):
        matrix[at:, at] = root_coefficients(count)[: count - at]
    where = st.one_of(st.none(), st.integers(0, count - 1))
    change = np.zeros(count)
    for sign in (1.0, -1.0):
        changed = data.draw(where)
        if changed is not None:
            change[changed] += sign
    assert float(np.linalg.norm(matrix @ change)) <= root_distance(count) + 1e-12


def played(rho: float, draw: Draw, seed: int) -> tuple[BoolArray, FloatArray]:
    """Coins, and the likelihood ratio of who knows everything but whether she saw the campaign."""
    panel, terms = panel_of(0.25), Terms(0.25, 3, 1, rho)
    place = int(panel.weights.argmax())
    nobody = np.zeros(0, dtype=np.int64)
    worlds = (
        World(nobody, nobody, nobody),
        World(np.zeros(3, dtype=np.int64), np.full(3, place), np.zeros(3, dtype=np.int64)),
    )
    model = np.zeros((len(panel), 3))
    means, scales = [], []
    for world in worlds:
        recorded = Recorded()
        released(world, panel, terms, model, recorded)
        means.append(np.concatenate([values for _, values in recorded.parts[:2]]))
        scales = [np.full(3, part.scale) for part, _ in recorded.parts[:2]]
    scale = np.concatenate(scales)
    coins = np.random.default_rng(seed).random(GAMES) < 0.5
    ratios = np.zeros(GAMES)
    for at, coin in enumerate(coins):
        known = released(worlds[int(coin)], panel, terms, model, draw)
        shown = correction_of("c", CATALOGUE, panel, terms, known).releases[0]
        sums = np.array(shown.differences) * 1000.0
        spreads = np.array(shown.spreads) / np.array(shown.spread_std) * scale[3:]
        seen = np.concatenate([sums, spreads])
        ratios[at] = ((seen - (means[0] + means[1]) / 2.0) * (means[1] - means[0]) / scale**2).sum()
    return coins, ratios


@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_who_knows_everything_else_wins_no_more_than_rho_allows(rho: float) -> None:
    """The best test there is, on the correction that crosses, with OpenDP's noise."""
    coins, ratios = played(rho, opendp_draw(), seed=1)
    count = min(coins.sum(), (~coins).sum())
    sigma = sqrt(0.5 / count)
    advantage = float((ratios[coins] > 0).mean() - (ratios[~coins] > 0).mean())
    # ρ-zCDP by Gaussian noise: normal laws √(2ρ) standard deviations apart
    bound = 2.0 * NormalDist().cdf(sqrt(2.0 * rho) / 2.0) - 1.0
    assert advantage <= bound + MAX_SIGMAS * sigma
    assert advantage >= 0.9 * bound - MAX_SIGMAS * sigma  # the attack is no weaker than it must be
    for delta in (1e-2, 1e-6):
        epsilon = privacy_epsilon(rho, delta)
        for threshold in np.quantile(ratios, [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]):
            true, false = (ratios[coins] > threshold).mean(), (ratios[~coins] > threshold).mean()
            slack = MAX_SIGMAS * sigma * (1.0 + exp(epsilon))
            assert true <= exp(epsilon) * false + delta + slack
