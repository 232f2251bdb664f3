"""Every page in light, dark, phone and wide: accessible by axe, stable while it loads, quick."""

import pytest
from benchmarks.console import LAYOUT_SHIFT
from playwright.sync_api import expect

from tests.browser.accessibility import violations
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_pages_are_accessible_and_do_not_shift(
    services: Services, new_page: NewPage, variant: str
) -> None:
    width, scheme = VARIANTS[variant]
    page = new_page(services.url, viewport={"width": width, "height": 860}, color_scheme=scheme)
    page.add_init_script(LAYOUT_SHIFT)
    found: dict[str, list[str]] = {}
    for path in PATHS:
        page.goto(services.url + path)
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_timeout(800)
        found |= {f"{path} {rule}": places for rule, places in violations(page).items()}
        shift = page.evaluate("window.layoutShift")
        assert shift < 0.05, (path, shift)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not found, found
