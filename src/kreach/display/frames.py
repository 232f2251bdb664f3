"""Columns as data frames of pandas, Polars and Arrow. None of them is needed until asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kreach.display.table import Columns
from kreach.extras import MissingExtra

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["arrow_table", "pandas_frame", "polars_frame"]


def _package(name: str, feature: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingExtra(f"{feature} needs {name}: pip install {name}") from None


def pandas_frame(columns: Columns) -> "pandas.DataFrame":
    """A pandas DataFrame."""
    return _package("pandas", "to_pandas()").DataFrame(_lists(columns))


def polars_frame(columns: Columns) -> "polars.DataFrame":
    """A Polars DataFrame."""
    frame: polars.DataFrame = _package("polars", "to_polars()").DataFrame(_lists(columns))
    return frame


def arrow_table(columns: Columns) -> "pyarrow.Table":
    """A PyArrow Table."""
    return _package("pyarrow", "to_arrow()").table(_lists(columns))


def _lists(columns: Columns) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in columns.items()}
