"""What every public object of kreach can do in a notebook."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from kreach.display.frames import arrow_table, pandas_frame, polars_frame
from kreach.display.table import Columns, Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Displayed", "HasDocument", "Tabular"]


class Displayed:
    """An object that a notebook shows as a table and that becomes plain values."""

    __slots__ = ()

    def _display(self) -> Table:
        """What a notebook shows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The object as plain values, as JSON can hold them."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._display().html()


class Tabular(Displayed):
    """A displayed object that is a table: its rows become a data frame."""

    __slots__ = ()

    def _columns(self) -> Columns:
        """The rows of a frame, column by column; by default those that are displayed."""
        return self._display().columns

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a pandas DataFrame."""
        return pandas_frame(self._columns())

    def to_polars(self) -> "polars.DataFrame":
        """The rows as a Polars DataFrame."""
        return polars_frame(self._columns())

    def to_arrow(self) -> "pyarrow.Table":
        """The rows as a PyArrow Table."""
        return arrow_table(self._columns())


class HasDocument(Tabular, ABC):
    """A report that is written, shown and tabulated as its document."""

    __slots__ = ()

    @abstractmethod
    def document(self, level: float = 0.95) -> Tabular:
        """The report as a struct with intervals at a level."""

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The report as plain values, as `kreach measure --json` prints it."""
        return self.document(level).to_dict()

    def _columns(self) -> Columns:
        return self.document()._columns()

    def _display(self) -> Table:
        return self.document()._display()
