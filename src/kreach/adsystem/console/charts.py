"""Charts as options of ECharts: plain values in, plain values out. Colours follow the theme."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kreach.adsystem.console.formatting import moment_of

__all__ = [
    "TRUTH",
    "against_k",
    "budget_curve",
    "by_cap",
    "cumulative",
    "frequencies",
    "multiplier",
    "spend",
]

Options = dict[str, Any]
Point = Sequence[Any]

TRUTH = "truth (unknown to the ad system)"
_BAND = "_band"


def _colour(name: str, alpha: float | None = None) -> str:
    return f"kreach.colour('{name}')" if alpha is None else f"kreach.colour('{name}', {alpha})"


def _tip(unit: str = "", digits: int | None = None, *, over_time: bool = False) -> str:
    """The call that makes a tip; the unit may be anything that reporting says, so it is quoted."""
    number = "undefined" if digits is None else str(digits)
    return f"kreach.tip({json.dumps(unit)}, {number}, {json.dumps(over_time)})"


def _millis(text: str) -> float:
    return moment_of(text).timestamp() * 1_000.0


def _axis(name: str, kind: str, **more: Any) -> Options:
    return {
        "type": kind,
        "name": name,
        "nameTextStyle": {":color": _colour("ink-2"), "fontSize": 12},
        "axisLabel": {":color": _colour("ink-2"), "fontSize": 12, "hideOverlap": True},
        "axisLine": {"lineStyle": {":color": _colour("line")}},
        "axisTick": {"show": False},
        "splitLine": {"show": kind != "category", "lineStyle": {":color": _colour("line")}},
        **more,
    }


def _across(name: str, kind: str, **more: Any) -> Options:
    made = _axis(name, kind, nameLocation="middle", nameGap=30, **more)
    made["splitLine"] = {"show": False}
    return made


def _upward(name: str, **more: Any) -> Options:
    aligned = {":color": _colour("ink-2"), "fontSize": 12, "align": "left"}
    made = _axis(name, "value", min=0, nameGap=14, **more)
    made["nameTextStyle"] = aligned
    made["axisLine"] = {"show": False}
    return made


def _time_axis(start: str | None = None, end: str | None = None) -> Options:
    made = _across("time (UTC)", "time")
    made["axisLabel"] |= {":formatter": "kreach.axisTime"}
    if start is not None and end is not None:
        made |= {"min": _millis(start), "max": _millis(end)}
    return made


def _chart(series: list[Options], x: Options, y: Any, tip: str, **more: Any) -> Options:
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
            "textStyle": {":color": _colour("ink"), "fontSize": 12},
            ":pageIconColor": _colour("brand"),
            "pageTextStyle": {":color": _colour("ink-2")},
        },
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            ":backgroundColor": _colour("surface"),
            ":borderColor": _colour("line"),
            "textStyle": {":color": _colour("ink"), "fontSize": 13},
            ":formatter": tip,
        },
        "xAxis": x,
        "yAxis": y,
        "series": series,
        **more,
    }


def _line(name: str, points: Iterable[Point], colour: str, **more: Any) -> Options:
    style: Options = {"width": 2.5, ":color": _colour(colour)}
    if more.pop("dashed", False):
        style |= {"type": "dashed", "width": 2}
    return {
        "type": "line",
        "name": name,
        "data": [list(point) for point in points],
        "showSymbol": False,
        "symbolSize": 7,
        "lineStyle": style,
        "itemStyle": {":color": _colour(colour)},
        **more,
    }


def _band(points: Sequence[Point], colour: str, key: str) -> list[Options]:
    """The area between a point's third and fourth value: an unseen line, and one stacked on it."""
    unseen: Options = {
        "type": "line",
        "stack": key,
        "stackStrategy": "all",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "silent": True,
        "itemStyle": {":color": _colour(colour, 0.0)},
        "z": 1,
    }
    told = [point for point in points if point[2] is not None]
    low = [[point[0], point[2]] for point in told]
    width = [[point[0], point[3] - point[2]] for point in told]
    area = {":color": _colour(colour, 0.22)}
    return [
        {**unseen, "name": f"{_BAND} {key} low", "data": low},
        {**unseen, "name": f"{_BAND} {key}", "data": width, "areaStyle": area},
    ]


def cumulative(
    points: Sequence[tuple[str, float, float, float]],
    truth: Sequence[tuple[str, float]] | None,
    flight: tuple[str, str],
    unit: str,
    window: tuple[str, str] | None = None,
) -> Options:
    """Reach so far over time, (time, reach, low, high), beside the truth where it is known.

    A window that was chosen is marked.
    """
    drawn = [(_millis(ts), *rest) for ts, *rest in points]
    chosen = [] if window is None else [[{"xAxis": _millis(end)} for end in window]]
    mark = {"silent": True, "itemStyle": {":color": _colour("brand", 0.1)}, "data": chosen}
    line = _line("reach so far", drawn, "brand", z=3, markArea=mark)
    series = [*_band(drawn, "brand", "reach"), line]
    if truth is not None:
        known = [(_millis(ts), value) for ts, value in truth]
        series.append(_line(TRUTH, known, "truth", dashed=True, z=4))
    brush = {
        "toolbox": [],
        "xAxisIndex": 0,
        "brushStyle": {":color": _colour("brand", 0.12), ":borderColor": _colour("brand")},
    }
    tip = _tip(unit, over_time=True)
    chart = _chart(series, _time_axis(*flight), _upward(unit), tip, brush=brush)
    return chart | {"toolbox": {"show": False}}


