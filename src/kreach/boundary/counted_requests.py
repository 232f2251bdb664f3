"""The traffic of a window from requests that were counted: totals of all groups, never by group.

The longer requests were counted, the more of what they differ from history is taken as traffic:

    f = ratio ** (days / (days + 7))

with the ratio of counted to usual requests in the same hours of the day. This is a rule that was
found by trying: with the whole ratio, windows of some days were worse than with none of it. Why is
not known (docs/visit-model.md).
"""

from dataclasses import dataclass, replace

import numpy as np

from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.draws import HOUR_US
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["CountedRequests"]

_HALF_DAYS = 7.0  # of counts, after which half of a change (of its logarithm) is taken as traffic
_MIN_TRAFFIC, _MAX_TRAFFIC = 0.01, 100.0


@dataclass(frozen=True, eq=False)
class CountedRequests:
    """Requests of all groups of a catalogue, and how long they were counted.

    >>> model = replace(VisitModel.flat(group_size=20), requests_per_person_day=0.5)
    >>> week = CountedRequests.between(14_000, 2_000, 0, 7 * 24 * HOUR_US)
    >>> week.ratio(model), week.traffic(model)
    (2.0, 1.41)
    """

    requests: float
    people: float  # members of the groups
    hours: FloatArray  # counted in each UTC hour of the day

    @classmethod
    def between(
        cls, requests: float, people: float, start_us: float, end_us: float
    ) -> "CountedRequests":
        """All requests in [start, end), in microseconds since 1970."""
        if not start_us < end_us:
            raise KreachError.rule("end_us", f"come after the start ({start_us})", end_us)
        start, end = start_us / HOUR_US, end_us / HOUR_US
        hour = np.arange(24.0)

        def before(moment: float) -> FloatArray:
            days, rest = divmod(moment, 24.0)
            return days + np.clip(rest - hour, 0.0, 1.0)

        return cls(requests, people, before(end) - before(start))

    @classmethod
    def in_hours(cls, requests: float, people: float, hours: IntArray) -> "CountedRequests":
        """The requests of whole hours, numbered since 1970."""
        return cls(requests, people, np.bincount(hours % 24, minlength=24).astype(np.float64))

    @property
    def days(self) -> float:
        """How long requests were counted."""
        return float(self.hours.sum()) / 24.0

    def ratio(self, model: VisitModel) -> float:
        """Counted requests over those that history has in the same hours of the day."""
        hourly = model.hourly_traffic / model.hourly_traffic.mean()
        usual = model.requests_per_person_day * self.people * float(self.hours @ hourly) / 24.0
        return self.requests / usual if usual > 0.0 else 1.0

    def traffic(self, model: VisitModel) -> float:
        """How busy the site is, relative to the model's history; to a hundredth."""
        share = self.days / (self.days + _HALF_DAYS)
        ratio = min(max(self.ratio(model), _MIN_TRAFFIC), _MAX_TRAFFIC)
        return max(round(float(ratio**share), 2), _MIN_TRAFFIC)

    def applied_to(self, model: VisitModel) -> VisitModel:
        """The model at this traffic, with the errors of replays that counted requests too."""
        errors = model.counted_errors or model.errors
        return replace(model.at_traffic(self.traffic(model)), errors=errors)
