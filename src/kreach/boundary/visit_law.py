"""The visit law: a histogram of visits per person over the whole population."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kreach.boundary.checks import as_counts, read_only
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["VisitLaw"]


@dataclass(frozen=True, eq=False)
class VisitLaw:
    """P(a person makes v requests in the window), v = 0, 1, 2, ...; for the whole population.

    >>> import kreach as kr
    >>> law = kr.VisitLaw.of_people([50, 30, 20])  # 50 people never came, 30 once, 20 twice
    >>> law.pmf, law.mean
    (array([0.5, 0.3, 0.2]), 0.7)
    """

    pmf: FloatArray

    @classmethod
    def of_people(cls, people_by_visits: npt.ArrayLike) -> "VisitLaw":
        """From how many people made 0, 1, 2, ... requests.

        >>> VisitLaw.of_people([5, 3, 2]).mean
        0.7
        """
        people = as_counts("people_by_visits", people_by_visits)
        if people.sum() == 0:
            raise KreachError.rule("people_by_visits", "count somebody", 0)
        return cls(read_only(people / people.sum()))

    @property
    def mean(self) -> float:
        """Requests per person."""
        return float(self.pmf @ np.arange(len(self.pmf)))

    def stretched(self, activity: float, intensity: float) -> "VisitLaw":
        """The law with `activity` times as many visitors, who visit `intensity` times as often
        (rounded at random to whole requests). Activity ends where everybody visits."""
        visits = np.arange(1, len(self.pmf)) * intensity
        low = np.floor(visits).astype(np.int64)
        part = visits - low
        result = np.zeros(int(low.max(initial=0)) + 2)
        np.add.at(result, low, self.pmf[1:] * (1.0 - part))
        np.add.at(result, low + 1, self.pmf[1:] * part)
        result[0] = 0.0
        coming = float(result.sum())
        result *= min(activity, 1.0 / coming) if coming > 0.0 else 0.0
        result[0] = max(1.0 - float(result.sum()), 0.0)
        return VisitLaw(read_only(result / result.sum()))
