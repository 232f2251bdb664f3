"""Screenshots of every page of a running console: light, dark, phone and wide.

python -m tests.browser.screenshots http://127.0.0.1:8400 screenshots/ spring-shoes summer-shoes
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from kreach.adsystem.console.comparison import Choice
from tests.browser.services import chromium

VARIANTS = {
    "light": (1360, "light"),
    "dark": (1360, "dark"),
    "phone": (360, "light"),
    "wide": (1920, "light"),
}
_SETTLE_MS, _PLAN_MS = 3_500, 9_000


def take(browser: Browser, url: str, out: Path, campaigns: Sequence[str]) -> None:
    """Save one screenshot of each page and variant."""
    paths = {"campaigns": "/", "campaign": f"/campaign/{campaigns[0]}"}
    paths["planner"] = "/planner?goal=budget&amount=20"
    paths |= {"privacy": "/privacy", "cost": "/cost", "compare": Choice(tuple(campaigns)).url}
    for variant, (width, scheme) in VARIANTS.items():
        size = {"width": width, "height": 860}
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        for name, path in paths.items():
            page.goto(url + path)
            page.wait_for_selector("h1")
            page.wait_for_timeout(_PLAN_MS if name == "planner" else _SETTLE_MS)
            page.screenshot(path=out / f"{name}-{variant}.png", full_page=True)
        context.close()
    page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
    page.goto(url + paths["campaign"])
    page.wait_for_selector("canvas")
    page.wait_for_timeout(2 * _SETTLE_MS)
    page.screenshot(path=out / "console.png")  # for docs/assets


def main() -> None:
    """Run the command line."""
    url, out, campaigns = sys.argv[1].rstrip("/"), Path(sys.argv[2]), sys.argv[3:]
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        take(browser, url, out, campaigns)
        browser.close()


if __name__ == "__main__":
    main()
