"""How busy a site was in a window, and the visit model at that traffic.

With `[reporting] traffic = "counted"` it is computed from the requests that bidders counted, over
the whole hours of the window within the flight. Hours that some bidder missed are left out, and
where they are more than half, traffic is that of history: a missing count is no low traffic.
"""

from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.adsystem.reports.report import ModelInfo
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.times import HOUR_SECONDS, Window
from kreach.boundary.visit_model import VisitModel
from kreach.service.lru_cache import LruCache

__all__ = ["TrafficModels", "WindowTraffic"]

_MIN_COVERED = 0.5  # of the hours of a window
_MAX_MODELS = 1_000


@dataclass(frozen=True, eq=False)
class WindowTraffic:
    """The traffic of a window, and the model to measure it with."""

    model: VisitModel | None
    traffic: float = 1.0
    source: str = "history"
    note: str | None = None

    def described(self, info: ModelInfo) -> ModelInfo:
        """What a report says of its model, with the traffic."""
        if info.traffic is None:  # no visit model, so no traffic
            return info
        changes = {
            "traffic": self.traffic,
            "traffic_source": self.source,
            "traffic_note": self.note,
        }
        return msgspec.structs.replace(info, **changes)


class TrafficModels:
    """The model for each window. For use by several threads.

    Without counts it is the released one. Models are cached: the same traffic is the same object,
    by which reports are cached in turn.
    """

    def __init__(self, counts: RequestCounts | None) -> None:
        self._counts = counts
        self._models = LruCache[tuple[str, float, float], tuple[VisitModel, VisitModel]](
            _MAX_MODELS
        )

    def of(
        self, campaign: Campaign, catalogue: Catalogue, model: VisitModel | None, window: Window
    ) -> WindowTraffic:
        """The traffic of a window of a campaign on a catalogue."""
        if model is None or self._counts is None:
            return WindowTraffic(model)
        history = self._counts.history()
        start, end = campaign.start, campaign.end
        if window.start is not None:
            start = max(start, window.start)
        if window.end is not None:
            end = min(end, window.end)
        first = ceil(start.timestamp() / HOUR_SECONDS)
        last = min(int(end.timestamp() // HOUR_SECONDS), history.end_hour)
        hours = max(last - first, 0)
        covered = history.covered(catalogue.version, first, last)
        note = f"requests counted in {len(covered)} of {hours} whole hours"
        if not covered or len(covered) < _MIN_COVERED * hours:
            return WindowTraffic(model, note=f"{note}: too few, so traffic is that of history")
        counted = CountedRequests.in_hours(
            sum(covered.values()), float(catalogue.sizes.sum()), np.array(sorted(covered))
        )
        traffic = counted.traffic(model)
        _, at_traffic = self._models.get_or_make(
            (catalogue.version, traffic, model.group_size),
            lambda: (model, counted.applied_to(model)),
        )
        return WindowTraffic(at_traffic, traffic, "counted", note)
