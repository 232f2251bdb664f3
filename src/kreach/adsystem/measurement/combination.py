"""Campaigns together: whom all of them reached, whom several, whom only one, what each adds.

A *part* is a set of impressions with a name: a campaign, a flight, a creative, a window of time.
Impressions of several parts pool in a group before any law is applied, so the reach of parts
together is the reach of their pooled impressions. Everybody whom the parts reached is in exactly
one of these:

    only[a]    reached by a and by no other part
    overlap    reached by two parts or more

so their reports add up to the union's: people, impressions within any cap and frequencies alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.exposure import Exposure, expose
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.measurement.set_exposures import SeveralExposure, only_exposure
from kreach.boundary.audience import Audience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.display.objects import Tabular
from kreach.display.plots import new_axes, stacked_bars
from kreach.display.table import Columns, Table, columns_of, with_pairs
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Combination", "CountedParts", "Parts", "combine"]

MAX_PARTS = 100

Chosen = tuple[int, ...]


class Parts(Protocol):
    """Sets of impressions on one audience, as `Combination` reads them."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def people(self) -> int:
        """Targeted people of the audience."""

    def impressions(self, chosen: Chosen) -> int:
        """Impressions of the chosen parts together."""

    def together(self, chosen: Chosen) -> Exposure:
        """Their pooled impressions."""

    def only(self, part: int, rest: Chosen) -> Exposure:
        """Those whom a part reached and the rest did not."""

    def several(self, chosen: Chosen) -> Exposure:
        """Those whom two or more of the chosen parts reached."""


