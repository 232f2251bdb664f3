"""A publisher's audit on the privacy page: the verdict first, as in the document that is signed."""

from collections.abc import Sequence

from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.input_files import Audit, AuditedAudience, Finding, Linkage
from kreach.adsystem.console.widgets import Table, Text, box

__all__ = ["check_rows", "show_audit_document", "visible_rows"]

_TONES = {"ok": "k-good", "warning": "k-warn", "danger": "k-bad"}
_LEVELS = ("danger", "warning", "ok")  # the worst first
_MAX_AUDIENCES = 50
_NONE = "–"


def show_audit_document(audit: Audit) -> None:
    """Verdict, checks, people whom audiences show, linkage, and what nobody looked at."""
    levels = {finding.level for finding in audit.findings}
    worst = next((level for level in _LEVELS if level in levels), "ok")
    if audit.verdict:
        Text(audit.verdict, "p", f"k-note {_TONES[worst]}", name="verdict")
    if audit.subject is not None:
        subject = audit.subject
        text = f"Catalogue {subject.catalogue} for buyer {subject.buyer}, audited {subject.audited}"
        Text(f"{text} by kreach {subject.kreach}.", "p", "k-sub")
    heads = ["outcome", "check", "result", "required", "meaning"]
    Table(heads, name="checks").show(check_rows(audit.findings))
    _show_visible(audit.visible)
    _show_linkage(audit)
    for title, lines in (
        ("Not examined", audit.not_examined),
        ("Assumptions", audit.assumptions),
    ):
        if lines:
            Text(title, "h3")
            with box("k-list", "ul", title.lower()):
                for line in lines:
                    Text(line, "li", "k-sub")


def check_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Outcome, check, result, required, meaning; the worst first.

    A level that this version does not know comes before all others.
    """
    order = {level: at for at, level in enumerate(_LEVELS)}
    ordered = sorted(findings, key=lambda finding: order.get(finding.level, -1))
    return [
        (one.level, one.check or _NONE, one.number or _NONE, one.floor or _NONE, one.text)
        for one in ordered
    ]


def visible_rows(audiences: Sequence[AuditedAudience]) -> list[tuple[str, ...]]:
    """Audience, people, fewest and median visible in a group, guesses, people below the floors."""
    rows = []
    for one in audiences[:_MAX_AUDIENCES]:
        seen = one.seen
        guesses = (
            "no history" if guess is None else fmt.percent(guess, 0)
            for guess in (seen.mean_guess, seen.worst_guess)
        )
        fewest, median = fmt.count(seen.min_visible), fmt.decimal(seen.median_visible, 1)
        below = fmt.count(seen.people_in_small_groups)
        rows.append((one.audience, fmt.count(seen.people), fewest, median, *guesses, below))
    return rows


def _show_visible(audiences: Sequence[AuditedAudience]) -> None:
    if not audiences:
        return
    Text("People whom a campaign can see", "h3")
    Text(
        "Targeted members of a group who visit, and how often a guess at the busiest of them would "
        "name the visitor: for a random visit, and in the worst group.",
        "p",
        "k-sub",
    )
    heads = ["audience", "people", "fewest in a group", "median", "guess", "worst guess"]
    heads.append("below the floors")
    table = Table(heads, numeric=range(1, len(heads)), name="audited audiences")
    table.show(visible_rows(audiences))


def _show_linkage(audit: Audit) -> None:
    """The attack on versions: simulated ones to come, and those that were."""
    linkage: Sequence[Linkage] = audit.linkage
    if linkage:
        Text("Linkage", "h3")
        text = "Share of people singled out by an observer of every version, newcomers included."
        Text(text, "p", "k-sub")
        heads = ["groups", *(fmt.plural(number, "version") for number in linkage[0].versions)]
        table = Table(heads, numeric=range(1, len(heads)), name="linkage")
        table.show(
            [
                (one.method, *(fmt.percent(share, 2) for share in one.unique_share))
                for one in linkage
            ]
        )
    if audit.past is not None:
        past = audit.past
        Text(
            f"Over the {past.versions} versions so far: {fmt.count(past.singled_out)} people "
            f"singled out, {fmt.count(past.in_small_crowds)} in crowds of fewer than five, "
            f"smallest crowd {fmt.count(past.smallest)}.",
            "p",
            "k-sub",
            name="past linkage",
        )
