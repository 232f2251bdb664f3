"""Charts as options of ECharts. Colors follow the theme."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kreach.adsystem.console.input_files import Band
from kreach.adsystem.console.status import LinePoint
from kreach.adsystem.reports.report import CapReport, Outlook

__all__ = [
    "TRUTH",
    "bidding_over_time",
    "budget_curve",
    "frequency_bars",
    "group_size_curves",
    "reach_by_cap",
    "reach_over_time",
    "spend_over_time",
]

Options = dict[str, Any]
Point = Sequence[Any]
Flight = tuple[datetime, datetime]

TRUTH = "actual (simulation only)"
_BAND = "_band"


def _color(name: str, alpha: float | None = None) -> str:
    return f"kreach.color('{name}')" if alpha is None else f"kreach.color('{name}', {alpha})"


def _tooltip(unit: str = "", digits: int | None = None, *, over_time: bool = False) -> str:
    """JavaScript for a tooltip; the unit may be any text of reporting, so it is quoted."""
    number = "undefined" if digits is None else str(digits)
    return f"kreach.tooltip({json.dumps(unit)}, {number}, {json.dumps(over_time)})"


def _millis(moment: datetime) -> float:
    return moment.timestamp() * 1_000.0


def _axis(name: str, kind: str, **more: Any) -> Options:
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {":color": _color("ink-2"), "fontSize": 12},
        "axisLabel": {":color": _color("ink-2"), "fontSize": 12, "hideOverlap": True},
        "axisLine": {"lineStyle": {":color": _color("line")}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind != "category", "lineStyle": {":color": _color("line")}},
        **more,
    }


def _x_axis(name: str, kind: str, **more: Any) -> Options:
    axis = _axis(name, kind, nameLocation="middle", nameGap=30, **more)
    return axis | {"splitLine": {"show": False}}


def _y_axis(name: str, **more: Any) -> Options:
    axis = _axis(name, "value", nameGap=14, **({"min": 0} | more))
    axis["nameTextStyle"]["align"] = "left"
    return axis | {"axisLine": {"show": False}}


def _time_axis(flight: Flight) -> Options:
    axis = _x_axis("time (UTC)", "time", min=_millis(flight[0]), max=_millis(flight[1]))
    axis["axisLabel"][":formatter"] = "kreach.axisTime"
    return axis


def _chart(series: list[Options], x: Options, y: Any, tooltip: str, **more: Any) -> Options:
    named = [one["name"] for one in series if not one["name"].startswith("_")]
    return {
        "animation": False,
        "useUTC": True,
        "textStyle": {"fontFamily": "system-ui, sans-serif"},
        "grid": {"left": 8, "right": 16, "top": 56, "bottom": 34, "containLabel": True},
        "legend": {
            "data": named,
            "show": len(named) > 1,
            "type": "scroll",
            "top": 0,
            "left": 0,
            "itemWidth": 22,
            "textStyle": {":color": _color("ink"), "fontSize": 12},
            ":pageIconColor": _color("brand"),
            "pageTextStyle": {":color": _color("ink-2")},
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            ":backgroundColor": _color("surface"),
            ":borderColor": _color("line"),
            "textStyle": {":color": _color("ink"), "fontSize": 13},
            ":formatter": tooltip,
        },
        "xAxis": x,
        "yAxis": y,
        "series": series,
        **more,
    }


def _line(name: str, points: Iterable[Point], color: str, **more: Any) -> Options:
    style: Options = {"width": 2.5, ":color": _color(color)}
    if more.pop("dashed", False):
        style |= {"type": "dashed", "width": 2}
    return {
        "type": "line",
        "name": name,
        "data": [list(point) for point in points],
        "showSymbol": False,
        "symbolSize": 7,
        "lineStyle": style,
        "itemStyle": {":color": _color(color)},
        **more,
    }


def _band(points: Sequence[Point], color: str, key: str) -> list[Options]:
    """The area between a point's third and fourth value: a hidden line, and one stacked on it."""
    hidden: Options = {
        "type": "line",
        "stack": key,
        "stackStrategy": "all",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "silent": True,
        "itemStyle": {":color": _color(color, 0.0)},
        "z": 1,
    }
    low = [[point[0], point[2]] for point in points]
    width = [[point[0], point[3] - point[2]] for point in points]
    area = {":color": _color(color, 0.22)}
    return [
        {**hidden, "name": f"{_BAND} {key} low", "data": low},
        {**hidden, "name": f"{_BAND} {key}", "data": width, "areaStyle": area},
    ]


def reach_over_time(
    points: Sequence[LinePoint],
    truth: Sequence[tuple[datetime, float]] | None,
    flight: Flight,
    unit: str,
    window: Flight | None = None,
) -> Options:
    """Reach to date over time, beside the truth where it is known. The chosen window is marked."""
    data = [(_millis(moment), *numbers) for moment, *numbers in points]
    area = [] if window is None else [[{"xAxis": _millis(end)} for end in window]]
    mark = {"silent": True, "itemStyle": {":color": _color("brand", 0.1)}, "data": area}
    line = _line("reach to date", data, "brand", z=3, markArea=mark)
    series = [*_band(data, "brand", "reach"), line]
    if truth is not None:
        known = [(_millis(moment), value) for moment, value in truth]
        series.append(_line(TRUTH, known, "truth", dashed=True, z=4))
    brush = {
        "toolbox": [],
        "xAxisIndex": 0,
        "brushStyle": {":color": _color("brand", 0.12), ":borderColor": _color("brand")},
    }
    tooltip = _tooltip(unit, over_time=True)
    chart = _chart(series, _time_axis(flight), _y_axis(unit), tooltip, brush=brush)
    return chart | {"toolbox": {"show": False}}


