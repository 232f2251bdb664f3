"""Truth less model in the panel's groups: people who saw a campaign 1+, 2+, … times."""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.group_reach import GroupReach, group_reach
from kreach.errors import KreachError
from kreach.numeric.panel import expanded, mean_deviation, pair_deviations
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.panel.sample import Panel

__all__ = ["PanelDifferences", "PanelShowings", "true_at_least"]


@dataclass(frozen=True, eq=False)
class PanelShowings:
    """Showings of one campaign to people of panel groups, in any order.

    `person` is any number that tells people apart, `place` the place of the group in the panel.
    """

    person: IntArray
    place: IntArray
    at_us: IntArray

    def __post_init__(self) -> None:
        if not len(self.person) == len(self.place) == len(self.at_us):
            rule = f"have one entry per showing ({len(self.person)})"
            raise KreachError.rule("at_us", rule, len(self.at_us))

    def __len__(self) -> int:
        return len(self.person)

    def before(self, end_us: int) -> "PanelShowings":
        """The showings before a time."""
        inside = self.at_us < end_us
        return PanelShowings(self.person[inside], self.place[inside], self.at_us[inside])


class PanelDifferences:
    """The differences of all panel groups at one time, and sums over them.

    A person with x showings counts in the first x columns, each by 1 at most: columns f = 1..F are
    people with f showings or more, and Σ_{f ≤ c} of them is reach at cap c.
    """

    def __init__(self, panel: Panel, truth: FloatArray, model: GroupReach) -> None:
        """Of true numbers, a row per panel group, and what a model says of the same groups."""
        self._panel, self._model = panel, model
        self.max_frequency = truth.shape[1]
        self.truth, self.model = truth, model.at_least(self.max_frequency)
        self.values: FloatArray = self.truth - self.model

    @classmethod
    def counted(
        cls, catalogue: Catalogue, panel: Panel, showings: PanelShowings, max_frequency: int
    ) -> "PanelDifferences":
        """Of showings, by the model of a catalogue."""
        order = np.lexsort((showings.at_us, showings.place))
        place, at_us = showings.place[order], showings.at_us[order]
        truth = true_at_least(showings.place, showings.person, len(panel), max_frequency)
        return cls(panel, truth, group_reach(catalogue, panel.groups, place, at_us))

    @property
    def model_reach(self) -> float:
        """People reached in the panel, by the model: the ad system could compute it too."""
        return float(self.model[:, 0].sum())

    def totals(self) -> FloatArray:
        """Σ N/n · (truth − model) for f = 1..F: what all groups are off by, estimated."""
        return expanded(self.values, self._panel.weights)

    def deviations(self) -> tuple[FloatArray, FloatArray]:
        """By cap: deviations within strata, and those the model expects, in people.

        With D the difference between the two groups of a stratum in Σ_{f ≤ c} (truth − model),
        Σ |D| and Σ E|D|. A person moves one D by at most c. (Squares would say more of the
        variance, but a single group with many people moves them far.)
        """
        by_cap = np.cumsum(self.values, axis=1)
        found = pair_deviations(by_cap, self._panel.stratum).sum(axis=0)
        caps = range(1, self.max_frequency + 1)
        return found, np.array([self._expected_deviation(cap) for cap in caps])

    def _expected_deviation(self, cap: int) -> float:
        """Σ E|D| over strata by the model."""
        variances, stratum = self._model.variances(cap), self._panel.stratum
        first = np.flatnonzero(np.diff(stratum, prepend=-1))
        return float(mean_deviation(variances[first], variances[first + 1]).sum())


def true_at_least(place: IntArray, person: IntArray, groups: int, top: int) -> FloatArray:
    """A row per group: people with 1, 2, …, top or more showings."""
    if len(place) == 0:
        return np.zeros((groups, top))
    people, counts = np.unique(np.stack([place, person]), axis=1, return_counts=True)
    return np.stack(
        [np.bincount(people[0][counts >= f], minlength=groups) for f in range(1, top + 1)], axis=1
    ).astype(np.float64)
