"""Reference values by slow and plain ways: one person at a time, nothing of kreach's mathematics.

An audience is unfolded into explicit people. Each has, for every group, the chance to be the author
of one request of it; with Dirichlet shares, the concentration and the group size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np
import numpy.typing as npt
from scipy.stats import betabinom, binom

import kreach as kr
from kreach.boundary.audience import DisjointAudience, OverlappingAudience, ProfiledAudience

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Person:
    """One targeted person: groups, chance in each, and the Dirichlet concentration if any."""

    groups: tuple[int, ...]
    chances: tuple[float, ...]
    dispersion: float = float("inf")


def people(audience: kr.Audience) -> list[Person]:
    """Every targeted person of an audience."""
    if isinstance(audience, DisjointAudience):
        spread = audience.dispersion
        return [
            Person((j,), (1.0 / k,), float("inf") if spread is None else float(spread[j]))
            for j, (k, u) in enumerate(
                zip(audience.group_sizes.tolist(), audience.targeted_counts.tolist(), strict=True)
            )
            for _ in range(u)
        ]
    if isinstance(audience, OverlappingAudience):
        sizes = audience.group_sizes.tolist()
        rows = [tuple(g for g in row if g >= 0) for row in audience.classes.tolist()]
        return [
            Person(groups, tuple(1.0 / sizes[j] for j in groups))
            for groups, headcount in zip(rows, audience.headcounts.tolist(), strict=True)
            for _ in range(headcount)
        ]
    assert isinstance(audience, ProfiledAudience)
    return [
        Person((j,), (float(share),))
        for j in range(audience.group_count)
        for share in audience.shares_of(j)
    ]


def exposure_pmf(person: Person, impressions: Sequence[int]) -> FloatArray:
    """P(X = 0), P(X = 1), ... of one person, up to all impressions of its groups."""
    law: FloatArray = np.ones(1)
    for group, chance in zip(person.groups, person.chances, strict=True):
        n = impressions[group]
        counts = np.arange(n + 1)
        if np.isinf(person.dispersion) or chance == 1.0:
            own = binom.pmf(counts, n, chance)
        else:
            a, k = person.dispersion, round(1.0 / chance)
            own = betabinom.pmf(counts, n, a, (k - 1) * a)
        law = np.convolve(law, own)
    return law


def f(x: int, n: int, p: Fraction) -> Fraction:
    """The paper's binomial density f(x; n, p), 0 beyond n."""
    return Fraction(comb(n, x)) * p**x * (1 - p) ** (n - x) if x <= n else Fraction(0)


def F(x: int, n: int, p: Fraction) -> Fraction:  # noqa: N802 - the paper's name
    """The paper's binomial distribution function F(x; n, p), 1 beyond n."""
    return sum((f(i, n, p) for i in range(x + 1)), Fraction(0)) if x <= n else Fraction(1)


def simulate(
    audience: kr.Audience,
    impressions: Sequence[int],
    cap: int,
    trials: int,
    generator: np.random.Generator,
) -> IntArray:
    """Reach of simulated worlds: every member has a count, drawn group by group at once."""
    if isinstance(audience, OverlappingAudience):
        return _simulate_overlapping(audience, impressions, cap, trials, generator)
    total = np.zeros(trials, dtype=np.int64)
    for j, n in enumerate(impressions):
        size = int(audience.group_sizes[j])
        targeted = size
        if isinstance(audience, ProfiledAudience):
            counts = generator.multinomial(n, _exactly_one(audience.shares_of(j)), size=trials)
        else:
            assert isinstance(audience, DisjointAudience)
            targeted = int(audience.targeted_counts[j])
            spread = np.inf if audience.dispersion is None else float(audience.dispersion[j])
            shares: FloatArray = np.full((trials, size), 1.0 / size)
            if np.isfinite(spread):
                shares = generator.dirichlet(np.full(size, spread), size=trials)
            counts = generator.multinomial(n, shares)
        total += np.minimum(counts[:, :targeted], cap).sum(axis=1)
    return total


def _exactly_one(shares: FloatArray) -> FloatArray:
    """The last share takes the rounding, as a multinomial draw demands."""
    result = shares.copy()
    result[-1] = 1.0 - result[:-1].sum()
    return result


def _simulate_overlapping(
    audience: OverlappingAudience,
    impressions: Sequence[int],
    cap: int,
    trials: int,
    generator: np.random.Generator,
) -> IntArray:
    everybody = people(audience)
    exposures = np.zeros((trials, len(everybody)), dtype=np.int64)
    for j, n in enumerate(impressions):
        size = int(audience.group_sizes[j])
        members = [i for i, person in enumerate(everybody) if j in person.groups]
        counts = generator.multinomial(n, np.full(size, 1.0 / size), size=trials)
        exposures[:, members] += counts[:, : len(members)]
    result: IntArray = np.minimum(exposures, cap).sum(axis=1)
    return result
