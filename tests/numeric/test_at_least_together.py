"""Whichever way a variance is computed, and of however many counts at once, it is the same."""

import numpy as np
import pytest

from kreach.numeric import variance as module
from kreach.numeric.types import FloatArray
from kreach.numeric.variance import (
    group_variance,
    group_variance_at_least,
    group_variances_at_least,
)
from tests.numeric.test_at_least import textbook

TOP = 10
ALIKE = 2e-9


def some_groups(rows: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Sizes, targeted people, impressions and dispersions, from nearly empty to crowded."""
    rng = np.random.default_rng(seed)
    size = np.floor(10.0 ** rng.uniform(0.0, 2.5, rows))
    targeted = np.where(rng.random(rows) < 0.5, size, np.floor(size * rng.random(rows)))
    impressions = np.floor(size * 10.0 ** rng.uniform(-2.0, 0.8, rows))
    spread = np.where(rng.random(rows) < 0.4, np.inf, 10.0 ** rng.uniform(-1.0, 2.0, rows))
    return size, targeted, impressions, spread


def test_all_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = some_groups(120, seed=1)
    together = group_variances_at_least(*groups, TOP)
    assert together.shape == (120, TOP)
    assert (together >= 0.0).all()
    monkeypatch.setattr(module, "_SMALL", 0.0)  # each count by the way that keeps every digit
    for count in range(1, TOP + 1):
        alone = group_variance_at_least(*groups, count)
        assert together[:, count - 1] == pytest.approx(alone, rel=ALIKE, abs=1e-15)


@pytest.mark.parametrize("cap", [1, 2, 5, 12])
def test_the_quick_way_keeps_its_digits(cap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = some_groups(60, seed=cap)
    quick = [group_variance(*groups, cap), group_variance_at_least(*groups, cap)]
    monkeypatch.setattr(module, "_SMALL", 0.0)
    slow = [group_variance(*groups, cap), group_variance_at_least(*groups, cap)]
    assert any(not np.array_equal(one, other) for one, other in zip(quick, slow, strict=True))
    for one, other in zip(quick, slow, strict=True):
        assert one == pytest.approx(other, rel=ALIKE, abs=1e-15)


@pytest.mark.parametrize("dispersion", [0.1, 0.7, 40.0, np.inf])
@pytest.mark.parametrize("size", [2, 20, 240])
def test_against_the_textbook(size: int, dispersion: float) -> None:
    for n in (1, 9, 60):
        k, impressions, spread = (np.array([float(v)]) for v in (size, n, dispersion))
        actual = group_variances_at_least(k, k, impressions, spread, TOP)[0]
        for count in (1, 2, 3, 8):
            exact = textbook(size, size, n, dispersion, count) if count <= n else 0.0
            assert actual[count - 1] == pytest.approx(exact, rel=ALIKE, abs=1e-12), (n, count)
