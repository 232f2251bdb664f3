"""One run of a job: its inputs, whether a period is complete, and the result of each period."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from kreach.adsystem.jobs.audiences import JobAudiences, read_campaigns
from kreach.adsystem.jobs.engines import JobEngine, open_engine
from kreach.adsystem.jobs.listing import ListedFile, digest, view_log
from kreach.adsystem.jobs.options import JobOptions
from kreach.adsystem.jobs.output import OutputFolder
from kreach.adsystem.jobs.reach import Period, flight_starts, period_totals, reach_rows
from kreach.adsystem.jobs.sources import Sources
from kreach.adsystem.jobs.table import ReachRow
from kreach.boundary.times import iso_text
from kreach.errors import KreachError

__all__ = ["Done", "NotComplete", "Run", "Summary", "do_periods"]

_MOVING = timedelta(minutes=5)  # how often a bidder moves expired rows, unless set otherwise


class NotComplete(KreachError):
    """Impressions of the period may still come, or are not in files yet."""

    period: Period
    try_again: datetime | None  # None: not known


@dataclass(frozen=True)
class Done:
    """A period, its state (`written`, `partial` or `unchanged`), and the facts of its manifest."""

    period: Period
    state: str
    folders: tuple[Path, ...]
    facts: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """As plain values."""
        reported = ("impressions", "spend_micros", "campaigns", "rows", "not_measured")
        return {
            "start": iso_text(self.period.start),
            "end": iso_text(self.period.end),
            "state": self.state,
            "folders": [str(folder) for folder in self.folders],
            **{name: self.facts[name] for name in reported},
        }


@dataclass(frozen=True)
class Summary:
    """The result of a run; `refused` is the first period that is not complete."""

    job: str
    complete_until: datetime
    bidders: tuple[str, ...]
    done: tuple[Done, ...]
    refused: NotComplete | None

    def document(self) -> dict[str, Any]:
        """As plain values, as `--json` prints it."""
        refused = None
        if self.refused is not None:
            again = self.refused.try_again
            refused = {
                "start": iso_text(self.refused.period.start),
                "end": iso_text(self.refused.period.end),
                "reason": str(self.refused),
                "try_again": None if again is None else iso_text(again),
            }
        return {
            "job": self.job,
            "complete_until": iso_text(self.complete_until),
            "bidders": list(self.bidders),
            "done": [one.document() for one in self.done],
            "refused": refused,
        }


class Run:
    """The listing of one instant, the campaigns, and an engine once one is needed."""

    def __init__(
        self, job: str, options: JobOptions, now: datetime, output: OutputFolder, folder: Path
    ) -> None:
        self.job, self.options, self.now, self.output = job, options, now, output
        self._folder = folder
        self.campaigns = read_campaigns(options.store)
        self.view = view_log(options.store, now, options.bidders)
        self.sources = Sources(self.view, options.out)

    @classmethod
    @contextmanager
    def open(cls, job: str, options: JobOptions, now: datetime) -> Iterator["Run"]:
        """Take the lock first: a listing from before it could be stale."""
        with OutputFolder(options.out, job) as output, output.draft("groups") as folder:
            run = cls(job, options, now, output, folder)
            try:
                yield run
            finally:
                if "engine" in run.__dict__:
                    run.engine.close()

    @cached_property
    def engine(self) -> JobEngine:
        """Started at first use."""
        options = self.options
        return open_engine(options.engine, options.master, options.memory)

    @cached_property
    def audiences(self) -> JobAudiences:
        """The catalogues and audiences of the settings."""
        return JobAudiences(self.engine, self.options.settings, self._folder)

    def complete(self, period: Period) -> bool:
        """Whether every impression of the period is in a file."""
        return self.view.complete_until >= period.end

    def refuse(self, period: Period) -> NotComplete:
        """Why a period cannot be done yet, and when to try again."""
        slowest = self.view.slowest()
        whose = f"bidder {slowest.name}" if slowest.name else "the bidder"
        rule = (
            f"be complete ({whose} has moved its rows into files up to "
            f"{slowest.complete_until:%Y-%m-%dT%H:%M:%SZ})"
        )
        times = [bidder.expires(period.end) for bidder in self.view.bidders]
        again = max([period.end, *(time for time in times if time)]) + _MOVING
        known = again > self.now  # else all has expired, and it is up to the bidder
        when = f"after {again:%Y-%m-%dT%H:%MZ}" if known else "when it has (compaction_rows)"
        error = NotComplete.rule(
            period.by, rule, f"{period.start:%Y-%m-%dT%H:%MZ}: try again {when}"
        )
        error.period, error.try_again = period, again if known else None
        return error

    def refuse_loss(
        self, folder: Path, old: dict[str, Any] | None, files: list[ListedFile]
    ) -> None:
        """Refuse a log that has shrunk: it has lost a bidder or a file."""
        before = 0 if old is None else int(old["source_rows"])
        rows = sum(file.rows for file in files)
        if rows < before and not self.options.force:
            rule = f"hold the {before} rows that {folder.name} was written from, unless forced"
            raise KreachError.rule("log", rule, rows)

    def facts(
        self, period: Period, files: list[ListedFile], rows: list[ReachRow]
    ) -> dict[str, Any]:
        """The manifest of a table of reach; the same for the same log."""
        alone = {
            (row.campaign, row.catalogue): (row.impressions, row.spend_micros)
            for row in rows
            if row.span == period.by
        }
        complete = self.complete(period)
        return {
            **self.source_facts(period, files),
            "complete": complete,
            "complete_until": iso_text(period.end if complete else self.view.complete_until),
            "level": self.options.level,
            "campaigns": len({campaign for campaign, _ in alone}),
            "rows": len(rows),
            "impressions": sum(impressions for impressions, _ in alone.values()),
            "spend_micros": sum(micros for _, micros in alone.values()),
            "not_measured": len({(row.campaign, row.catalogue) for row in rows if row.note}),
        }

    def reach(
        self,
        period: Period,
        files: list[Path],
        instead: Mapping[date, Sequence[Path]] | None = None,
    ) -> list[ReachRow]:
        """Reach in a period whose rows are in `files`; of some days, files to read `instead`."""
        totals = period_totals(self.engine, files, period)
        flights = flight_starts(self.campaigns, totals, period)
        first = min(flights.values(), default=period.start).date()
        flight = self.sources.between(first, period.end, instead)
        about = (self.campaigns, totals, period, self.options.level)
        return list(reach_rows(self.engine, flight, self.audiences, *about))

    def source_facts(self, period: Period, files: list[ListedFile]) -> dict[str, Any]:
        """The job, period and files of a manifest."""
        return {
            "job": self.job,
            "start": iso_text(period.start),
            "end": iso_text(period.end),
            "digest": digest(files),
            "source_rows": sum(file.rows for file in files),
            "bidders": _bidders(files),
        }


def _bidders(files: list[ListedFile]) -> dict[str, dict[str, int]]:
    """Files and rows of each bidder that went into an output."""
    count, rows = Counter[str](), Counter[str]()
    for file in files:
        count[file.bidder] += 1
        rows[file.bidder] += file.rows
    return {name: {"files": count[name], "rows": rows[name]} for name in sorted(count)}


def do_periods(
    job: str,
    options: JobOptions,
    periods: Sequence[Period],
    now: datetime,
    progress: Callable[[str], object],
    do: Callable[[Run, Period], Done],
) -> Summary:
    """Process periods in order, up to the first that is not complete."""
    done: list[Done] = []
    refused = None
    with Run.open(job, options, now) as run:
        for period in periods:
            progress(f"{period.by} {period.start:%Y-%m-%dT%H:%MZ}")
            try:
                done.append(do(run, period))
            except NotComplete as error:
                refused = error
                break
    bidders = tuple(bidder.name for bidder in run.view.bidders)
    return Summary(job, run.view.complete_until, bidders, tuple(done), refused)
