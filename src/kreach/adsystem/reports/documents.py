"""Documents of impressions by group, each made once: what is over does not change any more."""

from hashlib import blake2b
from typing import Any

from kreach.adsystem.measurement.report import ReachReport, measure
from kreach.adsystem.reports.window import reach_documents
from kreach.boundary.audience import Audience
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["Documents", "in_short", "measured"]

_MAX_REPORTS = 20_000  # of one cap each, some kilobytes

Key = tuple[str, int, bytes, tuple[int, ...], float]
_Made = tuple[Audience, list[dict[str, Any]]]

_IN_SHORT = ("cap", "reach", "std", "interval", "level", "interval_method")


def measured(
    audience: Audience, counts: IntArray, caps: tuple[int, ...]
) -> tuple[ReachReport, ...]:
    """The library's reports on these impressions, one for each cap."""
    first = measure(audience, counts, caps[0])
    people = first.targeted_user_count
    rest = (ReachReport(cap, first.impressions, people, first.exposure) for cap in caps[1:])
    return (first, *rest)


def in_short(report: dict[str, Any]) -> dict[str, Any]:
    """What a curve tells of a report."""
    return {name: report[name] for name in _IN_SHORT}


def _curve_documents(
    audience: Audience, counts: IntArray, caps: tuple[int, ...], level: float
) -> list[dict[str, Any]]:
    """Reach and its normal interval, which takes no distribution."""
    return [
        {
            "cap": report.cap,
            "reach": report.reach,
            "std": report.std,
            "interval": list(report.interval(level, "normal")),
            "level": level,
            "interval_method": "normal",
        }
        for report in measured(audience, counts, caps)
    ]


def _full_documents(
    audience: Audience, counts: IntArray, caps: tuple[int, ...], level: float
) -> list[dict[str, Any]]:
    return reach_documents(measured(audience, counts, caps), level)


_MADE_BY = {"full": _full_documents, "curve": _curve_documents}


class Documents:
    """Reports as plain values, for use by several threads.

    The same impressions have the same document, which is shared: nobody may change it.
    """

    def __init__(self) -> None:
        self._made = LruCache[Key, _Made](_MAX_REPORTS, lambda made: len(made[1]))

    def of(
        self,
        audience: Audience,
        counts: IntArray,
        caps: tuple[int, ...],
        level: float,
        kind: str = "full",
    ) -> list[dict[str, Any]]:
        """One document for each cap: "full", or what a "curve" needs."""
        # An audience is known by its identity, which nobody else has while it is kept here.
        key = (kind, id(audience), blake2b(counts.tobytes()).digest(), caps, level)
        made = self._made.get_or_make(
            key, lambda: (audience, _MADE_BY[kind](audience, counts, caps, level))
        )
        return made[1]
