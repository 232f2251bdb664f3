"""A report on a million groups, beside one pass of bincount and beside Theorem 1 user by user."""

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

import kreach as kr
from benchmarks.timing import check_agreement, duration, print_table, race

__all__ = ["run"]

_GROUPS = 1_000_000
_GROUP_SIZE = 20
_MEAN_IMPRESSIONS = 20
_CAP = 3
_SLICE_GROUPS = 1_000

Report = tuple[float, float, float, npt.NDArray[np.float64]]
Counts = npt.NDArray[np.int64]


def run() -> None:
    """Print both comparisons."""
    impressions = np.random.default_rng(1).poisson(_MEAN_IMPRESSIONS, _GROUPS)
    _beside_bincount(impressions)
    _beside_the_formula(impressions[:_SLICE_GROUPS])


def _audience(groups: int) -> kr.Audience:
    return kr.Audience.disjoint(np.full(groups, _GROUP_SIZE))


def _report(audience: kr.Audience, impressions: Counts) -> Report:
    report = kr.measure(audience, impressions, _CAP)
    return report.reach, report.std, report.over_exposed, report.frequency(10)


def _beside_bincount(impressions: Counts) -> None:
    audience = _audience(_GROUPS)
    _report(audience, impressions)  # an audience sorts its groups into kinds once, on first use
    reports = {
        "kr.measure, known audience": lambda: _report(audience, impressions),
        "kr.measure, new audience": lambda: _report(_audience(_GROUPS), impressions),
    }
    counting = {"np.bincount, once": lambda: np.bincount(impressions)}
    timings = race({**counting, **reports}, repeats=15)
    once = timings["np.bincount, once"]

    reach, _, over_exposed, frequency = _report(audience, impressions)
    tally = np.asarray(once.result)
    counts = np.arange(len(tally))
    check_agreement("reach", reach, tally @ _theorem_1(counts) * _GROUP_SIZE, 1e-12)
    check_agreement(
        "over_exposed", over_exposed, tally @ binom.sf(_CAP, counts, 0.05) * _GROUP_SIZE, 1e-12
    )
    check_agreement("frequency", frequency.sum(), _GROUPS * _GROUP_SIZE, 1e-12)

    print_table(
        f"{_GROUPS:,} groups of {_GROUP_SIZE}, cap {_CAP}: reach, std, over_exposed, frequency(10)",
        ("method", "best time", "÷ bincount"),
        [
            (name, duration(timing.seconds), f"{timing.seconds / once.seconds:.1f}")
            for name, timing in timings.items()
        ],
    )


def _theorem_1(trials: Counts) -> npt.NDArray[np.float64]:
    """E[min(X, c)] of one user as the theorem is written, for an array of users."""
    counts = np.arange(1, _CAP + 1)
    seen = binom.pmf(counts[:, None], trials, 1.0 / _GROUP_SIZE)
    result: npt.NDArray[np.float64] = (
        counts @ seen + _CAP - _CAP * binom.cdf(_CAP, trials, 1.0 / _GROUP_SIZE)
    )
    return result


def _user_by_user(trials_by_user: Counts) -> float:
    counts = np.arange(1, _CAP + 1)
    total = 0.0
    for trials in trials_by_user.tolist():
        seen = binom.pmf(counts, trials, 1.0 / _GROUP_SIZE)
        total += counts @ seen + _CAP - _CAP * binom.cdf(_CAP, trials, 1.0 / _GROUP_SIZE)
    return float(total)


def _beside_the_formula(impressions: Counts) -> None:
    audience = _audience(len(impressions))
    trials_by_user = np.repeat(impressions, _GROUP_SIZE)
    methods = {
        "kr.measure": lambda: kr.measure(audience, impressions, _CAP).reach,
        "Theorem 1, array of users": lambda: float(_theorem_1(trials_by_user).sum()),
        "Theorem 1, loop over users": lambda: _user_by_user(trials_by_user),
    }
    timings = race(methods, repeats=4)
    ours = timings["kr.measure"]
    for name, timing in timings.items():
        check_agreement(name, ours.result, timing.result, 1e-11)
    print_table(
        f"Expected reach of {len(trials_by_user):,} users only (the formula for all "
        f"{_GROUPS * _GROUP_SIZE:,} would take too long); nothing is scaled",
        ("method", "best time", "÷ kr.measure"),
        [
            (name, duration(timing.seconds), f"{timing.seconds / ours.seconds:,.0f}")
            for name, timing in timings.items()
        ],
    )
