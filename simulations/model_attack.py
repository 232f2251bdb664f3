"""Is one person's history in a released visit model? A membership game, and how well it is played.

A coin decides whether a target's visits are in the history that a model is fitted on. She is a
member of her group either way: head-counts cross with the groups anyhow. The attacker knows the
target's visits, everybody's group, the seed of the fit and the code; he sees `visit_model.json` and
says which.

    knows all others    he fits both models himself. Either they are the same file, and he throws a
                        coin, or they differ, and he knows.
    knows most others   he knows nine in ten, and draws the rest from people like them. Over such
                        worlds he fits both models, and judges the released one by the linear rule
                        that tells both kinds apart best (`_advantage`).
    two releases        he knows nine in ten, and also has the model of a day earlier, without the
                        target: what he does not know about the others is in both.

The score is the true positive rate less the false positive rate: 0 is a coin, 1 is certainty.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import sqrt

import numpy as np

from kreach.boundary.visit_model import VisitModel
from kreach.lab.visitors import SiteVisitors
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.replay import replay_errors
from kreach.publisher.visit_fit import fit_visit_model
from kreach.publisher.visit_history import VisitHistory

__all__ = [
    "FIELDS",
    "TARGETS",
    "MembershipScore",
    "Pool",
    "changed_fields",
    "membership_scores",
    "target_visits",
]

TARGETS = ("ordinary", "heaviest", "at night", "long gaps")
FIELDS = tuple(
    field.name
    for field in fields(VisitModel)
    if field.name not in {"gap_edges_seconds", "group_size", "people", "errors"}
)
_DAY_US = 86_400_000_000
_HOUR_US = _DAY_US // 24
_MINUTE_US = 60_000_000
_START_SECONDS = 1_772_409_600  # 2026-03-02
_MAX_REQUESTS = 100  # of a session: tables of this length compare
_GAP_DAYS = 20  # of the person who alone comes back after so long
_FOLDS = 5
_SHRINKAGE = 0.5  # of covariances to the diagonal: there are more numbers than worlds
_RIDGE = 0.02


@dataclass(frozen=True, eq=False)
class Pool:
    """Visits of many people, person by person, of whom sites are made."""

    at_us: IntArray
    first: IntArray  # of each person's visits, and the end

    @classmethod
    def of(cls, person: IntArray, at_us: IntArray) -> "Pool":
        """From visits in any order; people are numbered anew."""
        order = np.lexsort((at_us, person))
        _, counts = np.unique(person, return_counts=True)
        return cls(at_us[order], np.concatenate([[0], np.cumsum(counts)]))

    @classmethod
    def simulated(cls, people: int, days: int, seed: int) -> "Pool":
        """Readers of a news portal (`kreach.lab.visitors`), as many as came in so many days."""
        visitors = SiteVisitors.draw(people, None, seed)
        schedule = visitors.schedule(_START_SECONDS, _START_SECONDS + days * 86_400)
        return cls.of(schedule.person, (schedule.at_seconds * 1e6).astype(np.int64))

    @property
    def counts(self) -> IntArray:
        """Visits of each person."""
        return np.diff(self.first)

    def visits(self, people: IntArray) -> tuple[IntArray, IntArray]:
        """The visits of some people, numbered in the order given: person and time of each."""
        counts = self.counts[people]
        person = np.repeat(np.arange(len(people)), counts)
        within = np.arange(len(person)) - np.repeat(np.cumsum(counts) - counts, counts)
        return person, self.at_us[np.repeat(self.first[people], counts) + within]


@dataclass(frozen=True)
class MembershipScore:
    """The advantage over guessing against one target, from these numbers of the model."""

    target: str
    knows: str
    fields: str
    worlds: int
    advantage: float
    error: float


def target_visits(pool: Pool, target: str) -> tuple[IntArray, int | None]:
    """When a target visits, and who of the pool it is, if anybody."""
    counts = pool.counts
    first, last = int(pool.at_us.min()), int(pool.at_us.max())
    days = np.arange((last - first) // _DAY_US)
    if target == "at night":  # every night in the hour in which fewest others come
        quiet = int(np.bincount(pool.at_us // _HOUR_US % 24, minlength=24).argmin())
        start = first // _DAY_US * _DAY_US + _DAY_US + quiet * _HOUR_US
        nights = start + days * _DAY_US + 20 * _MINUTE_US
        return (nights[nights < last - _HOUR_US, None] + _MINUTE_US * np.arange(3)).ravel(), None
    if target == "long gaps":  # weeks before everybody else, and on the last day
        return np.array([first - _GAP_DAYS * _DAY_US, last - _HOUR_US]), None
    who = int(counts.argmax())
    if target == "ordinary":
        returning = np.flatnonzero(counts > 1)
        who = int(returning[np.argsort(counts[returning])[len(returning) // 2]])
    return pool.at_us[pool.first[who] : pool.first[who + 1]], who


@dataclass(frozen=True, eq=False)
class _Site:
    """Groups of so many people, of whom the last is the target; and how models are fitted."""

    group_of: IntArray
    seed: int
    errors: bool = False  # replays take ten times as long

    def model(self, person: IntArray, at_us: IntArray, target: IntArray) -> VisitModel:
        """The released model of everybody's visits and these of the target."""
        whose = np.concatenate([person, np.full(len(target), len(self.group_of) - 1)])
        at_us = np.concatenate([at_us, target])
        history = VisitHistory.of(whose, self.group_of, at_us, self.seed)
        model, _ = fit_visit_model(history, seed=self.seed)
        if not self.errors:
            return model
        return replace(model, errors=replay_errors(history, seed=self.seed).by_window)


