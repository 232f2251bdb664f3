"""A table of pairs of campaigns: the more people they share, the stronger its color."""

from collections.abc import Sequence

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.comparison import PairShare
from kreach.adsystem.console.widgets import Text, box, scroll_box

__all__ = ["OverlapMatrix"]

_MAX_COLOR = 0.45  # of the brand color: text stays readable on it
_MIN_SCALE = 0.25  # a share from which the color may be the strongest


class OverlapMatrix:
    """Rows and columns are campaigns. It is redrawn only if its numbers change."""

    def __init__(self) -> None:
        self._shown: object = None
        with scroll_box("overlap of two campaigns"):
            self._table = box("k-table k-matrix", "table", "overlap")

    def show(self, names: Sequence[str], pairs: Sequence[Sequence[PairShare]]) -> None:
        """Show the pairs of these campaigns."""
        if (names, pairs) == self._shown:
            return
        self._shown = (names, pairs)
        shares = [pair.share or 0.0 for at, row in enumerate(pairs) for pair in _others(row, at)]
        scale = max([*shares, _MIN_SCALE])
        self._table.clear()
        with self._table:
            with box(tag="thead"), box(tag="tr"):
                Text("of the people of", "th")
                for name in names:
                    Text(name, "th", "k-n").props["scope"] = "col"
            with box(tag="tbody"):
                for at, name in enumerate(names):
                    with box(tag="tr"):
                        Text(name, "th").props["scope"] = "row"
                        for column, pair in enumerate(pairs[at]):
                            _add_cell(pair, None if column == at else scale)


def _others(row: Sequence[PairShare], at: int) -> list[PairShare]:
    return [*row[:at], *row[at + 1 :]]


def _add_cell(pair: PairShare, scale: float | None) -> None:
    """A share in a color relative to `scale`; the people of the campaign itself have none."""
    with box("k-n k-itself" if scale is None else "k-n", "td") as cell:
        if scale is None:
            Text(fmt.count(pair.people))
            Text("people", classes="k-sub")
            return
        Text("—" if pair.share is None else fmt.percent(pair.share))
        Text(fmt.count(pair.people), classes="k-sub")
    color = 100.0 * _MAX_COLOR * (pair.share or 0.0) / scale
    cell.style(f"background: color-mix(in srgb, var(--brand) {color:.1f}%, transparent)")
