"""Finding elements of the console's pages, reading their text, and dragging across charts."""

from collections.abc import Callable, Sequence
from typing import Any

from playwright.sync_api import Locator, Page, expect

NewPage = Callable[..., Page]


def named(page: Page | Locator, name: str) -> Locator:
    """The element with a `data-name`."""
    return page.locator(f'[data-name="{name}"]')


def text(place: Locator) -> str:
    """The visible text, with plain spaces."""
    return place.inner_text().replace("\u00a0", " ")


def table(page: Page, name: str) -> list[list[str]]:
    """The cells of a table."""
    rows = page.locator(f'table[data-name="{name}"] tbody tr')
    expect(rows.first).to_be_visible()
    cells = [row.split("\t") for row in rows.all_inner_texts()]
    return [[cell.strip().replace("\u00a0", " ") for cell in row] for row in cells]


def chart_options(page: Page, name: str) -> dict[str, Any]:
    """The ECharts options of a chart, once it has data."""
    place = page.locator(f'.nicegui-echart[data-name="{name}"]')
    expect(place.locator("canvas")).to_be_visible()
    page.wait_for_function(
        "(el) => (getElement(+el.id.slice(1)).chart?.getOption()?.series?.[1]?.data ?? "
        "getElement(+el.id.slice(1)).chart?.getOption()?.series?.[0]?.data)?.length > 0",
        arg=place.element_handle(),
    )
    options: dict[str, Any] = place.evaluate(
        "(el) => JSON.parse(JSON.stringify(getElement(+el.id.slice(1)).chart.getOption()))"
    )
    return options


def drag(page: Page, chart: Locator, right: float) -> tuple[float, float]:
    """Drag the mouse across a chart; returns where on it that began and ended, in pixels."""
    place = chart.bounding_box()
    assert place is not None
    first, y = 0.08 * place["width"], place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + first, y)
    page.mouse.down()
    page.mouse.move(place["x"] + first + right, y, steps=5)
    page.mouse.up()
    return first, first + right


def whole(value: float) -> str:
    """A count that is not small, as pages write it."""
    assert value >= 10.0
    return f"{value:,.0f}"


def count(value: float) -> str:
    """Any count, as pages write it."""
    digits = 1 if value < 9.95 and abs(value - round(value)) > 0.05 else 0
    return f"{value:,.{digits}f}"


def span(ends: Sequence[float]) -> str:
    """An interval, as pages write it."""
    return f"{whole(ends[0])} to {whole(ends[1])}"