def _site(people: int, group_size: int, seed: int, errors: bool = False) -> _Site:
    groups = max(people // group_size, 1)
    order = np.random.default_rng([seed, 2]).permutation(people)
    return _Site(order % groups, seed, errors)


_NOTHING = np.zeros(0, dtype=np.int64)


def changed_fields(
    pool: Pool,
    people: int,
    targets: Mapping[str, IntArray],
    *,
    group_size: int = 20,
    seed: int = 1,
    excluded: Sequence[int] = (),
    errors: bool = False,
) -> dict[str, dict[str, int]]:
    """How many released numbers each target changes, by field, for who knows all others.

    Nothing changed means advantage 0 for the target, anything advantage 1.
    """
    site = _site(people, group_size, seed, errors)
    others = _strangers(pool, people - 1, excluded, np.random.default_rng([seed, 3]))
    person, at_us = pool.visits(others)
    without = _numbers(site.model(person, at_us, _NOTHING))
    result = {}
    for name, visits in targets.items():
        within = _numbers(site.model(person, at_us, visits))
        changes = {field: int((within[field] != without[field]).sum()) for field in without}
        result[name] = {field: count for field, count in changes.items() if count}
    return result


def membership_scores(
    pool: Pool,
    people: int,
    targets: Mapping[str, IntArray],
    *,
    worlds: int = 40,
    known: float = 0.9,
    group_size: int = 20,
    seed: int = 1,
    excluded: Sequence[int] = (),
) -> Iterator[MembershipScore]:
    """The advantage of who knows most others, with one release and with two, by field and in all.

    Each world has other strangers. Of five parts the worlds of four are what the attacker draws
    himself, those of the fifth the games that he plays.
    """
    site = _site(people, group_size, seed)
    generator = np.random.default_rng([seed, 3])
    sure = round(known * (people - 1))
    acquainted = _strangers(pool, sure, excluded, generator)
    before, without = [], []
    within: dict[str, list[dict[str, FloatArray]]] = {name: [] for name in targets}
    last_day = int(pool.at_us.max()) - _DAY_US
    for _ in range(worlds):
        kept_out = [*excluded, *acquainted.tolist()]
        strangers = _strangers(pool, people - 1 - sure, kept_out, generator)
        person, at_us = pool.visits(np.concatenate([acquainted, strangers]))
        earlier = at_us < last_day
        before.append(_numbers(site.model(person[earlier], at_us[earlier], _NOTHING)))
        without.append(_numbers(site.model(person, at_us, _NOTHING)))
        for name, visits in targets.items():
            within[name].append(_numbers(site.model(person, at_us, visits)))
    for name in targets:
        for chosen in (FIELDS, *((field,) for field in FIELDS)):
            old, out, new = (_rows(each, chosen) for each in (before, without, within[name]))
            label = chosen[0] if len(chosen) == 1 else "all"
            advantage, error = _advantage(out, new)
            yield MembershipScore(name, "most others", label, worlds, advantage, error)
            advantage, error = _advantage(np.hstack([out, out - old]), np.hstack([new, new - old]))
            yield MembershipScore(name, "two releases", label, worlds, advantage, error)


def _strangers(
    pool: Pool, count: int, excluded: Sequence[int], generator: np.random.Generator
) -> IntArray:
    """People of the pool taken at random, none of them excluded."""
    free = np.ones(len(pool.counts), dtype=np.bool_)
    free[list(excluded)] = False
    return generator.choice(np.flatnonzero(free), count, replace=False)


def _numbers(model: VisitModel) -> dict[str, FloatArray]:
    """The released numbers by field, in tables of one length."""
    document = model.to_json()
    shares = document["requests_per_session"]
    document["requests_per_session"] = shares + [0.0] * (_MAX_REQUESTS - len(shares))
    result = {name: np.ravel(np.array(document[name], dtype=np.float64)) for name in FIELDS}
    if model.errors:
        entries = [list(entry.values())[1:] for entry in document["errors"]]
        result["errors"] = np.ravel(np.array(entries, dtype=np.float64))
    return result


def _rows(worlds: list[dict[str, FloatArray]], names: Sequence[str]) -> FloatArray:
    return np.stack([np.concatenate([world[name] for name in names]) for world in worlds])


def _advantage(without: FloatArray, within: FloatArray) -> tuple[float, float]:
    """True positives less false positives of a linear rule on worlds that it was not made from.

    The rule is Fisher's, w = C⁻¹(m₁ − m₀), with the covariance drawn to its diagonal; its
    threshold lies halfway.
    """
    worlds = len(without)
    fold = np.arange(worlds) % _FOLDS
    said = np.zeros((2, worlds))
    for number in range(_FOLDS):
        out, new = without[fold != number], within[fold != number]
        both = np.vstack([out, new])
        moving = np.ptp(both, axis=0) > 1e-9
        if not moving.any():
            said[:, fold == number] = 0.5
            continue
        scale = both[:, moving].std(axis=0)
        difference = (new - out).mean(axis=0)[moving] / scale
        middle = 0.5 * (new + out).mean(axis=0)[moving]
        apart = np.vstack([out - out.mean(axis=0), new - new.mean(axis=0)])[:, moving] / scale
        weights = _solved(apart, difference)
        for row, each in enumerate((without, within)):
            score = ((each[fold == number][:, moving] - middle) / scale) @ weights
            said[row, fold == number] = np.where(score == 0.0, 0.5, score > 0.0)
    rates = said.mean(axis=1)
    variance = float((rates * (1.0 - rates)).sum())
    return float(rates[1] - rates[0]), sqrt(max(variance, 1.0 / worlds) / worlds)


def _solved(apart: FloatArray, wanted: FloatArray) -> FloatArray:
    """C⁻¹ of something for C = D + A'A, by Woodbury: there are fewer worlds than numbers."""
    diagonal = _SHRINKAGE * (np.mean(apart**2, axis=0) + _RIDGE)
    rows = apart * np.sqrt((1.0 - _SHRINKAGE) / len(apart))
    inner = np.eye(len(rows)) + (rows / diagonal) @ rows.T
    correction = rows.T @ np.linalg.solve(inner, rows @ (wanted / diagonal))
    result: FloatArray = (wanted - correction) / diagonal
    return result
