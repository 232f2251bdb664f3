"""Take the pictures of docs/assets again, from a demo of its own: two pages and an animated story.

python -m tools.screenshots            # some five minutes; needs Chromium (tools/find_browser.sh)
python -m tools.screenshots --url http://127.0.0.1:8400 --advertiser-url http://127.0.0.1:8410 \
    --key-file kreach-demo/acme.key    # of a demo that runs already

Every file that is written is printed with its size.
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
from typing import TYPE_CHECKING, Literal, NamedTuple

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Error, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["PAGES", "PICTURES", "Consoles", "animation", "take_pictures"]

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"
PAGES = {  # picture: path of the operator's console
    "console.png": "/campaign/spring-shoes",
    "privacy.png": "/privacy",
}
STORY_FILE = "demo.gif"
PICTURES = (*PAGES, STORY_FILE)


class Scene(NamedTuple):
    """One picture of the story."""

    caption: str
    console: Literal["operator", "advertiser"]
    path: str
    scroll_to: str | None = None  # a heading


STORY = (
    Scene(
        "1. Three campaigns buy impressions. The bidder sees groups, never people", "operator", "/"
    ),
    Scene(
        "2. People reached, with an interval; the dashed line is the truth",
        "operator",
        "/campaign/spring-shoes",
        scroll_to="Reach over time",
    ),
    Scene("3. What would the next budget reach?", "operator", "/planner?amount=3"),
    Scene("4. The publisher attacks its own release before it leaves", "operator", "/privacy"),
    Scene(
        "5. An advertiser signs in: its own campaign; what could single somebody out is withheld",
        "advertiser",
        "/campaign/hiking-boots",
    ),
)
_SIZE = {"width": 1280, "height": 1000}
_STORY_HEIGHT = 800
_STORY_WIDTH, _CAPTION_HEIGHT, _COLORS = 880, 44, 64
_SCENE_MS, _SETTLE_MS, _STALE_MS = 3_000, 9_000, 60_000
_MINUTES, _SEEN = 3.0, 0.5  # length of the flights; the part that has passed at the first picture
_PAGE_COLORS, _HEADER_PIXELS = 128, 80
_START_SECONDS = 600.0


class Consoles(NamedTuple):
    """The consoles of a demo, and the key with which its advertiser signs in."""

    operator: str
    advertiser: str
    key: str


def chromium() -> str:
    """The browser's program."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("no Chromium found: run tools/find_browser.sh")


@contextmanager
def running_demo() -> Iterator[Consoles]:
    """A demo shortly before its flights end: its consoles."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kreach", "demo", "--port", "0", "--people", "3000"]
        command += ["--minutes", str(_MINUTES), "--folder", f"{folder}/demo"]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            yield _consoles_of(demo, Path(folder) / "demo" / "acme.key")
        finally:
            os.killpg(demo.pid, signal.SIGINT)
            demo.wait(60)


def _consoles_of(demo: "subprocess.Popen[str]", key_file: Path) -> Consoles:
    assert demo.stdout is not None
    deadline = time.monotonic() + _START_SECONDS
    operator = ""
    for line in demo.stdout:
        if line.startswith("console: "):
            operator = line.split()[1]
        if line.startswith("the advertiser's: "):
            print("the demo runs; waiting until there is something to see", flush=True)
            time.sleep(_SEEN * 60.0 * _MINUTES)
            return Consoles(operator, line.split()[2].rstrip(";"), key_file.read_text().strip())
        if time.monotonic() > deadline:
            break
    raise SystemExit("the demo did not start")


def take_pictures(consoles: Consoles, out: Path) -> None:
    """One picture of each page, and the story."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            _take_story(browser, consoles, out / STORY_FILE)
            page = _open(browser, _SIZE["height"])
            for name, path in PAGES.items():
                _show(page, consoles.operator + path)
                page.screenshot(path=out / name)
                picture = Image.open(out / name).convert("RGB")
                picture.quantize(_PAGE_COLORS, dither=Image.Dither.NONE).save(
                    out / name, optimize=True
                )
                _say_written(out / name)
        finally:
            browser.close()


