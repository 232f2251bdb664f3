"""A sum of many floats, some of which are taken back."""

__all__ = ["RunningSum"]


class RunningSum:
    """A compensated sum: the rounding error of each addition is stored beside it."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._lost = 0.0

    def add(self, value: float) -> None:
        """Add a value, or take it back with the opposite sign."""
        before = self._sum
        self._sum = before + value
        self._lost += value - (self._sum - before)

    @property
    def value(self) -> float:
        """The sum, at least 0."""
        # after everything is reverted only rounding remains, never negative reach
        return max(0.0, self._sum + self._lost)
