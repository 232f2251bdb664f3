"""What axe says about a page."""

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

__all__ = ["violations"]

_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
}


def violations(page: Page) -> dict[str, list[str]]:
    """Rules of WCAG 2.1 A and AA that the page breaks, with the first places."""
    broken = Axe().run(page, options=_OPTIONS).response["violations"]
    return {one["id"]: [node["html"][:200] for node in one["nodes"][:3]] for one in broken}
