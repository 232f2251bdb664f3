"""Charts as options of ECharts. Colors follow the theme."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kreach.adsystem.console.chart_options import (
    Flight,
    Options,
    epoch_millis,
    make_band,
    make_chart,
    make_line,
    theme_color,
    time_axis,
    tooltip_script,
    x_axis,
    y_axis,
)
from kreach.adsystem.console.input_files import Band
from kreach.adsystem.console.status import LinePoint
from kreach.adsystem.reports.report import CapReport, Outlook

__all__ = [
    "TRUTH",
    "bidding_over_time",
    "frequency_bars",
    "group_size_curves",
    "people_curve",
    "reach_by_cap",
    "reach_over_time",
    "spend_over_time",
]

TRUTH = "actual (simulation only)"


def reach_over_time(
    points: Sequence[LinePoint],
    truth: Sequence[tuple[datetime, float]] | None,
    flight: Flight,
    unit: str,
    window: Flight | None = None,
) -> Options:
    """Reach to date over time, beside the truth where it is known. The chosen window is marked."""
    data = [(epoch_millis(moment), *numbers) for moment, *numbers in points]
    area = [] if window is None else [[{"xAxis": epoch_millis(end)} for end in window]]
    mark = {"silent": True, "itemStyle": {":color": theme_color("brand", 0.1)}, "data": area}
    line = make_line("reach to date", data, "brand", z=3, markArea=mark)
    series = [*make_band(data, "brand", "reach"), line]
    if truth is not None:
        known = [(epoch_millis(moment), value) for moment, value in truth]
        series.append(make_line(TRUTH, known, "truth", dashed=True, z=4))
    brush = {
        "toolbox": [],
        "xAxisIndex": 0,
        "transformable": False,
        "brushStyle": {":color": theme_color("brand", 0.12), ":borderColor": theme_color("brand")},
    }
    tooltip = tooltip_script(unit, over_time=True)
    chart = make_chart(series, time_axis(flight), y_axis(unit), tooltip, brush=brush)
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
            "itemStyle": {":color": theme_color("brand"), "borderRadius": [4, 4, 0, 0]},
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
        style = {
            ":color": theme_color("truth"),
            ":borderColor": theme_color("surface"),
            "borderWidth": 1,
        }
        series.append(diamond | {"symbolSize": 11, "data": points, "itemStyle": style})
    across, up = x_axis("", "category", data=names), y_axis("impressions within the cap")
    return make_chart(series, across, up, tooltip_script())


def frequency_bars(frequency: Sequence[float], cap: int, bars: int = 7) -> Options:
    """People by how often they saw the ad; those above the cap in another color."""
    values = [*frequency[:bars], sum(frequency[bars:])]
    names = [str(times) for times in range(bars)] + [f"{bars}+"]
    colors = ["faint"] + ["brand" if times <= cap else "warn" for times in range(1, bars + 1)]
    data = [
        {"value": value, "itemStyle": {":color": theme_color(color), "borderRadius": [4, 4, 0, 0]}}
        for value, color in zip(values, colors, strict=True)
    ]
    label = {
        "show": True,
        "position": "top",
        ":color": theme_color("ink-2"),
        "fontSize": 12,
        ":formatter": "(p) => kreach.number(p.value)",
    }
    series = {"type": "bar", "name": "people", "data": data, "barMaxWidth": 46, "label": label}
    across = x_axis("impressions per person", "category", data=names)
    up = y_axis("people", boundaryGap=[0, "8%"])  # labels stay below the name of the axis
    return make_chart([series], across, up, tooltip_script("people"))


def spend_over_time(
    rows: Sequence[tuple[datetime, float]], budget: float, flight: Flight, currency: str
) -> Options:
    """Spend to date, beside a budget that is spent evenly."""
    data = [(epoch_millis(moment), value) for moment, value in rows]
    even = [(epoch_millis(flight[0]), 0.0), (epoch_millis(flight[1]), budget)]
    series = [
        make_line("even pace", even, "ink-2", dashed=True, z=2),
        make_line("spend", data, "brand", areaStyle={":color": theme_color("brand", 0.12)}, z=3),
    ]
    tooltip = tooltip_script(currency, 2, over_time=True)
    return make_chart(series, time_axis(flight), y_axis(currency), tooltip)


def bidding_over_time(
    rows: Sequence[tuple[datetime, float | None, float | None]], flight: Flight, currency: str
) -> Options:
    """The multiplier and the win rate over time."""
    required = f"required reach per {currency}"
    multipliers = [(epoch_millis(moment), value) for moment, value, _ in rows if value is not None]
    rates = [(epoch_millis(moment), 100.0 * rate) for moment, _, rate in rows if rate is not None]
    series = [
        make_line(required, multipliers, "brand", z=3),
        make_line("win rate to date (%)", rates, "second", yAxisIndex=1, z=2),
    ]
    right = y_axis("win rate (%)", max=100, position="right") | {"splitLine": {"show": False}}
    right["nameTextStyle"]["align"] = "right"
    left = y_axis(required, scale=False)
    return make_chart(
        series, time_axis(flight), [left, right], tooltip_script("", 1, over_time=True)
    )


def people_curve(
    plans: Sequence[Outlook],
    others: Sequence[Outlook],
    names: tuple[str, str],
    currency: str,
    chosen: Outlook,
) -> Options:
    """People whom budgets reach, with bands, and the chosen budget as a large point.

    `others` are plans for another group size, dashed.
    """
    series: list[Options] = []
    for outlooks, name, color in ((others, names[1], "second"), (plans, names[0], "brand")):
        ordered = sorted(outlooks, key=lambda outlook: outlook.budget)
        points = [(outlook.budget, outlook.people, *outlook.people_band) for outlook in ordered]
        line = make_line(name, points, color, dashed=outlooks is others, z=3)
        if points:
            series += [*make_band(points, color, f"plan{color}"), line | {"showSymbol": True}]
    point: Options = {"type": "scatter", "name": "your plan", "symbolSize": 16, "z": 6}
    style = {
        ":color": theme_color("brand"),
        ":borderColor": theme_color("surface"),
        "borderWidth": 2,
    }
    data = [[chosen.budget, chosen.people, *chosen.people_band]]
    series.append(point | {"data": data, "itemStyle": style})
    across = x_axis(f"budget ({currency})", "value", min=0)
    return make_chart(series, across, y_axis("people"), tooltip_script("people"))


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
        line = make_line(approach.replace("_", " "), points, color, z=3)
        line |= {"showSymbol": True, "encode": {"x": 0, "y": 1}}
        series += [*make_band(points, color, f"k{at}"), line]
    across = x_axis("group size (k)", "category", data=[str(size) for size in sizes])
    up = y_axis(label, scale=True)
    del up["min"]
    return make_chart(series, across, up, tooltip_script("%", 1))
