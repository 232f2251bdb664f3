"""The visitor filter: reach with a clock for whoever sees every request of a group, one by one.

A request continues the session of the l-th previous request of its group with probability

    w_l = e_l · Π_{m<l} (1 − e_m),     e_l = o_l(gap) / (o_l(gap) + τ(hour) · traffic)

and starts a session of its own with what is left (`numeric/draws.py`). For each recent request the
filter keeps σ(b), the probability that its session has brought b impressions so far; a new request
has σ = Σ w_l σ_l and nothing from a fresh session. Its person has b impressions from this session
and X from the group's other sessions that were won, d of them, one fewer if this is one of them.
So its value, the probability that its person is targeted and under the cap c, is

    u/k · Σ_{b<c} σ(b) · P(X < c − b | d − 1{b > 0} other sessions)      (`visitor_table.py`)

Winning it raises expected reach by its value, the session's b by one, and d by the probability that
the session had not been won: d += σ(0).

What it assumes. w_l is the probability that the *nearest* previous request of the same session is
the l-th: requests between are then others' sessions, and their wins change nothing. The state of a
request is a marginal one: d is a mean, and independent of σ. Sessions are exchangeable, so it does
not matter which of the d were won first. tests/property/test_visitor_sessions.py compares this
with a list of everything that can happen.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any, Protocol, Self, cast

import numpy as np

from kreach.adsystem.measurement.meter_display import MeterDisplay
from kreach.adsystem.measurement.recent_requests import (
    NOT_WON,
    OPEN,
    RecentRequests,
    SessionOdds,
    State,
    Values,
    after_win,
)
from kreach.adsystem.measurement.running_sum import RunningSum
from kreach.adsystem.measurement.visitor_table import ModelProbability, VisitorTable
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.times import MICROS, to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.draws import HOUR_US
from kreach.numeric.meetings import PART_US
from kreach.numeric.types import FloatArray

__all__ = ["Draws", "VisitorFilter", "as_micros"]

Moment = datetime | float | int
_MAX_CAP = 1000
_MIN_HELD_US = HOUR_US  # notices of wins and of their reversal arrive within it
_FEW = 32  # requests until which tables are always up to date
_GROWTH = 1.5
_SWEEP = 4096
_MAX_SECONDS = 2.5e11  # in the year 9892


class Draws(Protocol):
    """Effective draws by group; a list is one."""

    def __getitem__(self, group: int, /) -> float: ...
    def __setitem__(self, group: int, draws: float, /) -> None: ...


class VisitorFilter(MeterDisplay):
    """Value of every request and expected reach so far, with sessions and hours.

    `request` returns the probability that the request's person is targeted and under the cap: a
    number if there is one cap, {cap: number} if there are several. `won` records that it was won,
    `revert` takes the win back. `reach` is the sum of the values of what was won.

    `draws` may hold the effective draws by group in a place of the caller's own.

    `now` is a datetime (UTC if it has no zone) or seconds since 1970. A request is known by its
    group and time; of several at one time `won` takes the last that is not won, `revert` the last
    that is. Requests and wins of a group may arrive out of order: each is put in its place in
    time, and the reach of wins after it follows, so that only times count. A win whose request is
    not held counts as request and win.

    A group without a win in its recent requests holds nothing but its draws, which is exact: its
    requests have the state of a fresh session. (If the notice of a win is late, the requests of
    such a group in between are missing as links to later ones.) Any other group holds its last 16
    requests and the lags before them, at most twice that between two trims, until it has been idle
    for an hour and for the longest gap that can continue a session. A win that is no longer held
    cannot be reverted.

    How many impressions a won session has had, and how likely a draw now and an earlier one are one
    person's, are taken anew when a part of the day begins and when requests have grown by half;
    in between an event costs a look-up. Reach so far stays what it was.

    With `memory_seconds` (and one cap) the publisher drops bids for people whom it showed the ad
    `cap` times in that time, for nothing. Values are then those of bids that get through, and
    `draws` counts what was dropped too. Infinite: every win counts. None: nothing is dropped.

    >>> audience = Audience.disjoint([2, 2])
    >>> visitors = VisitorFilter(audience, VisitModel.flat(group_size=2), caps=[1])
    >>> visitors.request(0, 0.0), visitors.won(0, 0.0)
    (1.0, 1.0)
    >>> visitors.request(0, 60.0), visitors.won(0, 60.0)
    (0.5, 0.5)
    >>> visitors.reach
    {1: 1.5}
    """

    def __new__(cls, *arguments: Any, memory_seconds: float | None = None, **rest: Any) -> Self:
        """With a memory of the gateway it is another filter (`memory_filter.py`)."""
        if memory_seconds is not None and cls is VisitorFilter:
            from kreach.adsystem.measurement.memory_filter import (  # noqa: PLC0415 - a subclass
                MemoryFilter,
            )

            return cast(Self, object.__new__(MemoryFilter))
        return object.__new__(cls)

    def __init__(
        self,
        audience: Audience,
        model: VisitModel,
        caps: Sequence[int] = (1,),
        traffic: float = 1.0,
        *,
        memory_seconds: float | None = None,
        draws: Draws | None = None,
    ) -> None:
        del memory_seconds  # see __new__
        if not isinstance(audience, DisjointAudience):
            kind = type(audience).__name__
            raise KreachError.rule("audience", "have disjoint groups without visit shares", kind)
        if not isinstance(model, VisitModel):
            raise KreachError.rule("model", "be a VisitModel", type(model).__name__)
        if not isinstance(traffic, (int, float)) or not 0.0 < traffic < 1e6:
            raise KreachError.rule("traffic", "be a positive number", traffic)
        model = model.for_audience(audience)
        self._caps = _as_caps(caps)
        self.audience = audience
        top = self._top = max(self._caps)
        self._kind = audience.kind_numbers
        self._table = VisitorTable(audience, model, top, traffic)
        self._every_cap = self._caps == tuple(range(1, top + 1))
        self._some_alone = 1.0 in self._table.sizes
        self._odds = SessionOdds(model, traffic, top)
        self._fresh: State = (0.0,) * top
        self._idle_us = max(self._odds.horizon_us, _MIN_HELD_US)
        self._max_held = 2 * (OPEN + self._odds.lags)
        self._groups = audience.group_count
        self._draws: Draws = [0.0] * self._groups if draws is None else draws
        self._recent: dict[int, RecentRequests] = {}
        self._sums = [RunningSum() for _ in self._caps]
        self._draws_by_part: dict[int, float] = {}
        self._sessions = [0.0] * (top - 1)  # expected, of the draws above, by impressions
        self._seen = 0
        self._next_refresh_us: float = -inf
        self._next_refresh_seen = 0
        self._next_tidy_seen = 0

    @property
    def caps(self) -> tuple[int, ...]:
        """The caps that are measured."""
        return self._caps

    @property
    def reach(self) -> dict[int, float]:
        """Expected reach so far by cap: the sum of the values of what was won."""
        return {cap: s.value for cap, s in zip(self._caps, self._sums, strict=True)}

    def _facts(self) -> dict[str, Any]:
        return {"groups": self._groups, "requests": self._seen}

    def passing(self, group: int) -> float:
        """The probability that a gateway did not drop a bid for the group's last request."""
        self._checked(group)
        return 1.0

    @property
    def requests_held(self) -> int:
        """How many requests are held: those of groups with recent wins."""
        return sum(len(recent.requests) for recent in self._recent.values())

    def draws(self, group: int) -> float:
        """Effective draws of a group so far: the expected number of its sessions that were won."""
        return self._draws[self._checked(group)]

    def holds(self, group: int) -> bool:
        """Whether a group has recent wins: all others are worth what a fresh session is."""
        return group in self._recent

    def fresh_value(self, group: int) -> float:
        """What a request of a session of its own would be worth, for the largest cap."""
        return self._values(group, self._draws[group], self._fresh)[self._caps.index(self._top)]

    def drop_win(self, group: int, now: Moment) -> None:
        """Take back a win that is not held any more: its session is over, so it is one draw."""
        del now  # one is as good as another
        self._draws[group] = max(self._draws[group] - 1.0, 0.0)
        self.shift_held(group, -1.0)

    def shift_held(self, group: int, draws: float) -> None:
        """The draws of a group were raised by so many: have its recent requests know it."""
        recent = self._recent.get(group)
        if recent is not None:
            recent.requests[:] = [
                (*request[:3], max(request[3] + draws, 0.0), *request[4:])
                for request in recent.requests
            ]

    def hold_longer(self, seconds: int) -> None:
        """Hold idle groups for so much longer: `follow` may come that late."""
        self._idle_us = max(self._odds.horizon_us, _MIN_HELD_US) + seconds * MICROS

    def kind_probability(self, now: Moment) -> ModelProbability:
        """`fresh_value` by kind of group and draws, as of now."""
        at_us = as_micros(now)
        if at_us >= self._next_refresh_us:
            self._tidy(at_us)
        return self._table.kind_probability()

    def memory(self) -> dict[str, Any]:
        """When draws were made and what sessions they had, as plain values."""
        draws = {str(part): draws for part, draws in self._draws_by_part.items() if draws > 0.0}
        return {"draws_by_part": draws, "sessions": list(self._sessions)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was known before, unless it is of other caps."""
        if len(memory["sessions"]) == len(self._sessions):
            parts = memory["draws_by_part"].items()
            self._draws_by_part = {int(part): float(draws) for part, draws in parts}
            self._sessions = [float(count) for count in memory["sessions"]]
            self._next_refresh_us = -inf

    @property
    def draws_by_group(self) -> FloatArray:
        """Effective draws so far of every group."""
        return np.array([self._draws[group] for group in range(self._groups)])

    def request(self, group: int, now: Moment) -> float | dict[int, float]:
        """The probability that the person of this request is targeted and under the cap."""
        if group.__class__ is not int or not 0 <= group < self._groups:
            group = self._checked(group)
        at_us = as_micros(now)
        self._seen = seen = self._seen + 1
        if at_us >= self._next_refresh_us or seen >= self._next_tidy_seen:
            self._tidy(at_us)
        recent = self._recent.get(group)
        if recent is None:
            values = self._values(group, self._draws[group], self._fresh)
        else:
            requests = recent.requests
            if at_us >= requests[-1][0]:
                state, draws = self._odds.state(requests, len(requests), at_us), self._draws[group]
                values = self._values(group, draws, state)
                requests.append((at_us, state, state, draws, NOT_WON, values))
                if len(requests) >= self._max_held and not recent.trim(self._odds.lags):
                    del self._recent[group]
            else:
                values = requests[self._insert(group, recent, at_us)][5]
        return values[0] if len(values) == 1 else self._answer(values)

    def follow(self, group: int, times_us: Sequence[int]) -> None:
        """`request` at each of these times, in their order, where nobody asks for the values."""
        self._seen += len(times_us)
        recent, start = self._recent.get(group), 0
        while recent is not None and start < len(times_us):
            requests = recent.requests
            if times_us[start] < requests[-1][0]:
                self._insert(group, recent, times_us[start])
                start += 1
                continue
            stop = start + max(self._max_held - len(requests), 1)
            self._odds.extend(requests, times_us[start:stop], self._draws[group])
            start = stop
            if len(requests) >= self._max_held and not recent.trim(self._odds.lags):
                del self._recent[group]
                recent = None

    def won(self, group: int, now: Moment) -> float | dict[int, float]:
        """Record that the request was won; returns what it adds to reach.

        That is the value that `request` returned, unless wins of the group have been recorded or
        taken back since.
        """
        if group.__class__ is not int or not 0 <= group < self._groups:
            group = self._checked(group)
        at_us = as_micros(now)
        if at_us >= self._next_refresh_us:
            self._tidy(at_us)
        if self._some_alone and self._alone(group):
            return self._answer(self._win_alone(group, 1))
        recent = self._recent.get(group)
        if recent is None:  # a request of a fresh session, which was not held
            draws, fresh = self._draws[group], self._fresh
            values = self._values(group, draws, fresh)
            recent = self._recent[group] = RecentRequests()
            recent.requests.append((at_us, fresh, fresh, draws, NOT_WON, values))
        requests = recent.requests
        index = len(requests) - 1
        if requests[index][0] != at_us or requests[index][4] != NOT_WON:
            found = recent.find(at_us, was_won=False)
            index = self._insert(group, recent, at_us) if found is None else found
        at_us, _, before, draws, _, values = requests[index]
        values = values or self._values(group, draws, before)
        draw = 1.0 - before[0]
        requests[index] = (at_us, after_win(before), before, draws, draw, values)
        self._count(at_us, before, values, 1)
        if index == len(requests) - 1:
            self._draws[group] = draws + draw
        else:
            self._replay(group, recent, index + 1)
        if len(requests) >= self._max_held:
            recent.trim(self._odds.lags)
        return values[0] if len(values) == 1 else self._answer(values)

    def revert(self, group: int, now: Moment) -> None:
        """Take the win of a request back, as if it had not been recorded."""
        group = self._checked(group)
        at_us = as_micros(now)
        if self._alone(group):
            self._win_alone(group, -1)
            return
        recent = self._recent.get(group)
        index = None if recent is None else recent.find(at_us, was_won=True)
        if recent is None or index is None:
            rule = f"be the time of a win among the group's last {OPEN} requests, to be reverted"
            raise KreachError.rule("now", rule, now)
        self._take_win_back(group, recent, index)
        self._replay(group, recent, index + 1)
        if not any(request[1][0] for request in recent.requests):
            del self._recent[group]
            self._forget_sessions(group)

    def _take_win_back(self, group: int, recent: RecentRequests, index: int) -> None:
        """Make a won request one that was not won; those after it follow later."""
        del group  # all of it is in the request
        at_us, _, before, draws, _, values = recent.requests[index]
        self._count(at_us, before, values, -1)
        recent.requests[index] = (at_us, before, before, draws, NOT_WON, values)

    def _forget_sessions(self, group: int) -> None:
        """The group has no recent win any more."""

    def _values(self, group: int, draws: float, state: State) -> Values:
        """Value by cap of a request whose session is in this state, after so many draws."""
        kind = 0 if self._kind is None else self._kind[group]
        rows = self._table.rows[kind]
        whole = int(draws)
        if whole + 1 >= len(rows):
            rows = self._table.grow(kind, whole)
        part = draws - whole
        low, high = rows[whole], rows[whole + 1]
        fresh = 1.0 - state[0]
        if len(low) == 1:
            return (fresh * (low[0] + part * (high[0] - low[0])),)
        if fresh == 1.0:
            if part == 0.0:
                return low if self._every_cap else tuple([low[cap - 1] for cap in self._caps])
            return tuple([low[c - 1] + part * (high[c - 1] - low[c - 1]) for c in self._caps])
        lower = rows[max(whole - 1, 0)]
        values = []
        for cap in self._caps:  # loops, as short lists cost more than their sums
            value = fresh * (low[cap - 1] + part * (high[cap - 1] - low[cap - 1]))
            at = cap - 1
            for b in range(1, cap):
                at -= 1
                value += state[b] * (lower[at] + part * (low[at] - lower[at]))
            values.append(value)
        return tuple(values)

    def _count(self, at_us: int, before: State, values: Values, sign: int) -> None:
        """Add a win to reach, the calendar and the sessions by impressions, or take it back."""
        part = at_us // PART_US
        more = 1.0 - before[0]
        self._draws_by_part[part] = self._draws_by_part.get(part, 0.0) + sign * more
        for b in range(1, len(before)):  # those with b impressions now, less those with b before
            self._sessions[b - 1] += sign * (more - before[b])
            more = before[b]
        for total, value in zip(self._sums, values, strict=True):
            total.add(sign * value)

    def _insert(self, group: int, recent: RecentRequests, at_us: int) -> int:
        """Put a request in its place in time; those after it follow."""
        requests = recent.requests
        index = recent.place(at_us)
        draws = requests[index][3] if index < len(requests) else self._draws[group]
        state = self._odds.state(requests, index, at_us)
        values = self._values(group, draws, state)
        requests.insert(index, (at_us, state, state, draws, NOT_WON, values))
        self._replay(group, recent, index + 1)
        return index

    def _replay(self, group: int, recent: RecentRequests, start: int) -> None:
        """Bring the requests from `start` on up to date with those before them."""
        requests = recent.requests
        draws, draw = requests[start - 1][3:5]
        draws += max(draw, 0.0)
        for index in range(start, len(requests)):
            at_us, _, was, _, draw, values = requests[index]
            before = self._odds.state(requests, index, at_us)
            after, now = before, self._values(group, draws, before)
            was_won = draw != NOT_WON
            if was_won:
                self._count(at_us, was, values, -1)
                self._count(at_us, before, now, 1)
                draw, after = 1.0 - before[0], after_win(before)
            requests[index] = (at_us, after, before, draws, draw, now)
            draws += draw if was_won else 0.0
        self._draws[group] = draws

    def _alone(self, group: int) -> bool:
        """A group of one: its person is known, and its impressions are its draws."""
        return bool(self._table.sizes[0 if self._kind is None else self._kind[group]] == 1.0)

    def _win_alone(self, group: int, sign: int) -> Values:
        draws = self._draws[group] if sign > 0 else self._draws[group] - 1.0
        if draws < 0.0:
            raise KreachError.rule("group", "have an impression to revert", group)
        values = self._values(group, draws, self._fresh)
        for total, value in zip(self._sums, values, strict=True):
            total.add(sign * value)
        self._draws[group] += sign
        return values

    def _tidy(self, at_us: int) -> None:
        """Make the tables anew if it is time, and drop groups that have been idle."""
        if at_us >= self._next_refresh_us or self._seen >= self._next_refresh_seen:
            self._refresh(at_us)
            self._next_refresh_us = max(self._next_refresh_us, (at_us // PART_US + 1) * PART_US)
            few = self._seen < _FEW
            self._next_refresh_seen = self._seen + 1 if few else int(_GROWTH * self._seen)
        idle_since = at_us - self._idle_us
        gone = [g for g, recent in self._recent.items() if recent.requests[-1][0] < idle_since]
        for group in gone:
            del self._recent[group]
        next_sweep = self._seen + max(_SWEEP, len(self._recent))
        self._next_tidy_seen = min(self._next_refresh_seen, next_sweep)

    def _refresh(self, at_us: int) -> None:
        """Make the tables anew, for a draw now."""
        self._table.refresh(self._draws_by_part, self._sessions, at_us)

    def _answer(self, values: Values) -> float | dict[int, float]:
        return values[0] if len(values) == 1 else dict(zip(self._caps, values, strict=True))

    def _checked(self, group: object) -> int:
        if isinstance(group, (int, np.integer)) and not isinstance(group, bool):
            number = int(group)
            if 0 <= number < self._groups:
                return number
        raise KreachError.rule("group", f"be a group from 0 to {self._groups - 1}", group)


def _as_caps(caps: Sequence[int]) -> tuple[int, ...]:
    try:
        listed = tuple(as_whole_number("caps", cap, minimum=1, maximum=_MAX_CAP) for cap in caps)
    except TypeError as error:
        raise KreachError.rule("caps", "be a list of caps", caps) from error
    if not listed or len(set(listed)) != len(listed):
        raise KreachError.rule("caps", "name at least one cap, each once", caps)
    return listed


def as_micros(now: Any) -> int:
    """Whole microseconds since 1970."""
    if now.__class__ is float or now.__class__ is int:
        if -_MAX_SECONDS < now < _MAX_SECONDS:
            return round(now * 1_000_000)
    elif isinstance(now, datetime):
        return to_micros(now if now.tzinfo else now.replace(tzinfo=UTC))
    elif isinstance(now, (np.integer, np.floating)):
        return as_micros(float(now))
    raise KreachError.rule("now", "be a datetime or seconds since 1970", now)
