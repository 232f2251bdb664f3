"""Charts of campaigns together: horizontal bars, so that names of campaigns can be read."""

from collections.abc import Sequence
from typing import Any

from kreach.adsystem.console.chart_options import (
    Options,
    make_chart,
    theme_color,
    tooltip_script,
)
from kreach.adsystem.console.comparison import Bar
from kreach.adsystem.console.formatting import count
from kreach.adsystem.reports.combined_report import Increment

__all__ = ["chart_height", "one_or_several", "what_each_adds"]

_ROW_PIXELS = 46
_LEGEND_PIXELS = 44
_DIGIT_PIXELS = 7  # of the text on either side of the bars
_LINE_LENGTH = 16  # of a name, in characters; longer ones take several lines (console.js)
_SO_FAR_PIXELS = 36


def chart_height(bars: int) -> int:
    """Pixels for so many bars."""
    return _LEGEND_PIXELS + _ROW_PIXELS * bars


def _series(name: str, rows: Sequence[Sequence[Any]], color: str) -> Options:
    """Bars of one color; the number is written inside if there is room."""
    return {
        "type": "bar",
        "stack": "all",
        "name": name,
        "data": [[at, *row] for at, row in enumerate(rows)],
        "encode": {"x": 1, "y": 0},
        "barMaxWidth": 28,
        "itemStyle": {
            ":color": theme_color(color),
            ":borderColor": theme_color("surface"),
            "borderWidth": 1,
        },
        "label": {
            "show": True,
            "position": "inside",
            ":color": theme_color("on-brand"),
            "fontSize": 12,
            ":formatter": "(p) => kreach.number(p.value[1])",
        },
        ":labelLayout": "kreach.fitLabel",
    }


def _end_labels(rows: Sequence[Sequence[float]], formatter: str) -> Options:
    """Numbers at the ends of bars: a stacked series of no length."""
    return {
        "type": "bar",
        "stack": "all",
        "name": "_end",
        "data": [[at, 0, *row] for at, row in enumerate(rows)],
        "encode": {"x": 1, "y": 0},
        "silent": True,
        "label": {
            "show": True,
            "position": "right",
            ":color": theme_color("ink"),
            "fontSize": 12,
            ":formatter": formatter,
            "rich": {
                "adds": {":color": theme_color("ink"), "fontWeight": 600, "lineHeight": 16},
                "total": {":color": theme_color("ink-2"), "fontSize": 11, "lineHeight": 15},
            },
        },
    }


def _end_pixels(most: float) -> int:
    """Room for numbers up to `most` at the ends of bars."""
    return 16 + _DIGIT_PIXELS * len(count(most))


def _bar_chart(series: list[Options], names: Sequence[str], unit: str, end_pixels: int) -> Options:
    """The numbers are on the bars, so that there is no axis for them."""
    y: Options = {
        "type": "category",
        "data": list(names),
        "inverse": True,
        "axisLabel": {
            ":color": theme_color("ink"),
            "fontSize": 12,
            "lineHeight": 14,
            ":formatter": "kreach.wrapName",
        },
        "axisLine": {"show": False},
        "axisTick": {"show": False},
    }
    x: Options = {"type": "value", "show": False, "min": 0, "max": "dataMax"}
    chart = make_chart(series, x, y, tooltip_script(unit))
    longest = min(max(len(name) for name in names), _LINE_LENGTH)
    room = {"left": 14 + _DIGIT_PIXELS * longest, "right": end_pixels, "containLabel": False}
    chart["grid"] |= room | {"top": 36, "bottom": 4}
    chart["tooltip"]["axisPointer"] = {"type": "none"}
    return chart


def one_or_several(bars: Sequence[Bar], unit: str) -> Options:
    """By row: those whom one campaign alone reached, those whom several did, and the sum."""
    series = [
        _series("one campaign only", [[bar.only] for bar in bars], "brand"),
        _series("two or more", [[bar.several] for bar in bars], "second"),
        _end_labels([[bar.total] for bar in bars], "(p) => kreach.number(p.value[2])"),
    ]
    room = _end_pixels(max(bar.total for bar in bars))
    return _bar_chart(series, [bar.name for bar in bars], unit, room)


def what_each_adds(steps: Sequence[Increment], names: Sequence[str]) -> Options:
    """Each step stands on the people reached before it."""
    before = [[step.unique_reach_so_far - step.adds.unique_reach] for step in steps]
    adds = [[step.adds.unique_reach, *step.adds.unique_reach_interval] for step in steps]
    ends = [[step.unique_reach_so_far, step.adds.unique_reach] for step in steps]
    series = [
        _series("reached before", before, "faint"),
        _series("adds", adds, "brand"),
        _end_labels(ends, "kreach.stepLabel"),
    ]
    for one in series[:2]:
        one["label"] = {"show": False}  # the ends of the bars say both
    room = _end_pixels(steps[-1].unique_reach_so_far) + _SO_FAR_PIXELS
    return _bar_chart(series, names, "people", room)
