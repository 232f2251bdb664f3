"""Campaigns of the ad system together, as a policy shows them."""

from collections.abc import Mapping

from kreach.adsystem.reports.combined import combined_document
from kreach.adsystem.reports.combined_report import CombinedDocument, PartReport
from kreach.adsystem.reports.measure import cap_reports, measure_exposure
from kreach.adsystem.reports.policy import Subject, Together
from kreach.boundary.times import iso_optional
from kreach.errors import KreachError

__all__ = ["check_together", "together_document"]


def check_together(subjects: Mapping[str, Subject]) -> None:
    """Campaigns are combined on one catalogue and one audience: they pool in its groups."""
    audiences = {name: subject.stored.campaign.audience for name, subject in subjects.items()}
    first, wanted = next(iter(audiences.items()))
    for name, audience in audiences.items():
        if audience != wanted:
            rule = f"all target one audience ({wanted}, as {first} does)"
            raise KreachError.rule("campaign", rule, f"{name} with {audience}")


def together_document(
    subjects: Mapping[str, Subject],
    shown: Together,
    caps: tuple[int, ...],
    level: float,
) -> CombinedDocument:
    """The model's figures of campaigns, by the names that the caller gave them."""
    start, end = iso_optional(shown.window.start), iso_optional(shown.window.end)
    names, first = list(subjects), next(iter(subjects.values()))
    catalogue = first.catalogue.version
    if shown.parts is None:
        return CombinedDocument(
            start=start,
            end=end,
            catalogue=catalogue,
            impressions=None,
            rejected={},
            people=first.audience.targeted_user_count,
            basis=None,
            parts=tuple(
                PartReport(
                    name=name, campaign=name, start=start, end=end, impressions=None, reports=()
                )
                for name in names
            ),
            combined=None,
            suppressed=shown.notes,
        )
    parts = shown.parts
    fields = combined_document(parts, caps, level)
    fields["model"] = shown.traffic.described(fields["model"])
    each = [parts.impressions((at,)) for at in range(len(names))]
    return CombinedDocument(
        start=start,
        end=end,
        catalogue=catalogue,
        impressions=sum(each),
        rejected={},
        parts=tuple(
            PartReport(
                name=name,
                campaign=name,
                start=start,
                end=end,
                impressions=each[at],
                reports=cap_reports(
                    measure_exposure(parts.together((at,)), each[at], parts.people, caps), level
                ),
            )
            for at, name in enumerate(names)
        ),
        suppressed=shown.notes,
        **fields,
    )
