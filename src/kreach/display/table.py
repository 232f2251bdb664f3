"""A small table: columns of values with a title, as HTML for notebooks or as columns for frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

__all__ = ["Columns", "Table", "cell_text", "columns_of", "with_pairs"]

Columns = Mapping[str, Sequence[Any]]
_MAX_ROWS = 60
_CELL = "text-align:right;padding:.15em .7em;font-variant-numeric:tabular-nums"


@dataclass(frozen=True)
class Table:
    """What a notebook shows of an object: a title, columns by their heading, and notes below."""

    title: str
    columns: Columns
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The cells, row by row."""
        return list(zip(*self.columns.values(), strict=True))

    def html(self) -> str:
        """The table as HTML that inherits the colors of the page; long tables lose their middle."""
        heads = "".join(f'<th style="{_CELL}">{escape(head)}</th>' for head in self.columns)
        rows, cut = self.rows, ""
        if len(rows) > _MAX_ROWS:
            half = _MAX_ROWS // 2
            cut = f"<div>{len(rows):,} rows, the first and last {half} shown</div>"
            rows = [*rows[:half], *rows[-half:]]
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{_CELL}">{escape(cell_text(cell))}</td>' for cell in row)
            + "</tr>"
            for row in rows
        )
        notes = "".join(f'<div style="opacity:.7">{escape(note)}</div>' for note in self.notes)
        return (
            f'<div class="kreach"><div><b>{escape(self.title)}</b></div>'
            f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>{cut}{notes}</div>"
        )


def cell_text(value: object) -> str:
    """A value as a person reads it.

    >>> cell_text(1234.5678), cell_text(0.012345), cell_text((10.0, 20.0)), cell_text(None)
    ('1,234.6', '0.01235', '10 to 20', '')
    """
    match value:
        case None:
            text = ""
        case bool() | str():
            text = str(value)
        case int():
            text = f"{value:,}"
        case float():
            large = abs(value) >= 1_000.0
            text = f"{value:,.1f}".removesuffix(".0") if large else f"{value:.4g}"
        case datetime():
            text = f"{value:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        case (low, high):
            text = f"{cell_text(low)} to {cell_text(high)}"
        case _:
            text = str(value)
    return text


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows with the same keys as columns."""
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}


def with_pairs(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for a frame: a pair becomes two numbers, longer lists are left out.

    >>> with_pairs({"reach": 5.0, "interval": (4.0, 6.0), "frequency": (1.0, 2.0, 3.0)})
    {'reach': 5.0, 'interval_low': 4.0, 'interval_high': 6.0}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, tuple | list):
            if len(value) == 2:
                flat[f"{name}_low"], flat[f"{name}_high"] = value
        elif not isinstance(value, Mapping):
            flat[name] = value
    return flat
