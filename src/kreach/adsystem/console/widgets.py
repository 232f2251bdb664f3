"""Pieces that pages are made of. Each shows what it is given; none asks for anything."""

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from kreach.adsystem.console.tables import Row, csv_of

__all__ = [
    "Chart",
    "Meter",
    "Notes",
    "Table",
    "Text",
    "Tile",
    "box",
    "button",
    "card",
    "csv_button",
    "empty",
    "heading",
    "icon_button",
    "skeleton",
]


class Text(TextElement):
    """Text in any tag; written as text, never as markup."""

    def __init__(self, text: str = "", tag: str = "div", classes: str = "", name: str = "") -> None:
        super().__init__(tag=tag, text=text)
        self.classes(classes)
        if name:
            self.props["data-name"] = name

    def tell(self, text: str, title: str | None = None) -> None:
        """Change the text and what is shown when pointing at it."""
        self.set_text(text)
        if self.props.get("title") != title:
            self.props["title"] = title


def box(classes: str = "", tag: str = "div", name: str = "") -> ui.element:
    """An element to put others into."""
    made = ui.element(tag).classes(classes)
    if name:
        made.props["data-name"] = name
    return made


def card(title: str = "", meaning: str = "", name: str = "") -> ui.element:
    """A card with a heading and a sentence that says what is in it."""
    made = box("k-card", "section", name)
    if title:
        with made:
            Text(title, "h2")
            if meaning:
                Text(meaning, "p", "k-sub")
    return made


def heading(title: str, meaning: str = "") -> ui.element:
    """The title of a page and its sentence; returns the place for buttons beside it."""
    with box("k-top"):
        with box("k-title"):
            Text(title, "h1", name="title")
            if meaning:
                Text(meaning, "p", "k-sub")
        return box("k-row")


def button(
    text: str, on_click: Callable[..., Any], *, style: str = "k-quiet", icon: str | None = None
) -> ui.button:
    """A button with words on it."""
    made = ui.button(text, on_click=on_click, color=None, icon=icon)
    return made.props("no-caps unelevated").classes(style)


def icon_button(icon: str, says: str, on_click: Callable[..., Any]) -> ui.button:
    """A button with a sign on it, and its words for who points at it or cannot see it."""
    made = ui.button(icon=icon, on_click=on_click, color=None).props("flat round dense")
    made.props["aria-label"] = says
    made.props["title"] = says
    return made.classes("k-icon")


def csv_button(name: str, rows: Callable[[], Sequence[Row]]) -> ui.button:
    """Downloads a table as it stands when clicked."""

    def download() -> None:
        found = rows()
        if found:
            ui.download.content(csv_of(found), f"{name}.csv", "text/csv")
        else:
            ui.notify("There are no rows yet.")

    made = icon_button("download", f"Download {name} as CSV", download)
    made.props["data-name"] = f"csv {name}"
    return made


def empty(icon: str, title: str, says: str = "", code: str = "") -> ui.element:
    """What is shown where there is nothing: why, and what to do about it."""
    with box("k-empty") as made:
        ui.icon(icon)
        Text(title, "h2")
        if says:
            Text(says, "p", "k-sub")
        if code:
            Text(code, "code")
    return made


def skeleton(lines: int = 3) -> ui.element:
    """What is shown while the first answer is on its way."""
    with box("k-card", name="loading") as made:
        made.props["aria-label"] = "loading"
        for at in range(lines):
            box("k-skeleton").style(f"width: {(92, 70, 84, 55)[at % 4]}%")
    return made


class Tile:
    """A number with its name and what belongs to it."""

    def __init__(self, name: str) -> None:
        with box("k-tile", name=name):
            Text(name, classes="k-name")
            self._value = Text("…", classes="k-value")
            self._below = Text("", classes="k-sub")

    def tell(self, value: str, below: str = "", title: str | None = None) -> None:
        """Show a number."""
        self._value.tell(value, title)
        self._below.tell(below)


class Meter:
    """A bar: how much of something is used, and a mark of how much would be even."""

    def __init__(self) -> None:
        with box("k-bar") as self._bar:
            self._fill = box("k-fill")
            self._tick = box("k-tick")
        self._bar.props["role"] = "img"

    def tell(self, share: float | None, even: float, says: str) -> None:
        """Set bar and mark; shares beyond 1 fill the bar."""
        shown = 0.0 if share is None else min(max(share, 0.0), 1.0)
        self._fill.style(f"width: {100 * shown:.2f}%")
        self._tick.style(f"left: calc({100 * even:.2f}% - 1px)")
        if self._bar.props.get("aria-label") != says:
            self._bar.props["aria-label"] = says


class Table:
    """A plain table; cells are text. Rows are written anew only if they changed."""

    def __init__(self, heads: Sequence[str], numeric: Sequence[int] = (), name: str = "") -> None:
        self._numeric = frozenset(numeric)
        self._shown: list[tuple[str, ...]] | None = None
        with box("k-scroll"), box("k-table", "table", name):
            with box(tag="thead"), box(tag="tr"):
                for at, head in enumerate(heads):
                    Text(head, "th", "k-n" if at in self._numeric else "")
            self._body = box(tag="tbody")

    def tell(self, rows: Sequence[Sequence[str]]) -> None:
        """Show these rows."""
        wanted = [tuple(row) for row in rows]
        if wanted == self._shown:
            return
        self._shown = wanted
        self._body.clear()
        with self._body:
            for row in wanted:
                with box(tag="tr"):
                    for at, cell in enumerate(row):
                        Text(cell, "td", "k-n" if at in self._numeric else "")


class Notes:
    """Lines about what is not told, and why; nothing if there is nothing to say."""

    def __init__(self, classes: str = "") -> None:
        self._box = box(f"k-row {classes}")
        self._box.set_visibility(False)
        self._shown: tuple[str, ...] = ()

    def tell(self, *lines: str | None, tone: str = "k-warn") -> None:
        """Show these lines."""
        wanted = tuple(line for line in lines if line)
        if wanted != self._shown:
            self._shown = wanted
            self._box.clear()
            self._box.set_visibility(bool(wanted))
            with self._box:
                for line in wanted:
                    Text(line, "p", f"k-note {tone}")


class Chart:
    """A chart that is drawn anew only if its options changed. `says` is for who cannot see it."""

    def __init__(self, says: str, classes: str = "k-chart", name: str = "") -> None:
        self._shown: dict[str, Any] = {"series": []}
        self._element = ui.echart(self._shown, renderer="canvas").classes(classes)
        self._element.props["role"] = "img"
        self._element.props["aria-label"] = says
        if name:
            self._element.props["data-name"] = name

    @property
    def element(self) -> ui.echart:
        """The chart itself, for events."""
        return self._element

    def tell(self, options: dict[str, Any]) -> None:
        """Show these options."""
        if options != self._shown:
            self._shown = options
            self._element.props["options"] = options

    def redraw(self) -> None:
        """Draw again: the theme has changed."""
        self._element.update()
