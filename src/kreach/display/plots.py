"""Plots in one light style. matplotlib is imported when the first one is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kreach.extras import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "COLORS",
    "MUTED",
    "bars",
    "line_with_band",
    "new_axes",
    "points_with_bars",
    "stacked_bars",
    "with_thousands",
]

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e9ee"
COLORS = ("#2f6f9f", "#d9822b", "#3a7d44", "#8d5fa8", "#a0522d", "#5f6c7b", "#c2527a")
_BAND_OPACITY = 0.18


def new_axes(ax: "Axes | None", title: str, xlabel: str, ylabel: str) -> "Axes":
    """The axes to draw on, in kreach's style: those given, or new ones."""
    require_extra("plot()", "lab")
    from matplotlib import pyplot  # noqa: PLC0415 - an extra

    if ax is None:
        _, ax = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    ax.set_title(title, loc="left", fontsize=11, color=INK)
    ax.set_xlabel(xlabel, color=INK)
    ax.set_ylabel(ylabel, color=INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(MUTED)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(axis="y", color=GRID)
    ax.set_axisbelow(True)
    ax.margins(y=0.12)
    with_thousands(ax.yaxis)
    return ax


def with_thousands(axis: "Axis") -> None:
    """Numbers of an axis as 12,500."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def stacked_bars(
    ax: "Axes", names: Sequence[str], parts: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Bars of several parts on top of each other, with a legend above them."""
    below = [0.0] * len(names)
    for (label, values), color in zip(parts, COLORS, strict=False):
        ax.bar(names, values, bottom=below, color=color, width=0.6, label=label)
        below = [low + value for low, value in zip(below, values, strict=True)]
    ax.set_ylim(0.0, 1.2 * max([*below, 1e-9]))
    ax.legend(frameon=False, fontsize=9, ncols=len(parts), loc="upper right")


def line_with_band(
    ax: "Axes",
    x: Sequence[Any],
    y: Sequence[float],
    band: Sequence[tuple[float, float]] | None = None,
    *,
    color: str = COLORS[0],
    label: str | None = None,
    marker: str = "",
) -> None:
    """A line, and the interval around it as a band."""
    ax.plot(x, y, color=color, linewidth=1.8, label=label, marker=marker, markersize=4)
    if band:
        low, high = zip(*band, strict=True)
        ax.fill_between(x, low, high, color=color, alpha=_BAND_OPACITY, linewidth=0)
    ax.set_ylim(bottom=min(0.0, min(y, default=0.0)))


def points_with_bars(
    ax: "Axes",
    x: Sequence[Any],
    y: Sequence[float],
    intervals: Sequence[tuple[float, float]],
    *,
    color: str = COLORS[0],
    label: str | None = None,
    floor: float | None = 0.0,
) -> None:
    """Points, each with its interval as a vertical bar."""
    below = [max(value - low, 0.0) for value, (low, _) in zip(y, intervals, strict=True)]
    above = [max(high - value, 0.0) for value, (_, high) in zip(y, intervals, strict=True)]
    ax.errorbar(
        x, y, yerr=[below, above], fmt="o", color=color, markersize=5, capsize=3, label=label
    )
    if floor is not None:
        ax.set_ylim(floor, 1.15 * max(high for _, high in intervals))


def bars(
    ax: "Axes", x: Sequence[Any], y: Sequence[float], *, color: str = COLORS[0], width: float = 0.7
) -> None:
    """Bars from 0."""
    ax.bar(x, y, color=color, width=width)
    ax.set_ylim(bottom=0.0)
