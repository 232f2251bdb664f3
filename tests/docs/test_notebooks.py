"""The example notebooks run from the first cell to the last, and are stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.test_docs import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_are_three() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert names == {"measure_a_log", "choose_k", "plan_a_campaign"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:  # type: ignore[no-untyped-call]
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=120, kernel_name="python3", resources=resources).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert not [each for each in shown if each.output_type == "error"]
    pictures = [each for each in shown if "image/png" in each.get("data", {})]
    tables = [each for each in shown if "text/html" in each.get("data", {})]
    assert pictures
    assert tables
