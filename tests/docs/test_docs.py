"""Every example in the documentation runs and shows what the page says; so do docstrings."""

import doctest
import pkgutil
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kreach

ROOT = Path(__file__).resolve().parents[2]
# Pages of the reference are made from docstrings, whose examples run where they stand.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
# The overviews may be prose; every other page directly in docs/ explains a concept.
OVERVIEWS = {
    "ARCHITECTURE.md",
    "README.md",
    "compared.md",
    "index.md",
    "operations.md",
    "paper.md",
    "tutorial.md",
}
CONCEPTS = [page for page in PAGES if page.parent.name == "docs" and page.name not in OVERVIEWS]
MODULES = ["kreach", *(found.name for found in pkgutil.walk_packages(kreach.__path__, "kreach."))]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)(?P<target>[^)#\s]+)")


class Example(NamedTuple):
    """One block of Python on a page."""

    line: int  # of the fence, counted from 1
    code: str


def examples(page: Path) -> list[Example]:
    """The Python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(text.count("\n", 0, block.start()) + 1, textwrap.dedent(block["code"]))
        for block in FENCE.finditer(text)
        if block["language"].strip() == "python"
    ]


def run_example(example: Example, page: Path, names: dict[str, Any]) -> None:
    """Run a block in the names of its page: a session with >>> is compared with its output."""
    if ">>>" not in example.code:
        source = "\n" * example.line + example.code  # so that a traceback shows the page's line
        exec(compile(source, str(page), "exec"), names)
        return
    session = doctest.DocTestParser().get_doctest(
        example.code, names, page.name, str(page), example.line
    )
    assert session.examples, f"{page.name}:{example.line} shows >>> but holds no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    result = runner.run(session, out=said.append, clear_globs=False)
    names.update(session.globs)
    assert result.failed == 0, "".join(said)


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_examples_of_a_page_show_what_it_says(page: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for example in examples(page):
        run_example(example, page, names)


@pytest.mark.parametrize("page", CONCEPTS, ids=page_id)
def test_a_concept_page_has_an_example(page: Path) -> None:
    assert examples(page)


def test_there_is_a_page_for_each_concept() -> None:
    concepts = {"audience", "over-exposure", "reach", "streaming", "uncertainty"}
    assert concepts <= {page.stem for page in CONCEPTS}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_example_is_skipped(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    languages = [block["language"].strip() for block in FENCE.finditer(text)]
    assert len(languages) * 2 == len(re.findall(r"^ *```", text, re.MULTILINE)), "a fence is open"
    assert not [name for name in languages if name.startswith("py") and name != "python"]
    assert "doctest: +SKIP" not in text


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken


PUBLIC = [name for name in kreach.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name: str) -> None:
    text = getattr(kreach, name).__doc__ or ""
    assert ">>>" in text


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_of_a_module_show_what_they_say(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.failed == 0
