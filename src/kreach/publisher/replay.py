"""How far off the visit model is: history bought again, on people and at times not fitted to.

Groups are split in two at random and history in two halves by time. A model fitted on one half of
the groups in the first half of time measures what campaigns of several patterns, shares and window
lengths would have won among the others in the second half, and the other way round. Where history
is long enough for traffic to drift, thirds of it are tried too: one split would show one drift. As
the truth is known, so is the error, measured / true − 1. What chance alone would explain (the
variance that a report states anyway) is taken out.

Everything is measured twice: at the traffic of history, and at that of the window's own requests
(`CountedRequests`), for an ad system that sees them all.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kreach.boundary.counted_requests import CountedRequests
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.visit_model import ModelError, VisitModel
from kreach.numeric.draws import HOUR_US
from kreach.numeric.types import FloatArray
from kreach.publisher.buying import PATTERNS, window_start, won_rows
from kreach.publisher.contribution import bound_contributions
from kreach.publisher.draw_laws import DrawLaws
from kreach.publisher.visit_fit import fit_visit_model, too_little_history
from kreach.publisher.visit_history import VisitHistory
from kreach.publisher.visitor_fit import CAPS, audience_of, true_reach

__all__ = ["ReplayErrors", "replay_errors", "summary"]

WINDOW_HOURS = (1.0, 6.0, 24.0, 72.0, 168.0, 720.0)  # and longer; all of the half is tried too
SHARES = (0.02, 0.1, 0.3, 1.0)
_WINDOWS_OF_LENGTH = (4, 4, 4, 3, 2, 2)  # of each pattern and share
_MIN_REACH = 30  # people: fewer carry mostly sampling error
_MIN_CASES = 12  # of a window length, else it takes over a neighbour's
_MIN_DAYS = 1.0  # of each piece of history
_DRIFT_DAYS = 21.0
_UNKNOWN = 0.15  # spread where history is too short to be replayed
_MIN_SPREAD = 0.005

_UNKNOWN_TRAFFIC = 1.15  # a flight's over that of the model: so much it differs week by week

_Case = tuple[float, ...]  # errors at the caps, their sampling variances, effects of traffic
_Cases = dict[float, dict[str, list[_Case]]]  # by hours of the window and by pattern


@dataclass(frozen=True, eq=False)
class _ReplayWindow:
    """What a campaign won in a window, whom it reached, and the model at the window's traffic."""

    won: VisitHistory
    truth: list[float]  # by cap
    hours: float
    counted: VisitModel

    def law(self, model: VisitModel, traffic: float = 1.0) -> DrawLaw:
        """What a model says of it."""
        won, audience = self.won, audience_of(self.won)
        window = draws_in_order(audience, won.group, won.at_us, model, traffic, hours=self.hours)
        return DrawLaw(window, model, traffic)


