"""The correction of a campaign's reach: what a panel says about all groups together.

A publisher counts true reach in a secret sample of groups and sends truth − model, expanded to all
groups, with noise. Nothing here is about a group or a person: a correction has a few numbers for
each time it was released, and no field could hold more.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kreach.boundary.checks import as_whole_number
from kreach.boundary.times import as_instant, iso_text
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import Tabular
from kreach.display.plots import MUTED, new_axes, points_with_bars
from kreach.display.table import Columns, Table
from kreach.errors import KreachError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Correction",
    "PanelRelease",
    "model_digest",
    "read_corrections",
    "set_name",
    "write_corrections",
]

MAX_FREQUENCY = 20
MAX_RELEASES = 1_000
_FORMAT = 1
SET_MARK = " + "
"""Between the campaigns of a set that a panel counted as one."""


@dataclass(frozen=True)
class PanelRelease:
    """Truth − model of everything shown before `end`, from the start of the campaign.

    `differences` are people with 1+, 2+, … showings, in all groups; each has independent noise of
    standard deviation `noise_std`. `spreads` say, by cap, how much the differences vary between
    groups beside what the model expects (1: as much as it expects), give or take `spread_std`.
    """

    end: datetime
    differences: tuple[float, ...]
    noise_std: float
    spreads: tuple[float, ...]
    spread_std: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.end.tzinfo is None:
            raise KreachError.rule("end", "have a time zone", self.end.isoformat())
        if not 1 <= len(self.differences) <= MAX_FREQUENCY:
            rule = f"be 1 to {MAX_FREQUENCY} numbers"
            raise KreachError.rule("differences", rule, len(self.differences))
        for name in ("differences", "spreads", "spread_std"):
            values = getattr(self, name)
            if len(values) != len(self.differences) or not all(map(isfinite, values)):
                rule = f"be {len(self.differences)} finite numbers"
                raise KreachError.rule(name, rule, values)
        if not 0.0 <= self.noise_std < float("inf"):
            raise KreachError.rule("noise_std", "be a number ≥ 0", self.noise_std)


@dataclass(frozen=True, repr=False)
class Correction(Tabular):
    """All that a panel has released about one campaign on one catalogue.

    `model` names how visits were modelled ("visit model", "dispersion", …), `digest` which visit
    model it was: truth − model corrects no other model. `rho` is what all releases together cost
    in privacy (ρ-zCDP), given the ad system's own log; None where no noise was added.

    >>> from datetime import UTC
    >>> day = datetime(2026, 11, 2, tzinfo=UTC)
    >>> release = PanelRelease(day, (-120.0, 15.0), 40.0, (1.1, 1.0), (0.1, 0.2))
    >>> correction = Correction("spring", "v1", "dispersion", None, 2_000, 100, 0.05, (release,))
    >>> correction.share, correction.release_at(day).differences
    (0.05, (-120.0, 15.0))
    """

    campaign: str
    catalogue: str
    model: str
    digest: str | None
    groups: int
    panel_groups: int
    rho: float | None
    releases: tuple[PanelRelease, ...]

    def __post_init__(self) -> None:
        for name in ("campaign", "catalogue", "model"):
            if not getattr(self, name):
                raise KreachError.rule(name, "not be empty", getattr(self, name))
        as_whole_number("groups", self.groups, minimum=1)
        as_whole_number("panel_groups", self.panel_groups, minimum=1)
        if self.panel_groups > self.groups:
            rule = f"be at most the number of groups ({self.groups})"
            raise KreachError.rule("panel_groups", rule, self.panel_groups)
        if self.rho is not None and not 0.0 < self.rho < float("inf"):
            raise KreachError.rule("rho", "be a number > 0, or None", self.rho)
        if not len(self.releases) <= MAX_RELEASES:
            raise KreachError.rule("releases", f"be at most {MAX_RELEASES}", len(self.releases))
        ends = [release.end for release in self.releases]
        if ends != sorted(set(ends)):
            raise KreachError.rule("releases", "be in order of time", "others")

    @property
    def share(self) -> float:
        """The share of groups that is in the panel."""
        return self.panel_groups / self.groups

    def release_at(self, end: datetime | None) -> PanelRelease | None:
        """The newest release up to a time; None if there is none."""
        known = [each for each in self.releases if end is None or each.end <= end]
        return known[-1] if known else None

    def to_dict(self) -> dict[str, Any]:
        """The correction as plain values, as a file holds it."""
        return self.to_json()

    def _columns(self) -> Columns:
        """A row per release and frequency."""
        rows = [
            (release.end, at, difference, release.noise_std)
            for release in self.releases
            for at, difference in enumerate(release.differences, 1)
        ]
        names = ("end", "at_least", "difference", "noise_std")
        return {name: [row[at] for row in rows] for at, name in enumerate(names)}

    def _display(self) -> Table:
        columns: Columns = {
            "everything before": [release.end for release in self.releases],
            "people reached, truth − model": [each.differences[0] for each in self.releases],
            "noise (std)": [release.noise_std for release in self.releases],
        }
        rho = "none" if self.rho is None else f"rho {self.rho:g}"
        title = f"Panel of {self.campaign!r}: {self.panel_groups:,} of {self.groups:,} groups"
        return Table(title, columns, (f"corrects: {self.model}; noise: {rho}",))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """By how much the model is off at each release, give or take two σ of the noise."""
        ax = new_axes(ax, f"Panel of {self.campaign}", "", "people reached, truth − model")
        ends = [release.end for release in self.releases]
        off = [release.differences[0] for release in self.releases]
        two = [2.0 * release.noise_std for release in self.releases]
        points_with_bars(
            ax, ends, off, [(v - two[at], v + two[at]) for at, v in enumerate(off)], floor=None
        )
        ax.axhline(0.0, color=MUTED, linewidth=1.0)
        ax.tick_params(axis="x", labelrotation=30)
        return ax

    def __repr__(self) -> str:
        last = f", last={self.releases[-1].differences[0]:+,.1f}" if self.releases else ""
        return (
            f"Correction({self.campaign!r}, panel={self.panel_groups:,} of {self.groups:,} groups, "
            f"releases={len(self.releases)}{last})"
        )

    def to_json(self) -> dict[str, Any]:
        """As it is written to files."""
        document = asdict(self)
        for release in document["releases"]:
            release["end"] = iso_text(release["end"])
        return document

    @classmethod
    def from_json(cls, document: Any) -> "Correction":
        """Read what `to_json` wrote; refuses unknown and missing fields."""
        where = "correction"
        fields = _fields(where, document, cls.__dataclass_fields__)
        listed = fields.pop("releases")
        if not isinstance(listed, list):
            raise KreachError.rule(f"{where}: releases", "be a list", type(listed).__name__)
        releases = []
        for at, each in enumerate(listed):
            inner = _fields(f"releases[{at}]", each, PanelRelease.__dataclass_fields__)
            end = as_instant("end", inner.pop("end"))
            if end is None:
                raise KreachError.rule(f"releases[{at}]: end", "be a time", None)
            noise_std = _number(f"releases[{at}]: noise_std", inner.pop("noise_std"))
            numbers = {name: _numbers(f"releases[{at}]: {name}", v) for name, v in inner.items()}
            releases.append(PanelRelease(end=end, noise_std=noise_std, **numbers))
        for name in ("campaign", "catalogue", "model"):
            if not isinstance(fields[name], str):
                raise KreachError.rule(f"{where}: {name}", "be text", fields[name])
        if not isinstance(fields["digest"], str | None):
            raise KreachError.rule(f"{where}: digest", "be text or null", fields["digest"])
        if fields["rho"] is not None:
            fields["rho"] = _number(f"{where}: rho", fields["rho"])
        return cls(**fields, releases=tuple(releases))


def _fields(where: str, document: Any, known: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise KreachError.rule(where, "be an object", type(document).__name__)
    for name in known:
        if name not in document:
            raise KreachError.rule(f"{where}: {name}", "be present", "nothing")
    for name in document:
        if name not in known:
            raise KreachError.rule(where, f"have only {', '.join(known)}", name)
    return dict(document)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise KreachError.rule(where, "be a number", value)
    return float(value)


def _numbers(where: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise KreachError.rule(where, "be a list of numbers", type(values).__name__)
    return tuple(_number(f"{where}[{at}]", value) for at, value in enumerate(values))


def model_digest(model: VisitModel | None) -> str | None:
    """Which visit model it is; None without one."""
    if model is None:
        return None
    text = json.dumps(model.to_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_corrections(corrections: Sequence[Correction], path: Path) -> None:
    """Write a corrections file; in place of one that is there, in one step."""
    document = {"format": _FORMAT, "corrections": [each.to_json() for each in corrections]}
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(json.dumps(document, indent=1) + "\n")
        unfinished.replace(path)
    except OSError as error:
        rule = "be a path that can be written"
        raise KreachError.rule("out", rule, f"{path} ({error.strerror})") from None


def read_corrections(path: Path) -> tuple[Correction, ...]:
    """Read a corrections file; every correction is checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_corrections([], Path(folder) / "corrections.json")
    ...     read_corrections(Path(folder) / "corrections.json")
    ()
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not JSON"
        rule = "be a file made by `kreach panel`"
        raise KreachError.rule("panel", rule, f"{path} ({reason})") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise KreachError.rule("panel", f"be a corrections file of format {_FORMAT}", str(path))
    listed = document.get("corrections")
    if not isinstance(listed, list):
        raise KreachError.rule("panel", "hold a list of corrections", str(path))
    return tuple(Correction.from_json(each) for each in listed)


def set_name(campaigns: Iterable[str]) -> str:
    """What a panel calls several campaigns that it counted as one.

    >>> set_name(["summer", "spring"])
    'spring + summer'
    """
    return SET_MARK.join(sorted(campaigns))
