"""The main flows in Firefox: figures, charts, dragging, plans, forms, the keyboard, and axe."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import violations
from tests.browser.locators import (
    NewPage,
    chart_options,
    drag,
    named,
    table,
    text,
    whole,
)
from tests.browser.services import Services

pytestmark = pytest.mark.xdist_group("browser")
CHARTS = ("over time", "by cap", "frequency", "spend", "bidding")


@pytest.fixture
def page(services: Services, new_firefox_page: NewPage) -> Page:
    return new_firefox_page(services.url)


def painted(page: Page, name: str) -> int:
    """How many colors a chart has: one if nothing was drawn."""
    colors: int = page.locator(f'.nicegui-echart[data-name="{name}"] canvas').evaluate(
        """(canvas) => new Set(new Uint32Array(canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    )
    return colors


def test_figures_charts_and_a_window_that_is_dragged(services: Services, page: Page) -> None:
    page.goto(services.url)
    line = named(page, "campaign spring")
    report = services.api("/v1/campaigns/spring/reach?cap=1&cap=2")["reports"][-1]
    expect(named(line, "People reached")).to_contain_text(whole(report["unique_reach"]))
    line.get_by_role("link", name="spring").click()
    expect(page.locator("h1")).to_have_text("spring")
    expect(named(page, "People reached")).to_contain_text(whole(report["unique_reach"]))
    last = chart_options(page, "over time")["series"][2]["data"][-1]
    assert last[1:] == pytest.approx([report["reach"], *report["interval"]])
    for name in CHARTS:
        chart_options(page, name)
        assert painted(page, name) > 10, name
    chart = page.locator('.nicegui-echart[data-name="over time"]')
    chart.scroll_into_view_if_needed()
    drag(page, chart, 150.0)
    expect(named(page, "window title")).to_contain_text("Nov 2026")
    start, end = (named(page, f"window {name}").input_value() for name in ("start", "end"))
    window = services.api(f"/v1/campaigns/spring/reach?start={start}:00Z&end={end}:00Z")
    assert text(named(page, "window facts")).startswith(f"{window['impressions']} impressions")
    with page.expect_download() as caught:
        named(page, "png frequency").click()
    assert caught.value.suggested_filename.startswith("kreach_frequency_spring")
    assert caught.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_planner_answers(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/planner?goal=budget&amount=0.2&cap=2&requests=600")
    rows = page.locator('table[data-name="plan"] tbody tr')
    expect(rows).to_have_count(6, timeout=90_000)  # refined
    body = {"cap": 2, "budgets": [0.2], "requests": 600, "auction": "second_price"}
    body |= {"start": "2026-11-05T00:00:00Z", "end": "2026-11-19T00:00:00Z"}
    people = services.post("/v1/plans", body)["plans"][0]["people"]
    expect(named(page, "People reached")).to_contain_text(whole(people))
    assert painted(page, "plan") > 10


def test_the_privacy_page(services: Services, page: Page) -> None:
    page.goto(f"{services.url}/privacy")
    expect(named(page, "overall verdict")).to_contain_text("must not be released")
    release = services.api("/v1/catalogues")["catalogues"][-1]
    expect(named(page, "Groups")).to_contain_text(str(release["groups"]))
    assert [row[0] for row in table(page, "checks")] == ["danger", "ok"]
    assert table(page, "linkage") == [["sticky", "0.00%", "1.25%"]]
    expect(page.locator('table[data-name="crossed"]')).to_be_visible()
    expect(named(page, "noise budget")).to_contain_text("carry no noise")


def test_a_campaign_is_created_with_the_keyboard(services: Services, page: Page) -> None:
    page.goto(services.url)
    expect(named(page, "campaign spring")).to_be_visible()
    press_tab_until(page, page.get_by_role("button", name="New campaign"))
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    for name in ("name", "budget", "max_cpm"):
        field = page.locator("label", has=named(page, f"field {name}"))
        expect(field).to_contain_text("is required")
    page.keyboard.type("Fire & fox")
    press_tab_until(page, page.get_by_label("Budget", exact=True))
    page.keyboard.type("-3")
    page.keyboard.press("Enter")
    field = page.locator("label", has=named(page, "field budget"))
    expect(field).to_contain_text("must be")
    page.keyboard.press("Control+A")
    page.keyboard.type("12.5")
    press_tab_until(page, page.get_by_label("Max CPM bid"))
    page.keyboard.type("7.5")
    page.keyboard.press("Enter")
    expect(named(page, "campaign fire-fox")).to_be_visible()
    created = services.api("/v1/campaigns/fire-fox")
    assert (created["name"], created["budget"]) == ("Fire & fox", 12.5)
    press_tab_until(page, page.get_by_role("button", name="End Fire & fox"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="End Fire & fox?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="End Fire & fox?")).to_be_hidden()
    services.patch("/v1/campaigns/fire-fox", {"state": "ended"})


def press_tab_until(page: Page, target: Locator) -> None:
    """Move the focus forward to an element."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if target.evaluate("(el) => el === document.activeElement"):
            return
    raise AssertionError(f"{target} cannot be reached with the keyboard")


def test_pages_are_accessible_in_both_themes(services: Services, page: Page) -> None:
    found: dict[str, list[str]] = {}
    for path in ("/", "/campaign/spring", "/planner", "/privacy", "/cost"):
        page.goto(services.url + path)
        expect(page.locator("h1")).to_be_visible()
        expect(named(page, "loading").first).to_be_hidden()
        for theme, width in (("light", 1280), ("dark", 360)):
            page.set_viewport_size({"width": width, "height": 860})
            expect(page.locator(f"body.body--{theme}")).to_be_attached()
            found |= {f"{path} {theme} {one}": at for one, at in violations(page).items()}
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            named(page, "theme").click()
    assert not found, found