@dataclass
class ReplayErrors:
    """Errors by window length, and what they were computed from."""

    by_window: tuple[ModelError, ...]
    by_window_counted: tuple[ModelError, ...] = ()  # with the window's requests counted
    cases: _Cases = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether history was long enough to be replayed."""
        return bool(self.cases)


def replay_errors(history: VisitHistory, *, seed: int = 0) -> ReplayErrors:
    """The errors of models like the one fitted on this history."""
    history = bound_contributions(history)
    generator = np.random.default_rng([seed, 1])
    chosen = generator.permutation(len(history.sizes)) < len(history.sizes) // 2
    cases: _Cases = {}
    counted: _Cases = {}
    for pieces in (2, 3) if history.days >= _DRIFT_DAYS else (2,):
        for early, late in pairwise(_cut(history, pieces)):
            for people in (chosen, ~chosen):
                fitted_on, tried_on = early.of_groups(people), late.of_groups(~people)
                if _too_little(fitted_on) or _too_little(tried_on):
                    continue
                model, _ = fit_visit_model(fitted_on, seed=seed, min_days=_MIN_DAYS)
                _try_windows(tried_on, model, generator, cases, counted)
    if not cases:
        return ReplayErrors((ModelError(np.inf, 0.0, _UNKNOWN, 0.0, _UNKNOWN),))
    hours = history.days * 12.0
    return ReplayErrors(summary(cases, hours), summary(counted, hours), cases)


def _cut(history: VisitHistory, pieces: int) -> list[VisitHistory]:
    """History in pieces of equal length."""
    edges = np.linspace(int(history.at_us.min()), int(history.at_us.max()) + 1, pieces + 1)
    return [history.between(start, end) for start, end in pairwise(edges.tolist())]


def _too_little(history: VisitHistory) -> bool:
    return len(history) == 0 or too_little_history(history, _MIN_DAYS) is not None


def _try_windows(
    history: VisitHistory,
    model: VisitModel,
    generator: np.random.Generator,
    cases: _Cases,
    counted: _Cases,
) -> None:
    """Measure every pattern and share in windows of every length that history holds."""
    first, last = int(history.at_us.min()), int(history.at_us.max())
    times = np.sort(history.at_us)
    total = (last - first) / HOUR_US
    lengths = [(h, n) for h, n in zip(WINDOW_HOURS, _WINDOWS_OF_LENGTH, strict=True) if h < total]
    lengths.append((total, 1))
    for pattern in PATTERNS:
        for share in SHARES:
            if share == 1.0 and pattern in {"burst", "first of each group"}:
                continue  # is everything, as at random
            replayed: list[_ReplayWindow] = []
            for hours, windows in lengths:
                won = history.where(won_rows(history, pattern, share, generator))
                for _ in range(windows):
                    start = window_start(won, hours, first, last, generator)
                    end = start + hours * HOUR_US + 1
                    inside = won.between(start, end)
                    truth = true_reach(inside.person) if len(inside) >= _MIN_REACH else [0.0]
                    if truth[0] < _MIN_REACH:
                        continue
                    low, high = np.searchsorted(times, (start, end))
                    requests = CountedRequests.between(high - low, history.people, start, end)
                    replayed.append(_ReplayWindow(inside, truth, hours, requests.applied_to(model)))
            for kind, measured in (
                (cases, _measure(replayed, [model] * len(replayed), unknown_traffic=True)),
                (counted, _measure(replayed, [one.counted for one in replayed])),
            ):
                for one, case in zip(replayed, measured, strict=True):
                    by_pattern = kind.setdefault(_bucket(one.hours), defaultdict(list))
                    by_pattern[pattern].append(case)


def _bucket(hours: float) -> float:
    return next((limit for limit in WINDOW_HOURS if hours <= limit), np.inf)


def _measure(
    replayed: Sequence[_ReplayWindow],
    models: Sequence[VisitModel],
    *,
    unknown_traffic: bool = False,
) -> list[_Case]:
    """Errors at the caps, their sampling variances, and what unknown traffic changes."""
    if not replayed:
        return []
    laws = DrawLaws([one.law(model) for one, model in zip(replayed, models, strict=True)], CAPS)
    reach, truth = laws.reach(), np.array([one.truth for one in replayed])
    effects = np.zeros_like(reach)
    if unknown_traffic:
        busier = [
            one.law(model, _UNKNOWN_TRAFFIC) for one, model in zip(replayed, models, strict=True)
        ]
        effects = DrawLaws(busier, CAPS).reach() / reach - 1.0
    table = np.concatenate([reach / truth - 1.0, laws.variance() / truth**2, effects], axis=1)
    return [tuple(row) for row in table.tolist()]


def summary(cases: _Cases, replayed_hours: float) -> tuple[ModelError, ...]:
    """Bias and spread by window length, for every length from an hour to beyond a month.

    A length without enough cases takes over the errors of the next longer one. Lengths longer than
    any replay, and up to that of all history, have the last one's with a spread wider by the root
    of the ratio of the lengths: drift of traffic and habits adds up like a random walk.
    """
    found: dict[float, tuple[float, ...]] = {}
    for limit in (*WINDOW_HOURS, np.inf):
        by_pattern = cases.get(limit, {})
        if sum(map(len, by_pattern.values())) >= _MIN_CASES:
            rows = {pattern: np.array(each) for pattern, each in by_pattern.items()}
            found[limit] = tuple(n for cap in range(len(CAPS)) for n in _moments(rows, cap))
    if not found:
        return (ModelError(np.inf, 0.0, _UNKNOWN, 0.0, _UNKNOWN),)
    result = []
    longest = max(found)
    for limit in (*WINDOW_HOURS, np.inf):
        at = next((length for length in found if length >= limit), longest)
        bias, spread, higher_bias, higher_spread = found[at]
        wider = 1.0
        if limit > longest or longest == limit > replayed_hours:
            longer = min(limit, max(2.0 * replayed_hours, WINDOW_HOURS[-1]))
            wider = max(float(np.sqrt(longer / replayed_hours)), 1.0)
        numbers = (bias, wider * spread, higher_bias, wider * higher_spread)
        result.append(ModelError(limit, *(round(number, 3) for number in numbers)))
    return tuple(result)


def _moments(by_pattern: dict[str, FloatArray], cap: int) -> tuple[float, float]:
    """Bias and spread over patterns, each of which counts alike.

    One replay shows the model's bias together with the drift of traffic between the halves, which
    need not repeat: half of it moves the centre, the other half widens the interval. The spread S
    is such that a 95 % interval holds in 90 of 100 campaigns of *every* pattern: with mean B and
    deviation s of a pattern's errors around the centre, 1.96 S ≥ |B| + 1.28 s. Few splits show
    few drifts, so what a traffic of 15 % more would change in the mean is added in squares (nothing
    where requests are counted).
    """
    means = [float(rows[:, cap].mean()) for rows in by_pattern.values()]
    bias = 0.5 * float(np.mean(means))
    spread = _MIN_SPREAD
    for rows, mean in zip(by_pattern.values(), means, strict=True):
        total, sampling = float(rows[:, cap].var()), float(rows[:, len(CAPS) + cap].mean())
        variance = max(total - sampling, total / 4.0)  # the law may overstate sampling
        off = abs(mean - bias) + 1.28 * float(np.sqrt(variance))
        spread = max(spread, off / 1.96)
    effect = np.mean([rows[:, 2 * len(CAPS) + cap].mean() for rows in by_pattern.values()])
    return bias, float(np.hypot(spread, effect))
