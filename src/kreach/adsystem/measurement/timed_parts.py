"""Parts whose impressions have times: campaigns together through the site's visit model.

Each set of parts is measured by its own pooled impressions, with its own effective draws and its
own chance that two sessions are one person's: that is what single reports do. Differences of such
reports need not be consistent, because each has a law of its own; so three steps make them so:

* together: at least as many people at every frequency as any part alone, and no more impressions
  within any cap than all parts alone sum up to;
* only: people whom the parts together reached less those whom the rest did, between 0 and those
  whom the part reached; how often they saw it follows from the law of the parts together
  (`numeric/only.py`), draws being sessions;
* the table of people by part (only one part, or several) and frequency is scaled in turns by rows
  and columns until it sums to both.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.combination import Chosen, Combination, part_names
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.part_draws import PartDraws, TimedRows
from kreach.adsystem.measurement.partition import Partition
from kreach.adsystem.measurement.timed_only import TimedOnly
from kreach.adsystem.measurement.times import as_instants
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

__all__ = ["TimedParts", "TimedRows", "combine_times"]


class TimedParts(PartDraws):
    """Parts given as rows with times, on disjoint groups with a visit model."""

    def only(self, part: int, rest: Chosen) -> Exposure:
        if len(rest) + 1 == len(self.names):
            return self._partition.only(part)
        return TimedOnly(self, part, rest)

    def several(self, chosen: Chosen) -> Exposure:
        partition = self._partition if len(chosen) == len(self.names) else Partition(self, chosen)
        return partition.several

    @cached_property
    def _partition(self) -> "Partition":
        return Partition(self, tuple(range(len(self.names))))


def combine_times(
    parts: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike | Sequence[datetime]]],
    audience: Audience,
    cap: int,
    *,
    model: VisitModel,
) -> Combination:
    """Reach of several parts together, from the groups and times of the impressions of each.

    Like `combine`, with the site's visit model: two campaigns that meet a group in one session
    mostly meet one person. Groups and times are those of `measure_times`.

    >>> import kreach as kr
    >>> model = kr.VisitModel.flat(group_size=20)
    >>> rows = {"spring": ([0, 1], [0, 0]), "summer": ([0, 1], [9e6, 9e6])}
    >>> both = combine_times(rows, kr.Audience.disjoint([20, 20]), cap=1, model=model)
    >>> round(both.union.reach, 2), round(both.overlap.reach, 2)
    (3.9, 0.1)
    """
    if not isinstance(audience, DisjointAudience):
        kind = type(audience).__name__
        raise KreachError.rule("audience", "have disjoint groups without visit shares", kind)
    if not isinstance(model, VisitModel):
        raise KreachError.rule("model", "be a VisitModel", type(model).__name__)
    model = model.for_audience(audience)
    names = part_names("parts", parts)
    cap = as_whole_number("cap", cap, minimum=1)
    groups, times = [], []
    for name in names:
        try:
            group_of_part, times_of_part = parts[name]
        except (TypeError, ValueError):
            rule = "be a pair of groups and times"
            raise KreachError.rule(f"parts[{name!r}]", rule, parts[name]) from None
        group = as_counts(f"parts[{name!r}] groups", group_of_part)
        if group.size and group.max() >= audience.group_count:
            rule = f"lie below the number of groups ({audience.group_count})"
            raise KreachError.rule(f"parts[{name!r}] groups", rule, int(group.max()))
        groups.append(group)
        times.append(as_instants(f"parts[{name!r}] times", times_of_part, len(group)))
    number = np.repeat(np.arange(len(names)), [len(group) for group in groups])
    rows = TimedRows.ordered(np.concatenate(groups), np.concatenate(times), number)
    return Combination(TimedParts(audience, names, rows, model), cap)
