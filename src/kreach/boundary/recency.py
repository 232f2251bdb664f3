"""The probability that a request is from the group's previous visitor, by the time between.

Visits come in sessions, so two requests of a group within minutes are mostly one person's. The
table is about groups in general, not about any one of them, so it may be released.
"""

from bisect import bisect_right
from dataclasses import dataclass

from kreach.errors import KreachError

__all__ = ["RecencyTable"]


@dataclass(frozen=True)
class RecencyTable:
    """`same_visitor[i]` for gaps in [edges[i−1], edges[i]) seconds; the last is for longer gaps.

    It is the chance that the previous visitor is still there. Otherwise the request is anybody's,
    the previous visitor's included.
    """

    edges_seconds: tuple[float, ...]
    same_visitor: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = self.edges_seconds
        if any(not low < high for low, high in zip((0.0, *edges), edges, strict=False)):
            raise KreachError.rule("edges_seconds", "rise from above 0", edges)
        if len(self.same_visitor) != len(edges) + 1:
            rule = f"have one entry more than edges ({len(edges) + 1})"
            raise KreachError.rule("same_visitor", rule, len(self.same_visitor))
        for share in self.same_visitor:
            if not 0.0 <= share <= 1.0:
                raise KreachError.rule("same_visitor", "lie between 0 and 1", share)

    def same(self, gap_seconds: float) -> float:
        """The probability that a request continues the previous one's visit."""
        return self.same_visitor[bisect_right(self.edges_seconds, gap_seconds)]