class CountedParts:
    """Parts given as impressions by group; visits as the audience has them."""

    def __init__(self, audience: Audience, counts: Mapping[str, IntArray]) -> None:
        self._audience = audience
        self.names = tuple(counts)
        self._counts = list(counts.values())
        self._pooled: dict[Chosen, Exposure] = {}

    @property
    def people(self) -> int:
        return self._audience.targeted_user_count

    def impressions(self, chosen: Chosen) -> int:
        return sum(int(self._counts[at].sum()) for at in chosen)

    def together(self, chosen: Chosen) -> Exposure:
        if chosen not in self._pooled:
            self._pooled[chosen] = expose(self._audience, self._sum(chosen))
        return self._pooled[chosen]

    def only(self, part: int, rest: Chosen) -> Exposure:
        return only_exposure(self._audience, self._counts[part], self._sum(rest))

    def several(self, chosen: Chosen) -> Exposure:
        onlys = [self.only(at, tuple(b for b in chosen if b != at)) for at in chosen]
        counts = [self._counts[at] for at in chosen]
        return SeveralExposure(self._audience, counts, self.together(chosen), onlys)

    def _sum(self, chosen: Chosen) -> IntArray:
        total = np.zeros(self._audience.group_count, dtype=np.int64)
        for at in chosen:
            total += self._counts[at]
        return total


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Tabular):
    """Reports of several parts together at one cap. Figures are computed when they are read.

    >>> import kreach as kr
    >>> impressions = {"spring": [4, 4, 0], "summer": [0, 4, 4]}
    >>> both = kr.combine(impressions, kr.Audience.disjoint([20] * 3), cap=1)
    >>> round(both.union.reach, 2), round(both.overlap.reach, 2)
    (14.15, 0.69)
    >>> {name: round(report.reach, 2) for name, report in both.only.items()}
    {'spring': 6.73, 'summer': 6.73}
    """

    parts: Parts
    cap: int
    _reports: dict[tuple[str, int, Chosen], ReachReport] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The parts, in the order given."""
        return self.parts.names

    @property
    def union(self) -> ReachReport:
        """People whom any part reached."""
        return self._together(self._all)

    @cached_property
    def overlap(self) -> ReachReport:
        """People whom two or more parts reached, by all that they saw."""
        return self._report(self.parts.several(self._all), self._all)

    @property
    def only(self) -> dict[str, ReachReport]:
        """By part: people whom it reached and no other part did."""
        return {
            name: self._only(at, tuple(b for b in self._all if b != at))
            for at, name in enumerate(self.names)
        }

    @property
    def each(self) -> dict[str, ReachReport]:
        """By part: the part measured alone."""
        return {name: self._together((at,)) for at, name in enumerate(self.names)}

    def together(self, names: Iterable[str]) -> ReachReport:
        """People whom any of some parts reached.

        >>> import kreach as kr
        >>> parts = {"a": [3], "b": [2], "c": [1]}
        >>> three = kr.combine(parts, kr.Audience.disjoint([4]), cap=1)
        >>> round(three.together(["a", "b"]).reach, 3)
        3.051
        """
        return self._together(tuple(sorted({self._index(name) for name in names})))

    def incremental(self, order: Sequence[str] | None = None) -> dict[str, ReachReport]:
        """By part, in a given order (default: as given): people whom no part before it reached.

        Their numbers at cap 1 add up to the union.

        >>> import kreach as kr
        >>> both = kr.combine({"tv": [3], "web": [3]}, kr.Audience.disjoint([4]), cap=1)
        >>> {name: round(report.reach, 2) for name, report in both.incremental().items()}
        {'tv': 2.31, 'web': 0.98}
        """
        ordered = self.names if order is None else tuple(order)
        if sorted(ordered) != sorted(self.names):
            rule = f"name every part once ({', '.join(self.names)})"
            raise KreachError.rule("order", rule, ", ".join(map(str, ordered)) or "none")
        result: dict[str, ReachReport] = {}
        before: Chosen = ()
        for name in ordered:
            at = self._index(name)
            result[name] = self._only(at, tuple(sorted(before)))
            before = (*before, at)
        return result

    def overlap_of(self, first: str, second: str) -> ReachReport:
        """People whom both of two parts reached."""
        chosen = tuple(sorted((self._index(first), self._index(second))))
        if chosen[0] == chosen[1]:
            raise KreachError.rule("second", "be another part than the first", second)
        key = ("several", 0, chosen)
        if key not in self._reports:
            self._reports[key] = self._report(self.parts.several(chosen), chosen)
        return self._reports[key]

    @cached_property
    def overlap_matrix(self) -> FloatArray:
        """People whom two parts both reached, a row and a column per part (cap 1).

        From the reach of each and of each two together; its diagonal is the reach of each.
        """
        count = len(self.names)
        reach = [self.parts.together((at,)).reach(1) for at in range(count)]
        result = np.diag(np.array(reach))
        for i in range(count):
            for j in range(i):
                both = reach[i] + reach[j] - self.parts.together((j, i)).reach(1)
                result[i, j] = result[j, i] = max(both, 0.0)
        return result

    @property
    def _all(self) -> Chosen:
        return tuple(range(len(self.names)))

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise KreachError.rule("name", f"be one of {', '.join(self.names)}", name)
        return self.names.index(name)

    def _together(self, chosen: Chosen) -> ReachReport:
        key = ("together", 0, chosen)
        if key not in self._reports:
            self._reports[key] = self._report(self.parts.together(chosen), chosen)
        return self._reports[key]

    def _only(self, part: int, rest: Chosen) -> ReachReport:
        if not rest:
            return self._together((part,))
        key = ("only", part, rest)
        if key not in self._reports:
            self._reports[key] = self._report(self.parts.only(part, rest), (part,))
        return self._reports[key]

    def _report(self, exposure: Exposure, chosen: Chosen) -> ReachReport:
        impressions = self.parts.impressions(chosen)
        return ReachReport(self.cap, impressions, self.parts.people, exposure)

    def _sets(self) -> list[tuple[str, str | None, ReachReport]]:
        """Union, overlap, only and alone, with their names."""
        return [
            ("union", None, self.union),
            ("overlap", None, self.overlap),
            *(("only", name, report) for name, report in self.only.items()),
            *(("alone", name, report) for name, report in self.each.items()),
        ]

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Figures of union and overlap, and by part of those whom only it reached and of it alone.

        Intervals are normal, which takes no distribution.
        """
        figures: dict[str, Any] = {"cap": self.cap, "parts": list(self.names)}
        for kind, part, report in self._sets():
            row = {
                "reach": report.reach,
                "std": report.std,
                "interval": report.interval(level, "normal"),
                "level": level,
                "over_exposed": report.over_exposed,
                "average_frequency": report.average_frequency,
            }
            if part is None:
                figures[kind] = row
            else:
                figures.setdefault(kind, {})[part] = row
        return figures

    def _columns(self) -> Columns:
        figures, rows = self.to_dict(), []
        for kind, part, _ in self._sets():
            row = figures[kind] if part is None else figures[kind][part]
            rows.append({"set": kind, "part": part, "cap": self.cap, **with_pairs(row)})
        return columns_of(rows)

    def _display(self) -> Table:
        rows = [
            {
                "": kind if part is None else f"{kind} {part}",
                "reach": report.reach,
                "95% interval": report.interval(0.95, "normal"),
                "frequency": report.average_frequency,
            }
            for kind, part, report in self._sets()
        ]
        return Table(
            f"{', '.join(self.names)} together, cap {self.cap}",
            columns_of(rows),
            ("overlap: reached by two or more; only: by no other; alone: the part by itself",),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """For each part: whom only it reached, and whom another part reached as well."""
        title = f"{self.union.reach:,.0f} reached together"
        ax = new_axes(ax, title, "", f"reach at cap {self.cap}")
        only = [report.reach for report in self.only.values()]
        alone = [report.reach for report in self.each.values()]
        shared = [max(all_ - mine, 0.0) for all_, mine in zip(alone, only, strict=True)]
        stacked_bars(ax, self.names, [("only this one", only), ("others as well", shared)])
        return ax

    def __repr__(self) -> str:
        return (
            f"Combination({', '.join(self.names)}; cap={self.cap}, "
            f"union={self.union.reach:.2f}, overlap={self.overlap.reach:.2f})"
        )


def part_names(name: str, parts: object) -> tuple[str, ...]:
    """The names of parts, checked: text, two of them at least, not too many."""
    if not isinstance(parts, Mapping):
        raise KreachError.rule(name, "map names to impressions", type(parts).__name__)
    for each in parts:
        if not isinstance(each, str) or not each:
            raise KreachError.rule(name, "have names that are text", each)
    if not 2 <= len(parts) <= MAX_PARTS:
        raise KreachError.rule(name, f"hold 2 to {MAX_PARTS} parts", len(parts))
    return tuple(parts)


def combine(impressions: Mapping[str, npt.ArrayLike], audience: Audience, cap: int) -> Combination:
    """Reach of several parts together, from the impressions by group of each.

    The parts are on one audience and share no impression. Assumptions are those of `measure`.

    >>> import kreach as kr
    >>> march, april = [5] * 100, [3] * 100
    >>> months = {"march": march, "april": april}
    >>> both = kr.combine(months, kr.Audience.disjoint([20] * 100), cap=1)
    >>> round(both.union.reach), round(both.overlap.reach)  # returning people
    (673, 65)
    >>> round(both.only["march"].reach)  # lapsed people
    388
    """
    if not isinstance(audience, Audience):
        raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
    names = part_names("impressions", impressions)
    cap = as_whole_number("cap", cap, minimum=1)
    counts = {
        name: as_counts(f"impressions[{name!r}]", impressions[name], length=audience.group_count)
        for name in names
    }
    return Combination(CountedParts(audience, counts), cap)
