"""Take the pictures of docs/assets again, from a demo of its own.

python -m tools.screenshots            # some three minutes; needs Chromium (tools/find_browser.sh)
python -m tools.screenshots --url http://127.0.0.1:8400    # of a demo that runs already
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

__all__ = ["PAGES", "take_pictures"]

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
PAGES = {  # picture: path of the console
    "console.png": "/campaign/spring-shoes",
    "privacy.png": "/privacy",
}
_SIZE = {"width": 1280, "height": 1000}
_SETTLE_MS = 15_000
_MINUTES = 1.5
_START_SECONDS = 600.0


def chromium() -> str:
    """The browser's program."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("no Chromium found: run tools/find_browser.sh")


@contextmanager
def running_demo() -> Iterator[str]:
    """A demo shortly before its flights end: the address of its console."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kreach", "demo", "--port", "0", "--people", "3000"]
        command += ["--minutes", str(_MINUTES), "--folder", f"{folder}/demo"]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            yield _console_of(demo)
        finally:
            os.killpg(demo.pid, signal.SIGINT)
            demo.wait(60)


def _console_of(demo: "subprocess.Popen[str]") -> str:
    assert demo.stdout is not None
    deadline = time.monotonic() + _START_SECONDS
    for line in demo.stdout:
        if line.startswith("console: "):
            time.sleep(0.85 * 60.0 * _MINUTES)  # until there is something to see
            return line.split()[1]
        if time.monotonic() > deadline:
            break
    raise SystemExit("the demo did not start")


def take_pictures(url: str, out: Path) -> None:
    """One picture of each page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport=_SIZE, color_scheme="light")  # type: ignore[arg-type]
        for name, path in PAGES.items():
            page.goto(url + path)
            page.wait_for_selector("h1")
            page.wait_for_timeout(_SETTLE_MS)
            page.screenshot(path=out / name)
            print(out / name)
        browser.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--url", help="console of a running demo; default: start one")
    parser.add_argument("--out", type=Path, default=ASSETS, help="folder for the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.url:
        take_pictures(given.url.rstrip("/"), given.out)
    else:
        with running_demo() as url:
            take_pictures(url, given.out)


if __name__ == "__main__":
    main()
