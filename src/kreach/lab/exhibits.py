"""The output of a study: figures, rows, numbers next to the paper's, and an HTML report."""

import base64
import csv
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["Exhibit", "check_folder", "new_figure", "write_study"]

INK, PAPER_MARK, MUTED = "#1f2933", "#b4232a", "#7b8794"
COLOURS = ("#2f6f9f", "#d9822b", "#3a7d44", "#8d5fa8", "#a0522d", "#5f6c7b", "#c2527a")

_STYLE = """
body{font:16px/1.55 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:2rem 1.2rem;
color:#1f2933;background:#fff}h1{font-size:1.7rem}h2{font-size:1.25rem;margin-top:2.6rem;
border-top:1px solid #d3dae1;padding-top:1.4rem}img{max-width:100%;height:auto;background:#fff}
dl{display:grid;grid-template-columns:9rem 1fr;gap:.35rem 1rem}dt{color:#52606d}dd{margin:0}
table{border-collapse:collapse;margin:.8rem 0;font-size:.92rem;display:block;overflow-x:auto}
td,th{padding:.25rem .7rem;border-bottom:1px solid #e4e9ee;text-align:right}
td:first-child,th:first-child{text-align:left}.note{background:#f3f6f9;padding:.8rem 1rem;
border-left:4px solid #2f6f9f}details{margin:.6rem 0}summary{cursor:pointer;color:#52606d}
@media (prefers-color-scheme:dark){body{background:#15191e;color:#dbe2e8}h2{border-color:#333c46}
dt,summary{color:#9aa5b1}td,th{border-color:#2a323b}.note{background:#1d232a}}
@media (max-width:40rem){dl{grid-template-columns:1fr}dt{margin-top:.5rem}}
"""
_ROWS_SHOWN = 40


@dataclass(frozen=True)
class Exhibit:
    """One figure or table: the paper's finding, ours, the setting and the rows."""

    name: str  # the stem of its files
    title: str
    paper_finding: str
    our_finding: str
    difference: str  # where and why the two differ; empty if they do not
    setting: Mapping[str, Any]
    numbers: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    paper: Mapping[str, Any] = field(default_factory=dict)
    figure: Any = None  # a matplotlib Figure
    table: Sequence[Mapping[str, Any]] = ()  # shown above the rows

    def summary(self) -> dict[str, Any]:
        """The paper's numbers and ours, side by side."""
        return {
            "paper": dict(self.paper),
            "ours": dict(self.numbers),
            "setting": dict(self.setting),
        }


def new_figure(
    width: float = 7.0, height: float = 4.2, columns: int = 1, rows: int = 1
) -> tuple[Any, Any]:
    """A figure with readable defaults, and its axes (a list of them, row by row, if several)."""
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    look: Any = {
        "font.size": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED,
        "axes.grid": True,
        "grid.color": "#e4e9ee",
        "axes.axisbelow": True,
        "svg.hashsalt": "kreach",  # the same file for the same figure
    }
    with rc_context(look):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, axes[0] if len(axes) == 1 else list(axes)


def check_folder(out: Path) -> Path:
    """Create the output folder. Fails early, before hours of work, if nothing can be written or
    drawn."""
    require_extra("drawing figures", "lab")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KreachError.rule("out", "be a folder", f"{out} ({error.strerror})") from None
    return out


def write_study(
    out: Path,
    title: str,
    exhibits: Sequence[Exhibit],
    summary: Mapping[str, Any],
    advice: Sequence[str] = (),
) -> None:
    """Write `summary.json`, per exhibit a CSV, PNG and SVG, and `report.html` with all of them."""
    check_folder(out)
    (out / "summary.json").write_text(
        json.dumps(summary, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    sections = []
    for exhibit in exhibits:
        _write_rows(out / f"{exhibit.name}.csv", exhibit.rows)
        picture = ""
        if exhibit.figure is not None:
            picture = _draw(out, exhibit)
        sections.append(_section(exhibit, picture))
    (out / "report.html").write_text(_page(title, sections, advice), encoding="utf-8")


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        columns = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def _draw(out: Path, exhibit: Exhibit) -> str:
    from matplotlib import rc_context  # noqa: PLC0415

    with rc_context({"svg.hashsalt": "kreach"}):
        exhibit.figure.savefig(out / f"{exhibit.name}.svg", metadata={"Date": None})
        png = io.BytesIO()
        exhibit.figure.savefig(png, format="png", metadata={"Software": None})
    (out / f"{exhibit.name}.png").write_bytes(png.getvalue())
    data = base64.b64encode(png.getvalue()).decode()
    return f'<img alt="{html.escape(exhibit.title)}" src="data:image/png;base64,{data}">'


def _section(exhibit: Exhibit, picture: str) -> str:
    facts = {
        "The paper": exhibit.paper_finding,
        "We": exhibit.our_finding,
        "Difference": exhibit.difference,
        "Setting": ", ".join(f"{key} {_plain(value)}" for key, value in exhibit.setting.items()),
    }
    items = "".join(
        f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items() if text
    )
    return (
        f"<h2>{html.escape(exhibit.title)}</h2>{picture}<dl>{items}</dl>"
        f"{_numbers(exhibit)}{_table(exhibit.table)}{_rows(exhibit.rows)}"
    )


def _numbers(exhibit: Exhibit) -> str:
    """A table of the paper's numbers and ours, where both are single values."""
    names = [
        name
        for name, value in exhibit.numbers.items()
        if isinstance(value, (int, float, str)) and name in exhibit.paper
    ]
    if not names:
        return ""
    body = "".join(
        f"<tr><td>{html.escape(name.replace('_', ' '))}</td><td>{_text(exhibit.paper[name])}</td>"
        f"<td>{_text(exhibit.numbers[name])}</td></tr>"
        for name in names
    )
    return f"<table><tr><th></th><th>paper</th><th>kreach</th></tr>{body}</table>"


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    more = f" (the first {_ROWS_SHOWN} of {len(rows):,})" if len(rows) > _ROWS_SHOWN else ""
    return f"<details><summary>rows{more}</summary>{_table(rows[:_ROWS_SHOWN])}</details>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(row.get(c, ''))}</td>" for c in columns) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    return html.escape(_plain(value))


def _page(title: str, sections: Sequence[str], advice: Sequence[str]) -> str:
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in advice)
    boxed = f'<div class="note">{notes}</div>' if notes else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>{boxed}{''.join(sections)}</body></html>\n"
    )
