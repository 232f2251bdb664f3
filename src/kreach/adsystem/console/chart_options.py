"""Pieces of ECharts options that every chart is made of. Colors follow the theme."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

__all__ = [
    "Flight",
    "Options",
    "epoch_millis",
    "make_band",
    "make_chart",
    "make_line",
    "theme_color",
    "time_axis",
    "tooltip_script",
    "x_axis",
    "y_axis",
]

Options = dict[str, Any]
Point = Sequence[Any]
Flight = tuple[datetime, datetime]

_BAND = "_band"


def theme_color(name: str, alpha: float | None = None) -> str:
    """JavaScript for a color of the theme by its name in `console.css`."""
    return f"kreach.color('{name}')" if alpha is None else f"kreach.color('{name}', {alpha})"


def tooltip_script(unit: str = "", digits: int | None = None, *, over_time: bool = False) -> str:
    """JavaScript for a tooltip; the unit may be any text of reporting, so it is quoted."""
    number = "undefined" if digits is None else str(digits)
    return f"kreach.tooltip({json.dumps(unit)}, {number}, {json.dumps(over_time)})"


def epoch_millis(moment: datetime) -> float:
    """A time on an axis."""
    return moment.timestamp() * 1_000.0


def _axis(name: str, kind: str, **more: Any) -> Options:
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {":color": theme_color("ink-2"), "fontSize": 12},
        "axisLabel": {":color": theme_color("ink-2"), "fontSize": 12, "hideOverlap": True},
        "axisLine": {"lineStyle": {":color": theme_color("line")}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind != "category", "lineStyle": {":color": theme_color("line")}},
        **more,
    }


def x_axis(name: str, kind: str, **more: Any) -> Options:
    """A horizontal axis."""
    axis = _axis(name, kind, nameLocation="middle", nameGap=30, **more)
    return axis | {"splitLine": {"show": False}}


def y_axis(name: str, **more: Any) -> Options:
    """A vertical axis of numbers."""
    axis = _axis(name, "value", nameGap=14, **({"min": 0} | more))
    axis["nameTextStyle"]["align"] = "left"
    return axis | {"axisLine": {"show": False}}


def time_axis(flight: Flight) -> Options:
    """A horizontal axis over a flight."""
    axis = x_axis("time (UTC)", "time", min=epoch_millis(flight[0]), max=epoch_millis(flight[1]))
    axis["axisLabel"][":formatter"] = "kreach.axisTime"
    return axis


def make_chart(series: list[Options], x: Options, y: Any, tooltip: str, **more: Any) -> Options:
    """Series with their axes; a series whose name begins with _ has no legend."""
    named = [one["name"] for one in series if not one["name"].startswith("_")]
    return {
        "animation": False,
        "useUTC": True,
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "grid": {"left": 8, "right": 22, "top": 56, "bottom": 34, "containLabel": True},
        "legend": {
            "data": named,
            "show": len(named) > 1,
            "type": "scroll",
            "top": 0,
            "left": 0,
            "itemWidth": 22,
            "textStyle": {":color": theme_color("ink"), "fontSize": 12},
            ":pageIconColor": theme_color("brand"),
            "pageTextStyle": {":color": theme_color("ink-2")},
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "extraCssText": "max-width: min(26rem, 78vw); white-space: normal",
            ":backgroundColor": theme_color("surface"),
            ":borderColor": theme_color("line"),
            "textStyle": {":color": theme_color("ink"), "fontSize": 13},
            ":formatter": tooltip,
        },
        "xAxis": x,
        "yAxis": y,
        "series": series,
        **more,
    }


def make_line(name: str, points: Iterable[Point], color: str, **more: Any) -> Options:
    """A line, dashed if wanted."""
    style: Options = {"width": 2.5, ":color": theme_color(color)}
    if more.pop("dashed", False):
        style |= {"type": "dashed", "width": 2}
    return {
        "type": "line",
        "name": name,
        "data": [list(point) for point in points],
        "showSymbol": False,
        "symbolSize": 7,
        "lineStyle": style,
        "itemStyle": {":color": theme_color(color)},
        **more,
    }


def make_band(points: Sequence[Point], color: str, key: str) -> list[Options]:
    """The area between a point's third and fourth value: a hidden line, and one stacked on it."""
    hidden: Options = {
        "type": "line",
        "stack": key,
        "stackStrategy": "all",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "silent": True,
        "itemStyle": {":color": theme_color(color, 0.0)},
        "z": 1,
    }
    low = [[point[0], point[2]] for point in points]
    width = [[point[0], point[3] - point[2]] for point in points]
    area = {":color": theme_color(color, 0.22)}
    return [
        {**hidden, "name": f"{_BAND} {key} low", "data": low},
        {**hidden, "name": f"{_BAND} {key}", "data": width, "areaStyle": area},
    ]
