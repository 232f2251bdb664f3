"""The document of several campaigns with corrected numbers in place of the model's.

A panel corrects each campaign and, where it counted them together, their union. Of two campaigns
`only` is the union less the other one, both corrected; of more, whom one campaign alone reached
keeps its share of the union. What is left is the overlap, so the rows still add up to the union.
What parts add, and pairs of parts, begin and end with corrected numbers; the model's lie between.
"""

from collections.abc import Mapping
from math import sqrt

from msgspec import structs

from kreach.adsystem.reports.combined_report import (
    CombinedDocument,
    CombinedReport,
    Increment,
    SetReport,
)
from kreach.adsystem.reports.corrected import CorrectedWindow
from kreach.adsystem.reports.report import CapReport

__all__ = ["corrected_document"]


def corrected_document(
    document: CombinedDocument, alone: Mapping[str, CorrectedWindow], union: CorrectedWindow
) -> CombinedDocument:
    """The document, given what a panel makes of each part, by name, and of all as one."""
    assert document.combined is not None
    reports = [
        _corrected(report, {name: each.reports[at] for name, each in alone.items()}, union, at)
        for at, report in enumerate((document.combined, *document.more_caps))
    ]
    return structs.replace(
        document,
        parts=tuple(
            structs.replace(part, reports=alone[part.name].reports) for part in document.parts
        ),
        combined=reports[0],
        more_caps=tuple(reports[1:]),
        overlap_matrix=_matrix(document, alone, union),
        correction=union.info,
    )


def _corrected(
    report: CombinedReport, alone: Mapping[str, CapReport], union: CorrectedWindow, at: int
) -> CombinedReport:
    """One cap: the union as corrected, and every row of the partition scaled to add up to it."""
    whole = union.reports[at]
    people = _people(report, {name: each.unique_reach for name, each in alone.items()}, whole)
    rows = {name: _scaled(row, people[name]) for name, row in report.only.items()}
    overlap = _scaled(report.overlap, max(whole.unique_reach - sum(people.values()), 0.0))
    total = overlap.reach + sum(row.reach for row in rows.values())
    fit = whole.reach / total if total > 0.0 else 1.0
    if report.cap > 1:
        rows = {name: _fitted(row, fit) for name, row in rows.items()}
        overlap = _fitted(overlap, fit)
    before, steps = 0.0, []
    for step, so_far in zip(report.incremental, _so_far(report, alone, whole), strict=True):
        adds = _scaled(step.adds, so_far - before)
        steps.append(Increment(part=step.part, adds=adds, unique_reach_so_far=so_far))
        before = so_far
    return CombinedReport(
        cap=report.cap,
        union=_as_set(report.union, whole),
        overlap=overlap,
        only=rows,
        incremental=tuple(steps),
    )


def _so_far(
    report: CombinedReport, alone: Mapping[str, CapReport], whole: CapReport
) -> list[float]:
    """People so far: the first part as corrected, all of them the union, the model's in between.

    The model's numbers in between are scaled by what lies between the first ratio and the last.
    """
    model = [step.unique_reach_so_far for step in report.incremental]
    first, last = alone[report.incremental[0].part].unique_reach, whole.unique_reach
    ratios = first / max(model[0], 1e-12), last / max(model[-1], 1e-12)
    found, least = [], 0.0
    for people in model:
        place = (people - model[0]) / max(model[-1] - model[0], 1e-12)
        scaled = people * (ratios[0] + place * (ratios[1] - ratios[0]))
        least = min(max(scaled, least), last)
        found.append(least)
    return [*found[:-1], last]


def _people(
    report: CombinedReport, alone: Mapping[str, float], whole: CapReport
) -> dict[str, float]:
    """People whom one campaign alone reached."""
    if len(alone) == 2:
        first, second = alone
        return {
            first: min(max(whole.unique_reach - alone[second], 0.0), alone[first]),
            second: min(max(whole.unique_reach - alone[first], 0.0), alone[second]),
        }
    ratio = whole.unique_reach / max(report.union.unique_reach, 1e-12)
    return {name: row.unique_reach * ratio for name, row in report.only.items()}


def _scaled(row: SetReport, people: float) -> SetReport:
    """A report of so many people: every figure in proportion."""
    ratio = people / row.unique_reach if row.unique_reach > 0.0 else 0.0
    seen = tuple(ratio * number for number in row.frequency[1:])
    everybody = sum(row.frequency)
    return structs.replace(
        row,
        reach=row.reach * ratio,
        std=row.std * ratio,
        interval=_times(row.interval, ratio),
        over_exposed=row.over_exposed * ratio,
        unique_reach=people,
        unique_reach_interval=_times(row.unique_reach_interval, ratio),
        frequency=(max(everybody - sum(seen), 0.0), *seen),
        at_least=tuple(ratio * number for number in row.at_least),
    )


def _fitted(row: SetReport, ratio: float) -> SetReport:
    """Impressions within the cap so that rows add up to the union's; people stay."""
    return structs.replace(
        row, reach=row.reach * ratio, std=row.std * ratio, interval=_times(row.interval, ratio)
    )


def _times(interval: tuple[float, float], ratio: float) -> tuple[float, float]:
    return interval[0] * ratio, interval[1] * ratio


def _as_set(model: SetReport, whole: CapReport) -> SetReport:
    shared = [name for name in model.__struct_fields__ if hasattr(whole, name)]
    return SetReport(**{name: getattr(whole, name) for name in shared})


def _matrix(
    document: CombinedDocument, alone: Mapping[str, CorrectedWindow], union: CorrectedWindow
) -> tuple[tuple[float, ...], ...]:
    """Each part as corrected, and whom two of them both reached.

    Of two parts that follows from the union. Of more, a pair is the model's number, scaled like its
    parts (geometric mean), within what the parts and the union allow.
    """
    own = [alone[part.name].reports[0].unique_reach for part in document.parts]
    whole, model = union.reports[0].unique_reach, document.overlap_matrix
    ratios = [people / max(model[at][at], 1e-12) for at, people in enumerate(own)]

    def both(one: int, other: int) -> float:
        if one == other:
            return own[one]
        least = max(own[one] + own[other] - whole, 0.0)
        if len(own) == 2:
            return least
        scaled = model[one][other] * sqrt(ratios[one] * ratios[other])
        return min(max(scaled, least), own[one], own[other])

    places = range(len(own))
    return tuple(tuple(both(one, other) for other in places) for one in places)
