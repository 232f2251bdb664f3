"""Members of a fleet compare their clocks, by that of Redis.

Each one measures how far its own clock is ahead of Redis's, and publishes that. What two members
are apart is the difference of the two: Redis's clock may be wrong, it only has to be one. A network
that is slow one way makes an error of at most half of a round trip, which is subtracted.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kreach.service.logs import Log

__all__ = ["ClockLead", "ClockSample", "FleetClocks"]

_FORGET_SECONDS = 60.0  # of a member that does not publish any more


class ClockLead(NamedTuple):
    """How far a member's clock was ahead of Redis's, and when by Redis's; in seconds."""

    lead: float
    error: float
    at: float

    def encode(self) -> str:
        """As Redis has it: whole microseconds."""
        return " ".join(str(round(value * 1e6)) for value in self)

    @classmethod
    def decode(cls, text: str) -> "ClockLead | None":
        """What a member published; None if it is something else."""
        try:
            lead, error, at = (int(part) / 1e6 for part in text.split(" "))
        except ValueError:
            return None
        return cls(lead, error, at)


class ClockSample(NamedTuple):
    """A reading of Redis's clock, between two of the monotonic one; and what others published."""

    sent: float
    received: float
    redis_seconds: float
    leads: Mapping[str, ClockLead]


class FleetClocks:
    """What a member knows of its own clock and of the others'. Used by the event loop."""

    def __init__(self, name: str, max_seconds: float, log: Log) -> None:
        self._name, self._max_seconds, self._log = name, max_seconds, log
        self.own: ClockLead | None = None  # to be published
        self.difference_seconds: float | None = None  # to the farthest other member
        self.apart: tuple[str, ...] = ()  # whose clocks are too far from ours

    def compare(self, sample: ClockSample, now: float, monotonic: float) -> None:
        """Take up a sample, with the member's own clock and the monotonic one as they are now."""
        error = (sample.received - sample.sent) / 2.0
        then = now - (monotonic - (sample.sent + sample.received) / 2.0)
        own = ClockLead(then - sample.redis_seconds, error, sample.redis_seconds)
        self.own = own
        others = {
            name: own.lead - other.lead
            for name, other in sample.leads.items()
            if name != self._name and own.at - other.at < _FORGET_SECONDS
        }
        unsure = {name: own.error + sample.leads[name].error for name in others}
        apart = tuple(
            sorted(
                name
                for name, seconds in others.items()
                if abs(seconds) - unsure[name] > self._max_seconds
            )
        )
        self.difference_seconds = max(others.values(), key=abs, default=None)
        if apart and apart != self.apart:
            seconds = {name: round(others[name], 3) for name in apart}
            self._log.error("clocks differ", ahead_seconds=seconds, max_seconds=self._max_seconds)
        elif self.apart and not apart:
            self._log.info("clocks agree", bidders=sorted(others))
        self.apart = apart
