"""A solved plan: the multiplier, and for each kind of group what later requests cannot make up."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Discounts", "Plan"]


@dataclass(frozen=True)
class Discounts:
    """worth/p by requests to come (rows) and impressions so far (columns), in blocks of both."""

    table: FloatArray
    first: float  # impressions of column 0
    block: float  # impressions of a column
    step: float  # requests of a row

    @classmethod
    def of(cls, worth: FloatArray, first: float, block: float, step: float) -> "Discounts":
        """From worth: nothing comes later than row 0, where worth = p."""
        ratio = worth / np.maximum(worth[0], 1e-300)
        return cls(np.clip(ratio, 0.0, 1.0), first, block, step)

    @cached_property
    def _rows(self) -> list[list[float]]:
        """As plain lists: a look-up from Python costs well under a microsecond."""
        rows: list[list[float]] = self.table.tolist()
        return rows

    def one(self, impressions: float, requests_left: float) -> float:
        """The discount of one group."""
        rows = self._rows
        last_row, last_column = len(rows) - 1, len(rows[0]) - 1
        y = min(requests_left / self.step, last_row)
        x = min(max((impressions - self.first) / self.block, 0.0), last_column)
        row, column = int(y), int(x)
        y, x = y - row, x - column
        here, after = rows[row], rows[min(row + 1, last_row)]
        right = min(column + 1, last_column)
        low = here[column] * (1.0 - x) + here[right] * x
        return low * (1.0 - y) + (after[column] * (1.0 - x) + after[right] * x) * y

    def many(self, impressions: IntArray | FloatArray, requests_left: FloatArray) -> FloatArray:
        """The discounts of many."""
        table = self.table
        last_row, last_column = table.shape[0] - 1, table.shape[1] - 1
        y = np.minimum(requests_left / self.step, last_row)
        x = np.clip((impressions - self.first) / self.block, 0.0, last_column)
        row, column = y.astype(np.int64), x.astype(np.int64)
        y, x = y - row, x - column
        after, right = np.minimum(row + 1, last_row), np.minimum(column + 1, last_column)
        low = table[row, column] * (1.0 - x) + table[row, right] * x
        high = table[after, column] * (1.0 - x) + table[after, right] * x
        result: FloatArray = low * (1.0 - y) + high * y
        return result


class Plan:
    """A solved plan: what a request is worth, and the multiplier that turns worth into money."""

    def __init__(
        self,
        multiplier: float,
        discounts: list[Discounts | None],
        spend: float,
        reach: float,
        response: Response,
        more: float = 0.0,
        max_cost_per_reach: float | None = None,
    ) -> None:
        """`discounts`: by kind of group; None where no request is to come."""
        self.multiplier = multiplier
        self.max_cost_per_reach = max_cost_per_reach
        self.expected_spend = spend
        self.expected_reach = reach
        self.response = response  # of the market to a session, if requests come in sessions
        self.more = more
        self.shortfall: str | None = None  # why less than the budget can be spent
        self._discounts = discounts

    def without_tables(self) -> "Plan":
        """The same plan for somebody who has its tables in another form."""
        plan = Plan(
            self.multiplier,
            [None] * len(self._discounts),
            self.expected_spend,
            self.expected_reach,
            self.response,
            self.more,
            self.max_cost_per_reach,
        )
        plan.shortfall = self.shortfall
        return plan

    @property
    def limited(self) -> bool:
        """Whether the limit of what a further reach may cost holds spend back."""
        most = self.max_cost_per_reach
        return most is not None and self.multiplier * most <= 1.0 + 1e-9

    def discount(self, kind: int, impressions: float, requests_left: float) -> float:
        """worth/p: the part of a request's reach probability that later ones cannot make up."""
        discounts = self._discounts[kind]
        if discounts is None:
            return 1.0
        return discounts.one(impressions, requests_left * (1.0 - self.more))

    def discounts(
        self, kind: int, impressions: IntArray | FloatArray, requests_left: FloatArray
    ) -> FloatArray:
        """`discount` for many groups of one kind."""
        discounts = self._discounts[kind]
        if discounts is None:
            return np.ones(np.shape(impressions))
        return discounts.many(impressions, requests_left * (1.0 - self.more))

    def request_value(self, worth: float) -> float:
        """The value in money of one request that adds so much reach, later ones considered."""
        value = worth / self.multiplier
        if self.more <= 0.0:
            return value
        return float(self.response.request_value(np.array(value)))
