"""Which stretches of a flight can be told with noise: by the clock and the flight, never the log.

Time is cut into cells of `point_seconds`, from midnight UTC. Were cells to end where enough was
shown, as chapters do, one person's impression could move the end and with it everything after:
no noise would cover that.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.disclosure.guard import Withheld
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = ["NOT_OVER", "OFF_GRID", "Span", "iso_of", "span_of", "window_in"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999
NOT_OVER = "not over yet"
OFF_GRID = "window not of whole cells"
_PERIODS = {"hour": (3_600, 0), "day": (86_400, 0), "week": (604_800, 259_200)}
# length, and how long before 1970 one of them began: 29 December 1969 was a Monday


@dataclass(frozen=True)
class Span:
    """A flight on the grid, in seconds since 1970: all its impressions are in [first, last).

    What lies before `over` is complete. `stride` is how far points of the numbers so far lie apart:
    one cell, or as many as a long flight needs to have at most `max_points`.
    """

    cell: int
    first: int
    last: int
    over: int
    stride: int

    def next_end(self, before: int | None, stride: int) -> int | None:
        """The end of the point after one that ended at `before`; None after the flight."""
        start = self.first if before is None else before
        return min(start + stride, self.last) if start < self.last else None

    def due(self, before: int | None, stride: int) -> list[int]:
        """The ends of all points after `before` that are over."""
        found: list[int] = []
        end = self.next_end(before, stride)
        while end is not None and end <= self.over:
            found.append(end)
            end = self.next_end(end, stride)
        return found

    def periods(self, start: int, end: int, by: str) -> list[tuple[int, int]]:
        """The hours, days or weeks of a stretch; those at its ends may be cut off."""
        length, shift = _PERIODS[by]
        if length % self.cell:
            known = [name for name, (size, _) in _PERIODS.items() if size % self.cell == 0]
            rule = f"be one of {', '.join(known)}: with noise a cell has {self.cell} seconds"
            raise KreachError.rule("by", rule, by)
        edges = [start]
        edge = (start + shift) // length * length - shift + length
        while edge < end:
            edges.append(edge)
            edge += length
        return list(zip(edges, [*edges[1:], end], strict=True))


def span_of(campaign: Campaign, settings: NoiseSettings, now: float) -> Span:
    """The cells of a campaign's flight, and those that are over at a time."""
    cell = settings.point_seconds
    first = floor(campaign.start.timestamp() / cell) * cell
    last = ceil((campaign.end.timestamp() + settings.closing_seconds) / cell) * cell
    over = floor((now - settings.settle_seconds) / cell) * cell
    stride = cell * ceil((last - first) // cell / settings.max_points)
    return Span(cell, first, last, over, stride)


def window_in(span: Span, window: Window) -> tuple[int, int]:
    """A window that was asked for, cut off at the flight; refused where it cannot be told."""
    known = min(span.over, span.last)
    start = span.first if window.start is None else max(window.start.timestamp(), span.first)
    end = float(known) if window.end is None else min(window.end.timestamp(), span.last)
    for name, moment in (("start", start), ("end", end)):
        if moment % span.cell:
            low = floor(moment / span.cell) * span.cell
            near = [iso_of(low), iso_of(low + span.cell)]
            said = f"lie at whole {span.cell} seconds from midnight UTC ({' or '.join(near)})"
            allowed: dict[str, list[str]] = {"start": [], "end": []}
            allowed[name] = near
            told = str(KreachError.rule(name, said, iso_of(moment)))
            raise Withheld(told, OFF_GRID, allowed)
    if end > known or start >= end:
        edges = [iso_of(span.first), iso_of(max(known, span.first))]
        said = f"lie within what is over of the flight, {' to '.join(edges)}"
        told = str(KreachError.rule("window", said, f"{iso_of(start)} to {iso_of(end)}"))
        raise Withheld(told, NOT_OVER, {"start": edges[:1], "end": edges[1:]})
    return int(start), int(end)


def iso_of(seconds: float) -> str:
    """Seconds since 1970 as text; what no calendar holds as its first or last second."""
    known = min(max(seconds, _FIRST), _LAST)
    return (_EPOCH + timedelta(seconds=known)).isoformat().replace("+00:00", "Z")
