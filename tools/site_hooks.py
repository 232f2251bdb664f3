"""What the site needs beyond Markdown: formulas as MathML, and pages from files outside docs/.

Browsers show MathML by themselves, so no script has to come from anywhere. CHANGELOG.md and
examples/ stay where they are used; the site shows them as pages.
"""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

__all__ = ["on_config", "on_files", "on_page_content", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[1]
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_OUTSIDE = {"](../CHANGELOG.md": "](changelog.md", "](../examples/": "](examples.md"}
_LANGUAGES = {".py": "python", ".toml": "toml"}


def decision_pages() -> list[dict[str, str]]:
    """The decisions as entries of the navigation, by number; titles are the pages' own."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for page in pages]
    return [{title: f"decisions/{page.name}"} for title, page in zip(titles, pages, strict=True)]


def examples_page() -> str:
    """All of examples/ on one page."""
    parts = ["# Examples", "Scripts that run as they are, and settings with every field."]
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in _LANGUAGES:
            text = path.read_text(encoding="utf-8").rstrip()
            parts += [f"## {path.name}", f"```{_LANGUAGES[path.suffix]}\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def on_config(config: Any) -> Any:
    """Fill in the list of decisions."""
    for section in config.nav:
        for name, entries in section.items():
            if name == "Internals":
                entries[-1]["Decisions"] = decision_pages()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages whose text lies outside docs/."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    for name, text in (("changelog.md", changelog), ("examples.md", examples_page())):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links that leave docs/ to the pages made of what they name."""
    for outside, inside in _OUTSIDE.items():
        markdown = markdown.replace(outside, inside)
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """Formulas become MathML."""

    def shown(display: str) -> Any:
        return lambda found: convert(html.unescape(found[1]).strip(), display=display)

    return _INLINE.sub(shown("inline"), _DISPLAY.sub(shown("block"), content))
