"""Fit the visit model of a site on its history.

`docs/visit-model.md` says what each number means. In short: sessions are counted
(`visit_history.py`), pairs of sessions are counted (`meeting_table.py`), both are moved to recent
traffic, and three numbers are fitted on replays (`visitor_fit.py`). How far off the model is on
other people at other times is found by `replay.py`.
"""

from dataclasses import dataclass, replace

import numpy as np

from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.meetings import crowded_meeting
from kreach.numeric.types import FloatArray
from kreach.publisher.contribution import bound_contributions
from kreach.publisher.meeting_table import meeting_table, recent_crowding
from kreach.publisher.visit_history import (
    GAP_EDGES_SECONDS,
    VisitHistory,
    continuation_odds,
    hourly_traffic,
    requests_per_session,
    round_steps,
    sessions,
)
from kreach.publisher.visitor_fit import fit_visitors

__all__ = ["FitQuality", "fit_visit_model", "too_little_history"]

MIN_RETURNING_PEOPLE = 200  # with two requests or more
MIN_DAYS = 2.0
_DAY_US = 86_400_000_000
_WEEK_US = 7 * _DAY_US
_LAGS = ((50.5, 3), (200.5, 6), (np.inf, 16))  # larger groups: sessions interleave, more matter
_MAX_REQUESTS = 4_000_000  # of whole groups taken at random: more would not be more accurate


@dataclass(frozen=True, eq=False)
class FitQuality:
    """What a fit rests on: people behind the rarest released cells, and errors on its replays."""

    min_people_behind_odds: int
    min_people_behind_meetings: int
    recent_traffic: float  # over that of all history
    recent_crowding: float  # others about per session of one's own, over that of all history
    replay_errors: FloatArray  # measured / true − 1 by (replay, cap 1 or 3)


def too_little_history(history: VisitHistory, min_days: float = MIN_DAYS) -> str | None:
    """Why no model can be fitted, or None; a fit takes no more than so much from one person."""
    if history.sizes.max(initial=0) < 2:
        return "groups of one person need no visit model"
    bounded = bound_contributions(history) if len(history) else history
    people = bounded.returning_people
    if people and bounded.days < min_days:
        return f"history spans {bounded.days:.1f} days; a visit model needs {min_days:g}"
    if people < MIN_RETURNING_PEOPLE:
        return (
            f"{people} people made two requests or more; a visit model needs {MIN_RETURNING_PEOPLE}"
        )
    return None


def fit_visit_model(
    history: VisitHistory, *, seed: int = 0, lags: int | None = None, min_days: float = MIN_DAYS
) -> tuple[VisitModel, FitQuality]:
    """The visit model of the site, without errors; refuses too little history."""
    reason = too_little_history(history, min_days)
    if reason is not None:
        raise KreachError.rule("history", "be enough for a visit model", reason)
    history = bound_contributions(history)
    sample, copies, counted, replays = np.random.default_rng(seed).spawn(4)
    people, days = history.people, history.days
    recent_us, factor, rate = _recent_traffic(history)
    history = _sample(history, sample)
    size = float(history.sizes.mean())
    if lags is None:
        lags = next(count for limit, count in _LAGS if size < limit)
    session, start = sessions(history.person, history.at_us)
    traffic = hourly_traffic(history)
    odds, behind_odds = continuation_odds(history, session, traffic, lags, copies)
    meetings, behind_meetings = meeting_table(
        history.person[start], history.group[start], history.at_us[start], counted
    )
    model = VisitModel(
        group_size=round(size, 3),
        gap_edges_seconds=GAP_EDGES_SECONDS,
        continuation_odds=odds,
        hourly_traffic=traffic,
        requests_per_session=requests_per_session(history.person, session),
        meetings=meetings,
        regulars=min(max(0.15, 1.0 / size), 0.6),
        lasting=0.5,
        people=people,
        history_days=round(days, 1),
    )
    # Without requests a day: those of the model are recent ones, and where traffic has fallen a
    # replay of all that came earlier would prove more traffic than the model knows.
    model, errors = fit_visitors(history, model, replays)
    crowding = factor
    if recent_us is not None:
        late = start & (history.at_us >= recent_us)
        crowding = recent_crowding(
            meetings, history.person[late], history.group[late], history.at_us[late], factor
        )
    model = replace(
        model,
        continuation_odds=round_steps(odds / factor),
        meetings=round_steps(crowded_meeting(meetings, crowding)),
        requests_per_person_day=float(f"{rate / people:.2g}"),
    )
    return model, FitQuality(behind_odds, behind_meetings, factor, crowding, errors)


def _sample(history: VisitHistory, generator: np.random.Generator) -> VisitHistory:
    """Whole groups taken at random, as many as make a fit accurate."""
    if len(history) <= _MAX_REQUESTS:
        return history
    share = _MAX_REQUESTS / len(history)
    groups = max(round(share * len(history.sizes)), 1)
    chosen = generator.permutation(len(history.sizes)) < groups
    return history.of_groups(chosen)


def _recent_traffic(history: VisitHistory) -> tuple[int | None, float, float]:
    """When recent begins, recent requests a day over those of all history, recent requests a day.

    Recent is a quarter of history in whole weeks, and a week at least; all of history where it
    is shorter than three weeks.
    """
    first, last = int(history.at_us.min()), int(history.at_us.max())
    span = max(last - first, 1)
    overall = len(history) / span * _DAY_US
    if span < 3 * _WEEK_US:
        return None, 1.0, overall
    recent_us = max(span // 4 // _WEEK_US, 1) * _WEEK_US
    recent = np.count_nonzero(history.at_us > last - recent_us) / recent_us * _DAY_US
    factor = float(np.clip(recent / overall, 0.1, 10.0))
    return last - recent_us + 1, factor, float(recent)