def reach_by_cap(reports: Sequence[CapReport], truth: Sequence[float] | None = None) -> Options:
    """Impressions within each cap with their interval, and the truth where it is known."""
    names = [f"cap {report.cap}" for report in reports]
    bars = [[at, report.reach, *report.interval] for at, report in enumerate(reports)]
    series: list[Options] = [
        {
            "type": "bar",
            "name": "impressions within the cap",
            "data": bars,
            "encode": {"x": 0, "y": 1},
            "barMaxWidth": 46,
            "itemStyle": {":color": _color("brand"), "borderRadius": [4, 4, 0, 0]},
        },
        {
            "type": "custom",
            "name": "_interval",
            ":renderItem": "kreach.whisker",
            "data": [[bar[0], bar[2], bar[3]] for bar in bars],
            "encode": {"x": 0, "y": [1, 2]},
            "silent": True,
            "z": 5,
        },
    ]
    if truth is not None:
        points = [[at, value] for at, value in enumerate(truth[: len(bars)])]
        diamond: Options = {"type": "scatter", "name": TRUTH, "symbol": "diamond", "z": 6}
        style = {":color": _color("truth"), ":borderColor": _color("surface"), "borderWidth": 1}
        series.append(diamond | {"symbolSize": 11, "data": points, "itemStyle": style})
    across, up = _x_axis("", "category", data=names), _y_axis("impressions within the cap")
    return _chart(series, across, up, _tooltip())


def frequency_bars(frequency: Sequence[float], cap: int, bars: int = 7) -> Options:
    """People by how often they saw the ad; those above the cap in another color."""
    values = [*frequency[:bars], sum(frequency[bars:])]
    names = [str(times) for times in range(bars)] + [f"{bars}+"]
    colors = ["faint"] + ["brand" if times <= cap else "warn" for times in range(1, bars + 1)]
    data = [
        {"value": value, "itemStyle": {":color": _color(color), "borderRadius": [4, 4, 0, 0]}}
        for value, color in zip(values, colors, strict=True)
    ]
    label = {
        "show": True,
        "position": "top",
        ":color": _color("ink-2"),
        "fontSize": 12,
        ":formatter": "(p) => kreach.number(p.value)",
    }
    series = {"type": "bar", "name": "people", "data": data, "barMaxWidth": 46, "label": label}
    across = _x_axis("impressions per person", "category", data=names)
    return _chart([series], across, _y_axis("people"), _tooltip("people"))


def spend_over_time(
    rows: Sequence[tuple[datetime, float]], budget: float, flight: Flight, currency: str
) -> Options:
    """Spend to date, beside a budget that is spent evenly."""
    data = [(_millis(moment), value) for moment, value in rows]
    even = [(_millis(flight[0]), 0.0), (_millis(flight[1]), budget)]
    series = [
        _line("even pace", even, "ink-2", dashed=True, z=2),
        _line("spend", data, "brand", areaStyle={":color": _color("brand", 0.12)}, z=3),
    ]
    tooltip = _tooltip(currency, 2, over_time=True)
    return _chart(series, _time_axis(flight), _y_axis(currency), tooltip)


def bidding_over_time(
    rows: Sequence[tuple[datetime, float | None, float | None]], flight: Flight, currency: str
) -> Options:
    """The multiplier and the win rate over time."""
    required = f"required reach per {currency}"
    multipliers = [(_millis(moment), value) for moment, value, _ in rows if value is not None]
    rates = [(_millis(moment), 100.0 * rate) for moment, _, rate in rows if rate is not None]
    series = [
        _line(required, multipliers, "brand", z=3),
        _line("win rate to date (%)", rates, "second", yAxisIndex=1, z=2),
    ]
    right = _y_axis("win rate (%)", max=100, position="right") | {"splitLine": {"show": False}}
    right["nameTextStyle"]["align"] = "right"
    left = _y_axis(required, scale=False)
    return _chart(series, _time_axis(flight), [left, right], _tooltip("", 1, over_time=True))


def budget_curve(
    plans: Sequence[Outlook],
    others: Sequence[Outlook],
    names: tuple[str, str],
    currency: str,
    unit: str,
) -> Options:
    """What budgets reach, with bands; `others` are plans for another group size, dashed."""
    series: list[Options] = []
    for outlooks, name, color in ((others, names[1], "second"), (plans, names[0], "brand")):
        ordered = sorted(outlooks, key=lambda outlook: outlook.budget)
        points = [(outlook.budget, outlook.reach, *outlook.band) for outlook in ordered]
        line = _line(name, points, color, dashed=outlooks is others, z=3)
        if points:
            series += [*_band(points, color, f"plan{color}"), line | {"showSymbol": True}]
    across = _x_axis(f"budget ({currency})", "value", min=0)
    return _chart(series, across, _y_axis(unit), _tooltip())


def group_size_curves(approaches: Mapping[str, Mapping[int, Band]], label: str) -> Options:
    """Curves against the group size, with the lowest and the highest campaign as a band."""
    sizes = sorted({size for by_size in approaches.values() for size in by_size})
    colors = ("brand", "second", "third", "truth", "good", "warn")
    series: list[Options] = []
    for at, (approach, by_size) in enumerate(approaches.items()):
        color = colors[at % len(colors)]
        points = [
            (sizes.index(size), 100.0 * band.mean, 100.0 * band.low, 100.0 * band.high)
            for size, band in by_size.items()
        ]
        line = _line(approach.replace("_", " "), points, color, z=3)
        line |= {"showSymbol": True, "encode": {"x": 0, "y": 1}}
        series += [*_band(points, color, f"k{at}"), line]
    across = _x_axis("group size (k)", "category", data=[str(size) for size in sizes])
    up = _y_axis(label, scale=True)
    del up["min"]
    return _chart(series, across, up, _tooltip("%", 1))
