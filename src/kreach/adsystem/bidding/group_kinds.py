"""Kinds of group: p(n) by kind, what a publisher who caps lets through, and classes of kinds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.adsystem.measurement.probability import profile_reach_probability
from kreach.adsystem.measurement.visitor_table import ModelProbability
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.meetings import PARTS
from kreach.numeric.probability import group_reach_probability
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "KindProbability",
    "Passing",
    "kind_classes",
    "kind_probabilities",
    "planned_days",
    "session_continuation",
]

_SAMPLED_PROFILES = 200
_MAX_CLASSES = 16  # of kinds that are planned together
_CLASS_WIDTH = 0.05  # of size and share targeted, at first
_PLANNED_DAYS = 8  # that a plan spreads draws over, to tell how often two are one person's

KindProbability = Callable[[int | IntArray, FloatArray], FloatArray]
"""(kind, impressions) → reach probability; the kind of all, or of each."""


def kind_classes(probability: KindProbability, kinds: int) -> tuple[IntArray, IntArray]:
    """The class of each kind, and a kind of each class: sizes within some per cent are one."""
    every = np.arange(kinds)
    size, targeted = getattr(probability, "size", None), getattr(probability, "targeted", None)
    if kinds <= _MAX_CLASSES or size is None or targeted is None:
        return every, every
    traits = [np.log(size), targeted / size]
    dispersion = getattr(probability, "dispersion", None)
    if dispersion is not None:
        traits.append(np.log(np.minimum(dispersion, 1e6)))
    width = _CLASS_WIDTH
    while True:
        cells = np.stack([np.floor(trait / width) for trait in traits], axis=1)
        alone = (size == 1.0) | (targeted == 0.0)  # these are worth all or nothing
        cells = np.concatenate([cells, alone[:, None]], axis=1)
        _, number = np.unique(cells, axis=0, return_inverse=True)
        number = number.ravel()
        if number.max() < _MAX_CLASSES:
            break
        width *= 1.5
    order = np.lexsort((size, number))
    ends = np.searchsorted(number[order], np.arange(number.max() + 2))
    return number, order[(ends[:-1] + ends[1:] - 1) // 2]


@dataclass(frozen=True)
class Passing:
    """P(a bid is not dropped) where a share of a group's draws is within the publisher's memory."""

    under_cap: KindProbability
    share: float
    _known: dict[int, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, kind: int, draws: FloatArray) -> FloatArray:
        recent = self.share * np.maximum(draws, 0.0)
        whole = recent.astype(np.int64)
        known = self._known_up_to(kind, int(whole.max(initial=0)) + 1)
        low, high = known[whole], known[whole + 1]
        first = max(float(known[0]), 1e-300)  # whom the campaign targets
        result: FloatArray = (low + (recent - whole) * (high - low)) / first
        return result

    def _known_up_to(self, kind: int, most: int) -> FloatArray:
        """P(under the cap) after 0, 1, ... draws; computed once."""
        known = self._known.get(kind)
        start = 0 if known is None else len(known)
        if known is None or most >= start:
            more = np.arange(start, max(most + 1, 2 * start, 64), dtype=np.float64)
            added = self.under_cap(kind, more)
            known = added if known is None else np.concatenate([known, added])
            self._known[kind] = known
        return known


def kind_probabilities(
    audience: Audience, cap: int, model: VisitModel | None = None
) -> tuple[KindProbability, IntArray]:
    """p(n) by kind of group, and the kind of each group; with a visit model n is draws.

    Kinds of a disjoint audience are its own. Any other audience is planned with one average group:
    for profiled ones p averaged over (a sample of) the groups, for overlapping ones as if the
    groups were disjoint.
    """
    one_kind = np.zeros(audience.group_count, dtype=np.int64)
    if isinstance(audience, ProfiledAudience):
        step = max(1, audience.group_count // _SAMPLED_PROFILES)
        profiles = [audience.shares_of(j) for j in range(0, audience.group_count, step)]
        return _AverageProfile(tuple(profiles), cap), one_kind
    if isinstance(audience, EveryImpression):
        return _always, one_kind
    if isinstance(audience, DisjointAudience):
        kinds = audience.kinds
        of_group = one_kind if kinds.of_group is None else kinds.of_group
    else:
        kinds, of_group = Audience.disjoint([round(audience.group_sizes.mean())]).kinds, one_kind
    if model is not None:
        meeting = model.meeting_probability(planned_days(model))
        once = np.ones(1)  # a session is planned to be won once
        by_model = ModelProbability(kinds.size, kinds.targeted, model, meeting, cap, once)
        return by_model, of_group
    return _ByKind(kinds.size, kinds.targeted, kinds.dispersion, cap), of_group


def planned_days(model: VisitModel) -> FloatArray:
    """The calendar that plans assume: draws at all hours, as the site's traffic, for eight days."""
    by_part = model.hourly_traffic.reshape(PARTS, -1).mean(axis=1)
    result: FloatArray = np.tile(by_part, (_PLANNED_DAYS, 1))
    return result


def session_continuation(model: VisitModel | None) -> float:
    """The chance that a request is followed by another of its session."""
    return 0.0 if model is None else 1.0 - 1.0 / model.mean_requests_per_session


# classes rather than functions inside functions: a plan can then be solved in another process


@dataclass(frozen=True)
class _ByKind:
    size: FloatArray
    targeted: FloatArray
    dispersion: FloatArray
    cap: int

    def __call__(self, kind: int | IntArray, impressions: FloatArray) -> FloatArray:
        n: FloatArray = np.rint(np.maximum(impressions, 0.0))
        size, targeted, dispersion = (
            np.broadcast_to(column[kind], n.shape)
            for column in (self.size, self.targeted, self.dispersion)
        )
        return group_reach_probability(size, targeted, n, dispersion, self.cap)


@dataclass(frozen=True)
class _AverageProfile:
    profiles: tuple[FloatArray, ...]
    cap: int

    def __call__(self, kind: int | IntArray, impressions: FloatArray) -> FloatArray:
        del kind  # there is one
        n: FloatArray = np.rint(np.maximum(impressions, 0.0))
        each = [profile_reach_probability(shares, n, self.cap) for shares in self.profiles]
        result: FloatArray = np.mean(each, axis=0)
        return result


def _always(kind: int | IntArray, impressions: FloatArray) -> FloatArray:
    del kind
    return np.ones(len(impressions))
