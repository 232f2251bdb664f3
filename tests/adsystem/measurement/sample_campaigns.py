"""One campaign of every kind, of a size where chance matters."""

import numpy as np

import kreach as kr
from tests.strategies import Campaign

__all__ = ["SAMPLE_CAMPAIGNS"]


def _sample_campaigns() -> dict[str, Campaign]:
    generator = np.random.default_rng(2024)
    groups = 20
    sizes = generator.integers(2, 9, groups)
    targeted = np.maximum(1, sizes - generator.integers(0, 3, groups))
    n = tuple(generator.integers(0, 16, groups).tolist())
    shares = [generator.dirichlet(np.full(int(k), 0.7)) for k in sizes]
    shares[0] = np.array([0.0, 0.0, 1.0])
    classes: list[tuple[tuple[int, ...], int]] = [((j,), 2) for j in range(groups)]
    classes += [((j, (j + 1) % groups), 2) for j in range(groups)]
    classes += [((j, (j + 3) % groups, (j + 7) % groups), 1) for j in range(0, groups, 2)]
    members = np.zeros(groups, dtype=np.int64)
    for where, headcount in classes:
        members[list(where)] += headcount
    mixed = members + generator.integers(0, 3, groups)
    return {
        "uniform": Campaign(kr.Audience.disjoint(sizes), n),
        "partly targeted": Campaign(kr.Audience.disjoint(sizes, targeted), n),
        "dispersed": Campaign(kr.Audience.disjoint(sizes, targeted, dispersion=0.6), n),
        "mixed dispersion": Campaign(
            kr.Audience.disjoint(sizes, dispersion=generator.uniform(0.2, 5.0, groups)), n
        ),
        "profiled": Campaign(kr.Audience.profiled(shares), n),
        "overlapping": Campaign(kr.Audience.overlapping(members, classes), n),
        "overlapping, mixed sizes": Campaign(kr.Audience.overlapping(mixed, classes), n),
        "large groups, few impressions": Campaign(
            kr.Audience.disjoint([1_000] * 5, [800] * 5, dispersion=0.05), (30,) * 5
        ),
    }


SAMPLE_CAMPAIGNS = _sample_campaigns()
