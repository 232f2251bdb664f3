"""The site builds without a warning, needs nothing from elsewhere, and its links lead somewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tools.screenshots import PICTURES

from tests.docs.test_docs import PAGES, ROOT

pytestmark = pytest.mark.xdist_group("site")
# What a browser loads by itself, in contrast to a link that somebody follows.
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page loads, links to and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(found) > 40
    return found


def test_no_page_loads_anything_from_another_host(pages: dict[Path, Page]) -> None:
    foreign = {
        load
        for page in pages.values()
        for load in page.loads
        if urlsplit(load).scheme not in {"", "data"} or load.startswith("//")
    }
    assert not foreign


def test_no_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text())


def test_every_internal_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses count from the root of a server
            continue
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists() or (
                parts.fragment and known and unquote(parts.fragment) not in known.ids
            ):
                broken.append((path.name, link))
    assert not broken


def test_every_page_is_in_the_site_and_in_its_navigation(
    site: Path, pages: dict[Path, Page]
) -> None:
    index = site / "index.html"
    linked = {(site / unquote(urlsplit(link).path)).resolve() for link in pages[index].links}
    for source in (ROOT / "docs").rglob("*.md"):
        made = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        assert made in pages, f"{source.name} is not in the site"
        assert made in linked | {index}, f"{source.name} is not in the navigation of mkdocs.yml"


def test_formulas_are_mathml(site: Path) -> None:
    for name in ("reach", "planning", "uncertainty"):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert '<math xmlns="http://www.w3.org/1998/Math/MathML"' in text
        assert "arithmatex" not in text


def test_search_has_an_index_for_pages_that_are_opened_as_files(site: Path) -> None:
    assert "reach" in (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "iframe-worker.js" in (site / "index.html").read_text(encoding="utf-8")


def test_pictures_that_a_command_takes_are_shown() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in PICTURES:
        assert (ROOT / "docs" / "assets" / name).exists()
        assert f"assets/{name}" in text
