"""The reach of a campaign at its largest cap, in four tiles."""

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.status import CampaignView
from kreach.adsystem.console.widgets import Tile

__all__ = ["ReachTiles"]

_TITLES = (
    "People reached",
    "Impressions within the cap",
    "Average frequency",
    "Over-exposed people",
)


class ReachTiles:
    """Four tiles, for a list and for the page of a campaign."""

    def __init__(self, classes: str = "k-tile") -> None:
        self._tiles = [Tile(title, classes) for title in _TITLES]

    def show(self, view: CampaignView, impressions: int | None) -> None:
        """Show reach with its intervals, or that it is withheld."""
        report = view.report
        if report is None:
            for tile in self._tiles:
                tile.show(fmt.WITHHELD)
            return
        people, reach, frequency, over_exposed = self._tiles
        audience = fmt.count(view.people)
        people.show(
            fmt.count(report.unique_reach),
            fmt.interval(report.unique_reach_interval, report.level),
            f"{fmt.percent(view.reached_share)} of {audience}",
        )
        reach.show(
            fmt.count(report.reach),
            fmt.interval(report.interval, report.level),
            f"cap {view.cap}" + (f", of {fmt.count(impressions)} in all" if impressions else ""),
        )
        frequency.show(
            fmt.decimal(report.average_frequency),
            fmt.interval(report.average_frequency_interval, write=fmt.decimal),
            "per person reached",
        )
        over_exposed.show(
            fmt.count(report.over_exposed),
            f"above cap {view.cap}",
            f"{fmt.percent(view.over_exposed_share)} of {audience}",
        )
