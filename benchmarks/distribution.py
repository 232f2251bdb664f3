"""The exact distribution of reach, beside as much Monte Carlo as would be as accurate."""

import numpy as np

import kreach as kr
from benchmarks.timing import check_agreement, duration, print_table, race

__all__ = ["run"]

_GROUPS = 10_000
_GROUP_SIZE = 20
_MEAN_IMPRESSIONS = 20
_CAP = 3
_TAIL = 0.025
_STANDARD_ERROR = 0.5  # of the quantile, in units of reach
_TRIALS = 300


def run() -> None:
    """Print the comparison and how the number of trials follows from the accuracy."""
    impressions = np.random.default_rng(3).poisson(_MEAN_IMPRESSIONS, _GROUPS)
    audience = kr.Audience.disjoint(np.full(_GROUPS, _GROUP_SIZE))

    def exact() -> kr.ReachDistribution:
        return kr.measure(audience, impressions, _CAP).distribution()

    def sampled() -> kr.ReachDistribution:
        samples = kr.sample_reach(audience, impressions, _CAP, _TRIALS, seed=4)
        return kr.ReachDistribution.of_samples(samples)

    timings = race({"exact": exact, "sampled": sampled}, repeats=5)
    seconds, law = timings["exact"].seconds, timings["exact"].result
    low, high = law.quantile(_TAIL), law.quantile(1.0 - _TAIL)
    needed = _trials_needed(law, low)
    per_trial = timings["sampled"].seconds / _TRIALS

    report = kr.measure(audience, impressions, _CAP)
    check_agreement("mean", law.mean, report.reach, 1e-11)
    variance = float(law.pmf @ (law.support - law.mean) ** 2)
    check_agreement("variance", variance, report.variance, 1e-9)
    allowed = 4.0 * report.std / np.sqrt(_TRIALS) / law.mean  # four standard errors
    check_agreement("Monte Carlo mean", timings["sampled"].result.mean, law.mean, float(allowed))

    print_table(
        f"Distribution of reach, {_GROUPS:,} groups of {_GROUP_SIZE}, cap {_CAP}, "
        f"{impressions.sum():,} impressions; 95 % interval {low:,} to {high:,}",
        ("method", "trials", "time", "÷ exact"),
        [
            ("exact", "none", duration(seconds), "1"),
            (
                "Monte Carlo, measured",
                f"{_TRIALS:,}",
                duration(per_trial * _TRIALS),
                f"{per_trial * _TRIALS / seconds:,.0f}",
            ),
            (
                "Monte Carlo, as accurate",
                f"{needed:,}",
                duration(per_trial * needed) + " (scaled up)",
                f"{per_trial * needed / seconds:,.0f}",
            ),
        ],
    )
    coarse = float(np.sqrt(_TAIL * (1.0 - _TAIL) / _TRIALS) / _mass_at(law, low))
    print(
        f"  A quantile from m trials has standard error √(p(1−p)/m) / P(reach = quantile).\n"
        f"  With {_TRIALS:,} trials that is {coarse:.1f}; to get below {_STANDARD_ERROR} of one "
        f"unit of reach at p = {_TAIL}, m = {needed:,}.\n"
        f"  The time for so many is the measured time per trial multiplied, not run."
    )


def _mass_at(law: kr.ReachDistribution, value: int) -> float:
    return float(law.pmf[int(np.searchsorted(law.support, value))])


def _trials_needed(law: kr.ReachDistribution, quantile: int) -> int:
    """m so that √(p(1−p)/m) / density at the quantile is the standard error we ask for."""
    density = _mass_at(law, quantile)
    return int(np.ceil(_TAIL * (1.0 - _TAIL) / (_STANDARD_ERROR * density) ** 2))
