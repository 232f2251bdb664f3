"""Rate limits: token buckets in bounded memory."""

import ipaddress
from collections import OrderedDict

from kreach.service.clock import Clock

__all__ = ["Buckets", "neighbourhood"]


class Buckets:
    """Token buckets by name.

    A bucket holds up to `burst` tokens and gets `rate_per_minute` of them back, evenly. Of more
    than `max_buckets` buckets the least recently used is dropped, which fills it.
    """

    def __init__(self, clock: Clock, max_buckets: int) -> None:
        self._clock, self._max_buckets = clock, max_buckets
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, rate_per_minute: float, burst: float) -> float:
        """Take a token: 0, or the seconds until there will be one."""
        now = self._clock()
        per_second = rate_per_minute / 60.0
        tokens, when = self._levels.get(name, (burst, now))
        tokens = min(tokens + max(now - when, 0.0) * per_second, burst)
        wait = 0.0 if tokens >= 1.0 else (1.0 - tokens) * 60.0 / rate_per_minute
        self._levels[name] = (tokens if wait else tokens - 1.0, now)
        self._levels.move_to_end(name)
        if len(self._levels) > self._max_buckets:
            self._levels.popitem(last=False)
        return wait


def neighbourhood(address: str) -> str:
    """The name of an address's bucket: itself, or in IPv6 its network of 64 bits.

    >>> neighbourhood("2001:db8::17"), neighbourhood("192.0.2.7")
    ('2001:db8::/64', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""  # a socket without addresses
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))
