"""Reproduce the paper's figures and table: run, compare, write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.lab.exhibits import Exhibit, check_folder, write_study
from kreach.lab.figures import FIGURES
from kreach.lab.scenarios import Run

__all__ = ["chosen_figures", "comparison", "reproduce"]

_TITLE = "The paper's figures, reproduced"
_ADVICE = (
    "Red marks are what the paper states. Where it leaves a setting open, the setting that we "
    "chose is listed under the figure.",
)


def chosen_figures(names: Sequence[str]) -> list[str]:
    """The named figures in the paper's order, each once; all of them if none is named.

    >>> chosen_figures(["fig7", "fig2", "fig7"])
    ['fig2', 'fig7']
    """
    for name in names:
        if name not in FIGURES:
            raise KreachError.rule("figure", f"be one of {', '.join(FIGURES)}", name)
    return [name for name in FIGURES if name in names or not names]


def reproduce(names: Sequence[str], out: Path, run: Run) -> list[Exhibit]:
    """Compute the named figures and write them to a folder with `summary.json` and `report.html`.

    The same seed gives the same digits for any number of processes.
    """
    chosen = chosen_figures(names)
    as_whole_number("seed", run.seed, minimum=0)
    if run.processes is not None:
        as_whole_number("processes", run.processes, minimum=1)
    check_folder(out)
    exhibits = []
    for name in chosen:
        run.progress(name)
        exhibits.append(FIGURES[name](run))
    summary = {exhibit.name: exhibit.summary() for exhibit in exhibits}
    write_study(out, _TITLE, exhibits, summary, _ADVICE)
    return exhibits


def comparison(exhibit: Exhibit) -> str:
    """The paper's numbers and ours on one line, or our finding where the paper states none."""
    pairs = [
        f"{name.replace('_', ' ')}: {_short(exhibit.numbers[name])} (paper {_short(value)})"
        for name, value in exhibit.paper.items()
        if name in exhibit.numbers
    ]
    return "; ".join(pairs) if pairs else exhibit.our_finding


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
