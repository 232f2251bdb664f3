"""Pictures of every page of a running console: light, dark and narrow.

python -m tests.browser.screenshots http://127.0.0.1:8400 pictures/ spring-shoes
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.worlds import chromium

LOOKS = {"light": (1360, "light"), "dark": (1360, "dark"), "narrow": (360, "light")}
_SETTLED_MS = 5_000


def take(browser: Browser, url: str, out: Path, campaign: str) -> None:
    """One picture for each page and look."""
    paths = {"campaigns": "/", "campaign": f"/campaign/{campaign}", "planner": "/planner"}
    paths |= {"privacy": "/privacy", "cost": "/cost"}
    for look, (width, scheme) in LOOKS.items():
        size = {"width": width, "height": 860}
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        for name, path in paths.items():
            page.goto(url + path)
            page.wait_for_selector("h1")
            page.wait_for_timeout(_SETTLED_MS)
            page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
        context.close()


def main() -> None:
    """As the command line says."""
    url, out, campaign = sys.argv[1].rstrip("/"), Path(sys.argv[2]), sys.argv[3]
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        take(browser, url, out, campaign)
        browser.close()


if __name__ == "__main__":
    main()
