"""The hourly job, `OUT/hourly/day=…/hour=…`: reach of every campaign in an hour, and so far."""

from collections.abc import Callable, Sequence
from datetime import datetime

from kreach.adsystem.jobs.listing import digest
from kreach.adsystem.jobs.options import JobOptions
from kreach.adsystem.jobs.output import REACH_FACTS, read_manifest
from kreach.adsystem.jobs.reach import Period, refuse_duplicates
from kreach.adsystem.jobs.runs import Done, Run, Summary, do_periods
from kreach.adsystem.jobs.table import FILE, write_reach
from kreach.errors import KreachError

__all__ = ["HOURLY", "run_hourly"]

HOURLY = "hourly"


def run_hourly(
    options: JobOptions,
    periods: Sequence[Period],
    now: datetime,
    progress: Callable[[str], object] = lambda _: None,
) -> Summary:
    """Write hours in order, up to the first that is not complete; `now` precedes all reads.

    An hour that exists, complete and from the same files, is left unchanged.
    """
    return do_periods(HOURLY, options, periods, now, progress, _hour)


def _hour(run: Run, period: Period) -> Done:
    name = f"{HOURLY}/day={period.start:%Y-%m-%d}/hour={period.start:%H}"
    folder = run.options.out / name
    complete = run.complete(period)
    if not complete and not run.options.partial:
        raise run.refuse(period)
    if period.start >= run.now:
        raise KreachError.rule("hour", f"have begun ({run.now:%Y-%m-%dT%H:%MZ})", str(period.start))
    files = run.sources.listed(period.end)
    old = read_manifest(folder, REACH_FACTS)
    whole = old is not None and old["complete"] and not run.options.force
    if old is not None and whole and (old["digest"] == digest(files) or not complete):
        return Done(period, "unchanged", (folder,), old)
    run.refuse_loss(folder, old, files)
    with run.output.log_locked(alone=False):  # merged days must not be replaced meanwhile
        own = run.sources.of_day(period.start.date(), period.end)
        refuse_duplicates(run.engine, own, period)
        rows = run.reach(period, own)
    facts = run.facts(period, files, rows)
    with run.output.draft(f"{period.start:%Y%m%dT%H}") as draft:
        write_reach(rows, datetime.fromisoformat(facts["complete_until"]), draft / FILE)
        run.output.put(draft, name, facts)
    return Done(period, "written" if complete else "partial", (folder,), facts)
