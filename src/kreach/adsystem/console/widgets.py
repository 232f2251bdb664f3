"""Widgets that pages are built from. Each shows what it is given; none calls reporting."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from kreach.adsystem.console.tables import Row, csv_bytes

__all__ = [
    "Chart",
    "EmptyState",
    "Notes",
    "Panel",
    "ProgressBar",
    "Table",
    "Text",
    "Tile",
    "box",
    "button",
    "card",
    "csv_button",
    "file_name",
    "heading",
    "icon_button",
    "png_button",
    "scroll_box",
    "sentence",
]


_NBSP = "\u00a0"


class Text(TextElement):
    """Text in any tag; it is never parsed as HTML."""

    def __init__(self, text: str = "", tag: str = "div", classes: str = "", name: str = "") -> None:
        super().__init__(tag=tag, text=text)
        self.classes(classes)
        if name:
            self.props["data-name"] = name


def sentence(message: object) -> str:
    """An error message as a sentence.

    >>> sentence("reporting cannot be reached")
    'Reporting cannot be reached.'
    """
    text = str(message)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def box(classes: str = "", tag: str = "div", name: str = "") -> ui.element:
    """A container."""
    element = ui.element(tag).classes(classes)
    if name:
        element.props["data-name"] = name
    return element


def scroll_box(label: str) -> ui.element:
    """A place for what may be wider than the screen; keyboards can scroll it."""
    element = box("k-scroll")
    element.props.update({"tabindex": "0", "role": "region", "aria-label": label})
    return element


def card(title: str = "", subtitle: str = "", name: str = "") -> ui.element:
    """A card with a heading and a sentence that explains it."""
    element = box("k-card", "section", name)
    with element:
        if title:
            Text(title, "h2")
        if subtitle:
            Text(subtitle, "p", "k-sub")
    return element


def heading(title: str, subtitle: str) -> ui.element:
    """The title of a page; returns the place for buttons beside it."""
    with box("k-top"):
        with box("k-title"):
            Text(title, "h1", name="title")
            Text(subtitle, "p", "k-sub")
        return box("k-row")


def button(
    text: str, on_click: Callable[..., Any], *, style: str = "k-quiet", icon: str | None = None
) -> ui.button:
    """A button with a label."""
    element = ui.button(text, on_click=on_click, color=None, icon=icon)
    return element.props("no-caps unelevated").classes(style)


def icon_button(icon: str, label: str, on_click: Callable[..., Any]) -> ui.button:
    """A button with an icon; its label is a tooltip."""
    element = ui.button(icon=icon, on_click=on_click, color=None).props("flat round dense")
    element.props["aria-label"] = element.props["title"] = label
    return element.classes("k-icon")


def file_name(parts: Sequence[str], kind: str) -> str:
    """A file name that says what is in it.

    >>> file_name(["Spring shoes", "reach over time", "2026-11-18"], "csv")
    'kreach_spring-shoes_reach-over-time_2026-11-18.csv'
    """
    words = [re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-") for part in parts]
    return "_".join(["kreach", *(word for word in words if word)]) + f".{kind}"


def csv_button(
    name: str, rows: Callable[[], Sequence[Row]], about: Callable[[], Sequence[str]] = tuple
) -> ui.button:
    """Downloads the current rows of a table; `about` are words for the name of the file."""

    def download() -> None:
        content = rows()
        if content:
            to = file_name([name, *about()], "csv")
            ui.download.content(csv_bytes(content), to, "text/csv")
        else:
            ui.notify("There are no rows yet.")

    element = icon_button("download", f"Download {name} as CSV", download)
    element.props["data-name"] = f"csv {name}"
    return element


def png_button(name: str, chart: "Chart", about: Callable[[], Sequence[str]] = tuple) -> ui.button:
    """Downloads a chart as it is drawn, twice as large; nothing leaves the browser."""

    def download() -> None:
        to = json.dumps(file_name([name, *about()], "png"))
        ui.run_javascript(f"kreach.png(getElement({chart.element.id}), {to})")

    element = icon_button("image", f"Download {name} as PNG", download)
    element.props["data-name"] = f"png {name}"
    return element


def date_presets(
    presets: Mapping[str, str], value: str, on_change: Callable[..., Any]
) -> ui.toggle:
    """Buttons for usual ranges of dates, and "custom" for others."""
    toggle = ui.toggle(dict(presets) | {"custom": "Custom"}, value=value, on_change=on_change)
    toggle.props("no-caps unelevated dense padding='4px 12px'").classes("k-presets")
    toggle.props["aria-label"] = "Dates"
    toggle.props["data-name"] = "dates"
    return toggle


class EmptyState:
    """Shown where there is nothing else: why, and what to do about it. Hidden at first."""

    def __init__(self, classes: str = "k-card", name: str = "") -> None:
        self._box = box(classes, name=name)
        self._box.set_visibility(False)

    def show(self, icon: str, title: str, text: str = "", code: str = "") -> None:
        """Show an icon, a title, a sentence and a command."""
        self._box.clear()
        with self._box, box("k-empty"):
            ui.icon(icon)
            Text(title, "h2")
            if text:
                Text(text, "p", "k-sub")
            if code:
                Text(code, "code")
        self._box.set_visibility(True)

    def hide(self) -> None:
        """Show nothing."""
        self._box.set_visibility(False)


class Panel:
    """A skeleton while data is loading, then the content or an empty state."""

    def __init__(self, name: str = "") -> None:
        with box("k-card", name="loading") as self._loading:
            self._loading.props["role"] = "status"
            self._loading.props["aria-label"] = "loading"
            for width in (92, 70, 84):
                box("k-skeleton").style(f"width: {width}%")
        self._empty = EmptyState(name=name)
        self.content = box().style("display: contents")
        self.content.set_visibility(False)

    def show_loading(self) -> None:
        """Show the skeleton again."""
        self._loading.set_visibility(True)
        self._empty.hide()
        self.content.set_visibility(False)

    def show_content(self) -> None:
        """Show the content."""
        self._loading.set_visibility(False)
        self._empty.hide()
        self.content.set_visibility(True)

    def show_empty(self, icon: str, title: str, text: str = "", code: str = "") -> None:
        """Show why there is no content."""
        self._loading.set_visibility(False)
        self.content.set_visibility(False)
        self._empty.show(icon, title, text, code)


class Tile:
    """A number with its name and details, which have their place before they are known."""

    def __init__(self, name: str, classes: str = "k-tile", lines: int = 2) -> None:
        with box(classes, name=name) as self._box:
            Text(name, classes="k-name")
            self._value = Text("…", classes="k-value")
            self._details = [Text(_NBSP, classes="k-sub") for _ in range(lines)]

    def show(self, value: str, *details: str) -> None:
        """Show a value and lines of details below it."""
        self._value.set_text(value)
        with self._box:
            while len(self._details) < len(details):
                self._details.append(Text("", classes="k-sub"))
        for at, line in enumerate(self._details):
            line.set_text(details[at] if at < len(details) else "")

    def set_visibility(self, visible: bool) -> None:
        """Show or hide the tile."""
        self._box.set_visibility(visible)


class ProgressBar:
    """The share of something that is used, and a mark at the share that would be even."""

    def __init__(self) -> None:
        with box("k-bar") as self._bar:
            self._fill = box("k-fill")
            self._tick = box("k-tick")
        self._bar.props["role"] = "img"

    def show(self, share: float | None, even: float, label: str) -> None:
        """Set bar and mark; a share above 1 fills the bar."""
        self._fill.style(f"width: {100 * min(max(share or 0.0, 0.0), 1.0):.2f}%")
        self._tick.style(f"left: calc({100 * even:.2f}% - 1px)")
        if self._bar.props.get("aria-label") != label:
            self._bar.props["aria-label"] = label


class Table:
    """A table of text cells. It is redrawn only if its rows change."""

    def __init__(self, heads: Sequence[str], numeric: Sequence[int] = (), name: str = "") -> None:
        self._numeric = frozenset(numeric)
        self._rows: list[tuple[str, ...]] | None = None
        with scroll_box(name or ", ".join(heads)), box("k-table", "table", name):
            with box(tag="thead"):
                self._add_row(heads, "th")
            self._body = box(tag="tbody")

    def show(self, rows: Sequence[Sequence[str]]) -> None:
        """Show these rows."""
        new = [tuple(row) for row in rows]
        if new == self._rows:
            return
        self._rows = new
        self._body.clear()
        with self._body:
            for row in new:
                self._add_row(row, "td")

    def _add_row(self, cells: Sequence[str], tag: str) -> None:
        with box(tag="tr"):
            for column, cell in enumerate(cells):
                Text(cell, tag, "k-n" if column in self._numeric else "")


class Notes:
    """Lines about data that is withheld or wrong; hidden without lines."""

    def __init__(self, classes: str = "") -> None:
        self._box = box(f"k-row {classes}")
        self._box.set_visibility(False)
        self._lines: tuple[str, ...] = ()

    def show(self, *lines: str | None, tone: str = "k-warn") -> None:
        """Show these lines."""
        new = tuple(line for line in lines if line)
        if new != self._lines:
            self._lines = new
            self._box.clear()
            self._box.set_visibility(bool(new))
            with self._box:
                for line in new:
                    Text(line, "p", f"k-note {tone}")


class Chart:
    """A chart that is redrawn only if its options change. `label` is for screen readers."""

    def __init__(self, label: str, classes: str = "k-chart", name: str = "") -> None:
        self._options: dict[str, Any] = {"series": []}
        self.element = ui.echart(self._options, renderer="canvas").classes(classes)
        self.element.props["role"] = "img"
        self.element.props["aria-label"] = label
        self.element.props["data-name"] = name

    def show(self, options: dict[str, Any]) -> None:
        """Show these options."""
        if options != self._options:
            self._options = options
            self.element.props["options"] = options

    def set_height(self, pixels: int) -> None:
        """Make the chart as high as its number of bars needs."""
        self.element.style(f"height: {pixels}px")

    def redraw(self) -> None:
        """Draw again after a change of theme."""
        self.element.update()
