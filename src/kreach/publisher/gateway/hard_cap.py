"""Hard caps. The publisher knows the visitor, so it can enforce a cap per person exactly."""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from kreach.boundary.times import DAY_SECONDS, MICROS
from kreach.publisher.gateway.pseudonyms import Pseudonyms
from kreach.publisher.gateway.settings import HardCap
from kreach.publisher.gateway.showings import Showing, ShowingStore
from kreach.service.clock import Clock, SteadyClock

__all__ = ["UNLISTED_SECONDS", "HardCaps", "Holds"]

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


class HardCaps:
    """The enabled caps, the stored showings and the holds.

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
    ) -> None:
        self._memory_seconds = memory_seconds
        self._listed: Mapping[str, HardCap] = {cap.campaign: cap for cap in caps}
        self.caps = {name: cap for name, cap in self._listed.items() if cap.enabled}
        self._clock: Clock = clock or SteadyClock()
        self.showings = ShowingStore(folder, self._prune_before)
        if clock is None:
            self._clock = SteadyClock(self.showings.latest_us / MICROS)
        self._pseudonyms = Pseudonyms(self.showings.key, tuple(self.caps))
        self.holds = Holds(hold_seconds)

    def allowed(self, user_id: str, campaigns: Iterable[str], hold: bool = False) -> list[str]:
        """The campaigns that this user may see now; each once, in their order."""
        now_us = self.now_us()
        allowed, users = [], []
        for campaign in dict.fromkeys(campaigns):
            hard = self.caps.get(campaign)
            if hard is not None:
                user = self._pseudonyms.user(campaign, user_id)
                left = hard.cap - self.holds.count(user, now_us)
                if (
                    left <= 0
                    or self.showings.count(user, self._start_us(hard, now_us), left) >= left
                ):
                    continue
                users.append(user)
            allowed.append(campaign)
        if hold:
            for user in users:  # last, so that a failure of the store leaves no hold
                self.holds.take(user, now_us)
        return allowed

    async def shown(self, user_id: str, campaign: str, impression_id: str) -> bool:
        """Store a showing durably; False if the campaign has no cap or it is a duplicate."""
        if campaign not in self.caps:
            return False
        user = self._pseudonyms.user(campaign, user_id)
        impression = self._pseudonyms.impression(campaign, user_id, impression_id)
        new = await self.showings.record(Showing(user, impression, campaign, self.now_us()))
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
        return None if self._span(hard) is None else self._start_us(hard, now_us)

    def _span(self, hard: HardCap) -> float | None:
        return hard.span_seconds if self._memory_seconds is None else self._memory_seconds

    def _start_us(self, hard: HardCap, now_us: int) -> int:
        """The time after which showings count: each counts for exactly the span."""
        span = self._span(hard)
        return -1 if span is None else now_us - round(span * MICROS)
