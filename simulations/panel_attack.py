"""Two games against a panel: is this group in it, and did this person see the ad?

**Which groups.** An ad system suspects a group. A coin decides whether it is one of the panel's. He
buys as he likes, sees all corrections and knows the code, the catalogue, the model and his log, but
not the key and not who saw what:

    one release       a few impressions on every group in the first release, and in the second one
                      forty on the suspected group alone: sums move only if it is in the panel
    quiet groups      one impression on every other group, of which the model expects no deviation
                      at all, and forty on the suspected one: reads the spreads too
    one session       as "quiet groups", and all forty go to one person

His rule is the likelihood ratio of two normal laws that he fits on games of his own. How people
share impressions is heavy-tailed; the model knows that ("right") or takes it as uniform ("wrong").
No model of this game knows sessions.

**One person.** Somebody knows which impressions all others saw, the panel and the code. A coin
decides whether she saw the campaign as often as is counted; or, with several releases, whether she
saw all of it in the first one or in a later one. He uses the best test there is, the likelihood
ratio. ρ-zCDP by Gaussian noise allows an advantage of 2Φ(√(ρ/2)) − 1 at most.

The score is the true positive rate less the false positive rate: 0 is a coin, 1 is certainty.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import sqrt
from statistics import NormalDist

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.correction import Correction, PanelRelease
from kreach.boundary.discrete_noise import Draw, Part
from kreach.numeric.panel import root_coefficients
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.panel.differences import PanelDifferences, PanelShowings, true_at_least
from kreach.publisher.panel.ledger import StoredRelease, Terms
from kreach.publisher.panel.release import correction_of, next_release
from kreach.publisher.panel.sample import Panel, choose_panel

__all__ = ["BUYING", "PanelScore", "group_score", "largest_advantage", "person_score"]

BUYING = ("one release", "quiet groups", "one session")
_DISPERSION = 0.6  # of people's shares of the visits of a group
_ON_TARGET = 40
_TINY = 1e-6


@dataclass(frozen=True)
class PanelScore:
    """The advantage in many games, give or take its standard error, and what is allowed."""

    advantage: float
    error: float
    bound: float | None = None


def largest_advantage(rho: float) -> float:
    """Of any test, against Gaussian noise that costs ρ: laws √(2ρ) standard deviations apart."""
    return 2.0 * NormalDist().cdf(sqrt(rho / 2.0)) - 1.0


def _normal_draw(generator: np.random.Generator) -> Draw:
    """Rounded normal noise of the scale of the discrete Gaussian."""

    def draw(part: Part, values: object) -> list[int]:
        exact = np.asarray(values, dtype=np.float64)
        noisy = exact + part.scale * generator.standard_normal(len(exact))
        return [int(value) for value in np.rint(noisy)]

    return draw


@dataclass(frozen=True, eq=False)
class _Site:
    """Groups of one size, with how people share their visits."""

    catalogue: Catalogue
    shares: FloatArray  # a row per group
    visits: IntArray

    @classmethod
    def drawn(cls, groups: int, size: int, right: bool, generator: np.random.Generator) -> "_Site":
        catalogue = Catalogue(
            "site",
            datetime(2026, 1, 1, tzinfo=UTC),
            size,
            tuple(f"g{at}" for at in range(groups)),
            np.full(groups, size),
            dispersion=_DISPERSION if right else None,
        )
        shares = generator.dirichlet(np.full(size, _DISPERSION), groups)
        return cls(catalogue, shares, generator.poisson(60, groups))

    def seen(
        self,
        panel: Panel,
        bought: IntArray,
        at_us: int,
        generator: np.random.Generator,
        *,
        together: bool,
    ) -> PanelShowings:
        """Impressions on panel groups go to members by their shares, or to one of each group."""
        size = self.shares.shape[1]
        place = np.repeat(np.arange(len(panel)), bought[panel.groups])
        bounds = np.cumsum(self.shares[panel.groups], axis=1)[place]
        member = np.minimum((generator.random(len(place))[:, None] > bounds).sum(1), size - 1)
        if together:
            member[:] = 0
        return PanelShowings(place * size + member, place, np.full(len(place), at_us))


def _joined(showings: list[PanelShowings]) -> PanelShowings:
    columns = ([each.person, each.place, each.at_us] for each in showings)
    return PanelShowings(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _bought(buying: str, groups: int, target: int) -> list[IntArray]:
    """Impressions by group, for each release."""
    alone = np.zeros(groups, dtype=np.int64)
    alone[target] = _ON_TARGET
    if buying == "one release":
        return [np.full(groups, 3), alone]
    return [np.maximum(np.ones(groups, dtype=np.int64), alone)]


def _clues(correction: Correction) -> FloatArray:
    """What the attacker looks at: how sums moved last, and the spreads."""
    last = correction.releases[-1]
    before = correction.releases[-2].differences if len(correction.releases) > 1 else 0.0
    moved = np.array(last.differences) - np.array(before)
    return np.concatenate([moved, last.spreads, last.spread_std])


def group_score(
    buying: str,
    *,
    rho: float | None,
    right: bool,
    games: int,
    groups: int = 600,
    size: int = 20,
    share: float = 0.1,
    max_releases: int = 31,
    seed: int = 1,
) -> PanelScore:
    """Whether a group is in the panel. Half of the games train the rule, half are scored."""
    generator = np.random.default_rng(seed)
    draw = None if rho is None else _normal_draw(generator)
    terms = Terms(share, 4, max_releases, rho)
    coins = np.arange(games) % 2 == 0
    clues = []
    for coin in coins:
        site = _Site.drawn(groups, size, right, generator)
        panel = choose_panel(site.catalogue, site.visits, share, generator.bytes(32), "campaign")
        inside = panel.positions() >= 0
        target = int(generator.choice(np.flatnonzero(inside == coin)))
        known: list[StoredRelease] = []
        shown: list[PanelShowings] = []
        for number, bought in enumerate(_bought(buying, groups, target)):
            together = buying == "one session"
            shown.append(site.seen(panel, bought, number, generator, together=together))
            differences = PanelDifferences.counted(site.catalogue, panel, _joined(shown), 4)
            known.append(next_release(known, differences, number, terms, panel, draw))
        clues.append(_clues(correction_of("campaign", site.catalogue, panel, terms, known)))
    return _scored(np.array(clues), coins)


def _scored(clues: FloatArray, coins: BoolArray) -> PanelScore:
    """True less false positives of the likelihood ratio, on games that it was not fitted to."""
    fitted = np.arange(len(clues)) < len(clues) // 2
    scale = clues[fitted].std(axis=0)
    moving = scale > 0.0
    points = clues[:, moving] / scale[moving]
    ratio = np.zeros(len(points))
    for inside in (True, False):
        train = points[fitted & (coins == inside)]
        spread = np.cov(train.T).reshape(points.shape[1], -1) + _TINY * np.eye(points.shape[1])
        apart = points - train.mean(axis=0)
        distance = (apart * np.linalg.solve(spread, apart.T).T).sum(axis=1)
        ratio += (1.0 if inside else -1.0) * -0.5 * (distance + np.linalg.slogdet(spread)[1])
    return _score(ratio[~fitted], coins[~fitted], None)


def _score(ratio: FloatArray, coins: BoolArray, bound: float | None) -> PanelScore:
    rates = [float((ratio[coins == side] > 0.0).mean()) for side in (True, False)]
    counts = [int((coins == side).sum()) for side in (True, False)]
    variance = sum(r * (1.0 - r) / n for r, n in zip(rates, counts, strict=True))
    return PanelScore(rates[0] - rates[1], sqrt(max(variance, 1.0 / len(coins) ** 2)), bound)


class _NoModel:
    """Expects nobody: the attacker takes the model off anyway."""

    def __init__(self, groups: int) -> None:
        self._groups = groups

    def at_least(self, top: int) -> FloatArray:
        return np.zeros((self._groups, top))

    def variances(self, cap: int) -> FloatArray:
        return np.full(self._groups, float(cap))


def person_score(
    *, rho: float, games: int, later: int | None = None, max_releases: int = 1, seed: int = 1
) -> PanelScore:
    """Whether she saw the campaign, or (`later`) in the first release or in that one."""
    generator = np.random.default_rng(seed)
    draw = _normal_draw(generator)
    terms = Terms(0.1, 4, max_releases, rho)
    site = _Site.drawn(100, 20, True, generator)
    panel = choose_panel(site.catalogue, site.visits, 0.1, b"k" * 32, "campaign")
    worlds = [_releases(0, panel, terms, None), _releases(later, panel, terms, None)]
    part = _parts(panel, terms)
    coins = np.arange(games) % 2 == 0
    ratio = np.zeros(games)
    expected = [np.array([each.roots for each in world]) for world in worlds]
    middle, apart = (expected[0] + expected[1]) / 2.0, expected[0] - expected[1]
    for at, coin in enumerate(coins):
        known = _releases(0 if coin else later, panel, terms, draw)
        shown = correction_of("campaign", site.catalogue, panel, terms, known).releases
        sums = np.array([each.differences for each in shown]) * 1_000.0
        ratio[at] = ((_roots(sums) - middle) * apart).sum() / part[0].scale ** 2
        for number in (1 << power for power in range(len(shown).bit_length())):  # new spreads
            release, exact = shown[number - 1], [world[number - 1].spreads for world in worlds]
            ratio[at] += _spread_ratio(release, exact, part[1].scale / 1_000.0)
    return _score(ratio, coins, largest_advantage(rho))


def _releases(
    first: int | None, panel: Panel, terms: Terms, draw: Draw | None
) -> list[StoredRelease]:
    """All releases; she saw the campaign often enough in the given one, or never."""
    quiet = Terms(terms.share, terms.max_frequency, terms.max_releases, None)
    known: list[StoredRelease] = []
    place = np.full(terms.max_frequency, int(panel.weights.argmax()))
    for number in range(terms.max_releases):
        saw = first is not None and number >= first
        here = place if saw else place[:0]
        truth = true_at_least(here, here, len(panel), terms.max_frequency)
        differences = PanelDifferences(panel, truth, _NoModel(len(panel)))
        here_terms = quiet if draw is None else terms
        known.append(next_release(known, differences, number, here_terms, panel, draw))
    return known


def _parts(panel: Panel, terms: Terms) -> list[Part]:
    """The parts of a release, in the order in which noise is drawn."""
    found: list[Part] = []

    def draw(part: Part, values: object) -> list[int]:
        found.append(part)
        return [int(value) for value in np.asarray(values)]

    _releases(None, panel, Terms(terms.share, 4, terms.max_releases, terms.rho), draw)
    return found[:2]


def _roots(sums: FloatArray) -> FloatArray:
    """Take the running sums apart again: what noise was added to, release by release."""
    matrix = np.zeros((len(sums), len(sums)))
    for at in range(len(sums)):
        matrix[at:, at] = root_coefficients(len(sums))[: len(sums) - at]
    result: FloatArray = np.linalg.solve(matrix, sums).astype(np.float64)
    return result


def _spread_ratio(release: PanelRelease, exact: list[tuple[float, ...]], scale: float) -> float:
    """The likelihood ratio of one release's spreads, in units of one person's effect.

    Nobody else deviates in this game, so a spread without noise is hers, or it is 0.
    """
    units = np.array(release.spreads) / np.array(release.spread_std) * scale
    hers = [(np.array(each) > 0.0).astype(np.float64) for each in exact]
    ratio = (units - (hers[0] + hers[1]) / 2.0) * (hers[0] - hers[1])
    return float(ratio.sum()) / scale**2
