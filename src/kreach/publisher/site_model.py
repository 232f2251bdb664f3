"""The visit model of a build: which history it is fitted on, its errors, and what a build says.

Groups formed by visits look perfectly even on the visits that formed them. Their model is therefore
fitted as their dispersion is (`crossfit.py`): the same strategy forms groups by the earlier half of
history, and the model is fitted on the later half. Groups hold the people seen by then, as those of
the build hold the people seen by now. Where a build also groups people whom it has not seen, groups
formed earlier hold everybody too: people who come for the first time are then part of the traffic
that the model is fitted on, as they are part of the flight's. Groups formed by all of history are
better sorted, which `sorting_gain.py` allows for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kreach.boundary.visit_model import VisitModel
from kreach.numeric.meetings import crowded_meeting
from kreach.publisher.directory import Visits
from kreach.publisher.grouping.base import FORMED_BY_VISITS, Assignment, Strategy, form_groups
from kreach.publisher.people import People
from kreach.publisher.replay import replay_errors
from kreach.publisher.sorting_gain import people_grouped_by, sorting_gain
from kreach.publisher.visit_fit import FitQuality, fit_visit_model, too_little_history
from kreach.publisher.visit_history import VisitHistory, round_steps

__all__ = ["SiteModel", "fit_site_model", "history_to_fit"]


@dataclass(frozen=True, eq=False)
class SiteModel:
    """The model of a build, if there is one, and why there is none."""

    model: VisitModel | None
    quality: FitQuality | None
    warnings: tuple[str, ...]

    def facts(self) -> dict[str, Any] | None:
        """What was fitted, for build.json; it stays with the publisher."""
        if self.model is None or self.quality is None:
            return None
        model, errors = self.model, self.quality.replay_errors
        return {
            "lags": model.lags,
            "regulars": model.regulars,
            "lasting": model.lasting,
            "meeting_scale": model.meeting_scale,
            "requests_per_person_day": model.requests_per_person_day,
            "recent_traffic": self.quality.recent_traffic,
            "recent_crowding": self.quality.recent_crowding,
            "people": model.people,
            "history_days": model.history_days,
            "min_people_behind_odds": self.quality.min_people_behind_odds,
            "min_people_behind_meetings": self.quality.min_people_behind_meetings,
            "fit_error": float(np.sqrt(np.mean(errors**2))) if errors.size else None,
            "errors": model.to_json()["errors"],
            "counted_errors": model.to_json()["counted_errors"],
        }


def fit_site_model(
    visits: Visits,
    people: People,
    assignment: Assignment,
    strategy: Strategy,
    seed: int,
    progress: Callable[[str], None],
    *,
    replays: bool = True,
) -> SiteModel:
    """The visit model of a site in these groups, with its errors, or the reason for none.

    Without replays the model has no errors: reports then state sampling error alone.
    """
    if assignment.overlapping:
        return SiteModel(None, None, ("no visit model: groups overlap",))
    history = history_to_fit(visits, people, assignment, strategy, seed)
    reason = too_little_history(history)
    if reason is not None:
        alone = assignment.group_size == 1
        return SiteModel(None, None, () if alone else (f"no visit model: {reason}",))
    progress(f"fitting the visit model on {len(history):,} requests")
    model, quality = fit_visit_model(history, seed=seed)
    if strategy.name in FORMED_BY_VISITS:
        gain = sorting_gain(visits, people, assignment.group_size, strategy, seed)
        model = replace(model, meetings=round_steps(crowded_meeting(model.meetings, gain)))
    if not replays:
        return SiteModel(model, quality, ())
    progress("replaying history to find the errors of the model")
    errors = replay_errors(history, seed=seed)
    warnings = (
        () if errors.measured else ("too little history to find the errors of the visit model",)
    )
    model = replace(model, errors=errors.by_window, counted_errors=errors.by_window_counted)
    return SiteModel(model, quality, warnings)


def history_to_fit(
    visits: Visits, people: People, assignment: Assignment, strategy: Strategy, seed: int
) -> VisitHistory:
    """The visits in these groups; for groups formed by visits, the later ones in like groups."""
    if strategy.name not in FORMED_BY_VISITS or len(visits) == 0:
        return VisitHistory.of(visits.user, assignment.group_of(), visits.at_us, seed)
    middle = len(visits) // 2
    earlier = np.bincount(visits.user[:middle], minlength=people.count)
    unseen = bool((people.visits == 0).any())
    then, number = people_grouped_by(earlier, people, everybody=unseen)
    if then.count < 2 * assignment.group_size:
        then, number = People(earlier, people.attributes), np.arange(people.count)
    like = form_groups(then, assignment.group_size, strategy, seed)
    user, at_us = number[visits.user[middle:]], visits.at_us[middle:]
    mine = user >= 0
    return VisitHistory.of(user[mine], like.group_of(), at_us[mine], seed)
