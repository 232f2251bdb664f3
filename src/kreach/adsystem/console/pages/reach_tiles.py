"""The reach of a campaign at its largest cap, and what a person cost, in tiles."""

from math import isfinite

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.status import CampaignView
from kreach.adsystem.console.widgets import Tile

__all__ = ["ReachTiles"]

_TITLES = (
    "People reached",
    "Impressions within the cap",
    "Average frequency",
    "Cost per person reached",
)
_OVER_EXPOSED = "Over-exposed people"


class ReachTiles:
    """Four tiles for a list, and a fifth for the page of a campaign."""

    def __init__(self, classes: str = "k-tile", *, over_exposed: bool = False) -> None:
        titles = (*_TITLES, _OVER_EXPOSED) if over_exposed else _TITLES
        self._tiles = {title: Tile(title, classes) for title in titles}

    def show(self, view: CampaignView, currency: str) -> None:
        """Show reach with its intervals, or that it is withheld."""
        report = view.report
        if report is None:
            for tile in self._tiles.values():
                tile.show(fmt.WITHHELD)
            return
        audience = fmt.count(view.people)
        self._tiles["People reached"].show(
            fmt.count(report.unique_reach),
            fmt.interval(report.unique_reach_interval, report.level),
            f"{fmt.percent(view.reached_share)} of {audience}",
        )
        impressions = view.impressions
        self._tiles["Impressions within the cap"].show(
            fmt.count(report.reach),
            fmt.interval(report.interval, report.level),
            f"cap {view.cap}" + (f", of {fmt.count(impressions)}" if impressions else ""),
        )
        self._tiles["Average frequency"].show(
            fmt.decimal(report.average_frequency),
            fmt.interval(report.average_frequency_interval, write=fmt.decimal),
            "per person reached",
        )
        self._tiles["Cost per person reached"].show(*_cost(view, currency))
        if _OVER_EXPOSED in self._tiles:
            self._tiles[_OVER_EXPOSED].show(
                fmt.count(report.over_exposed),
                f"above cap {view.cap}",
                f"{fmt.percent(view.over_exposed_share)} of {audience}",
            )


def _cost(view: CampaignView, currency: str) -> tuple[str, ...]:
    cost = view.cost_per_person
    if cost is None:
        if view.several_catalogues:
            return ("—", "reach is on the newest groups only")
        return ("—", "nobody yet") if view.spend is not None else (fmt.WITHHELD,)
    each, low, high = cost
    most = fmt.money(high, "") if isfinite(high) else "more"
    return (fmt.money(each, currency), f"{fmt.money(low, '')} to {most}", "spend / people")
