"""What the ad system may know about visits, and the reach that it then measures.

The names are those of `summary.json`. A to D are the paper's; "needs" says what has to be shared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.adsystem.measurement import baselines
from kreach.adsystem.measurement.report import ReachReport, measure
from kreach.adsystem.measurement.times import measure_times
from kreach.boundary.audience import Audience
from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.visit_model import VisitModel
from kreach.lab.site import StudyCampaign
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.crossfit import cross_fitted_on_halves
from kreach.publisher.grouping import Strategy, form_groups
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.visit_knowledge import (
    match_dispersion,
    match_pseudo_visits,
    visit_profiles,
)

__all__ = ["APPROACHES", "GroupedCampaign"]

APPROACHES = {
    "impressions": "A: every impression a person; needs nothing",
    "groups": "B: every group a person; needs nothing",
    "uniform": "C: uniform visits; needs the group sizes",
    "profiled": "D: visit shares of the flight itself, one vector per group",
    "profiled_history": "D with visit shares of history, one vector per group",
    "dispersed": "one dispersion number, from history",
    "model": "effective draws with the site's visit model, from history",
    "model_counted": "the visit model at the traffic of the window; needs every request counted",
}
_NEED_MODEL = ("model", "model_counted")
_MIN_ANONYMITY = 2.0


@dataclass(frozen=True, eq=False)
class GroupedCampaign:
    """The people of a campaign in groups, and the audience of the ad system under each approach."""

    campaign: StudyCampaign
    strategy: Strategy
    group_size: int
    seed: int
    model: VisitModel | None  # of the site, fitted on the history of people outside the campaign

    flight_only = frozenset({"impressions", "groups", "profiled", "profiled_history"})
    """Approaches that are judged on the whole flight only: the paper's, as far as it takes them."""

    @cached_property
    def group_of(self) -> IntArray:
        """The group of each person."""
        groups = form_groups(self.campaign.people, self.group_size, self.strategy, self.seed)
        return groups.group_of()

    @cached_property
    def sizes(self) -> IntArray:
        return np.bincount(self.group_of)

    @cached_property
    def groups(self) -> IntArray:
        """The group of each request in the flight: all that the ad system sees of it."""
        return self.group_of[self.campaign.person]

    @cached_property
    def formed_by_visits(self) -> bool:
        """Whether the strategy uses how often people visit."""
        return self.strategy.name in FORMED_BY_VISITS

    @cached_property
    def dispersion(self) -> float:
        """Fitted on visits of history that did not form the groups."""
        people = self.campaign.people
        if not self.formed_by_visits:
            return match_dispersion(people.visits, self.group_of)
        halves = self.campaign.halves()
        return cross_fitted_on_halves(people, *halves, self.strategy, self.group_size, self.seed)

    def audience(self, approach: str) -> Audience:
        """What the ad system knows under an approach."""
        count = len(self.sizes)
        if approach == "impressions":
            return baselines.every_impression(count)
        if approach == "groups":
            return baselines.every_group(count)
        if approach == "profiled":
            return Audience.profiled(self._shares(self.campaign.flight_visits))
        if approach == "profiled_history":
            visits = self.campaign.people.visits
            pseudo = match_pseudo_visits(visits, self.group_of)
            profiles, _ = visit_profiles(visits, self.group_of, pseudo, _MIN_ANONYMITY)
            return Audience.profiled(profiles)
        if approach == "dispersed":
            return Audience.disjoint(self.sizes, dispersion=self.dispersion)
        return Audience.disjoint(self.sizes)

    def _shares(self, visits: IntArray) -> list[FloatArray]:
        order = np.argsort(self.group_of, kind="stable")
        parts = np.split(visits[order].astype(np.float64), np.cumsum(self.sizes)[:-1])
        return [p / p.sum() if p.sum() else np.full(len(p), 1.0 / len(p)) for p in parts]

    def measure_reach(self, approach: str, won: IntArray) -> float:
        """Measured unique reach of the won requests, given by index in the flight."""
        return self.reports(approach, won, (1,))[1].reach

    def reports(
        self,
        approach: str,
        won: IntArray,
        caps: Sequence[int],
        hours: float | None = None,
        start: float = 0.0,
    ) -> dict[int, ReachReport]:
        """Reports on the won requests of a window of so many hours (default: the flight).

        `start` is the start of the window in seconds since that of the flight.
        """
        if approach in _NEED_MODEL:
            assert self.model is not None
            if hours is None:
                hours = self.campaign.seconds / 3_600.0
            model = self.model
            if approach == "model_counted":
                model = self._counted(start, start + hours * 3_600.0).applied_to(model)
            return measure_times(
                Audience.disjoint(self.sizes),
                self.groups[won],
                self.campaign.starts_us / 1e6 + self.campaign.at[won],
                caps,
                model=model,
                hours=hours,
            )
        impressions = np.bincount(self.groups[won], minlength=len(self.sizes))
        audience = self._audiences(approach)
        return {cap: measure(audience, impressions, cap) for cap in caps}

    def _counted(self, start: float, end: float) -> CountedRequests:
        """The requests of all groups in a window: what a bidder that sees them all counts."""
        at, starts_us = self.campaign.at, self.campaign.starts_us
        requests = float(np.count_nonzero((at >= start) & (at < end)))
        people = float(self.sizes.sum())
        window = starts_us + 1e6 * start, starts_us + 1e6 * end
        return CountedRequests.between(requests, people, *window)

    def _audiences(self, approach: str) -> Audience:
        """The audience under an approach; it does not depend on what was won."""
        if approach not in self._cache:
            self._cache[approach] = self.audience(approach)
        return self._cache[approach]

    @cached_property
    def _cache(self) -> dict[str, Audience]:
        return {}

    def applicable_approaches(self) -> list[str]:
        """All approaches, without the visit model if history was too short to fit one."""
        fitted = self.model is not None
        return [name for name in APPROACHES if fitted or name not in _NEED_MODEL]
