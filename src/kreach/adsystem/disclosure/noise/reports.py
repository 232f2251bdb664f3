"""Reports of noisy answers, in the form of exact ones. What noise does not cover is withheld."""

from itertools import pairwise

from kreach.adsystem.disclosure.noise.answers import NoisyAnswer
from kreach.adsystem.disclosure.noise.intervals import Intervals
from kreach.adsystem.reports.report import CapReport, NoiseInfo
from kreach.boundary.discrete_noise import MILLIS, NANOS

__all__ = ["noise_info", "noisy_cap_reports"]


def noisy_cap_reports(
    answer: NoisyAnswer, caps: tuple[int, ...], level: float
) -> tuple[CapReport, ...]:
    """Reach at each cap; all caps are below the largest frequency that the answer counts."""
    intervals, shown, people = Intervals(answer), answer.shown, answer.target.people
    edges = [people * MILLIS, *shown.at_least, 0]
    frequency = tuple((more - less) / MILLIS for more, less in pairwise(edges))
    counts = range(1, len(shown.at_least) + 1)
    at_least_intervals = tuple(intervals.at_least(count, level) for count in counts)
    return tuple(
        CapReport(
            cap=cap,
            impressions=shown.impressions,
            reach=sum(shown.at_least[:cap]) / MILLIS,
            std=intervals.reach_std(cap),
            interval=intervals.reach(cap, level),
            level=level,
            interval_method="noise",
            bounds=None,  # they would be exact
            bounds_attained=None,
            over_exposed=shown.at_least[cap] / MILLIS,
            unique_reach=shown.at_least[0] / MILLIS,
            unique_reach_interval=intervals.reach(1, level),
            average_frequency=intervals.average_frequency,
            average_frequency_interval=intervals.average(level),
            frequency=frequency,
            at_least=tuple(value / MILLIS for value in shown.at_least),
            at_least_intervals=at_least_intervals,
        )
        for cap in caps
    )


def noise_info(answer: NoisyAnswer) -> NoiseInfo:
    """The noise of an answer: its cost in ρ, and the σ of each of its numbers."""
    people, impressions, spend = answer.strength.parts
    return NoiseInfo(
        rho=answer.strength.rho_nanos / NANOS,
        max_per_person=answer.strength.max_per_person,
        std_people=people.scale / MILLIS,
        std_impressions=impressions.scale,
        std_spend_micros=spend.scale,
    )
