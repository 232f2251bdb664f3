"""`kreach measure`: a reach report for any window of a log."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.combined_tables import parse_windows, show_combined, show_segments
from kreach.cli.common import progress_spinner
from kreach.cli.measure_request import MeasureRequest
from kreach.cli.measure_tables import model_line, show_reach
from kreach.cli.watch import follow
from kreach.errors import KreachError
from kreach.extras import require_extra

if TYPE_CHECKING:
    from kreach.cli.measure_request import Measured

__all__ = ["measure", "open_engine"]


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
    watch: Annotated[
        float | None,
        typer.Option(help="Measure again every so many seconds, until Ctrl-C."),
    ] = None,
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

    kreach measure --groups release/ --impressions log/ --cap 1 --campaign spring --watch 10
    """
    _check_options(level, start, end, by)
    _check_segments(by, segments, panel)
    several = bool(windows) or len(campaigns or ()) > 1
    _check_source(impressions, counts, several or segments is not None or panel is not None)
    if several:
        _refuse_with_several(by)
    request = MeasureRequest(
        groups,
        impressions,
        counts,
        tuple(cap),
        classes,
        tuple(campaigns or ()),
        parse_windows(windows) if windows else None,
        (start, end),
        by,
        segments,
        model,
        traffic,
        panel,
        level,
        unique_ids,
    )
    wants_json = as_json or (as_json is None and not sys.stdout.isatty())

    def measured() -> "Measured":
        with (
            progress_spinner() as progress,
            open_engine(engine, master, memory, checkpoints=checkpoints) as opened,
        ):
            return request.document(opened, progress, may_be_unknown=watch is not None)

    def show(document: "Measured") -> None:
        _print(document, wants_json)

    if watch is None:
        show(measured())
    else:
        follow(measured, show, watch, clear=not wants_json)


def _check_source(impressions: str | None, counts: str | None, by_rows: bool) -> None:
    if (impressions is None) == (counts is None):
        given = "none" if impressions is None else "both"
        raise KreachError.rule("impressions", "be given, or counts instead of them", given)
    if counts is not None and by_rows:
        rule = "be left out with several campaigns or windows, segments and panel: they need rows"
        raise KreachError.rule("counts", rule, counts)


def _print(document: "Measured", wants_json: bool) -> None:
    from kreach.adsystem.reports.combined_report import CombinedDocument, SegmentDocument
    from kreach.adsystem.reports.report import to_json

    if wants_json:
        typer.echo(to_json(document).decode())
    elif isinstance(document, CombinedDocument):
        show_combined(document, model_line(document.model))
    elif isinstance(document, SegmentDocument):
        show_segments(document, model_line(document.model))
    else:
        show_reach(document)


def _check_segments(by: str | None, segments: str | None, panel: Path | None) -> None:
    if (by == "segment") != (segments is not None):
        rule = "come with --segments F, and --segments with it"
        raise KreachError.rule("--by segment", rule, "one of them")
    if segments is not None and panel is not None:
        rule = "be left out with --by segment: it corrects a whole campaign"
        raise KreachError.rule("panel", rule, str(panel))


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
        rule = "be left out with several campaigns or windows: measure one campaign at a time"
        raise KreachError.rule("by", rule, by)


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
