"""The audit as one self-contained HTML page."""

from html import escape
from typing import Any

from kreach.publisher.audit.report import Audit, Spread
from kreach.publisher.audit.visible import visible_rows

__all__ = ["audit_page"]

_STYLE = """
:root { color-scheme: light; --line: #c9ced6; --soft: #5b6470; --ok: #1f6f43; --warning: #8a5200;
  --danger: #a3171c; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: #16191d; background: #fff; max-width: 56rem;
  margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { margin: .5rem 0; } p.note, dt { color: var(--soft); }
.verdict { margin: 1.1rem 0; padding: .8rem 1.1rem; border: 2px solid; border-radius: .4rem;
  font-size: 1.15rem; font-weight: 600; }
.verdict.ok { color: var(--ok); background: #eef7f1; }
.verdict.warning { color: var(--warning); background: #fdf6e9; }
.verdict.danger { color: var(--danger); background: #fdeeee; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: .5rem 1.5rem;
  margin: 1rem 0; } dl div { min-width: 0; } dt { font-size: .85rem; }
dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem .4rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { font-size: .85rem; color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.checks td:nth-child(3), .checks td:nth-child(4) { font-variant-numeric: tabular-nums; }
.checks .check { font-weight: 600; display: block; }
.checks .check::first-letter, .checks .text::first-letter { text-transform: uppercase; }
.checks .text { display: block; } .checks th:nth-child(2) { width: 55%; }
.level { font-weight: 700; text-transform: uppercase; font-size: .75rem; letter-spacing: .04em;
  white-space: nowrap; }
.level.ok { color: var(--ok); } .level.warning { color: var(--warning); }
.level.danger { color: var(--danger); }
.sign { display: grid; grid-template-columns: 1fr 1fr; gap: 2.4rem 2rem; margin-top: 2.6rem; }
.sign div { border-top: 1px solid #16191d; padding-top: .3rem; color: var(--soft); }
@media (max-width: 40rem) { .sign { grid-template-columns: 1fr; }
  .checks th:nth-child(4), .checks td:nth-child(4) { display: none; } }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; }
  h2 { break-after: avoid; } tr, .verdict, .sign, dl { break-inside: avoid; }
  .verdict { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  @page { margin: 18mm; } }
"""
_MAX_SEGMENTS = 30
_LEVELS = ("danger", "warning", "ok")


def audit_page(report: Audit, title: str) -> str:
    """HTML without external files: the verdict, every check, what was not examined, a signature."""
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict {_worst(report)}">{escape(report.verdict)}</p>',
        _subject(report),
        _checks(report),
        _list("What was not examined", report.not_examined),
        _list("What this assumes", report.assumptions),
        _signature(),
        "<h2>Details</h2>",
        _sizes(report),
        _columns(report),
        _segments(report),
        _linkage(report),
        _intersection(report),
        _visible(report),
        _visit_model(report),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def _worst(report: Audit) -> str:
    return next((level for level in _LEVELS if report.count(level)), "ok")


def _subject(report: Audit) -> str:
    """The facts of what was audited."""
    facts = [
        ("People and groups", f"{report.people:,} people in {report.groups:,} groups"),
        ("Group size promised", f"at least {report.group_size}"),
        ("Groups formed by", report.strategy),
    ]
    if report.subject is not None:
        subject = report.subject
        facts = [
            ("Catalogue", subject.catalogue),
            ("For buyer", subject.buyer),
            ("Audited", f"{subject.audited}, kreach {subject.kreach}"),
            *facts,
            ("Released about visits", subject.knowledge),
        ]
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts)
    return f"<dl>{rows}</dl>"


def _checks(report: Audit) -> str:
    """Every check with its number, what is required and the outcome; the worst first."""
    ordered = sorted(report.findings, key=lambda finding: _LEVELS.index(finding.level))
    rows = "".join(
        f'<tr class="{f.level}"><td><span class="level {f.level}">{f.level}</span></td>'
        f'<td><span class="check">{escape(f.check)}</span>'
        f'<span class="text">{escape(f.text)}</span></td>'
        f"<td>{escape(f.number or '–')}</td><td>{escape(f.floor or '–')}</td></tr>"
        for f in ordered
    )
    heads = "".join(f"<th>{head}</th>" for head in ("Outcome", "Check", "Result", "Required"))
    return f'<h2>Checks</h2><table class="checks"><tr>{heads}</tr>{rows}</table>'


def _list(title: str, lines: tuple[str, ...]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if lines else ""


def _signature() -> str:
    lines = ("Name and role", "Decision: released / not released", "Signature", "Date")
    return f'<h2>Decision</h2><div class="sign">{"".join(f"<div>{x}</div>" for x in lines)}</div>'


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
        "people who were in the same groups since. Run on these people, with some leaving and "
        "joining each time; newcomers were in the group that the gateway named before. The last "
        "column is how many people change group per version.</p>"
    )
    return "<h2>Attack: linkage over time</h2>" + _table(heads, rows) + note + _past(report)


def _past(report: Audit) -> str:
    if report.past is None:
        return ""
    past = report.past
    heads = ["versions so far", "singled out", "in small crowds", "smallest crowd", "median"]
    numbers = (past.singled_out, past.in_small_crowds, past.smallest)
    row = [past.versions, *(f"{number:,}" for number in numbers), f"{past.median:,.0f}"]
    note = '<p class="note">Counted on the versions that this one renews.</p>'
    return _table(heads, [row]) + note


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


def _columns(report: Audit) -> str:
    if not report.columns:
        return ""
    heads = ["column", "role", "values", "l", "entropy l", "t", "largest share", "uniform groups"]
    rows: list[list[Any]] = [
        [
            c.name,
            c.role,
            f"{c.values:,}",
            c.min_distinct,
            f"{c.min_entropy_l:.2f}",
            f"{c.max_t:.2f}",
            f"{c.max_share:.0%}",
            f"{c.homogeneous_people:,} people",
        ]
        for c in report.columns
    ]
    note = (
        '<p class="note">Of the worst group: l is how many values it holds, entropy l how many '
        "equally likely ones that is worth, t how far its values are from everybody’s (0 equal, 1 "
        "farthest). Largest share: how often a guess of one value is right.</p>"
    )
    return "<h2>Columns inside groups</h2>" + _table(heads, rows) + note


def _segments(report: Audit) -> str:
    if not report.segments:
        return ""
    shown = report.segments[:_MAX_SEGMENTS]
    heads = ["segment", "people", "coverage", "below the floor"]
    rows: list[list[Any]] = [
        [s.segment, f"{s.people:,}", f"{s.coverage:.1%}", f"{s.exposed_people:,}"] for s in shown
    ]
    note = (
        '<p class="note">Coverage: targeted members among all members of groups that hold any. '
        "An audience with people below the floor is refused unless they are dropped.</p>"
    )
    left = len(report.segments) - len(shown)
    more = f"<p>{left:,} further segments are in the JSON form.</p>" if left else ""
    return "<h2>Targeting segments</h2>" + _table(heads, rows) + more + note


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
