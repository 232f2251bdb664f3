"""Hard caps. The publisher knows the visitor, so it can enforce a cap per person exactly."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kreach.boundary.times import DAY_SECONDS, MICROS
from kreach.publisher.gateway.pseudonyms import Pseudonyms
from kreach.publisher.gateway.settings import FamilyCap, HardCap
from kreach.publisher.gateway.showings import Showing, ShowingStore
from kreach.service.clock import Clock, ClockMark, SteadyClock

__all__ = ["UNLISTED_SECONDS", "HardCaps", "Holds"]

_FAMILY = "family\t"  # before the name of a family in the store: no campaign's name has a tab
UNLISTED_SECONDS = 30 * DAY_SECONDS  # a campaign removed by mistake may return


class Holds:
    """Reserved showings: each counts until it is released or expires."""

    def __init__(self, seconds: float) -> None:
        self._us = round(seconds * MICROS)
        self._ends: dict[bytes, deque[int]] = {}
        self._order: deque[tuple[int, bytes]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    def count(self, user: bytes, now_us: int) -> int:
        """How many showings are on hold for a user now."""
        while self._order and self._order[0][0] <= now_us:
            _, expired = self._order.popleft()
            ends = self._ends.get(expired)
            while ends and ends[0] <= now_us:
                ends.popleft()
            if not ends:
                self._ends.pop(expired, None)
        return len(self._ends.get(user, ()))

    def take(self, user: bytes, now_us: int) -> None:
        """Put one showing on hold."""
        end = now_us + self._us
        self._ends.setdefault(user, deque()).append(end)
        self._order.append((end, user))

    def release(self, user: bytes) -> None:
        """Release the oldest hold of a user, if there is one."""
        ends = self._ends.get(user)
        if ends:
            ends.popleft()
        if not ends:
            self._ends.pop(user, None)


@dataclass(frozen=True)
class _Counter:
    """What is counted of a person under one name: a campaign, or a family."""

    name: str
    limit: int
    span_seconds: float | None
    family: str | None = None


class HardCaps:
    """The enabled caps, the stored showings and the holds.

    A campaign in a family with a cap has two counts of a person: its own, and that of the family,
    under a pseudonym of its own. It may be shown while both are below their caps.

    Everything but writing runs in the service's event loop, one request at a time, so `allowed`
    with `hold` checks and reserves in one step. With `memory_seconds` every cap has that span, and
    older showings are erased, also of campaigns that are disabled or no longer listed.
    """

    def __init__(
        self,
        folder: Path,
        caps: Iterable[HardCap],
        hold_seconds: float,
        clock: Clock | None = None,
        memory_seconds: float | None = None,
        families: Iterable[FamilyCap] = (),
    ) -> None:
        self._memory_seconds = memory_seconds
        self._listed: dict[str, HardCap | FamilyCap] = {}
        self._counters: dict[str, list[_Counter]] = {}  # by campaign
        for cap in caps:
            self._list(cap, cap.campaign, [cap.campaign], None)
        for each in families:
            self._list(each, _FAMILY + each.family, each.campaigns, each.family)
        self.dropped_by_family: Counter[str] = Counter()
        self._clock: Clock = clock or SteadyClock()
        self.showings = ShowingStore(folder, self._prune_before)
        if clock is None:
            self._clock = SteadyClock(ClockMark(self.showings.latest_us / MICROS))
        names = {one.name: None for some in self._counters.values() for one in some}
        self._pseudonyms = Pseudonyms(self.showings.key, tuple(names))
        self.holds = Holds(hold_seconds)

    def _list(
        self, cap: HardCap | FamilyCap, name: str, campaigns: Sequence[str], family: str | None
    ) -> None:
        self._listed[name] = cap
        for campaign in campaigns if cap.enabled else ():
            counter = _Counter(name, cap.cap, cap.span_seconds, family)
            self._counters.setdefault(campaign, []).append(counter)

    @property
    def enabled(self) -> bool:
        """Whether there is any cap."""
        return bool(self._counters)

    def counts(self, campaign: str) -> bool:
        """Whether a cap counts a campaign's showings, its own or its family's."""
        return campaign in self._counters

    def allowed(self, user_id: str, campaigns: Iterable[str], hold: bool = False) -> list[str]:
        """The campaigns that this user may see now; each once, in their order.

        With `hold` all of them may be shown, so of a family no more are allowed than its cap
        leaves: the first ones. Without, each is allowed that could be shown alone.
        """
        now_us = self.now_us()
        allowed: list[str] = []
        taken: Counter[bytes] = Counter()
        for campaign in dict.fromkeys(campaigns):
            users = []
            for counter in self._counters.get(campaign, ()):
                user = self._pseudonyms.user(counter.name, user_id)
                left = counter.limit - self.holds.count(user, now_us) - (taken[user] if hold else 0)
                start_us = self._start_us(counter.span_seconds, now_us)
                if left <= 0 or self.showings.count(user, start_us, left) >= left:
                    if counter.family is not None:
                        self.dropped_by_family[counter.family] += 1
                    break
                users.append(user)
            else:
                allowed.append(campaign)
                taken.update(users)
        if hold:
            for user in taken.elements():  # last, so that a failure of the store leaves no hold
                self.holds.take(user, now_us)
        return allowed

    async def shown(self, user_id: str, campaign: str, impression_id: str) -> bool:
        """Store a showing durably, for each cap that counts it.

        False if there is none, or it is a duplicate. Where the store fails between two caps, the
        showing is to be repeated, and each counts it once.
        """
        counters = self._counters.get(campaign, ())
        now_us = self.now_us()
        return any(
            await asyncio.gather(
                *(self._record(one, user_id, campaign, impression_id, now_us) for one in counters)
            )
        )

    async def _record(
        self, counter: _Counter, user_id: str, campaign: str, impression_id: str, now_us: int
    ) -> bool:
        if counter.family is not None:  # two campaigns may use one impression id
            impression_id = f"{campaign}\0{impression_id}"
        user = self._pseudonyms.user(counter.name, user_id)
        impression = self._pseudonyms.impression(counter.name, user_id, impression_id)
        new = await self.showings.record(Showing(user, impression, counter.name, now_us))
        if new:
            self.holds.release(user)
        return new

    def now_us(self) -> int:
        """The time, in microseconds since 1970."""
        return round(self._clock() * MICROS)

    def _prune_before(self, campaign: str) -> int | None:
        """The time up to which a campaign's rows can be deleted; None if all are needed."""
        hard, now_us = self._listed.get(campaign), self.now_us()
        if hard is None:
            seconds = min(UNLISTED_SECONDS, self._memory_seconds or UNLISTED_SECONDS)
            return now_us - round(seconds * MICROS)
        start_us = self._start_us(hard.span_seconds, now_us)
        return None if start_us < 0 else start_us

    def _start_us(self, span_seconds: float | None, now_us: int) -> int:
        """The time after which showings count: each counts for exactly the span."""
        span = span_seconds if self._memory_seconds is None else self._memory_seconds
        return -1 if span is None else now_us - round(span * MICROS)
