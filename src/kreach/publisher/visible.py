"""Visible anonymity: k among the people whom a campaign can see.

A group hides a person among its k members. A campaign that targets some of them, and is sent only
requests that match, sees fewer: the targeted members who visit at all. Of an audience T, with x_i
visits of person i in history and a pseudo visits each (`match_pseudo_visits` on all members), and
for each group j that holds anybody of T:

    visible members      v_j = |{i ∈ j ∩ T : x_i > 0}|
    visit share          q_i = (x_i + a) / Σ (x + a), both over the visible members of j
    effective visible    e_j = exp(−Σ q_i ln q_i)      equally active people that they are worth
    best guess           g_j = max q_i                 P(right | "the visitor is the busiest one")

q_i is the share that `anonymity_from_visits` uses, renormalised to whom the campaign can see: with
everybody targeted and visiting, e_j is the effective anonymity of the group. 1/v_j ≤ g_j, and
e_j ≤ v_j. The guess is that of an attacker who knows the audience, the groups and everybody's
history; who knows less does worse on average.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.people import Attribute
from kreach.publisher.visit_knowledge import match_pseudo_visits

__all__ = ["VisibleAudience", "VisibleMembers", "VisibleSummary"]


@dataclass(frozen=True)
class VisibleSummary:
    """An audience in numbers, over the groups that hold any of it.

    `…_small_groups` are groups with fewer visible or effective people than the floors, and the
    targeted people in them. `worst_guess` is the largest g_j; `mean_guess` is the probability of a
    right guess for a random visit of the audience. Effective numbers and guesses are None without
    history.
    """

    people: int
    visible_people: int
    groups: int
    min_visible: int
    p05_visible: float
    median_visible: float
    min_effective: float | None
    p05_effective: float | None
    median_effective: float | None
    small_groups: int
    people_in_small_groups: int
    worst_guess: float | None
    mean_guess: float | None


@dataclass(frozen=True, eq=False)
class VisibleAudience:
    """Targeted, visible and effective people of one audience, by the groups that hold any.

    Without history everybody is visible and as active as others, and `known` is False.
    """

    groups: IntArray
    sizes: IntArray
    targeted: IntArray
    visible: IntArray
    effective: FloatArray
    guess: FloatArray  # 0 where nobody is visible
    visits: FloatArray  # expected share of the audience's visits
    known: bool

    def small(self, min_visible: int, min_effective: float) -> BoolArray:
        """Whether so few of a group can be seen that the audience would single them out.

        Nobody visible is too few as well: who has not visited yet may visit tomorrow. A group
        that is targeted as a whole says nothing that the catalogue does not: it is judged as a
        group when the catalogue is released.
        """
        few = (self.visible < min_visible) | (self.known & (self.effective < min_effective))
        return few & (self.targeted < self.sizes)

    def summary(self, min_visible: int, min_effective: float) -> VisibleSummary:
        """The audience in numbers."""
        small = self.small(min_visible, min_effective)
        low, p05, median = _quantiles(self.visible)
        worth = _quantiles(self.effective)
        return VisibleSummary(
            int(self.targeted.sum()),
            int(self.visible.sum()),
            len(self.groups),
            int(low),
            p05,
            median,
            worth[0] if self.known else None,
            worth[1] if self.known else None,
            worth[2] if self.known else None,
            int(np.count_nonzero(small)),
            int(self.targeted[small].sum()),
            float(self.guess.max(initial=0.0)) if self.known else None,
            float(self.guess @ self.visits) if self.known else None,
        )


class VisibleMembers:
    """The people whom a campaign on any audience can see, in disjoint groups.

    >>> members = VisibleMembers(np.array([5, 5, 0, 9, 1, 1]), np.array([0, 0, 0, 1, 1, 1]))
    >>> us = members.of(np.array([True, True, True, True, False, False]))
    >>> us.targeted.tolist(), us.visible.tolist(), us.guess.tolist()
    ([3, 1], [2, 1], [0.5, 1.0])
    """

    def __init__(self, visits: IntArray, group_of: IntArray) -> None:
        self._visits, self._group_of = visits, group_of
        self._sizes = np.bincount(group_of)
        self._known = bool(visits.sum() > 0)
        self._pseudo = match_pseudo_visits(visits, group_of) if self._known else np.inf

    def of(self, targeted: BoolArray) -> VisibleAudience:
        """The audience of these people: True for each who is targeted."""
        if targeted.shape != self._visits.shape or targeted.dtype != np.bool_:
            rule = f"be a bool for each of the {len(self._visits)} people"
            raise KreachError.rule("targeted", rule, f"shape {targeted.shape} of {targeted.dtype}")
        return self._of(np.flatnonzero(targeted))

    def by_value(self, attribute: Attribute) -> Iterator[tuple[object, VisibleAudience]]:
        """The audience of each value that anybody has, in O(people log people) for all."""
        order = np.argsort(attribute.codes, kind="stable")
        edges = np.searchsorted(attribute.codes[order], np.arange(len(attribute.labels) + 1))
        for at, label in enumerate(attribute.labels):
            if edges[at] < edges[at + 1]:
                yield label, self._of(order[edges[at] : edges[at + 1]])

    def _of(self, person: IntArray) -> VisibleAudience:
        groups, group = np.unique(self._group_of[person], return_inverse=True)
        seen = self._visits[person] > 0 if self._known else np.ones(len(person), dtype=np.bool_)
        of_seen, count = group[seen], len(groups)
        weight: FloatArray = np.ones(
            len(of_seen)
        )  # visits are even if a pseudo visit weighs infinitely
        if np.isfinite(self._pseudo):
            weight = self._visits[person][seen].astype(np.float64) + self._pseudo
        totals = np.bincount(of_seen, weights=weight, minlength=count)
        shares = weight / totals[of_seen]
        guess = np.zeros(count)
        np.maximum.at(guess, of_seen, shares)
        visible = np.bincount(of_seen, minlength=count)
        entropy = np.bincount(of_seen, weights=-shares * np.log(shares), minlength=count)
        return VisibleAudience(
            groups,
            self._sizes[groups],
            np.bincount(group, minlength=count),
            visible,
            np.where(visible > 0, np.exp(entropy), 0.0),
            guess,
            totals / max(float(totals.sum()), 1e-300),
            self._known,
        )


def _quantiles(values: IntArray | FloatArray) -> tuple[float, float, float]:
    """Minimum, 5 % quantile and median; zeros of nothing."""
    if not len(values):
        return 0.0, 0.0, 0.0
    low, p05, median = np.quantile(values, [0.0, 0.05, 0.5]).tolist()
    return low, p05, median
