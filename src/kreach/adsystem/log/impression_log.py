"""The impression log in files or tables: append impressions, count them by group."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from kreach.adsystem.log.copies import search_copies
from kreach.adsystem.log.counts import first_and_last
from kreach.adsystem.log.engine import Engine, Source, source_name
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import counts, rows_before
from kreach.adsystem.log.stored_shares import read_shares
from kreach.adsystem.log.tables import LogTable, log_rows, log_table
from kreach.boundary.events import Impression
from kreach.boundary.times import Window, as_instant, as_period
from kreach.errors import KreachError

__all__ = ["SLOTS_AT_ONCE", "Appended", "ImpressionLog"]

SLOTS_AT_ONCE = 48  # periods counted in one scan


@dataclass(frozen=True)
class Appended:
    """The result of an append: rows added, and rows whose id the log already had."""

    added: int
    repeated: int


class ImpressionLog:
    """Impressions somewhere an engine can read them.

    `open` reads an existing log; `create` creates an empty one to append to: a folder of Parquet
    files, or a table `#name` of an embedded engine's database. `unique_ids` assumes unique ids and
    skips de-duplication.

    >>> import kreach as kr
    >>> rows = {"campaign": ["spring"] * 3, "group": ["a", "a", "b"], "ts": ["2026-11-01"] * 3}
    >>> with kr.EmbeddedEngine() as engine:
    ...     sorted(kr.ImpressionLog.open(engine, rows).counts("spring").items())
    [('a', 2), ('b', 1)]
    """

    def __init__(self, engine: Engine, source: Source, *, unique_ids: bool = False) -> None:
        self.engine = engine
        self._source = source
        self._unique_ids = unique_ids
        self.table = self._read()

    @classmethod
    def open(cls, engine: Engine, source: Source, *, unique_ids: bool = False) -> "ImpressionLog":
        """An existing log."""
        return cls(engine, source, unique_ids=unique_ids)

    @classmethod
    def create(cls, engine: Engine, source: Source) -> "ImpressionLog":
        """A log to append to; an existing one is opened."""
        engine.create(source)
        return cls(engine, source)

    @classmethod
    def of(cls, engine: Engine, table: LogTable) -> "ImpressionLog":
        """A log whose rows are open already."""
        log = cls.__new__(cls)
        log.engine, log.table, log._source, log._unique_ids = engine, table, None, table.unique_ids
        return log

    def __repr__(self) -> str:
        source = "counts" if self._source is None else source_name(self._source)
        return f"ImpressionLog({source})"

    def _read(self) -> LogTable:
        name = source_name(self._source)
        rows = self.engine.load("impressions", self._source, partial(log_rows, source=name))
        # the shares after the engine has listed the files
        return log_table(
            rows,
            unique_ids=self._unique_ids,
            shares=read_shares(self._source),
            dialect=self.engine.dialect,
        )

    def campaigns(self) -> list[str]:
        """The campaigns that have impressions, in alphabetical order.

        >>> import kreach as kr
        >>> rows = {"campaign": ["tv", "web"], "group": ["a", "a"], "ts": ["2026-11-01"] * 2}
        >>> with kr.EmbeddedEngine() as engine:
        ...     kr.ImpressionLog.open(engine, rows).campaigns()
        ['tv', 'web']
        """
        column = self.engine.columns(self.table.rows.select("campaign").distinct())["campaign"]
        return sorted(name for name in column.tolist() if isinstance(name, str) and name)

    def append(
        self, impressions: Iterable[Impression], received: datetime | None = None
    ) -> Appended:
        """Add impressions, each id once: not again if the log or the batch has it already.

        The batch is added whole or not at all. One writer at a time: two that append the same id
        at the same moment may both succeed, and reports then count the earlier.
        """
        batch: dict[str, Impression] = {}
        given = 0
        moment = as_instant("received", received) or datetime.now(UTC)
        offered: Iterable[object] = impressions
        for impression in offered:
            if not isinstance(impression, Impression):
                kind = type(impression).__name__
                raise KreachError.rule("impressions", "be Impression objects", kind)
            batch.setdefault(impression.impression_id, impression)
            given += 1
        if not batch:
            return Appended(0, 0)
        if "impression_id" not in self.table.rows.columns:
            raise KreachError.rule("log", "have a column impression_id, to be appended to", "none")
        ids = np.array(list(batch), dtype=object)
        new = self.engine.read("impressions", {"impression_id": ids})
        rows = self.table.rows
        known_rows = rows.semi_join(new, rows["impression_id"] == new["impression_id"])
        for known in set(self.engine.columns(known_rows.select("impression_id"))["impression_id"]):
            del batch[known]
        if batch:
            self.engine.write(self._source, list(batch.values()), moment)
            self.table = self._read()  # an engine may remember which files there were
        return Appended(len(batch), given - len(batch))

    def counts(
        self, campaign: str | None = None, start: object = None, end: object = None
    ) -> dict[str, int]:
        """Impressions of each group in [start, end), each id once; rows without group left out."""
        window = Window.between(start, end)
        return self._counts(campaign, [window])[0]

    def counts_by_period(
        self, campaign: str | None = None, start: object = None, end: object = None, by: str = "day"
    ) -> list[tuple[Window, dict[str, int]]]:
        """Impressions of each group in each hour, day or week of [start, end)."""
        periods = self.span(Place.named(campaign), Window.between(start, end), by).periods(by)
        result: list[tuple[Window, dict[str, int]]] = []
        for low in range(0, len(periods), SLOTS_AT_ONCE):
            block = periods[low : low + SLOTS_AT_ONCE]
            result += zip(block, self._counts(campaign, block), strict=True)
        return result

    def _counts(self, campaign: str | None, windows: list[Window]) -> list[dict[str, int]]:
        place = Place.named(campaign)
        rows = rows_before(self.table, place, windows[-1].end)
        with search_copies(self.engine, self.table, rows) as searched:
            columns = self.engine.columns(counts(searched, place, windows))
        return [
            {
                str(group): int(n)
                for group, n in zip(columns["group"], columns[f"n{at}"], strict=True)
                if group is not None and n
            }
            for at in range(len(windows))
        ]

    def span(self, place: Place, window: Window, by: str) -> Window:
        """The window with open ends closed around the impressions in it, at full periods."""
        by = as_period(by)
        if window.start is not None and window.end is not None:
            return window
        hours = first_and_last(self.engine, self.table, place, window)
        if hours is None:
            rule = "hold impressions, for a series without start and end"
            raise KreachError.rule("impressions", rule, "none in the window")
        return window.holding(*hours, by)
