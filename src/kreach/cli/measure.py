"""`kreach measure`: a reach report for any window of a log."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.combined_tables import parse_windows, show_combined, show_segments
from kreach.cli.common import progress_spinner
from kreach.errors import KreachError
from kreach.extras import require_extra

if TYPE_CHECKING:
    from kreach.adsystem.log.tables import GroupTable
    from kreach.adsystem.reports.combined_report import CombinedDocument, SegmentDocument
    from kreach.adsystem.reports.report import (
        CapReport,
        CorrectionInfo,
        ModelInfo,
        ReachDocument,
        SeriesDocument,
    )
    from kreach.adsystem.reports.window import WindowReport

__all__ = ["measure", "open_engine", "with_model"]

_BAR_WIDTH = 40
_MAX_FREQUENCY = 10
_REASONS = {
    "no_time": "without a readable time",
    "no_group": "without a group",
    "no_campaign": "without a campaign",
    "unknown_group": "with a group that is not in the groups file",
    "duplicate": "with a duplicate impression id",
    "other_catalogue": "of another catalogue version",
    "late": "that arrived after the window closed",
    "filed_under_another_day": "in the folder of another day",
    "converted_to_utc": "with a time in another zone, converted to UTC",
    "before_catalogue": "from before the groups were formed",
}


def measure(
    groups: Annotated[str, typer.Option(help="Groups file (group, size, ...) or release folder.")],
    cap: Annotated[list[int], typer.Option(help="Frequency cap; may be repeated.")],
    impressions: Annotated[
        str | None,
        typer.Option(
            help="Impressions: Parquet, CSV, folder, file.duckdb#table, or table:NAME of --engine."
        ),
    ] = None,
    counts: Annotated[
        str | None,
        typer.Option(
            help="Instead of impressions: counts by campaign, period and group "
            "(of kreach log sql, or of the dbt package)."
        ),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Membership classes of overlapping groups.")
    ] = None,
    campaigns: Annotated[
        list[str] | None,
        typer.Option(
            "--campaign", help="Measure only this campaign; several: each and all together."
        ),
    ] = None,
    windows: Annotated[
        list[str] | None,
        typer.Option(
            "--window", help="NAME=START/END; several: each and all together (who came back?)."
        ),
    ] = None,
    start: Annotated[str | None, typer.Option(help="Start of the window (UTC).")] = None,
    end: Annotated[str | None, typer.Option(help="End of the window (UTC), exclusive.")] = None,
    by: Annotated[
        str | None, typer.Option(help="Also a series by hour, day or week; or by segment.")
    ] = None,
    segments: Annotated[
        str | None, typer.Option(help="Segment of each group, for --by segment (group, segment).")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Visit model: its file, a release folder, or none for the formulas of the paper "
            "[default: that of the groups' release, if any]."
        ),
    ] = None,
    traffic: Annotated[
        float, typer.Option(help="Traffic of the site, relative to the model's history.")
    ] = 1.0,
    panel: Annotated[
        Path | None, typer.Option(help="Corrections from `kreach panel`, to correct the reach by.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    engine: Annotated[
        str,
        typer.Option(help="duckdb, spark, clickhouse://user@host/db or postgres://user@host/db."),
    ] = "duckdb",
    master: Annotated[str, typer.Option(help="Spark master URL.")] = "local[*]",
    checkpoints: Annotated[
        str | None,
        typer.Option(help="Folder that all machines of a Spark cluster share, to survive a loss."),
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory limit of DuckDB.")] = "1500MB",
    unique_ids: Annotated[
        bool, typer.Option(help="Assume unique ids; skip de-duplication.")
    ] = False,
    as_json: Annotated[
        bool | None,
        typer.Option(
            "--json/--table", help="Output format; default: tables on a terminal, else JSON."
        ),
    ] = None,
) -> None:
    """Report a campaign's reach, with intervals, for any window of a log.

    Examples:

    kreach measure --groups groups.parquet --impressions log/ --campaign spring --cap 1 --cap 3

    kreach measure --groups release/ --impressions log.csv --cap 1 --start 2026-11-01
    --end 2026-12-01 --by day

    kreach measure --groups release/ --impressions log.csv --cap 1 --campaign spring
    --panel corrections.json

    kreach measure --groups release/ --impressions log.csv --cap 1 --campaign spring
    --campaign summer

    kreach measure --groups release/ --impressions log.csv --cap 1 --campaign spring
    --window october=2026-10-01/2026-11-01 --window november=2026-11-01/2026-12-01

    kreach measure --groups release/ --engine postgres://ads@db.example/ads
    --impressions table:impressions --cap 1 --campaign spring
    """
    from msgspec import structs

    from kreach.adsystem.log.group_table import open_groups
    from kreach.adsystem.reports.by_segment import measure_segments
    from kreach.adsystem.reports.combined import measure_together
    from kreach.adsystem.reports.panel_together import corrected_together
    from kreach.adsystem.reports.panel_window import corrected_series, corrected_window
    from kreach.adsystem.reports.report import to_json
    from kreach.adsystem.reports.window import SeriesReport, measure_series, measure_window
    from kreach.boundary.correction import read_corrections

    _check_options(level, start, end, by)
    _check_segments(by, segments, panel)
    several = bool(windows) or len(campaigns or ()) > 1
    _check_source(impressions, counts, several or segments is not None or panel is not None)
    if several:
        _refuse_with_several(by)
    parts = parse_windows(windows) if windows else None
    campaign = campaigns[0] if campaigns else None
    corrections = () if panel is None else read_corrections(panel)
    with (
        progress_spinner() as progress,
        open_engine(engine, master, memory, checkpoints=checkpoints) as opened,
    ):
        progress("reading the groups")
        table = with_model(open_groups(opened, groups, classes), model, traffic)
        log = _open_log(opened, impressions, counts, unique_ids)
        progress("counting impressions")
        if several:
            together = measure_together(
                log, table, cap, campaigns=campaigns, windows=parts, start=start, end=end
            )
            progress("computing reach")
            document_of_all = (
                together.document(level)
                if panel is None
                else corrected_together(log, table, together, corrections, level)
            )
            _print_together(document_of_all, traffic, as_json)
            return
        if segments is not None:
            found = measure_segments(
                log, table, cap, segments=segments, campaign=campaign, start=start, end=end
            )
            progress("computing reach")
            _print_segments(found.document(level), traffic, as_json)
            return
        report: WindowReport | SeriesReport
        if by is None:
            report = measure_window(log, table, cap, campaign=campaign, start=start, end=end)
        else:
            report = measure_series(log, table, cap, by=by, campaign=campaign, start=start, end=end)
        progress("computing reach")
        if panel is None:
            document: ReachDocument = report.document(level)
        elif isinstance(report, SeriesReport):
            document = corrected_series(log, table, report, corrections, level)
        else:
            document = corrected_window(log, table, report, corrections, level)
        document = structs.replace(document, model=_at_traffic(document.model, traffic))
    if _wants_json(as_json):
        typer.echo(to_json(document).decode())
    else:
        _show(document)


def _check_source(impressions: str | None, counts: str | None, by_rows: bool) -> None:
    if (impressions is None) == (counts is None):
        given = "none" if impressions is None else "both"
        raise KreachError.rule("impressions", "be given, or counts instead of them", given)
    if counts is not None and by_rows:
        rule = "be left out with several campaigns or windows, segments and panel: they need rows"
        raise KreachError.rule("counts", rule, counts)


def _open_log(engine: Any, impressions: str | None, counts: str | None, unique_ids: bool) -> Any:
    from kreach.adsystem.log.count_tables import open_counts
    from kreach.adsystem.log.impression_log import ImpressionLog

    if counts is not None:
        return open_counts(engine, counts)
    return ImpressionLog.open(engine, impressions, unique_ids=unique_ids)


def _print_together(document: "CombinedDocument", traffic: float, as_json: bool | None) -> None:
    from msgspec import structs

    from kreach.adsystem.reports.report import to_json

    document = structs.replace(document, model=_at_traffic(document.model, traffic))
    if _wants_json(as_json):
        typer.echo(to_json(document).decode())
    else:
        show_combined(document, _model_line(document.model))


def _print_segments(document: "SegmentDocument", traffic: float, as_json: bool | None) -> None:
    from msgspec import structs

    from kreach.adsystem.reports.report import to_json

    document = structs.replace(document, model=_at_traffic(document.model, traffic))
    if _wants_json(as_json):
        typer.echo(to_json(document).decode())
    else:
        show_segments(document, _model_line(document.model))


def _check_segments(by: str | None, segments: str | None, panel: Path | None) -> None:
    if (by == "segment") != (segments is not None):
        rule = "come with --segments F, and --segments with it"
        raise KreachError.rule("--by segment", rule, "one of them")
    if segments is not None and panel is not None:
        rule = "be left out with --by segment: it corrects a whole campaign"
        raise KreachError.rule("panel", rule, str(panel))


def _at_traffic(model: "ModelInfo | None", traffic: float) -> "ModelInfo | None":
    from msgspec import structs

    if model is None or traffic == 1.0:
        return model
    return structs.replace(model, traffic=traffic, traffic_source="given")


def _wants_json(as_json: bool | None) -> bool:
    return as_json or (as_json is None and not sys.stdout.isatty())


def _check_options(level: float, start: str | None, end: str | None, by: str | None) -> None:
    """Refuse what no engine could answer, before one is started."""
    from kreach.boundary.checks import as_probability
    from kreach.boundary.times import Window, as_period

    as_probability("level", level)
    Window.between(start, end)
    if by is not None and by != "segment":
        as_period(by)


def _refuse_with_several(by: str | None) -> None:
    if by is not None:
        rule = "be left out with several campaigns or windows (name windows with --window)"
        raise KreachError.rule("by", rule, by)


def with_model(groups: "GroupTable", model: str | None, traffic: float) -> "GroupTable":
    """The groups with the visit model that was asked for, at the given traffic."""
    from kreach.boundary.visit_model import VisitModel

    chosen = groups.model
    if model == "none":
        chosen = None
    elif model is not None:
        chosen = VisitModel.load(model)
    if chosen is None:
        if traffic != 1.0:
            raise KreachError.rule("traffic", "be 1 without a visit model", traffic)
        return groups.with_model(None)
    return groups.with_model(chosen.at_traffic(traffic))


def open_engine(
    name: str,
    master: str,
    memory: str,
    command: str = "kreach measure",
    checkpoints: str | None = None,
) -> Any:
    """The engine of --engine: one that writes files, or for reports a database."""
    if name == "duckdb":
        from kreach.adsystem.log.duckdb_engine import EmbeddedEngine

        return EmbeddedEngine(memory=memory)
    if name == "spark":
        require_extra(f"{command} --engine spark", "spark")
        from kreach.adsystem.log.spark_engine import SparkEngine

        return SparkEngine(master, checkpoints=checkpoints)
    if command != "kreach measure":
        raise KreachError.rule("engine", "be duckdb or spark", name)
    if "://" in name:
        scheme = name.partition("://")[0].lower()
        extra = {"clickhouse": "clickhouse", "postgres": "postgres", "postgresql": "postgres"}
        if scheme in extra:
            require_extra(f"{command} --engine {scheme}://", extra[scheme])
        from kreach.adsystem.log.engine_url import open_warehouse

        return open_warehouse(name)
    rule = "be duckdb, spark, or an address that begins with clickhouse:// or postgres://"
    raise KreachError.rule("engine", rule, name)


def _show(document: "ReachDocument") -> None:
    from rich.console import Console
    from rich.markup import escape

    from kreach.adsystem.reports.report import SeriesDocument

    console = Console(highlight=False)
    campaign = "all campaigns" if document.campaign is None else escape(document.campaign)
    span = "all time"
    if document.start or document.end:
        span = f"{document.start or 'the start'} to {document.end or 'now'}"
    console.print(f"\n[bold]{campaign}[/bold], {span}")
    console.print(
        f"{document.impressions:,} impressions on an audience of {document.people:,} people\n"
    )
    if isinstance(document, SeriesDocument):
        _show_series(console, document)
    _show_reports(console, document)
    _show_frequency(console, document.reports[0])
    _show_warnings(console, document)
    if document.correction is not None:
        _show_correction(console, document.correction)
    console.print(f"[dim]{document.basis}[/dim]")
    console.print(f"[dim]{_model_line(document.model)}[/dim]\n")


def _model_line(model: "ModelInfo | None") -> str:
    if model is None:
        return "model: none"
    if model.name != "visit model":
        return f"model: {model.name}, without times of visits (no visit model)"
    error = "unknown" if model.error is None else f"{model.error:.1%}"
    busy = "" if model.traffic in (None, 1.0) else f", traffic {model.traffic:g} of history's"
    return f"model: {model.name}, error in replays of history {error}{busy}"


def _show_reports(console: Any, document: "ReachDocument") -> None:
    from rich.table import Table

    level = document.reports[0].level
    table = Table(title="Reach", title_justify="left", pad_edge=False)
    heads = ("cap", "reach", f"{level:.0%} interval", "possible", "over-exposed", "frequency")
    for head in heads:
        table.add_column(head, justify="right")
    for row in document.reports:
        table.add_row(
            str(row.cap),
            f"{row.reach:,.1f}",
            _range(row.interval),
            _range(row.bounds),
            f"{row.over_exposed:,.1f}",
            f"{row.average_frequency:.2f}",
        )
    console.print(table)


def _show_correction(console: Any, correction: "CorrectionInfo") -> None:
    moved = "the panel" if correction.weight >= 0.5 else "the model"
    console.print(
        f"corrected by a panel of {correction.panel_share:.0%} of the groups: people reached by "
        f"the model {correction.model_unique_reach:,.0f}, by model and panel "
        f"{correction.panel_unique_reach:,.0f} ± {correction.panel_std:,.0f}; mostly {moved} "
        f"({correction.weight:.0%} panel)"
    )
    if correction.alarm:
        console.print(f"[bold red]alarm:[/bold red] {correction.alarm}")


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{ends[0]:,.0f} to {ends[1]:,.0f}"


def _show_series(console: Any, document: "SeriesDocument") -> None:
    from rich.table import Table

    title = f"By {document.by}, cap {document.reports[0].cap} (reach does not add up over periods)"
    table = Table(title=title, title_justify="left", pad_edge=False)
    for head in (document.by, "impressions", "reach", "reach so far", "interval", "1+", "2+"):
        table.add_column(head, justify="right")
    table.add_column("frequency", justify="right")
    for element in document.series:
        if element.period is None or element.cumulative is None:
            continue  # nothing is withheld from reports on files
        alone, so_far = element.period[0], element.cumulative[0]
        table.add_row(
            element.start.replace("T00:00:00Z", ""),
            f"{element.impressions:,}",
            f"{alone.reach:,.1f}",
            f"{so_far.reach:,.1f}",
            _range(so_far.interval),
            f"{so_far.at_least[0]:,.1f}",
            f"{so_far.at_least[1]:,.1f}",
            f"{so_far.average_frequency:.2f}",
        )
    console.print(table)
    console.print()


def _show_frequency(console: Any, report: "CapReport") -> None:
    """A bar chart of expected people by frequency."""
    people = report.frequency
    last = max((at for at, value in enumerate(people) if value >= 0.5), default=0)
    most = max(people[1:], default=0.0) or 1.0
    console.print("\nPeople by frequency")
    for at in range(1, last + 1):
        label = f"{at}+" if at == _MAX_FREQUENCY else f"{at} "
        bar = "█" * round(_BAR_WIDTH * people[at] / most) or "▏"
        console.print(f"{label:>4} {bar} {people[at]:,.1f}")
    console.print(f"  never: {people[0]:,.1f}\n")


def _show_warnings(console: Any, document: "ReachDocument") -> None:
    shown = (("rejected", document.rejected, "red"), ("note", document.warnings, "yellow"))
    for title, by_reason, colour in shown:
        for reason, rows in by_reason.items():
            if rows and reason == "several_campaigns":
                console.print(
                    f"[{colour}]{title}:[/] the log holds several campaigns, measured as one "
                    "(choose one with --campaign)"
                )
            elif rows:
                noun = "row" if rows == 1 else "rows"
                console.print(f"[{colour}]{title}:[/] {rows:,} {noun} {_REASONS[reason]}")
