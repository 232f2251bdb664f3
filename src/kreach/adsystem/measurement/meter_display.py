"""How streaming meters show themselves: reach so far, a row per cap."""

from typing import TYPE_CHECKING, Any

from kreach.display.objects import Tabular
from kreach.display.plots import bars, new_axes
from kreach.display.table import Columns, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MeterDisplay"]


class MeterDisplay(Tabular):
    """Reach so far by cap, of whatever has `reach`."""

    __slots__ = ()

    @property
    def reach(self) -> dict[int, float]:
        """Expected reach so far, by cap."""
        raise NotImplementedError

    def _facts(self) -> dict[str, Any]:
        """What else there is to say, by name."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Reach so far by cap, and what was counted."""
        return {**self._facts(), "reach": dict(self.reach)}

    def _display(self) -> Table:
        reach = self.reach
        facts = ", ".join(f"{value:,} {name}" for name, value in self._facts().items())
        columns: Columns = {"cap": list(reach), "reach": list(reach.values())}
        return Table(f"{type(self).__name__}: {facts}", columns)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach so far by cap."""
        reach = self.reach
        ax = new_axes(ax, "Reach so far", "frequency cap", "reach within the cap")
        bars(ax, [str(cap) for cap in reach], list(reach.values()), width=0.5)
        return ax

    def __repr__(self) -> str:
        facts = "".join(f"{name}={value:,}, " for name, value in self._facts().items())
        reach = ", ".join(f"{cap}: {value:,.2f}" for cap, value in self.reach.items())
        return f"{type(self).__name__}({facts}reach={{{reach}}})"
