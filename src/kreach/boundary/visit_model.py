"""The visit model: how a site's people visit, about the site as a whole and never about a group.

The publisher fits it on its history and releases it with the groups. It holds

    1. sessions     the odds that a request continues the session of one of the group's nearest
                    previous requests, by the gap between them; traffic by hour; requests a session
    2. meetings     the probability that two sessions of a group are one person's, by the parts of
                    the day of both and the days between them
    3. visitors     what share of people are regulars, and how much of the unevenness is lasting
    4. errors       how far off reports were when the publisher replayed its own history: with
                    unknown traffic, and with requests counted

Formulas: `numeric/draws.py`, `numeric/meetings.py`, `numeric/visitors.py`. docs/visit-model.md says
what each number means, how it is fitted, and what it can and cannot tell about anybody.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.boundary.audience import DisjointAudience
from kreach.boundary.checks import read_only
from kreach.display.objects import Tabular
from kreach.display.plots import bars, new_axes
from kreach.display.table import Columns, Table
from kreach.errors import KreachError
from kreach.numeric.draws import draw_shares
from kreach.numeric.meetings import DAY_EDGES, PARTS, crowded_meeting, mean_meeting, meeting_at
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.visitors import VisitorKinds, visitor_kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FILE", "ModelError", "VisitModel"]

FILE = "visit_model.json"
_FORMAT = 1
_MAX_LAGS = 16
_MAX_GAPS = 64
_MAX_GAP = 1e7  # seconds
_MAX_BYTES = 4_000_000  # of a file
_ERRORS = ("errors", "counted_errors")

_ALMOST_ALONE = 1.001  # people behind a request, at least: others must not be none at all


@dataclass(frozen=True)
class ModelError:
    """How far off reports were on windows up to so long, in replays of history.

    `bias` and `spread` are the mean and the standard deviation of measured / true − 1 over buying
    patterns and shares won; `higher_…` the same for caps above 1.
    """

    max_hours: float  # windows up to this length; infinite for the last
    bias: float
    spread: float
    higher_bias: float
    higher_spread: float

    def __post_init__(self) -> None:
        for name in ("bias", "higher_bias"):
            if not -1.0 < getattr(self, name) < 100.0:
                raise KreachError.rule(
                    f"errors: {name}", "be a number above -1", getattr(self, name)
                )
        for name in ("spread", "higher_spread"):
            if not 0.0 <= getattr(self, name) < 100.0:
                raise KreachError.rule(f"errors: {name}", "be a number ≥ 0", getattr(self, name))
        if not self.max_hours > 0.0:
            raise KreachError.rule("errors: max_hours", "be a number above 0", self.max_hours)

    def towards(self, longer: "ModelError", hours: float) -> "ModelError":
        """The errors of windows of a length between those of this entry and a longer one."""
        if not np.isfinite(longer.max_hours):
            return longer
        share = (hours - self.max_hours) / (longer.max_hours - self.max_hours)
        pairs = zip(astuple(self), astuple(longer), strict=True)
        return ModelError(*(low + share * (high - low) for low, high in pairs))


@dataclass(frozen=True, eq=False, repr=False)
class VisitModel(Tabular):
    """How a site's people visit. `VisitModel.load("groups/release")` reads a released one.

    >>> model = VisitModel.flat(group_size=20, dispersion=0.6)  # no sessions, no hours
    >>> model.meeting_probability(np.ones((1, 12)))
    0.12307692307692308
    """

    group_size: float  # mean size of the groups that it was fitted on
    gap_edges_seconds: tuple[float, ...]  # rising; from the last on, a request continues nothing
    continuation_odds: FloatArray  # a row per lag, a column per gap
    hourly_traffic: FloatArray  # by UTC hour, mean 1
    requests_per_session: FloatArray  # share of sessions with 1, 2, ... requests
    meetings: FloatArray  # (earlier part of day, later part of day, range of days apart)
    regulars: float  # share of people
    lasting: float  # share of the unevenness that is who people are, not chance
    meeting_scale: float = 1.0  # won sessions over all sessions: busy people have longer ones
    requests_per_person_day: float = 0.0  # traffic that the odds and meetings hold for
    errors: tuple[ModelError, ...] = ()
    counted_errors: tuple[ModelError, ...] = ()  # where requests are counted (CountedRequests)
    people: int = 0  # that it was fitted on
    history_days: float = 0.0

    def __post_init__(self) -> None:
        for name in ("continuation_odds", "hourly_traffic", "requests_per_session", "meetings"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        edges = self.gap_edges_seconds
        steps = zip((0.0, *edges), edges, strict=False)
        rising = all(low < high for low, high in steps) and bool(edges)
        if not rising or not 1e-3 <= edges[0] <= edges[-1] <= _MAX_GAP or len(edges) > _MAX_GAPS:
            rule = f"be 1 to {_MAX_GAPS} rising numbers from 0.001 to {_MAX_GAP:g}"
            raise KreachError.rule("gap_edges_seconds", rule, edges)
        odds = self.continuation_odds
        if odds.ndim != 2 or odds.shape[1] != len(edges) or not 1 <= len(odds) <= _MAX_LAGS:
            rule = f"have 1 to {_MAX_LAGS} rows of {len(edges)} numbers, one per gap"
            raise KreachError.rule("continuation_odds", rule, odds.shape)
        _shape("hourly_traffic", self.hourly_traffic, (24,))
        _shape("meetings", self.meetings, (PARTS, PARTS, len(DAY_EDGES) + 1))
        _within("hourly_traffic", self.hourly_traffic, above=0.0)
        _within("continuation_odds", odds)
        _within("meetings", self.meetings, most=1.0)
        pmf = self.requests_per_session
        _within("requests_per_session", pmf, most=1.0)
        if pmf.ndim != 1 or len(pmf) == 0 or abs(float(pmf.sum()) - 1.0) > 1e-6:
            rule = "be shares of sessions that sum to 1"
            raise KreachError.rule("requests_per_session", rule, float(pmf.sum()))
        for name, low, high in (
            ("group_size", 1.0, 1e9),
            ("regulars", 1e-6, 1.0 - 1e-6),
            ("lasting", 0.0, 1.0),
            ("meeting_scale", 1e-3, 1e3),
            ("requests_per_person_day", 0.0, 1e9),
            ("people", 0.0, 1e12),
            ("history_days", 0.0, 1e6),
        ):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and low <= value <= high):
                raise KreachError.rule(name, f"lie between {low:g} and {high:g}", value)
        for name in _ERRORS:
            longest = [entry.max_hours for entry in getattr(self, name)]
            if any(not shorter < longer for shorter, longer in pairwise(longest)):
                raise KreachError.rule(name, "have rising max_hours", longest)

    @property
    def lags(self) -> int:
        """How many previous requests of its group a request may continue."""
        return len(self.continuation_odds)

    @property
    def gap_edges_us(self) -> IntArray:
        """The edges of the gaps in microseconds."""
        return np.round(np.array(self.gap_edges_seconds) * 1e6).astype(np.int64)

    @property
    def mean_requests_per_session(self) -> float:
        """Requests of a session on average."""
        pmf = self.requests_per_session
        return float(pmf @ np.arange(1.0, len(pmf) + 1.0))

    @property
    def session_digest(self) -> str:
        """Names everything that shares of a draw depend on: gaps, odds and traffic by hour.

        Models with one digest give every impression the same share.
        """
        digest = sha256(str(self.continuation_odds.shape).encode())
        for table in (self.gap_edges_us, self.continuation_odds, self.hourly_traffic):
            digest.update(table.astype(table.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def draw_shares(self, group: IntArray, at_us: IntArray, traffic: float = 1.0) -> FloatArray:
        """The share of a draw of each impression; rows come ordered by group, then time."""
        hourly = self.hourly_traffic * traffic
        return draw_shares(group, at_us, self.gap_edges_us, self.continuation_odds, hourly)

    def continuation(self, gap_seconds: float, at_seconds: float, lag: int = 1) -> float:
        """The probability that a request continues the session of the `lag`-th previous one of
        its group, so long before, given that it continues none nearer."""
        place = bisect_right(self.gap_edges_seconds, gap_seconds)
        if place == len(self.gap_edges_seconds):
            return 0.0
        odds = float(self.continuation_odds[lag - 1, place])
        return odds / (odds + float(self.hourly_traffic[int(at_seconds // 3_600.0) % 24]))

    def meeting_probability(self, days: FloatArray, traffic: float = 1.0) -> float:
        """The probability that two draws of a campaign are one person's, at `group_size`.

        `days` are its draws by day and part of the day (`numeric.meetings.calendar`).
        """
        mean = mean_meeting(crowded_meeting(self.meetings, traffic), days)
        return self.meeting_scale * mean

    def meeting_now(
        self, part: IntArray, draws: FloatArray, now: int, traffic: float = 1.0
    ) -> float:
        """The probability that a draw so far and one now are one person's, at `group_size`.

        `part` and `now` count parts of the day since 1970.
        """
        mean = meeting_at(crowded_meeting(self.meetings, traffic), part, draws, now)
        return self.meeting_scale * mean

    def at_traffic(self, traffic: float) -> "VisitModel":
        """The model of the same site when it is so busy, relative to the history behind it.

        More traffic means that fewer impressions of a group are one person's.
        """
        if isinstance(traffic, bool) or not (
            isinstance(traffic, (int, float)) and 1e-6 < traffic < 1e6
        ):
            raise KreachError.rule("traffic", "be a positive number", traffic)
        if traffic == 1.0:
            return self
        return replace(
            self,
            hourly_traffic=self.hourly_traffic * traffic,
            meetings=crowded_meeting(self.meetings, traffic),
            requests_per_person_day=self.requests_per_person_day * traffic,
        )

    def in_groups_of(self, people: float) -> "VisitModel":
        """The model where so many people, and not `group_size`, are behind a group's requests.

        A person's own requests stay, those of others are (people − 1)/(group_size − 1) as many: a
        request more often continues a session, and two sessions are more often one person's.

        >>> model = VisitModel.flat(group_size=20).in_groups_of(2)
        >>> round(model.meeting_probability(np.ones((1, 12))), 12)
        0.5
        """
        return self if people == self.group_size else _in_groups_of(self, people)

    def for_audience(self, audience: DisjointAudience) -> "VisitModel":
        """The model of what a campaign is sent: all requests, or those of targeted people only."""
        people = audience.people_behind_request
        return self if people is None else self.in_groups_of(people)

    def kinds(self, meeting: float | FloatArray, sizes: FloatArray) -> VisitorKinds:
        """The law of visit shares in groups of these sizes for a probability at `group_size`."""
        others = (sizes - 1.0) / max(self.group_size - 1.0, 1e-9)
        each = crowded_meeting(np.clip(np.full(len(sizes), meeting), 1e-12, 0.99), others)
        return visitor_kinds(each, sizes, self.regulars, self.lasting)

    def error(self, hours: float) -> ModelError | None:
        """How far off reports on windows of this length were in replays; None if none were made.

        Between two lengths that were replayed it is interpolated, by whole hours: a report must
        not tell to the second when its first and last impression were.
        """
        hours = float(np.ceil(hours))
        before: ModelError | None = None
        for entry in self.errors:
            if hours <= entry.max_hours:
                return entry if before is None else before.towards(entry, hours)
            before = entry
        return before

    @classmethod
    def flat(cls, group_size: float, dispersion: float | None = None) -> "VisitModel":
        """Without sessions and hours: the paper's formulas, uniform or with one dispersion.

        (a + 1)/(ka + 1) is the probability that two draws from Dirichlet(a, ..., a) shares agree.
        """
        if not isinstance(group_size, (int, float)) or not 1.0 <= group_size <= 1e9:
            raise KreachError.rule("group_size", "be a number ≥ 1", group_size)
        if dispersion is not None and not dispersion > 0.0:
            raise KreachError.rule("dispersion", "be a number > 0, or None", dispersion)
        k = float(group_size)
        a = np.inf if dispersion is None else dispersion
        meeting = 1.0 / k if np.isinf(a) else (a + 1.0) / (k * a + 1.0)
        return cls(
            k,
            (1.0,),
            np.zeros((1, 1)),
            np.ones(24),
            np.ones(1),
            np.full((PARTS, PARTS, len(DAY_EDGES) + 1), meeting),
            0.5,
            0.0,
        )

    # -- notebooks ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The model as plain values, as a release holds it."""
        return self.to_json()

    def _columns(self) -> Columns:
        """Traffic by hour of the day."""
        return {"hour": list(range(24)), "traffic": self.hourly_traffic.tolist()}

    def _display(self) -> Table:
        facts = {
            "fitted on people": self.people,
            "days of history": self.history_days,
            "group size": self.group_size,
            "requests per session": self.mean_requests_per_session,
            "requests per person and day": self.requests_per_person_day,
            "share of regular visitors": self.regulars,
        }
        columns: Columns = {"": list(facts), "value": list(facts.values())}
        notes = tuple(
            f"off by {entry.bias:+.1%} ± {entry.spread:.1%} in replays of windows up to "
            + ("any length" if np.isinf(entry.max_hours) else f"{entry.max_hours:g} hours")
            for entry in self.errors
        )
        return Table("Visit model of the site", columns, notes)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Traffic of the site by hour of the day."""
        ax = new_axes(ax, "Traffic by hour", "hour of the day (UTC)", "relative to the mean")
        bars(ax, range(24), (self.hourly_traffic / self.hourly_traffic.mean()).tolist())
        ax.set_xticks(range(0, 24, 3))
        return ax

    def __repr__(self) -> str:
        return (
            f"VisitModel(people={self.people:,}, history_days={self.history_days:g}, "
            f"group_size={self.group_size:g}, "
            f"requests_per_session={self.mean_requests_per_session:.2f})"
        )

    # -- files --------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The released document."""
        document: dict[str, Any] = {"format": _FORMAT}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _ERRORS:
                value = [
                    {f.name: _finite(getattr(entry, f.name)) for f in fields(ModelError)}
                    for entry in value
                ]
            elif isinstance(value, np.ndarray):
                value = value.tolist()
            document[field.name] = value
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "VisitModel":
        """Read a released document; everything is checked again."""
        known = {field.name for field in fields(cls)}
        try:
            if document["format"] != _FORMAT:
                raise KreachError.rule("format", f"be {_FORMAT}", document["format"])
            values = {name: value for name, value in document.items() if name in known}
            values["gap_edges_seconds"] = tuple(map(float, values["gap_edges_seconds"]))
            for name in _ERRORS:
                values[name] = tuple(_model_error(entry) for entry in values.get(name, ()))
            return cls(**values)
        except KeyError as error:
            raise KreachError.rule("model", f"have the field {error}", "none") from None
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, KreachError):
                raise
            raise KreachError.rule("model", "be a released visit model", str(error)) from None

    def save(self, folder: Path) -> None:
        """Write `visit_model.json` into a release."""
        (folder / FILE).write_text(json.dumps(self.to_json()) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "VisitModel":
        """Read the model of a release (its folder, or the file itself)."""
        if not isinstance(folder, (str, Path)):
            raise KreachError.rule("model", "be a path", folder)
        path = Path(folder)
        path = path / FILE if path.is_dir() else path
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise KreachError.rule(
                    "model", f"be a file of at most {_MAX_BYTES} bytes", str(path)
                )
            document = json.loads(path.read_text())
        except OSError as error:
            rule = f"be a release that holds {FILE}, or that file"
            raise KreachError.rule("model", rule, f"{path} ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            if isinstance(error, KreachError):
                raise
            raise KreachError.rule("model", "be a JSON document", f"{path} ({error})") from None
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise KreachError.rule("model", "be a JSON object", f"{path} ({kind})")
        return cls.from_json(document)


def _model_error(entry: Mapping[str, Any]) -> ModelError:
    """An entry of the document; only `max_hours` may be null: any length."""
    numbers = {name: float(value) for name, value in entry.items() if name != "max_hours"}
    longest = entry["max_hours"]
    return ModelError(np.inf if longest is None else float(longest), **numbers)


def _finite(value: float) -> float | None:
    return None if np.isinf(value) else value


@lru_cache(maxsize=64)  # one object for one answer: running counts are those of a model
def _in_groups_of(model: VisitModel, people: float) -> VisitModel:
    if not 1.0 <= people <= 1e9:
        raise KreachError.rule("people", "be a number ≥ 1", people)
    people = max(people, _ALMOST_ALONE)
    others = (people - 1.0) / max(model.group_size - 1.0, _ALMOST_ALONE - 1.0)
    return replace(
        model,
        group_size=people,
        hourly_traffic=model.hourly_traffic * others,
        meetings=crowded_meeting(model.meetings, others),
    )


def _numbers(name: str, values: object) -> FloatArray:
    try:
        return read_only(np.array(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise KreachError.rule(name, "be a table of numbers", type(values).__name__) from None


def _shape(name: str, values: FloatArray, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise KreachError.rule(name, f"have the shape {shape}", values.shape)


def _within(name: str, values: FloatArray, above: float | None = None, most: float = 1e12) -> None:
    low = values <= above if above is not None else values < 0.0
    wrong = low | (values > most) | ~np.isfinite(values)
    if wrong.any():
        rule = f"lie {'above 0' if above is not None else 'between 0'} and {most:g}"
        raise KreachError.rule(name, rule, float(values[wrong][0]))
