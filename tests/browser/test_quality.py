"""Every page in light, dark, phone and wide: accessible by axe, stable while it loads, quick."""

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

from tests.browser.locators import NewPage
from tests.browser.services import Services
from tests.browser.variants import VARIANTS

pytestmark = pytest.mark.xdist_group("browser")

PATHS = (
    "/",
    "/campaign/spring",
    "/compare?campaign=spring&campaign=autumn",
    "/planner",
    "/privacy",
    "/cost",
)
_SHIFT = """
window.layoutShift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.layoutShift += one.value;
}).observe({type: "layout-shift", buffered: true});
"""
_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_pages_are_accessible_and_do_not_shift(
    services: Services, new_page: NewPage, variant: str
) -> None:
    width, scheme = VARIANTS[variant]
    page = new_page(services.url, viewport={"width": width, "height": 860}, color_scheme=scheme)
    page.add_init_script(_SHIFT)
    found = {}
    for path in PATHS:
        page.goto(services.url + path)
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_timeout(800)
        violations = Axe().run(page, options=_OPTIONS).response["violations"]
        for one in violations:
            places = [node["html"][:200] for node in one["nodes"][:3]]
            found[f"{path} {one['id']}"] = places
        shift = page.evaluate("window.layoutShift")
        assert shift < 0.05, (path, shift)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not found, found
