"""The nightly job: a day of all bidders merged (`OUT/log/day=…`), and its reach (`OUT/daily/…`)."""

from collections.abc import Callable, Sequence
from datetime import datetime

from kreach.adsystem.jobs.listing import digest
from kreach.adsystem.jobs.merge import merge_day
from kreach.adsystem.jobs.options import JobOptions
from kreach.adsystem.jobs.output import LOG_FACTS, REACH_FACTS, read_manifest
from kreach.adsystem.jobs.reach import Period
from kreach.adsystem.jobs.runs import Done, Run, Summary, do_periods
from kreach.adsystem.jobs.sources import LOG, day_folder
from kreach.adsystem.jobs.table import FILE, write_reach

__all__ = ["DAILY", "NIGHTLY", "run_nightly"]

NIGHTLY = "nightly"
DAILY = "daily"


def run_nightly(
    options: JobOptions,
    periods: Sequence[Period],
    now: datetime,
    progress: Callable[[str], object] = lambda _: None,
) -> Summary:
    """Write days in order, up to the first that is not complete; `now` precedes all reads.

    A day that exists, log and reach, and from the same files, is left unchanged.
    """
    return do_periods(NIGHTLY, options, periods, now, progress, _day)


def _day(run: Run, period: Period) -> Done:
    day = period.start.date()
    log_name, daily_name = day_folder(LOG, day), day_folder(DAILY, day)
    folders = (run.options.out / log_name, run.options.out / daily_name)
    if not run.complete(period):
        raise run.refuse(period)
    merged = None if run.options.force else run.sources.merged(day)
    until = run.sources.listed(period.end)
    old = read_manifest(folders[1], REACH_FACTS)
    if merged is not None and old is not None and old["digest"] == digest(until):
        return Done(period, "unchanged", folders, old)
    files = run.view.of_day(day)
    run.refuse_loss(folders[0], read_manifest(folders[0], LOG_FACTS), files)
    run.refuse_loss(folders[1], old, until)
    with run.output.draft(f"log-{day}") as log, run.output.draft(f"daily-{day}") as daily:
        parts: dict[str, int] = {}
        if merged is None:
            parts = merge_day(run.engine, files, period, log, run.options.rows_per_file)
            merged = [log / name for name in parts]
        rows = run.reach(period, merged, {day: merged})
        facts = run.facts(period, until, rows)
        write_reach(rows, period.end, daily / FILE)
        if parts:
            with run.output.log_locked(alone=True):  # an hourly run may be reading
                run.output.put(log, log_name, run.source_facts(period, files) | {"parts": parts})
        # Killed here, the day has a new log and no reach yet: the next run sees that.
        run.output.put(daily, daily_name, facts)
    return Done(period, "written", folders, facts)
