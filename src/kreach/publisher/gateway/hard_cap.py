"""The hard cap: the publisher knows the visitor, so it can say that a campaign had its turns."""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from kreach.publisher.gateway.pseudonyms import Pseudonyms
from kreach.publisher.gateway.settings import HardCap
from kreach.publisher.gateway.showings import Showing, Showings
from kreach.service.clock import Clock, SteadyClock

__all__ = ["HardCaps", "Holds"]

_UNLISTED_SECONDS = 30 * 86_400.0  # a campaign that fell out of the settings by mistake may return


class Holds:
    """Showings that may be under way: each counts until it is released or its time is over."""

    def __init__(self, seconds: float) -> None:
        self._us = round(seconds * 1e6)
        self._ends: dict[bytes, deque[int]] = {}
        self._order: deque[tuple[int, bytes]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    def count(self, user: bytes, now_us: int) -> int:
        """How many are held for a user now."""
        while self._order and self._order[0][0] <= now_us:
            _, over = self._order.popleft()
            ends = self._ends.get(over)
            while ends and ends[0] <= now_us:
                ends.popleft()
            if not ends:
                self._ends.pop(over, None)
        return len(self._ends.get(user, ()))

    def take(self, user: bytes, now_us: int) -> None:
        """Hold one."""
        end = now_us + self._us
        self._ends.setdefault(user, deque()).append(end)
        self._order.append((end, user))

    def release(self, user: bytes) -> None:
        """Give the oldest one back, if there is one."""
        ends = self._ends.get(user)
        if ends:
            ends.popleft()
        if not ends:
            self._ends.pop(user, None)


class HardCaps:
    """The caps that hold, with what was shown and what may be under way.

    Everything but the writing happens in the service's event loop, one request after the other, so
    `allowed` with `hold` looks and takes in one step.
    """

    def __init__(
        self,
        folder: Path,
        listed: Iterable[HardCap],
        hold_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        self._listed: Mapping[str, HardCap] = {hard.campaign: hard for hard in listed}
        self.caps = {name: hard for name, hard in self._listed.items() if hard.enabled}
        self._clock: Clock = clock or SteadyClock()
        self.showings = Showings(folder, self._kept_from)
        if clock is None:
            self._clock = SteadyClock(self.showings.latest_us / 1e6)
        self._names = Pseudonyms(self.showings.key, tuple(self.caps))
        self.holds = Holds(hold_seconds)

    def allowed(self, user_id: str, campaigns: Iterable[str], hold: bool = False) -> list[str]:
        """Which of the campaigns may be shown to this user now; each once, in their order."""
        now_us = self._now_us()
        result, taken = [], []
        for campaign in dict.fromkeys(campaigns):
            hard = self.caps.get(campaign)
            if hard is not None:
                user = self._names.user(campaign, user_id)
                left = hard.cap - self.holds.count(user, now_us)
                if left <= 0 or self.showings.count(user, _start_us(hard, now_us), left) >= left:
                    continue
                taken.append(user)
            result.append(campaign)
        if hold:
            for user in taken:  # only now: if the store failed on the way, nothing is held
                self.holds.take(user, now_us)
        return result

    async def shown(self, user_id: str, campaign: str, impression_id: str) -> bool:
        """Record a showing, durably; True if it counts, False if not capped here or a repeat."""
        if campaign not in self.caps:
            return False
        user = self._names.user(campaign, user_id)
        impression = self._names.impression(campaign, user_id, impression_id)
        new = await self.showings.record(Showing(user, impression, campaign, self._now_us()))
        if new:
            self.holds.release(user)
        return new

    def _now_us(self) -> int:
        return round(self._clock() * 1e6)

    def _kept_from(self, campaign: str) -> int | None:
        """Up to which time a campaign's rows are of no use: a whole flight needs them all."""
        hard = self._listed.get(campaign)
        if hard is None:
            return self._now_us() - round(_UNLISTED_SECONDS * 1e6)
        return None if hard.span_seconds is None else _start_us(hard, self._now_us())


def _start_us(hard: HardCap, now_us: int) -> int:
    """The time after which showings count; a showing counts for exactly the span."""
    return -1 if hard.span_seconds is None else now_us - round(hard.span_seconds * 1e6)
