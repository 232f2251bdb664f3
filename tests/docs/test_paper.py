"""The table of the paper names code and tests that exist, and every piece of the paper."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "paper.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("| piece", "|---"))
]
CODE = sorted(set(re.findall(r"`((?:kreach|benchmarks)\.[\w.]+(?::[\w.]+)?)`", PAGE.read_text())))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE.read_text())))
PIECES = [
    *(f"Theorem {number}" for number in range(1, 7)),
    *(f"Corollary {number}" for number in range(1, 5)),
    "Lemma 1",
    "Algorithm 1",
    "Algorithm 2",
    *(f"Figure {name}" for name in ("1A", "1B", "1C", "2", "5", "6", "7")),
    "Table 1",
]


@pytest.mark.parametrize("name", CODE)
def test_code_that_is_named_exists(name: str) -> None:
    module, _, path = name.partition(":")
    value = import_module(module)
    for part in path.split(".") if path else ():
        value = getattr(value, part)


@pytest.mark.parametrize("name", TESTS)
def test_tests_that_are_named_exist(name: str) -> None:
    file, _, function = name.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert function in found if function else any(one.startswith("test_") for one in found)


@pytest.mark.parametrize("piece", PIECES)
def test_every_piece_of_the_paper_has_a_row(piece: str) -> None:
    (row,) = (row for row in ROWS if row[0] == piece)
    assert len(row) == 5
    assert "`kreach." in row[2]
    assert "`tests/" in row[3]


def test_every_row_names_code_test_and_result() -> None:
    for row in ROWS:
        assert len(row) == 5, row
        assert "`kreach." in row[2], row
        assert "`tests/" in row[3], row
        assert row[4], row
