"""The nearest sequence that never rises (isotonic regression, least squares).

It keeps order: of two sequences, the one that is nowhere above the other stays so.
"""

from kreach.numeric.types import FloatArray

__all__ = ["nearest_falling"]


def nearest_falling(values: FloatArray) -> FloatArray:
    """The nearest sequence that does not rise.

    >>> import numpy as np
    >>> nearest_falling(np.array([5.0, 1.0, 3.0, 0.0])).tolist()
    [5.0, 2.0, 2.0, 0.0]
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    falling: FloatArray = isotonic_regression(values, increasing=False).x
    return falling
