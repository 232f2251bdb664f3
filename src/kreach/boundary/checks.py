"""Check arguments: turn them into numbers and arrays, or raise an error that names the rule."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "LARGEST_COUNT",
    "as_counts",
    "as_positive_floats",
    "as_probability",
    "as_seed",
    "as_whole_number",
    "is_number",
    "read_only",
]

LARGEST_COUNT = 2**53  # beyond, a float no longer holds every whole number


def as_whole_number(name: str, value: object, minimum: int, maximum: int = LARGEST_COUNT) -> int:
    """A whole number from `minimum` to `maximum`; 3.0 counts as 3, True does not count as 1."""
    number = None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
    if isinstance(value, (float, np.floating)) and np.isfinite(value) and value == int(value):
        number = int(value)
    if number is None or not minimum <= number <= maximum:
        raise KreachError.rule(name, f"be a whole number from {minimum} to {maximum}", value)
    return number


def is_number(value: object) -> bool:
    """Whether a value is a number of Python or NumPy; infinity and NaN are, True is not."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    return number and not isinstance(value, bool)


def as_seed(name: str, seed: object) -> np.random.Generator:
    """A generator from a whole number ≥ 0, or the generator itself."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return np.random.default_rng(int(seed))
    raise KreachError.rule(name, "be a whole number ≥ 0 or a numpy Generator", seed)


def as_probability(name: str, value: object, *, ends: bool = False) -> float:
    """A number between 0 and 1, with or without the ends."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        number = float(value)
        if 0.0 < number < 1.0 or (ends and 0.0 <= number <= 1.0):
            return number
    rule = "lie between 0 and 1" if ends else "lie between 0 and 1, both excluded"
    raise KreachError.rule(name, rule, value)


def as_counts(
    name: str, values: npt.ArrayLike, minimum: int = 0, length: int | None = None
) -> IntArray:
    """A new vector of whole numbers ≥ minimum; a scalar broadcasts where the length is known."""
    array = _vector(name, values, length)
    if array.dtype.kind not in "iuf":
        raise KreachError.rule(name, "be whole numbers", _kind(array))
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        broken = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
        if broken.size:
            at = int(broken[0])
            raise KreachError.rule(f"{name}[{at}]", "be a whole number", float(array[at]))
    low, high = array.min(), array.max()
    if low < minimum or high > LARGEST_COUNT:
        at = int(array.argmin() if low < minimum else array.argmax())
        rule = f"be a whole number from {minimum} to {LARGEST_COUNT}"
        raise KreachError.rule(f"{name}[{at}]", rule, array[at].item())
    return array.astype(np.int64)  # a copy, so that later changes by the caller do no harm


def as_positive_floats(name: str, values: npt.ArrayLike, length: int) -> FloatArray:
    """A vector of numbers > 0 (infinity allowed, NaN not); a scalar broadcasts."""
    array = _vector(name, values, length)
    if array.dtype.kind not in "iuf":
        raise KreachError.rule(name, "be numbers", _kind(array))
    floats = array.astype(np.float64)
    broken = np.flatnonzero(~(floats > 0.0))
    if broken.size:
        at = int(broken[0])
        raise KreachError.rule(f"{name}[{at}]", "be a number > 0", float(floats[at]))
    return floats


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view of the array that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def _vector(name: str, values: npt.ArrayLike, length: int | None) -> npt.NDArray[Any]:
    _refuse_bools(name, values, "be a whole number")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise KreachError.rule(name, "be a flat sequence of numbers", type(values)) from error
    if array.size == 0 and array.ndim == 1:
        array = array.astype(np.int64)
    if array.ndim == 0 and length is not None:
        array = np.broadcast_to(array, (length,))
    if array.ndim != 1:
        raise KreachError.rule(name, "be a flat sequence of numbers", f"shape {array.shape}")
    if length is not None and len(array) != length:
        raise KreachError.rule(
            name, f"have one entry per group ({length})", f"{len(array)} entries"
        )
    return array


def _refuse_bools(name: str, values: object, rule: str) -> None:
    """True among numbers would silently become 1."""
    if isinstance(values, (list, tuple)):
        for at, value in enumerate(values):
            if isinstance(value, (bool, np.bool_)):
                raise KreachError.rule(f"{name}[{at}]", rule, f"the bool {value}")


def _kind(array: npt.NDArray[Any]) -> str:
    return f"values of type {array.dtype}"
