"""The stretches of a flight that have noisy answers: set by clock and flight, never by the log.

Time is cut into cells of `point_seconds`, from midnight UTC. Were cells to end where enough was
shown, as chapters do, one person's impression could move the end and with it everything after:
no noise would cover that.
"""

from dataclasses import dataclass
from math import ceil, floor

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.report import Allowed
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.times import PERIOD_LENGTH, Window, as_period, iso_seconds, period_edge
from kreach.errors import KreachError

__all__ = ["NOT_OVER", "OFF_GRID", "FlightGrid", "flight_grid", "window_in"]

NOT_OVER = "not over yet"
OFF_GRID = "window not of whole cells"


@dataclass(frozen=True)
class FlightGrid:
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
        ends: list[int] = []
        end = self.next_end(before, stride)
        while end is not None and end <= self.over:
            ends.append(end)
            end = self.next_end(end, stride)
        return ends

    def periods(self, start: int, end: int, by: str) -> list[tuple[int, int]]:
        """The hours, days or weeks of a stretch; those at its ends may be cut off."""
        sizes = {name: int(size.total_seconds()) for name, size in PERIOD_LENGTH.items()}
        if sizes[as_period(by)] % self.cell:
            known = [name for name, size in sizes.items() if size % self.cell == 0]
            rule = f"be one of {', '.join(known)}: with noise a cell has {self.cell} seconds"
            raise KreachError.rule("by", rule, by)
        edges = [start]
        edge = period_edge(start, by)
        while edge < end:
            edges.append(edge)
            edge += sizes[by]
        return list(zip(edges, [*edges[1:], end], strict=True))


def flight_grid(campaign: Campaign, settings: NoiseSettings, now: float) -> FlightGrid:
    """The cells of a campaign's flight, and those that are over at a time."""
    cell = settings.point_seconds
    first = floor(campaign.start.timestamp() / cell) * cell
    last = ceil((campaign.end.timestamp() + settings.closing_seconds) / cell) * cell
    over = floor((now - settings.settle_seconds) / cell) * cell
    stride = cell * ceil((last - first) // cell / settings.max_points)
    return FlightGrid(cell, first, last, over, stride)


def window_in(grid: FlightGrid, window: Window) -> tuple[int, int]:
    """A window clipped to the flight; refused off the grid or before it is over."""
    known = min(grid.over, grid.last)
    start = grid.first if window.start is None else max(window.start.timestamp(), grid.first)
    end = float(known) if window.end is None else min(window.end.timestamp(), grid.last)
    for name, moment in (("start", start), ("end", end)):
        if moment % grid.cell:
            low = floor(moment / grid.cell) * grid.cell
            near = [iso_seconds(low), iso_seconds(low + grid.cell)]
            rule = f"lie at whole {grid.cell} seconds from midnight UTC ({' or '.join(near)})"
            message = str(KreachError.rule(name, rule, iso_seconds(moment)))
            raise Withheld(message, OFF_GRID, Allowed(**{name: tuple(near)}))
    if end > known or start >= end:
        first, last = iso_seconds(grid.first), iso_seconds(max(known, grid.first))
        rule = f"lie within what is over of the flight, {first} to {last}"
        message = str(
            KreachError.rule("window", rule, f"{iso_seconds(start)} to {iso_seconds(end)}")
        )
        raise Withheld(message, NOT_OVER, Allowed(start=(first,), end=(last,)))
    return int(start), int(end)
