"""Files of others that the console shows: a publisher's audit, a cost study, a simulation's truth.

They are read into structs; fields that the console does not show are ignored.
"""

import math
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from kreach.errors import KreachError
from kreach.service.clock import Clock

__all__ = [
    "MISSING",
    "Audit",
    "AuditPage",
    "AuditedAudience",
    "Band",
    "Finding",
    "InputFile",
    "Linkage",
    "Tradeoff",
    "Truth",
    "read_audit",
    "read_tradeoff",
    "read_truth",
]

T = TypeVar("T")
Curves = dict[str, dict[str, dict[int, "Band"]]]
"""By strategy of grouping, approach and group size."""

MISSING = "the file does not exist yet"
_MIN_SECONDS = 1.0  # between two looks at a file
_SLOWDOWN = 20.0  # times what reading took: a file that takes long is read less often
_MAX_BYTES = 200_000_000
_MAX_POINTS = 600


class InputFile(Generic[T]):
    """A file that may appear late, change, or be broken.

    `content` is what was last read successfully, `problem` what is wrong now; `version` changes
    with both.
    """

    def __init__(
        self, path: Path | None, read: Callable[[Path], T], clock: Clock = time.monotonic
    ) -> None:
        self._path, self._read, self._clock = path, read, clock
        self._stamp: tuple[int, int] | None = None
        self._next = -math.inf
        self.content: T | None = None
        self.problem: str | None = None
        self.version = 0

    @property
    def configured(self) -> bool:
        """Whether the settings name a file."""
        return self._path is not None

    def refresh(self) -> "InputFile[T]":
        """Read the file if it has changed. Slow: run it in a thread."""
        started = self._clock()
        if self._path is None or started < self._next:
            return self
        problem = self.problem
        try:
            path = self._path / "summary.json" if self._path.is_dir() else self._path
            state = path.stat()
            stamp = (state.st_mtime_ns, state.st_size)
            if stamp != self._stamp:
                self.content = self._read(path)
                self._stamp, problem = stamp, None
                self.version += 1
        except FileNotFoundError:
            problem, self._stamp = MISSING, None
        except OSError:
            problem, self._stamp = "the file cannot be read", None
        except KreachError as error:
            problem, self._stamp = str(error), stamp
        if problem != self.problem:
            self.problem, self.version = problem, self.version + 1
        now = self._clock()
        self._next = now + max(_MIN_SECONDS, _SLOWDOWN * (now - started))
        return self


def _decode(path: Path, kind: type[T], setting: str, rule: str) -> T:
    if path.stat().st_size > _MAX_BYTES:
        raise KreachError.rule(setting, f"have at most {_MAX_BYTES} bytes", str(path))
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError:
        raise KreachError.rule(setting, rule, str(path)) from None


class Spread(msgspec.Struct, frozen=True):
    """The smallest of some numbers."""

    least: float


class Finding(msgspec.Struct, frozen=True):
    """The outcome of a check; `level` is ok, warning or danger. Old audits have no `check`."""

    level: str
    text: str
    check: str = ""
    number: str = ""
    floor: str = ""


class Linkage(msgspec.Struct, frozen=True):
    """Share of people singled out by someone who sees so many versions of the groups."""

    method: str
    versions: list[int]
    unique_share: list[float]


class PastLinkage(msgspec.Struct, frozen=True):
    """The same, counted over the versions that a renewed build goes back to."""

    versions: int
    singled_out: int
    in_small_crowds: int
    smallest: int


class SeenPeople(msgspec.Struct, frozen=True):
    """Whom a campaign on an audience can see; guesses are None without history."""

    people: int
    min_visible: int
    median_visible: float
    people_in_small_groups: int
    worst_guess: float | None
    mean_guess: float | None


class AuditedAudience(msgspec.Struct, frozen=True):
    """An audience that the audit looked at."""

    audience: str
    seen: SeenPeople


class Subject(msgspec.Struct, frozen=True):
    """What was audited, when, and by which version."""

    catalogue: str
    buyer: str
    audited: str
    kreach: str


class Audit(msgspec.Struct, frozen=True):
    """What `kreach groups audit --json` prints."""

    people: int
    groups: int
    group_size: int
    effective: Spread | None
    findings: list[Finding]
    linkage: list[Linkage]
    verdict: str = ""
    subject: Subject | None = None
    visible: list[AuditedAudience] = []
    past: PastLinkage | None = None
    not_examined: list[str] = []
    assumptions: list[str] = []


class AuditPage(msgspec.Struct, frozen=True):
    """An audit as an HTML page."""

    html: str


def read_audit(path: Path) -> Audit | AuditPage:
    """What `kreach groups audit` wrote, as JSON or HTML."""
    if path.suffix.lower() in (".html", ".htm"):
        return AuditPage(path.read_text(encoding="utf-8", errors="replace"))
    rule = "be what `kreach groups audit --json` prints"
    return _decode(path, Audit, "groups_audit", rule)


class Band(msgspec.Struct, frozen=True):
    """The mean over campaigns, with the lowest and the highest campaign."""

    mean: float
    low: float
    high: float


class Tradeoff(msgspec.Struct, frozen=True):
    """What `kreach tradeoff` found."""

    setting: dict[str, Any]
    relative_reach: Curves
    measurement_error: Curves
    advice: list[str] = []


def read_tradeoff(path: Path) -> Tradeoff:
    """The summary.json of `kreach tradeoff`, with group sizes in ascending order."""
    rule = "be the summary.json that `kreach tradeoff` writes"
    study = _decode(path, Tradeoff, "tradeoff", rule)
    for curves in (study.relative_reach, study.measurement_error):
        for approaches in curves.values():
            for approach, by_size in approaches.items():
                approaches[approach] = dict(sorted(by_size.items()))
    return study


class TrueReach(msgspec.Struct, frozen=True):
    """Reach at cap 1, 2, ..."""

    reach: list[int]


class TruthPoint(msgspec.Struct, frozen=True):
    """The reach of each campaign up to a time."""

    ts: str
    campaigns: dict[str, TrueReach]


class TrueVisit(msgspec.Struct, frozen=True):
    """A visit: who came, and the OpenRTB user object that crossed to the ad system."""

    user_id: str
    user: Any
    visit: int

    @property
    def group(self) -> str:
        """The group in the user object."""
        try:
            return str(self.user["data"][0]["segment"][0]["id"])
        except (KeyError, IndexError, TypeError):
            return "none"


class Truth(msgspec.Struct, frozen=True):
    """What only a simulation knows: reach over time, and the last visits."""

    series: list[TruthPoint]
    requests: list[TrueVisit]

    def over_time(self, campaign: str, cap: int) -> list[tuple[datetime, int]]:
        """The reach of a campaign at a cap over time."""
        return [
            (datetime.fromisoformat(point.ts), point.campaigns[campaign].reach[cap - 1])
            for point in self.series
            if campaign in point.campaigns and cap <= len(point.campaigns[campaign].reach)
        ]

    def latest(self, campaign: str) -> list[int] | None:
        """The newest reach of a campaign by cap."""
        points = (point.campaigns for point in reversed(self.series))
        return next((point[campaign].reach for point in points if campaign in point), None)


def read_truth(path: Path) -> Truth:
    """What the demo writes. A long series is thinned; the newest point stays."""
    truth = _decode(path, Truth, "truth_file", "be the truth file that the demo writes")
    step = -(-len(truth.series) // _MAX_POINTS) or 1
    return Truth(truth.series[::-1][::step][::-1], truth.requests)
