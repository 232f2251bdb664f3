"""The paper's figures and its table: one module each, with `make(run)` for the exhibit."""

from collections.abc import Callable

from kreach.lab.exhibits import Exhibit
from kreach.lab.figures import fig1, fig2, fig5, fig6, fig7, table1
from kreach.lab.scenarios import Run

__all__ = ["FIGURES"]

FIGURES: dict[str, Callable[[Run], Exhibit]] = {
    "fig1": fig1.make,
    "fig2": fig2.make,
    "fig5": fig5.make,
    "fig6": fig6.make,
    "table1": table1.make,
    "fig7": fig7.make,
}
