"""The audit as one self-contained HTML page."""

from html import escape
from typing import Any

from kreach.publisher.audit.report import Audit, Spread
from kreach.publisher.audit.visible import visible_rows

__all__ = ["audit_page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --ok: #2e7d4f; --warning: #b26a00;
  --danger: #b3261e; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
ul.findings { list-style: none; padding: 0; }
ul.findings li { padding: .4rem .8rem; margin: .3rem 0; border-left: .35rem solid; }
ul.findings li.ok { border-color: var(--ok); }
ul.findings li.warning { border-color: var(--warning); }
ul.findings li.danger { border-color: var(--danger); }
p.note { opacity: .8; }
"""


def audit_page(report: Audit, title: str) -> str:
    """HTML without external files."""
    findings = "".join(
        f'<li class="{f.level}"><b>{f.level}</b> {escape(f.text)}</li>' for f in report.findings
    )
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{report.people:,} people in {report.groups:,} groups of at least "
        f"{report.group_size} (strategy {escape(report.strategy)}).</p>",
        f'<ul class="findings">{findings}</ul>',
        _sizes(report),
        _linkage(report),
        _intersection(report),
        _visible(report),
        _diversity(report),
        _segments(report),
        _visit_model(report),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    """A table; every column but the first is numeric."""

    def cells(tag: str, row: list[Any]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at else ''}>{escape(str(cell))}</{tag}>"
            for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _spread_row(name: str, spread: Spread) -> list[Any]:
    return [
        name,
        f"{spread.least:,.1f}",
        f"{spread.p05:,.1f}",
        f"{spread.median:,.1f}",
        f"{spread.mean:,.1f}",
    ]


def _sizes(report: Audit) -> str:
    rows = [_spread_row("members", report.sizes)]
    if report.effective is not None:
        rows.append(_spread_row("equally active people it is worth", report.effective))
    if report.intersection.classes is not None:
        rows.append(_spread_row("people per combination of groups", report.intersection.classes))
    heads = ["per group", "least", "lowest 5 %", "median", "mean"]
    note = (
        '<p class="note">A group in which one person makes nearly all visits hides that person '
        "hardly better than a group of one; the second line counts that.</p>"
    )
    return "<h2>Group sizes</h2>" + _table(heads, rows) + note


def _linkage(report: Audit) -> str:
    if not report.linkage:
        return ""
    versions = report.linkage[0].versions
    heads = [
        "singled out after",
        *(f"{v} version{'s' if v > 1 else ''}" for v in versions),
        "moved",
    ]
    rows = [
        [link.method, *(f"{share:.2%}" for share in link.unique_share), f"{link.moved_share:.1%}"]
        for link in report.linkage
    ]
    note = (
        '<p class="note">An observer who sees somebody’s group in every version keeps only the '
        "people who were in all of them. Run on these people, with some leaving and joining each "
        "time. The last column is how many people change group per version.</p>"
    )
    return "<h2>Attack: linkage over time</h2>" + _table(heads, rows) + note


def _intersection(report: Audit) -> str:
    crossing = report.intersection
    rows = [
        [
            "people in combinations of groups below the floor",
            f"{crossing.people_in_small_classes:,}",
        ],
        ["segments compared with their complement", f"{crossing.compared_pairs:,}"],
        ["of these, with a difference that isolates few people", f"{crossing.small_differences:,}"],
        ["people in such differences", f"{crossing.people_in_small_differences:,}"],
    ]
    return "<h2>Attack: intersection</h2>" + _table(["comparison", ""], rows)


def _visible(report: Audit) -> str:
    if not report.visible:
        return ""
    heads = ["audience", "people", "fewest visible", "lowest 5 %", "median", "fewest effective"]
    heads += ["guess", "worst guess", "below the floor"]
    note = (
        '<p class="note">A campaign sees the targeted members of a group who visit. The guess is '
        "the probability that the busiest of them is the visitor, for a random visit and in the "
        "worst group.</p>"
    )
    rows = visible_rows(report.visible)
    return "<h2>Attack: guess the visitor of an audience</h2>" + _table(heads, rows) + note


def _diversity(report: Audit) -> str:
    if not report.diversity:
        return ""
    heads = ["sensitive attribute", "fewest values", "fewest effective", "in uniform groups"]
    rows: list[list[Any]] = [
        [d.attribute, d.min_distinct, f"{d.min_effective:.2f}", f"{d.homogeneous_people:,}"]
        for d in report.diversity
    ]
    return "<h2>Diversity inside groups</h2>" + _table(heads, rows)


def _segments(report: Audit) -> str:
    if not report.segments:
        return ""
    heads = ["segment", "people", "coverage", "below the floor"]
    rows: list[list[Any]] = [
        [s.segment, f"{s.people:,}", f"{s.coverage:.1%}", f"{s.exposed_people:,}"]
        for s in report.segments
    ]
    note = (
        '<p class="note">Coverage: targeted members among all members of groups that hold any. '
        "An audience with people below the floor is refused unless they are dropped.</p>"
    )
    return "<h2>Targeting segments</h2>" + _table(heads, rows) + note


def _visit_model(report: Audit) -> str:
    model = report.visit_model
    if model is None:
        return ""
    rows = [[table.meaning, table.numbers] for table in model.tables]
    return (
        "<h2>Visit model</h2>"
        f'<p class="note">Fitted on {model.people:,} people over {model.history_days:g} days. It '
        "holds these numbers about the site as a whole, and nothing about any group. People "
        f"behind the rarest cell that is not pooled: {model.min_people_behind_odds:,} (sessions), "
        f"{model.min_people_behind_meetings:,} (meetings).</p>" + _table(["table", "numbers"], rows)
    )
