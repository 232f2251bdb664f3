"""Reach from impressions with their times, through the site's visit model."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.drawn import DrawnExposure, GroupDraws
from kreach.adsystem.measurement.report import ReachReport
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.times import to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.draws import HOUR_US, sum_by
from kreach.numeric.meetings import PART_US, calendar
from kreach.numeric.types import IntArray

__all__ = ["as_instants", "group_draws", "measure_times"]

_MAX_SECONDS = 2.5e11  # in the year 9892


def measure_times(
    audience: Audience,
    groups: npt.ArrayLike,
    times: npt.ArrayLike | Sequence[datetime],
    caps: Sequence[int],
    *,
    model: VisitModel,
    traffic: float = 1.0,
    hours: float | None = None,
) -> dict[int, ReachReport]:
    """Measure impressions of known times: one report per cap, right in any window.

    `groups` are group indices and `times` datetimes (UTC if they have no zone), NumPy datetimes or
    seconds since 1970, in any order. `traffic` is how busy the site is relative to the history
    that the model was fitted on; more traffic means that fewer impressions are one person's.
    `hours` is the length of the window (default: from the first impression to the last).

    >>> model = VisitModel.flat(group_size=20)
    >>> reports = measure_times(Audience.disjoint([20]), [0, 0], [0, 60], [1, 3], model=model)
    >>> round(reports[1].reach, 2), round(reports[3].reach, 2)
    (1.95, 2.0)
    """
    if not isinstance(audience, DisjointAudience):
        kind = type(audience).__name__
        raise KreachError.rule("audience", "have disjoint groups without visit shares", kind)
    if not isinstance(model, VisitModel):
        raise KreachError.rule("model", "be a VisitModel", type(model).__name__)
    model = model.for_audience(audience).at_traffic(traffic)
    if hours is not None and not (isinstance(hours, (int, float)) and 0.0 <= hours < 1e9):
        raise KreachError.rule("hours", "be a number ≥ 0, or None", hours)
    try:
        listed = [as_whole_number("caps", cap, minimum=1) for cap in caps]
    except TypeError:
        raise KreachError.rule("caps", "be a list of caps", caps) from None
    if not listed:
        raise KreachError.rule("caps", "name at least one cap", "none")
    group = as_counts("groups", groups)
    if group.size and group.max() >= audience.group_count:
        rule = f"lie below the number of groups ({audience.group_count})"
        raise KreachError.rule("groups", rule, int(group.max()))
    at_us = as_instants("times", times, len(group))
    order = np.lexsort((at_us, group))
    window = draws_in_order(audience, group[order], at_us[order], model, hours=hours)
    exposure = DrawnExposure(window, model)
    return {
        cap: ReachReport(cap, len(group), audience.targeted_user_count, exposure) for cap in listed
    }


def group_draws(groups: int, group: IntArray, at_us: IntArray, model: VisitModel) -> GroupDraws:
    """The effective draws of so many groups; rows come ordered by group, then time."""
    share = model.draw_shares(group, at_us)
    hours = float(at_us.max() - at_us.min()) / HOUR_US if len(at_us) else 0.0
    return GroupDraws(
        model,
        sum_by(group, share, groups),
        sum_by(group, share * (1.0 - share), groups),
        calendar(at_us // PART_US, share),
        hours,
    )


def as_instants(name: str, times: npt.ArrayLike | Sequence[datetime], length: int) -> IntArray:
    """Microseconds since 1970 of datetimes, NumPy datetimes or seconds."""
    rule = "be datetimes or seconds since 1970"
    try:
        values = np.asarray(times)
    except ValueError:
        raise KreachError.rule(name, rule, "lists of different lengths") from None
    if values.ndim != 1:
        raise KreachError.rule(
            name, "be a list of times", times if values.ndim == 0 else values.shape
        )
    if values.dtype == object:
        for at, moment in enumerate(values.tolist()):
            if not isinstance(moment, datetime):
                raise KreachError.rule(f"{name}[{at}]", rule, moment)
        moments = [m if m.tzinfo else m.replace(tzinfo=UTC) for m in values.tolist()]
        result = np.array([to_micros(moment) for moment in moments], dtype=np.int64)
    elif np.issubdtype(values.dtype, np.datetime64):
        if np.isnat(values).any():
            raise KreachError.rule(name, "have no missing time", "NaT")
        result = values.astype("datetime64[us]").astype(np.int64)
    elif values.size == 0:
        result = np.zeros(0, dtype=np.int64)
    elif np.issubdtype(values.dtype, np.number):
        wrong = np.flatnonzero(~(np.abs(values.astype(np.float64)) < _MAX_SECONDS))
        if wrong.size:
            raise KreachError.rule(f"{name}[{wrong[0]}]", rule, values[wrong[0]].item())
        result = np.round(values.astype(np.float64) * 1e6).astype(np.int64)
    else:
        raise KreachError.rule(f"{name}[0]", rule, values[0].item())
    if result.shape != (length,):
        rule = f"have one entry per impression ({length})"
        raise KreachError.rule(name, rule, result.shape)
    return result
