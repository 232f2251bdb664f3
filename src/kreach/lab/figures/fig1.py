"""Figure 1 (Section 5.1): how reach is distributed when only groups are known."""

from typing import Any

import numpy as np

import kreach as kr
from kreach.lab.exhibits import COLOURS, INK, PAPER_MARK, Exhibit, new_figure
from kreach.lab.scenarios import Run
from kreach.lab.trials import generator_for, run_trials
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["make"]

PEOPLE, GROUP_SIZE, CAP, IMPRESSIONS = 120, 6, 3, 250
TOTALS = (120, 180, 250, 350, 500, 700, 1000)
GROUP_SIZES = tuple(k for k in range(1, PEOPLE + 1) if PEOPLE % k == 0)


def make(run: Run) -> Exhibit:
    """A: reach of 250 impressions; B: of more and fewer; C: variance by group size."""
    trials, draws = run.either((100_000, 400), (20_000, 40))
    audience, counts = _setting(GROUP_SIZE, IMPRESSIONS, run.seed, 0)
    report = kr.measure(audience, counts, CAP)
    sampled = kr.sample_reach(audience, counts, CAP, trials, generator_for(run.seed, 1, 1))
    spreads = {total: _distribution(run.seed, total) for total in TOTALS}
    tasks = [(run.seed, size, draws) for size in GROUP_SIZES]
    variances = run_trials(
        _variance,
        tasks,
        processes=1,  # quicker than starting further ones
        progress=run.progress,
        what="fig1: group sizes",
    )
    by_size = dict(zip(GROUP_SIZES, variances, strict=True))
    exact = report.distribution()
    numbers = {
        "variance_at_k_1": by_size[1],
        "sampled_mean_over_theorem_1": float(sampled.mean()) / report.reach,
        "theorem_1": report.reach,
        "exact_mean": exact.mean,
        "sampled_mean": float(sampled.mean()),
        "exact_variance": report.variance,
        "sampled_variance": float(sampled.var(ddof=1)),
        "variance_by_impressions": {str(n): _variance_of(d) for n, d in spreads.items()},
        "variance_by_group_size": {str(k): v for k, v in by_size.items()},
    }
    return Exhibit(
        "fig1",
        "Figure 1: how reach is distributed when only groups are known",
        "The mean of sampled reach agrees with Theorem 1; the variance rises with impressions and "
        "falls again; it is 0 for k = 1, jumps at k = 2 and grows little after.",
        _finding(numbers),
        "Growth after k = 2 is smaller but not minimal here: by "
        f"{by_size[120] / by_size[2] - 1.0:.0%} from 2 to 120, most of it up to 6. We add the "
        "exact distribution: no need to sample.",
        _setting_text(trials, draws),
        numbers,
        _rows(sampled, exact, spreads, by_size),
        paper={"variance_at_k_1": 0.0, "sampled_mean_over_theorem_1": 1.0},
        figure=_figure(sampled, report, spreads, by_size),
    )


def _setting(
    group_size: int, impressions: int, seed: int, draw: int
) -> tuple[kr.Audience, IntArray]:
    """People in equal groups, and impressions drawn over the groups at random."""
    groups = PEOPLE // group_size
    generator = generator_for(seed, 1, 0, group_size, impressions, draw)
    counts = generator.multinomial(impressions, np.full(groups, 1.0 / groups))
    return kr.Audience.disjoint(np.full(groups, group_size)), counts


def _distribution(seed: int, impressions: int) -> kr.ReachDistribution:
    return kr.measure(*_setting(GROUP_SIZE, impressions, seed, 0), CAP).distribution()


def _variance(task: tuple[int, int, int]) -> float:
    """Exact variance given the impressions by group, averaged over how they may fall."""
    seed, group_size, draws = task
    each = [
        kr.measure(*_setting(group_size, IMPRESSIONS, seed, draw), CAP).variance
        for draw in range(draws)
    ]
    return float(np.mean(each))


def _variance_of(distribution: kr.ReachDistribution) -> float:
    away = distribution.support - distribution.mean
    return float(distribution.pmf @ away**2)