def by_cap(reports: Sequence[dict[str, Any]], truth: Sequence[float] | None = None) -> Options:
    """Reach at each cap with its interval, and the truth where it is known."""
    names = [f"cap {report['cap']}" for report in reports]
    bars = [[at, report["reach"], *report["interval"]] for at, report in enumerate(reports)]
    series: list[Options] = [
        {
            "type": "bar",
            "name": "reach",
            "data": bars,
            "encode": {"x": 0, "y": 1},
            "barMaxWidth": 46,
            "itemStyle": {":color": _colour("brand"), "borderRadius": [4, 4, 0, 0]},
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
        style = {":color": _colour("truth"), ":borderColor": _colour("surface"), "borderWidth": 1}
        series.append(diamond | {"symbolSize": 11, "data": points, "itemStyle": style})
    tip = _tip()
    return _chart(series, _across("", "category", data=names), _upward("reach"), tip)


def frequencies(frequency: Sequence[float], cap: int, shown: int = 7) -> Options:
    """People by how often they saw the ad; beyond the cap in another colour."""
    kept = [*frequency[:shown], sum(frequency[shown:])]
    names = [str(times) for times in range(shown)] + [f"{shown}+"]
    colours = ["faint"] + ["brand" if times <= cap else "warn" for times in range(1, shown + 1)]
    data = [
        {"value": value, "itemStyle": {":color": _colour(colour), "borderRadius": [4, 4, 0, 0]}}
        for value, colour in zip(kept, colours, strict=True)
    ]
    label = {
        "show": True,
        "position": "top",
        ":color": _colour("ink-2"),
        "fontSize": 12,
        ":formatter": "(p) => kreach.number(p.value)",
    }
    bars = {"type": "bar", "name": "people", "data": data, "barMaxWidth": 46, "label": label}
    across = _across("times that a person saw the ad", "category", data=names)
    return _chart([bars], across, _upward("people"), _tip("people"))


def spend(
    rows: Sequence[tuple[str, float]], budget: float, flight: tuple[str, str], currency: str
) -> Options:
    """Money spent so far, beside a budget that is spent evenly."""
    drawn = [(_millis(ts), value) for ts, value in rows]
    even = [(_millis(flight[0]), 0.0), (_millis(flight[1]), budget)]
    series = [
        _line("even pace", even, "ink-2", dashed=True, z=2),
        _line("spent", drawn, "brand", areaStyle={":color": _colour("brand", 0.12)}, z=3),
    ]
    tip = _tip(currency, 2, over_time=True)
    return _chart(series, _time_axis(*flight), _upward(currency), tip)


def multiplier(
    rows: Sequence[tuple[str, float | None, float | None]], flight: tuple[str, str], currency: str
) -> Options:
    """The multiplier and the share of bids that were won, over time."""
    value = [(_millis(ts), one) for ts, one, _ in rows if one is not None]
    won = [(_millis(ts), 100.0 * one) for ts, _, one in rows if one is not None]
    series = [
        _line(f"multiplier (reach per {currency})", value, "brand", z=3),
        _line("bids won so far (%)", won, "second", yAxisIndex=1, z=2),
    ]
    right = _upward("% won", max=100, position="right")
    right["splitLine"] = {"show": False}
    right["nameTextStyle"] = {":color": _colour("ink-2"), "fontSize": 12, "align": "right"}
    left = _upward(f"reach per {currency}", scale=False)
    return _chart(series, _time_axis(*flight), [left, right], _tip("", 1, over_time=True))


def budget_curve(
    plans: Sequence[dict[str, Any]],
    others: Sequence[dict[str, Any]],
    names: tuple[str, str],
    currency: str,
    unit: str,
) -> Options:
    """What budgets reach, with bands; `others` are plans for groups of another size, dashed."""
    series: list[Options] = []
    for told, name, colour in ((others, names[1], "second"), (plans, names[0], "brand")):
        ordered = sorted(told, key=lambda one: float(one["budget"]))
        points = [(one["budget"], one["reach"], *one["band"]) for one in ordered]
        line = _line(name, points, colour, dashed=told is others, z=3)
        if points:
            series += [*_band(points, colour, f"plan{colour}"), line | {"showSymbol": True}]
    across = _across(f"budget ({currency})", "value", min=0)
    tip = _tip()
    return _chart(series, across, _upward(unit), tip)


def against_k(approaches: dict[str, dict[int, tuple[float, float, float]]], label: str) -> Options:
    """Curves against the size of groups, with the lowest and the highest campaign as a band."""
    sizes = sorted({size for found in approaches.values() for size in found})
    colours = ("brand", "second", "third", "truth", "good", "warn")
    series: list[Options] = []
    for at, (approach, found) in enumerate(approaches.items()):
        colour = colours[at % len(colours)]
        points = [
            (sizes.index(size), 100.0 * mean, 100.0 * low, 100.0 * high)
            for size, (mean, low, high) in found.items()
        ]
        line = _line(approach.replace("_", " "), points, colour, z=3)
        line |= {"showSymbol": True, "encode": {"x": 0, "y": 1}}
        series += [*_band(points, colour, f"k{at}"), line]
    across = _across("people in a group (k)", "category", data=[str(size) for size in sizes])
    up = _upward(label, scale=True)
    up.pop("min")
    return _chart(series, across, up, _tip("%", 1))