def _open(browser: "Browser", height: int) -> "Page":
    size = {"width": _SIZE["width"], "height": height}
    return browser.new_page(viewport=size, color_scheme="light")  # type: ignore[arg-type]


def _show(page: "Page", address: str) -> None:
    page.goto(address)
    page.wait_for_selector("h1")
    page.wait_for_timeout(_SETTLE_MS)
    for text in ("Reporting is slow", "refining"):
        try:
            page.get_by_text(text).wait_for(state="hidden", timeout=_STALE_MS)
        except Error:
            print(f"{address} still says {text!r}: on a less busy machine pictures get better")


def _take_story(browser: "Browser", consoles: Consoles, file: Path) -> None:
    pages = {
        "operator": (consoles.operator, _open(browser, _STORY_HEIGHT)),
        "advertiser": (consoles.advertiser, _open(browser, _STORY_HEIGHT)),
    }
    sign_in = pages["advertiser"][1]
    sign_in.goto(f"{consoles.advertiser}/sign-in")
    sign_in.fill("input[name=key]", consoles.key)
    sign_in.press("input[name=key]", "Enter")
    sign_in.wait_for_url(lambda url: "/sign-in" not in url)
    with tempfile.TemporaryDirectory() as folder:
        pictures = []
        for number, scene in enumerate(STORY):
            address, page = pages[scene.console]
            _show(page, address + scene.path)
            if scene.scroll_to is not None:
                heading = page.get_by_text(scene.scroll_to, exact=True).first
                heading.evaluate("element => element.scrollIntoView()")
                page.mouse.wheel(0, -_HEADER_PIXELS)
                page.wait_for_timeout(_SCENE_MS)
            pictures.append(Path(folder) / f"{number}.png")
            page.screenshot(path=pictures[-1])
        animation(pictures, [scene.caption for scene in STORY], file)
    _say_written(file)


def animation(pictures: list[Path], captions: list[str], file: Path) -> None:
    """An endless GIF of pictures, each under its caption."""
    frames = [
        _captioned(Image.open(path).convert("RGB"), text).quantize(
            _COLORS, dither=Image.Dither.NONE
        )
        for path, text in zip(pictures, captions, strict=True)
    ]
    rest = {"append_images": frames[1:], "duration": _SCENE_MS, "loop": 0}
    frames[0].save(file, save_all=True, optimize=True, **rest)  # type: ignore[arg-type]


def _captioned(picture: Image.Image, text: str) -> Image.Image:
    height = round(picture.height * _STORY_WIDTH / picture.width)
    frame = Image.new("RGB", (_STORY_WIDTH, height + _CAPTION_HEIGHT), "#1f2933")
    frame.paste(
        picture.resize((_STORY_WIDTH, height), Image.Resampling.LANCZOS), (0, _CAPTION_HEIGHT)
    )
    font = ImageFont.load_default(size=20)
    ImageDraw.Draw(frame).text((16, _CAPTION_HEIGHT // 2), text, "white", font, anchor="lm")
    return frame


def _say_written(file: Path) -> None:
    print(f"wrote {file} ({file.stat().st_size / 1000:,.0f} KB)", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.screenshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="console of a running demo; default: start one")
    parser.add_argument("--advertiser-url", help="its advertiser's console")
    parser.add_argument("--key-file", type=Path, help="file with the advertiser's key")
    parser.add_argument("--out", type=Path, default=ASSETS, help="folder for the pictures")
    given = parser.parse_args()
    running = (given.url, given.advertiser_url, given.key_file)
    if any(running) and not all(running):
        parser.error("--url, --advertiser-url and --key-file belong together")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.url:
        key = given.key_file.read_text().strip()
        consoles = Consoles(given.url.rstrip("/"), given.advertiser_url.rstrip("/"), key)
        take_pictures(consoles, given.out)
    else:
        with running_demo() as consoles:
            take_pictures(consoles, given.out)


if __name__ == "__main__":
    main()
