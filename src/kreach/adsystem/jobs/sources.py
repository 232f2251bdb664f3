"""The files to read for a stretch of time: merged by a nightly run, else the bidders' own.

A merged day is sorted by campaign and in few files, so measuring a flight reads little more than
its own rows. It is used only while it matches exactly what the bidders list for that day.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from kreach.adsystem.jobs.listing import ListedFile, LogView, digest, first_times
from kreach.adsystem.jobs.output import LOG_FACTS, read_manifest

__all__ = ["LOG", "Sources", "day_folder"]

LOG = "log"


def day_folder(kind: str, day: date) -> str:
    """The folder of a day, named as a partition."""
    return f"{kind}/day={day.isoformat()}"


class Sources:
    """The files of all bidders as one view lists them, and merged days in `out`."""

    def __init__(self, view: LogView, out: Path) -> None:
        self.view, self._out = view, out
        self._times: dict[date, dict[ListedFile, datetime]] = {}

    def _first_times(self, day: date) -> dict[ListedFile, datetime]:
        if day not in self._times:
            self._times[day] = first_times(self.view.of_day(day))
        return self._times[day]

    def listed(self, end: datetime) -> list[ListedFile]:
        """All files with rows before `end`."""
        day = end.date()
        files = self.view.before(day)
        if end.time() == datetime.min.time():
            return files
        return files + [file for file, first in self._first_times(day).items() if first < end]

    def of_day(self, day: date, end: datetime) -> list[Path]:
        """The files with the rows of a day before `end`."""
        midnight = datetime.combine(day, time.min, UTC) + timedelta(days=1)
        merged = self.merged(day) if midnight <= end else None
        if merged is not None:
            return merged
        return [file.path for file, first in self._first_times(day).items() if first < end]

    def between(
        self, first: date, end: datetime, instead: Mapping[date, Sequence[Path]] | None = None
    ) -> list[Path]:
        """The files with the rows from a day on and before `end`; of some days, `instead`."""
        known = {file.day for file in self.view.before(end.date() + timedelta(days=1))}
        paths: list[Path] = []
        for day in sorted(day for day in known if day >= first):
            paths += (instead or {}).get(day) or self.of_day(day, end)
        return paths

    def merged(self, day: date) -> list[Path] | None:
        """The files of a merged day, if they match what is listed now."""
        folder = self._out / day_folder(LOG, day)
        manifest = read_manifest(folder, LOG_FACTS)
        if manifest is None or manifest["digest"] != digest(self.view.of_day(day)):
            return None
        parts = {folder / name: size for name, size in manifest["parts"].items()}
        whole = all(path.is_file() and path.stat().st_size == parts[path] for path in parts)
        return list(parts) if whole else None
