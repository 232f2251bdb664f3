"""How markets show themselves: what bids win and cost."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kreach.display.objects import Tabular
from kreach.display.plots import COLORS, line_with_band, new_axes
from kreach.display.table import Table, cell_text
from kreach.numeric.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarketDisplay"]

_SHOWN = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # win probabilities
_POINTS = 200


class MarketDisplay(Tabular):
    """Win probability and expected cost at bids from the cheap to the expensive end."""

    __slots__ = ()
    auction: str

    def win_probability(self, bid: npt.ArrayLike) -> FloatArray:
        """W(b)."""
        raise NotImplementedError

    def expected_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """H(b)."""
        raise NotImplementedError

    def _price_at(self, share: float) -> float:
        """The price that this share of auctions does not exceed."""
        raise NotImplementedError

    def _facts(self) -> dict[str, Any]:
        """The parameters by name."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The parameters, and what bids win and cost."""
        columns = self._columns()
        return {**self._facts(), **{name: list(values) for name, values in columns.items()}}

    def _columns(self) -> dict[str, list[float]]:
        bids = sorted({self._price_at(share) for share in _SHOWN})
        return {
            "bid": bids,
            "win_probability": self.win_probability(bids).tolist(),
            "expected_cost": self.expected_cost(bids).tolist(),
        }

    def _display(self) -> Table:
        columns = {name.replace("_", " "): values for name, values in self._columns().items()}
        return Table(repr(self), columns, ("a lost auction costs 0",))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Win probability and expected cost by bid."""
        title = f"Market, {self.auction.replace('_', ' ')}"
        ax = new_axes(ax, title, "bid", "win probability")
        bids = np.linspace(0.0, self._price_at(0.98), _POINTS)
        line_with_band(ax, bids.tolist(), self.win_probability(bids).tolist())
        ax.set_ylim(0.0, 1.0)
        ax.set_xlim(left=0.0)
        ax.yaxis.label.set_color(COLORS[0])
        beside = ax.twinx()
        beside.plot(bids, self.expected_cost(bids), color=COLORS[1], linewidth=1.8)
        beside.set_ylabel("expected cost", color=COLORS[1])
        beside.set_ylim(bottom=0.0)
        beside.spines["top"].set_visible(False)
        return ax

    def __repr__(self) -> str:
        facts = ", ".join(
            f"{name}={cell_text(value)}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self._facts().items()
        )
        return f"{type(self).__name__}({facts})"
