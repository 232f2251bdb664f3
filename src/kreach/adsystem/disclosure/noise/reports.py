"""Documents of noisy answers, in the form of exact ones. What noise does not cover is null."""

from itertools import pairwise
from typing import Any

from kreach.adsystem.disclosure.noise.answers import Answer
from kreach.adsystem.disclosure.noise.intervals import Intervals
from kreach.adsystem.disclosure.noise.mechanism import MILLIS, NANOS

__all__ = ["cap_documents", "noise_document"]


def cap_documents(answer: Answer, caps: tuple[int, ...], level: float) -> list[dict[str, Any]]:
    """Reach at each cap; all caps are below the largest frequency that the answer counts."""
    told, shown, people = Intervals(answer), answer.shown, answer.target.people
    edges = [people * MILLIS, *shown.at_least, 0]
    exactly = [more - less for more, less in pairwise(edges)]
    counts = range(1, len(shown.at_least) + 1)
    shared = {
        "unique_reach": shown.at_least[0] / MILLIS,
        "unique_reach_interval": list(told.reach(1, level)),
        "average_frequency": told.average_frequency,
        "average_frequency_interval": list(told.average(level)),
        "frequency": [value / MILLIS for value in exactly],
        "at_least": [value / MILLIS for value in shown.at_least],
        "at_least_intervals": [list(told.at_least(count, level)) for count in counts],
    }
    return [
        {
            "cap": cap,
            "impressions": shown.impressions,
            "reach": sum(shown.at_least[:cap]) / MILLIS,
            "std": told.reach_std(cap),
            "interval": list(told.reach(cap, level)),
            "level": level,
            "interval_method": "noise",
            "bounds": None,  # they would be exact
            "bounds_attained": None,
            "over_exposed": shown.at_least[cap] / MILLIS,
        }
        | shared
        for cap in caps
    ]


def noise_document(answer: Answer) -> dict[str, Any]:
    """How an answer was made: what it cost, and the σ of one of its numbers."""
    people, impressions, spend = answer.strength.parts
    return {
        "rho": answer.strength.rho_nanos / NANOS,
        "max_per_person": answer.strength.max_per_person,
        "std_people": people.scale / MILLIS,
        "std_impressions": impressions.scale,
        "std_spend_micros": spend.scale,
    }
