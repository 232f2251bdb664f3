"""The options of a job, checked before anything is read."""

from dataclasses import dataclass
from pathlib import Path

from kreach.adsystem.jobs.engines import ENGINES
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.checks import as_probability, as_whole_number
from kreach.errors import KreachError

__all__ = ["ROWS_PER_FILE", "JobOptions"]

ROWS_PER_FILE = 20_000_000  # some hundred megabytes
_OUTPUT_FOLDERS = ("hourly", "log", "daily", ".drafts")


@dataclass(frozen=True)
class JobOptions:
    """Where to read and write, the engine, and what to do about existing output.

    `bidders` are names of bidders whose logs must exist: a missing folder would otherwise look like
    a bidder without impressions. `partial` accepts hours that are not complete yet; `force`
    overwrites existing output.
    """

    settings: AdSystemSettings
    out: Path
    bidders: tuple[str, ...] = ()
    engine: str = "duckdb"
    master: str = "local[*]"
    memory: str = "1500MB"
    level: float = 0.95
    partial: bool = False
    force: bool = False
    rows_per_file: int = ROWS_PER_FILE

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise KreachError.rule("engine", f"be {' or '.join(ENGINES)}", self.engine)
        as_probability("level", self.level)
        as_whole_number("rows_per_file", self.rows_per_file, minimum=1)
        store = self.settings.store
        if not store.is_dir():
            raise KreachError.rule("store", "be a folder that exists", str(store))
        out, inner = self.out.resolve(), store.resolve()
        if out == inner or inner in out.parents:
            # a bidder deletes files in its log that it does not know
            raise KreachError.rule("out", "lie outside of the store", str(self.out))
        for name in _OUTPUT_FOLDERS:
            if out / name in (inner, *inner.parents):
                raise KreachError.rule("store", f"lie outside of {name} of out", str(store))

    @property
    def store(self) -> Path:
        """The folder of campaigns and bidders' logs; named bidders have a subfolder each."""
        return self.settings.store
