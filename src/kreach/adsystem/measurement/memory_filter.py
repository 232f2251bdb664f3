"""The visitor filter beside a gateway that drops bids for people who have just seen the ad.

The gateway remembers for M seconds whom it showed the ad; a bid for somebody who saw it `cap` times
in that time is dropped and costs nothing. So a bid that wins is for somebody below the cap within
M, and is worth

    P(X < c | X_M < c) = P(X < c) / P(X_M < c)

with X the person's impressions so far and X_M those of the last M. Both are values of the plain
filter (`visitor_filter.py`): the first with all sessions that were won, the second with those of
the last M only.

**Which draws count.** Drop nothing, but let what would be dropped cost nothing: reach is the same,
because everybody dropped is at the cap. So the people reached are those of n draws *without* a
gateway, of which some were dropped unseen. Let D(n) be the reach of n draws (at cap 1 the sum of
p(i) over i < n, with p the chance that one draw more is somebody new). The w wins of the last M all
add to the reach of that time, so they stand for n_M = D⁻¹(w) draws. With n_o for the draws of older
wins, at cap 1,

    value = u/k · p(n_M + n_o) / p(n_M),

and a win moves n_o such that D(n_M + n_o) grows by its value. For even visits and sessions of one
request p = 1 − D/k, and the value is (k − reached)/(k − w): exact. For uneven visits the spread of
n given w is neglected, and so is what drops would tell about who came. With an endless memory
n_o = 0 and every win counts.

**Sessions.** A request that continues a session won within M is dropped. The state within M is the
plain state with wins before now − M taken out.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import inf

from kreach.adsystem.measurement.draw_reach import DrawReach
from kreach.adsystem.measurement.recent_requests import (
    NOT_WON,
    RecentRequests,
    Request,
    State,
    after_win,
)
from kreach.adsystem.measurement.visitor_filter import Draws, Moment, VisitorFilter, as_micros
from kreach.boundary.audience import Audience
from kreach.boundary.times import MICROS
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.meetings import PART_US
from kreach.numeric.types import FloatArray

__all__ = ["MemoryFilter"]

_LEAST = 1e-9  # probability that a bid is not dropped


class _Shown:
    """The wins of a group that the gateway may remember, and the draws of those it forgot."""

    __slots__ = ("at_us", "old", "wins")

    def __init__(self, at_us: int, old: float) -> None:
        self.wins: list[int] = []  # times, in order
        self.old = old  # draws of the wins that were forgotten by `at_us`
        self.at_us = at_us


class MemoryFilter(VisitorFilter):
    """`VisitorFilter(..., memory_seconds=...)`: values of bids that the gateway lets through."""

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
        super().__init__(audience, model, caps, traffic, draws=draws)
        if len(self.caps) != 1:
            raise KreachError.rule("caps", "name the gateway's cap alone, with a memory", caps)
        seconds = inf if memory_seconds is None else memory_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0.0:
            raise KreachError.rule("memory_seconds", "be a number > 0, or None", memory_seconds)
        self._memory_us: float = seconds * MICROS
        self._cap = self.caps[0]
        kinds = self.audience.kinds
        self._share: list[float] = (kinds.targeted / kinds.size).tolist()
        self._shown: dict[int, _Shown] = {}
        self._passing: dict[int, float] = {}
        self._reach = DrawReach(self._table, self._share)

    @property
    def memory_seconds(self) -> float:
        """How long the gateway remembers whom it showed the ad."""
        return self._memory_us / MICROS

    def passing(self, group: int) -> float:
        """The probability that a bid for the group's last request was not dropped."""
        return self._passing.get(self._checked(group), 1.0)

    def draws(self, group: int) -> float:
        """Effective draws of a group so far, those among them that were dropped included."""
        group = self._checked(group)
        shown = self._shown.get(group)
        if shown is None:
            return self._draws[group]
        return shown.old + self._recent_draws(group, shown.at_us, included=True)

    def holds(self, group: int) -> bool:
        """Whether a group has recent wins, or some that the gateway remembers."""
        return group in self._recent or group in self._shown

    def shown(self, group: int, now: Moment, impressions: int = 1) -> None:
        """Count impressions of a group that an earlier run won at a time.

        What they say about the calendar is known already (`remember`); sessions are over.
        """
        at_us = as_micros(now)
        if at_us >= self._next_refresh_us:
            self._tidy(at_us)
        known = self._shown.get(group)
        if known is None:
            known = self._shown[group] = _Shown(at_us, self._draws[group])
        self._now(group, at_us)
        for _ in range(impressions):
            insort(known.wins, at_us)

    def drop_win(self, group: int, now: Moment) -> None:
        shown, at_us = self._shown.get(group), as_micros(now)
        if shown is not None and at_us in shown.wins:
            shown.wins.remove(at_us)
        else:
            super().drop_win(group, now)

    def shift_held(self, group: int, draws: float) -> None:
        super().shift_held(group, draws)
        if group in self._shown:
            self._shown[group].old = max(self._shown[group].old + draws, 0.0)

    @property
    def draws_by_group(self) -> FloatArray:
        draws = super().draws_by_group
        for group in self._shown:
            draws[group] = self.draws(group)
        return draws

    def request(self, group: int, now: Moment) -> float:
        group, at_us = self._checked(group), as_micros(now)
        self._seen += 1
        if at_us >= self._next_refresh_us or self._seen >= self._next_tidy_seen:
            self._tidy(at_us)
        if self._alone(group):
            return self._values(group, self._draws[group], self._fresh)[0]
        recent = self._recent.get(group)
        if recent is None:
            value, self._passing[group] = self._value(group, at_us, (), 0, self._now(group, at_us))
            return value
        index = self._insert(group, recent, at_us)
        value = recent.requests[index][5][0]
        if len(recent.requests) >= self._max_held and not recent.trim(self._odds.lags):
            del self._recent[group]
        return value

    def follow(self, group: int, times_us: Sequence[int]) -> None:
        for at_us in times_us:
            self.request(group, at_us / MICROS)

    def won(self, group: int, now: Moment) -> float:
        group, at_us = self._checked(group), as_micros(now)
        if at_us >= self._next_refresh_us:
            self._tidy(at_us)
        if self._alone(group):
            return self._win_alone(group, 1)[0]
        recent = self._recent.get(group)
        if recent is None:
            recent = self._recent[group] = RecentRequests()
        index = recent.find(at_us, was_won=False)
        if index is None:
            index = self._insert(group, recent, at_us)
        value = recent.requests[index][5][0]
        self._win(group, recent, index)
        self._replay(group, recent, index + 1)
        if len(recent.requests) >= self._max_held:
            recent.trim(self._odds.lags)
        return value

    def _take_win_back(self, group: int, recent: RecentRequests, index: int) -> None:
        at_us, _, _, old, _, values = recent.requests[index]
        self._take_back(group, recent.requests[index])
        state = self._odds.state(recent.requests, index, at_us)
        recent.requests[index] = (at_us, state, state, old, NOT_WON, values)

    def _forget_sessions(self, group: int) -> None:
        self._drop_if_over(group, self._shown[group].old)

    # One request: its value, and what a win changes.

    def _value(
        self, group: int, at_us: int, requests: Sequence[Request], index: int, old: float
    ) -> tuple[float, float]:
        """The value of a request after the first `index` ones, and whether a bid passes."""
        state, within = self._states(requests, index, at_us)
        recent = self._recent_draws(group, at_us)
        share = self._share[self._kind_of(group)]
        if share <= 0.0:
            return 0.0, 1.0
        passing = self._values(group, recent, within)[0] / share
        if passing <= _LEAST:
            return share if old <= 0.0 else 0.0, _LEAST
        value = self._values(group, recent + old, state)[0] / passing
        return min(value, share), passing

    def _states(self, requests: Sequence[Request], index: int, at_us: int) -> tuple[State, State]:
        """The state of a request's session, and the same with what the gateway remembers."""
        state = self._odds.state(requests, index, at_us)
        since = at_us - self._memory_us
        if not state[0] or requests[0][0] > since:
            return state, state
        if not any(r[0] <= since and r[4] != NOT_WON for r in requests[:index]):
            return state, state
        kept: list[Request] = []
        for request in requests[:index]:
            one = self._odds.state(kept, len(kept), request[0])
            if request[4] != NOT_WON and request[0] > since:
                one = after_win(one)
            kept.append((request[0], one, one, 0.0, NOT_WON, ()))
        return state, self._odds.state(kept, len(kept), at_us)

    def _win(self, group: int, recent: RecentRequests, index: int) -> None:
        """Make a request a won one: reach, calendar, and the draws of its group."""
        requests = recent.requests
        at_us, _, _, old, _, values = requests[index]
        kind = self._kind_of(group)
        state, within = self._states(requests, index, at_us)
        draws = self._recent_draws(group, at_us)
        before = self._given_win(group, draws, state, within)
        draw = 1.0 - before[0]
        shown = self._shown.get(group)
        if shown is None:
            shown = self._shown[group] = _Shown(at_us, old)
        insort(shown.wins, at_us)
        after = old
        if self._share[kind] > 0.0:
            new = values[0] / self._share[kind]
            total = self._reach.draws_for(kind, self._reach.of(kind, draws + old) + new)
            after = max(total - self._recent_draws(group, at_us, included=True), 0.0)
        requests[index] = (at_us, after_win(before), before, old, draw, values)
        self._count(at_us, before, values, 1)
        shown.old, shown.at_us = after, at_us

    def _take_back(self, group: int, request: Request) -> None:
        at_us, _, before, _, _, values = request
        self._count(at_us, before, values, -1)
        self._shown[group].wins.remove(at_us)

    def _given_win(self, group: int, draws: float, state: State, within: State) -> State:
        """The state of a session before its win, given that the gateway let the bid through."""
        if not state[0]:
            return state
        if self._cap == 1:
            return (1.0 - min((1.0 - state[0]) / max(1.0 - within[0], _LEAST), 1.0),)
        if within is not state:
            return state
        top = len(state)
        rows = self._under(group, max(draws - 1.0, 0.0))
        fresh = (1.0 - state[0]) * self._under(group, draws)[top - 1]
        open_still = [state[b] * rows[top - 1 - b] for b in range(1, top)]
        total = fresh + sum(open_still)
        return (1.0 - fresh / total, *[p / total for p in open_still]) if total > 0.0 else state

    def _under(self, group: int, draws: float) -> tuple[float, ...]:
        """u/k · P(X < 1), ..., P(X < cap) after so many draws."""
        kind, whole = self._kind_of(group), int(draws)
        rows = self._table.rows[kind]
        if whole + 1 >= len(rows):
            rows = self._table.grow(kind, whole)
        part = draws - whole
        return tuple(
            low + part * (high - low)
            for low, high in zip(rows[whole], rows[whole + 1], strict=True)
        )

    # Requests and wins in their places.

    def _insert(self, group: int, recent: RecentRequests, at_us: int) -> int:
        requests = recent.requests
        index = recent.place(at_us)
        old = self._old_before(group, requests, index, at_us)
        state = self._odds.state(requests, index, at_us)
        value, passing = self._value(group, at_us, requests, index, old)
        requests.insert(index, (at_us, state, state, old, NOT_WON, (value,)))
        if index == len(requests) - 1:
            self._passing[group] = passing
        else:
            self._replay(group, recent, index + 1)
        return index

    def _replay(self, group: int, recent: RecentRequests, start: int) -> None:
        """Bring the requests from `start` on up to date with those before them."""
        requests = recent.requests
        later = [r for r in requests[start:] if r[4] != NOT_WON]
        for request in later:
            self._take_back(group, request)
        if requests[start - 1][4] == NOT_WON and group in self._shown:
            shown = self._shown[group]
            shown.old, shown.at_us = requests[start - 1][3], requests[start - 1][0]
        for index in range(start, len(requests)):
            at_us, was_won = requests[index][0], requests[index][4] != NOT_WON
            old = self._old_before(group, requests, index, at_us)
            state = self._odds.state(requests, index, at_us)
            value, _ = self._value(group, at_us, requests, index, old)
            requests[index] = (at_us, state, state, old, NOT_WON, (value,))
            if was_won:
                self._win(group, recent, index)

    def _old_before(self, group: int, requests: Sequence[Request], index: int, at_us: int) -> float:
        """Draws of forgotten wins when a request comes after the first `index` ones."""
        shown = self._shown.get(group)
        if shown is None:
            return self._draws[group]
        if index == 0 or shown.at_us <= at_us:
            return self._now(group, at_us)
        return requests[index - 1][3]

    # What the gateway remembers of a group.

    def _recent_draws(self, group: int, at_us: int, *, included: bool = False) -> float:
        """The draws that the wins within the memory stand for; `included`: with those just now."""
        shown = self._shown.get(group)
        if shown is None:
            return 0.0
        last = at_us if included else at_us - 1
        first = bisect_right(shown.wins, at_us - self._memory_us)
        end = max(bisect_right(shown.wins, last), first)
        return self._reach.draws_for(self._kind_of(group), float(end - first))

    def _now(self, group: int, at_us: int) -> float:
        """Draws of forgotten wins at a time; what was forgotten since is added."""
        shown = self._shown.get(group)
        if shown is None:
            return self._draws[group]
        if at_us > shown.at_us:
            end = bisect_right(shown.wins, shown.at_us)
            first = bisect_right(shown.wins, shown.at_us - self._memory_us)
            left = min(bisect_right(shown.wins, at_us - self._memory_us), end)
            if left > first:
                kind = self._kind_of(group)
                shown.old += self._reach.draws_for(kind, float(end - first))
                shown.old -= self._reach.draws_for(kind, float(end - left))
            shown.at_us = at_us
        return shown.old

    def _kind_of(self, group: int) -> int:
        return 0 if self._kind is None else self._kind[group]

    def _refresh(self, at_us: int) -> None:
        """Tables for a draw now, by the draws that can be met again: those forgotten."""
        first = at_us // PART_US - round(min(self._memory_us / PART_US, 1e9))
        old = {part: draws for part, draws in self._draws_by_part.items() if part <= first}
        total, mine = sum(self._draws_by_part.values()), sum(old.values())
        if mine > 1e-6 and total > 0.0:
            sessions = [mine / total * number for number in self._sessions]
            self._table.refresh(old, sessions, at_us)
        else:
            self._table.refresh(self._draws_by_part, self._sessions, at_us)
        self._reach.forget()

    def _tidy(self, at_us: int) -> None:
        super()._tidy(at_us)
        for group in list(self._shown):
            recent, shown = self._recent.get(group), self._shown[group]
            old = shown.old if recent else self._now(group, at_us)
            first_us = min(shown.at_us, recent.requests[0][0] if recent else at_us)
            del shown.wins[: bisect_right(shown.wins, first_us - self._memory_us)]
            self._drop_if_over(group, old)
        sweep = self._seen + len(self._shown)
        self._next_tidy_seen = min(self._next_refresh_seen, max(self._next_tidy_seen, sweep))

    def _drop_if_over(self, group: int, old: float) -> None:
        """Hold nothing but its draws of a group whose wins are all forgotten."""
        if not self._shown[group].wins and group not in self._recent:
            self._draws[group] = old
            del self._shown[group]
            self._passing.pop(group, None)
