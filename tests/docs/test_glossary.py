"""Every heading of the console and every column of the command line is in the glossary."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kreach.adsystem.reports.delivery import DELIVERY_STATES
from tests.docs.test_docs import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SOURCES = [
    *(ROOT / "src/kreach/cli").glob("*.py"),
    *(ROOT / "src/kreach/adsystem/console").rglob("*.py"),
]
TILES = {"Tile", "card"}  # what shows a heading, as its first argument
# Words that mean on these pages what they mean everywhere. A new heading goes here, or gets a row.
PLAIN = set(
    re.split(
        r",\s+",
        """alone, approach, bidding, campaign, check, column, count, creative, first, highest,
        impressions, kind, last, lowest, mean, meaning, median, metric, min, numbers, outcome,
        query, reason, required, result, review, role, side by side, size, spend, summary, times,
        type, values, visit, why, all creatives, what it says, what you do not see, what crossed,
        who it could be, one campaign or several, publisher's audit, of people, requests of""",
    )
)
SAME = {  # heading: the term that explains it
    "audiences": "audience",
    "budget and people": "plan",
    "fewest in a group": "visible members",
    "groups": "group",
    "in uniform groups": "uniform group",
    "min per group": "visible members",
    "over-exposed people": "over-exposed",
    "overlap of two campaigns": "overlap",
    "people": "people reached",
    "people above it": "over-exposed",
    "people reached together": "together",
    "per person": "cost per person reached",
    "reached by two or more": "overlap",
    "sum of the campaigns": "together",
    "what each campaign adds": "adds",
    "withheld reports": "withheld",
    "within the cap": "impressions within the cap",
    "worst": "worst guess",
}


def terms() -> set[str]:
    """What the first cells of the tables name: bold, code, and what follows a comma."""
    rows = re.findall(r"^\| (.+?) \| ", GLOSSARY, re.MULTILINE)
    found = {term.strip("*` ").lower() for row in rows for term in re.split(r", ", row)}
    return found | {bold.lower() for row in rows for bold in re.findall(r"\*\*(.+?)\*\*", row)}


def headings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            shown = node.args[:1] if name in TILES else []
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in {"heads", "_TITLES", "_OVER_EXPOSED"}
            for target in node.targets
        ):
            shown = getattr(node.value, "elts", [node.value])
        elif isinstance(node, ast.For) and getattr(node.target, "id", "") == "head":
            shown = getattr(node.iter, "elts", [])
        else:
            continue
        yield from (
            each.value.lower()
            for each in shown
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def test_every_heading_has_an_entry() -> None:
    known, shown = terms(), {head for path in SOURCES for head in headings(path)}
    assert {"over-exposed", "people reached", "win rate", "guess"} <= shown, "headings are found"
    missing = {head for head in shown - PLAIN if SAME.get(head, head) not in known}
    assert not missing


def test_no_exception_is_kept_that_nothing_needs() -> None:
    shown = {head for path in SOURCES for head in headings(path)}
    assert not set(SAME) - shown
    assert not PLAIN - shown


def test_every_delivery_state_has_an_entry() -> None:
    assert not set(DELIVERY_STATES) - terms()
