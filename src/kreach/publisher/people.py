"""People as the grouping strategies see them: by index, with attributes, without ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["MISSING", "Attribute", "People", "label_text"]

MISSING = "(missing)"  # how reports name the people without a value


def label_text(label: object) -> str:
    """A value of an attribute as reports show it, and as `--where` takes it."""
    return MISSING if label is None else str(label)


@dataclass(frozen=True)
class Attribute:
    """One attribute of everybody: a number, or the code of a category.

    `codes` are positions in the sorted list of distinct `labels`, for both kinds.
    """

    codes: IntArray
    labels: tuple[object, ...]

    @staticmethod
    def of(values: npt.ArrayLike) -> "Attribute":
        """Code any column; missing values become a category of their own, first in order."""
        column: Any = np.ma.asarray(values)
        missing = np.ma.getmaskarray(column)
        plain = column.data
        if plain.dtype.kind == "O":
            missing = missing | np.array([value is None for value in plain], dtype=np.bool_)
            plain = np.array(["" if value is None else str(value) for value in plain], dtype=str)
        elif plain.dtype.kind == "f":
            missing = missing | np.isnan(plain)
        codes = np.zeros(len(plain), dtype=np.int64)
        labels, known = np.unique(plain[~missing], return_inverse=True)
        codes[~missing] = known + (1 if missing.any() else 0)
        first: tuple[object, ...] = (None,) if missing.any() else ()
        return Attribute(codes, (*first, *labels.tolist()))

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, which have an order and a distance."""
        known = [label for label in self.labels if label is not None]
        return bool(known) and all(
            isinstance(label, int | float) and not isinstance(label, bool) for label in known
        )

    def ranks(self) -> FloatArray:
        """Everybody's mid-rank in [0, 1]; equal values share one, and outliers do not matter."""
        count = np.bincount(self.codes, minlength=len(self.labels)).astype(np.float64)
        middle = np.cumsum(count) - count / 2.0
        result: FloatArray = (middle / max(len(self.codes), 1))[self.codes]
        return result


@dataclass(frozen=True)
class People:
    """A population by index 0..N−1: past visits and attributes."""

    visits: IntArray
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many people there are."""
        return len(self.visits)

    def attribute(self, name: str) -> Attribute:
        """One attribute by name."""
        if name not in self.attributes:
            known = ", ".join(sorted(self.attributes)) or "none"
            raise KreachError.rule("attribute", f"be one of those loaded ({known})", name)
        return self.attributes[name]

    def codes(self, names: tuple[str, ...]) -> IntArray:
        """The codes of several attributes side by side, (people, attributes)."""
        columns = [self.attribute(name).codes for name in names]
        return np.stack(columns, axis=1) if columns else np.zeros((self.count, 0), dtype=np.int64)