def _finding(numbers: dict[str, Any]) -> str:
    by_size = numbers["variance_by_group_size"]
    by_total = numbers["variance_by_impressions"]
    few, many, peak = str(TOTALS[0]), str(TOTALS[-1]), max(by_total, key=by_total.get)
    return (
        f"Theorem 1 gives {numbers['theorem_1']:.2f}, the exact distribution has the mean "
        f"{numbers['exact_mean']:.2f}, sampling {numbers['sampled_mean']:.2f}. Of the numbers of "
        f"impressions shown, {peak} has the largest variance ({by_total[peak]:.1f}); {few} have "
        f"{by_total[few]:.1f} and {many} have {by_total[many]:.1f}. By group size the variance is "
        f"{by_size['1']:.0f} at k = 1, {by_size['2']:.1f} at 2, {by_size['6']:.1f} at 6 and "
        f"{by_size['120']:.1f} with everybody in one group."
    )


def _setting_text(trials: int, draws: int) -> dict[str, Any]:
    return {
        "people": PEOPLE,
        "group size": GROUP_SIZE,
        "cap": CAP,
        "impressions": IMPRESSIONS,
        "samples": trials,
        "draws of impressions per group size": draws,
    }


def _rows(
    sampled: IntArray,
    exact: kr.ReachDistribution,
    spreads: dict[int, kr.ReachDistribution],
    by_size: dict[int, float],
) -> list[dict[str, Any]]:
    """Probabilities of A and B by reach, variances of C by group size."""
    seen = np.bincount(sampled) / len(sampled)
    rows: list[dict[str, Any]] = [
        {"panel": "C", "group_size": k, "variance": v} for k, v in by_size.items()
    ]
    for reach, chance in zip(exact.support.tolist(), exact.pmf.tolist(), strict=True):
        drawn = float(seen[reach]) if reach < len(seen) else 0.0
        if chance > 1e-9 or drawn:
            row = {"panel": "A", "impressions": IMPRESSIONS, "reach": reach, "exact": chance}
            rows.append({**row, "sampled": drawn})
    for total, law in spreads.items():
        rows.extend(
            {"panel": "B", "impressions": total, "reach": reach, "exact": chance}
            for reach, chance in zip(law.support.tolist(), law.pmf.tolist(), strict=True)
            if chance > 1e-9
        )
    return rows


def _figure(
    sampled: IntArray,
    report: kr.ReachReport,
    spreads: dict[int, kr.ReachDistribution],
    by_size: dict[int, float],
) -> Any:
    figure, (left, middle, right) = new_figure(13.0, 4.6, columns=3)
    exact = report.distribution()
    bins: FloatArray = np.arange(sampled.min(), sampled.max() + 2) - 0.5
    left.hist(sampled, bins, density=True, color=COLOURS[0], alpha=0.35, label="sampled")
    shown = exact.pmf > 1e-6
    left.plot(exact.support[shown], exact.pmf[shown], color=COLOURS[0], label="exact (ours)")
    left.axvline(report.reach, color=PAPER_MARK, linewidth=2.0, label="Theorem 1")
    left.axvline(sampled.mean(), color=INK, linestyle=(0, (4, 4)), label="mean of samples")
    left.set(title="A: 250 impressions", xlabel="reach (impressions under the cap)")
    left.set_ylabel("probability")
    for colour, (total, law) in zip(COLOURS, spreads.items(), strict=False):
        shown = law.pmf > 1e-5
        middle.plot(law.support[shown], law.pmf[shown], color=colour, label=f"{total:,}")
        middle.fill_between(law.support[shown], law.pmf[shown], color=colour, alpha=0.15)
    middle.set(title="B: by number of impressions", xlabel="reach (impressions under the cap)")
    middle.set_ylabel("probability (exact)")
    right.plot(list(by_size), list(by_size.values()), "o-", color=COLOURS[0], markersize=4)
    right.plot([1], [0.0], "D", color=PAPER_MARK, label="the paper: 0 at k = 1", markersize=7)
    right.set(title="C: by group size, 250 impressions", xlabel="group size k (people)")
    right.set_ylabel("variance of reach (exact)")
    for axes, title in ((left, None), (middle, "impressions"), (right, None)):
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.17),
            ncols=4 if title else 2,
            frameon=False,
            title=title,
        )
        axes.set_ylim(bottom=0.0 if axes is not right else -0.02 * max(by_size.values()))
    return figure
