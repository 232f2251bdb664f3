"""The distribution of a sum of independent whole numbers."""

import numpy as np
import pytest
from scipy.stats import binom

from kreach.numeric import convolve
from kreach.numeric.convolve import sum_distribution
from kreach.numeric.types import FloatArray


def by_convolution(pmfs: list[FloatArray], counts: list[int]) -> FloatArray:
    total: FloatArray = np.ones(1)
    for pmf, count in zip(pmfs, counts, strict=True):
        for _ in range(count):
            total = np.convolve(total, pmf)
    return total


def assert_same(pmfs: list[FloatArray], counts: list[int]) -> None:
    low, actual = sum_distribution(pmfs, np.array(counts, dtype=float))
    wanted = by_convolution(pmfs, counts)
    full = np.zeros(max(len(wanted), low + len(actual)))
    full[low : low + len(actual)] = actual
    assert full[: len(wanted)].tolist() == pytest.approx(wanted.tolist(), abs=1e-14)
    assert full[len(wanted) :].sum() <= 1e-14
    assert actual.sum() == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize(
    ("pmfs", "counts"),
    [
        ([[1.0]], [1]),
        ([[0.0, 0.0, 1.0]], [5]),
        ([[0.5, 0.5]], [1]),
        ([[0.5, 0.5]], [7]),
        ([[0.0, 0.25, 0.75]], [4]),
        ([[0.2, 0.0, 0.8], [0.0, 1.0]], [3, 2]),
        ([[0.1, 0.2, 0.3, 0.4], [0.9, 0.1], [0.0, 0.0, 0.5, 0.5]], [2, 6, 1]),
        ([[1.0 - 1e-9, 1e-9]], [3]),
        ([[0.5, 0.0, 0.0, 0.0, 0.0, 0.5]], [9]),
    ],
)
def test_small_sums(pmfs: list[list[float]], counts: list[int]) -> None:
    assert_same([np.array(pmf) for pmf in pmfs], counts)


@pytest.mark.parametrize("seed", range(12))
def test_random_sums(seed: int) -> None:
    generator = np.random.default_rng(seed)
    pmfs = []
    for _ in range(int(generator.integers(1, 6))):
        weight = generator.random(int(generator.integers(1, 9)))
        weight[generator.random(len(weight)) < 0.3] = 0.0
        weight[-1] += 0.1
        pmfs.append(weight / weight.sum())
    assert_same(pmfs, generator.integers(1, 30, len(pmfs)).tolist())


def test_a_long_sum_is_cut_to_where_it_can_be() -> None:
    """A hundred thousand coins: a window around the mean, not a hundred thousand values."""
    count, chance = 100_000, 0.3
    low, actual = sum_distribution([np.array([1.0 - chance, chance])], np.array([float(count)]))
    assert len(actual) < 10_000
    exact = binom.pmf(low + np.arange(len(actual)), count, chance)
    assert actual.tolist() == pytest.approx(exact.tolist(), rel=1e-6, abs=1e-13)
    mean = actual @ (low + np.arange(len(actual)))
    assert mean == pytest.approx(count * chance, rel=1e-9)


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    pmfs = [np.array([0.5, 0.25, 0.25]), np.array([0.1, 0.9]), np.array([0.0, 0.5, 0.5])]
    counts = np.array([4.0, 2.0, 5.0])
    low, whole = sum_distribution(pmfs, counts)
    monkeypatch.setattr(convolve, "_BATCH_CELLS", 1)
    again, parts = sum_distribution(pmfs, counts)
    assert again == low
    assert parts.tolist() == pytest.approx(whole.tolist(), abs=1e-15)
