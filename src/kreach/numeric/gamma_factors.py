"""Gamma laws as a few equally likely factors: how many more or fewer requests come than expected.

The exact factors cost an inverse incomplete Gamma function each. Their logarithms are smooth in
that of the shape: `quick_gamma_factors` interpolates them between 2,048 shapes, by polynomials
through the six nearest, and is within 1e-12 of the exact ones.
"""

from functools import cache

import numpy as np

from kreach.numeric.types import FloatArray

__all__ = ["gamma_factors", "quick_gamma_factors"]

_MIN_SHAPE, _MAX_SHAPE = 0.3, 1e6
_POINTS = 5
_CELLS = 2_048
_NEAREST = 6
_STEP = np.log(_MAX_SHAPE / _MIN_SHAPE) / _CELLS


def gamma_factors(shape: FloatArray) -> FloatArray:
    """Equally likely factors of mean 1 that stand for Gamma laws of these shapes, a row each."""
    return _exact(np.clip(np.atleast_1d(shape), _MIN_SHAPE, _MAX_SHAPE))


def quick_gamma_factors(shape: FloatArray) -> FloatArray:
    """The same to twelve digits, for many shapes again and again."""
    x = np.log(np.clip(np.atleast_1d(shape), _MIN_SHAPE, _MAX_SHAPE) / _MIN_SHAPE) / _STEP
    cell = np.minimum(x.astype(np.int64), _CELLS - 1)
    t = (x - cell)[:, None]
    table = _logarithms()
    total = np.zeros((len(x), _POINTS))
    nodes = range(-_NEAREST // 2 + 1, _NEAREST // 2 + 1)  # seen from the cell's left end
    for at, node in enumerate(nodes):
        weight = np.ones_like(t)
        for other in nodes:
            if other != node:
                weight *= (t - other) / (node - other)
        total += weight * table[cell + at]
    factors = np.exp(total)
    result: FloatArray = factors / factors.mean(axis=1, keepdims=True)
    return result


@cache
def _logarithms() -> FloatArray:
    """Logarithms of the factors at the ends of all cells, and some beyond."""
    beyond = _NEAREST // 2 - 1
    x = np.arange(-beyond, _CELLS + beyond + 2)
    result: FloatArray = np.log(_exact(_MIN_SHAPE * np.exp(_STEP * x)))
    return result


def _exact(shape: FloatArray) -> FloatArray:
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to import

    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    factors = gammaincinv(shape[:, None], middles[None, :])
    result: FloatArray = factors / factors.mean(axis=1, keepdims=True)
    return result
