"""Authentication, authorization and rate limits, before a request is handled.

A key comes in the header `Authorization: Bearer ...` and nowhere else. Every invalid key gets the
same answer, whatever is wrong with it; the reason is in logs and counters. Neither ever holds a
secret or a client's address.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any
from urllib.parse import unquote_plus

from kreach.adsystem.access.key import LOOKS_LIKE_A_KEY, Key
from kreach.adsystem.access.limits import Buckets, neighbourhood
from kreach.adsystem.access.ring import KeyRing, KeysFailing
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["OPERATOR", "STRANGER", "Admit", "Gate", "Refusal", "Viewer", "may"]

Scope = Mapping[str, Any]

_MAX_BUCKETS = 100_000
_MAX_ADDRESSES = 10_000
_FAILURES_PER_MINUTE = 30.0
_FAILURES_AT_ONCE = 30.0
_MAX_HEADER = 200
_PROBES = ("/healthz", "/readyz")  # open to all: they tell a stranger yes or no

_ONE = "/v1/campaigns/[^/]+"
_FAMILY = "/v1/families/[^/]+"
_MAY = {
    "advertiser": (
        *(("GET", path) for path in _PROBES),
        ("GET", "/openapi.json"),
        ("GET", "/v1/campaigns"),
        ("POST", "/v1/campaigns"),
        ("GET", _ONE),
        ("PATCH", _ONE),
        ("GET", f"{_ONE}/(?:reach|series|curve|pacing|plan)"),
        ("GET", "/v1/families"),
        ("POST", "/v1/families"),
        ("GET", _FAMILY),
        ("PATCH", _FAMILY),
        ("GET", f"{_FAMILY}/reach"),
        ("GET", "/v1/reach"),
        ("POST", "/v1/plans"),
        ("GET", "/v1/catalogues"),
        ("GET", "/v1/viewer"),
    ),
    "publisher": (
        *(("GET", path) for path in _PROBES),
        ("GET", "/openapi.json"),
        ("GET", "/v1/suppressions"),
        ("GET", "/v1/catalogues"),
        ("GET", "/v1/viewer"),
    ),
}
_ALLOWED = {
    role: re.compile("|".join(f"(?:{method} {path})" for method, path in calls))
    for role, calls in _MAY.items()
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """The client: a role, for advertisers their name, and the public id of the key."""

    role: str
    advertiser: str | None = None
    key: str | None = None

    @property
    def owner(self) -> str:
        """Whose turn it is in a queue: all keys of an advertiser share theirs."""
        return f"advertiser {self.advertiser}" if self.advertiser else self.key or self.role


OPERATOR = Viewer("operator")
"""Every client of a service without keys."""
STRANGER = Viewer("stranger")
"""A client without a key, on a path that needs none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that is not allowed."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


Admit = Callable[[Scope], Viewer | Refusal]


def may(role: str, method: str, path: str) -> bool:
    """Whether a role may call this path, existing or not."""
    return role == "operator" or bool(_ALLOWED[role].fullmatch(f"{method} {path}"))


class Gate:
    """Admits requests with a key for their path, within its rate. Used by one thread.

    An invalid key takes a token from the bucket of its sender's address; when that is empty,
    invalid keys get 429. Valid keys are admitted all the same: behind a proxy all clients share
    one address, and none must be able to lock out the others.
    """

    def __init__(self, ring: KeyRing, log: Log, metrics: Metrics, clock: Clock) -> None:
        self._ring, self._log = ring, log
        self._by_key = Buckets(clock, _MAX_BUCKETS)
        self._by_address = Buckets(clock, _MAX_ADDRESSES)
        self.refused = metrics.count("refused", "Requests refused, by reason", "reason")

    def __call__(self, scope: Scope) -> Viewer | Refusal:
        """The client, or the refusal that it gets."""
        path, query = str(scope["path"]), scope.get("query_string", b"").decode("latin-1")
        if any(LOOKS_LIKE_A_KEY.search(text) for text in (path, query, unquote_plus(query))):
            return self._refuse(_EXPOSED, "key in address")
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        if not headers and scope["method"] == "GET" and path in _PROBES:
            return STRANGER
        try:
            checked = self._ring.check(_bearer(headers))
        except KeysFailing as error:
            again = Refusal(503, str(error), {"retry-after": "5"})
            return self._refuse(again, "keys unreadable")
        if checked.key is None:
            return self._unknown(scope, checked.reason if headers else "no key", checked.known)
        return self._known(checked.key, scope["method"], path)

    @property
    def address_count(self) -> int:
        """How many client addresses have a bucket."""
        return len(self._by_address)

    def _known(self, key: Key, method: str, path: str) -> Viewer | Refusal:
        burst = max(key.rate_per_minute / 10.0, 1.0)
        wait = self._by_key.take(key.id, key.rate_per_minute, burst)
        if wait:
            message = f"the key allows {key.rate_per_minute} requests a minute: try later"
            return self._refuse(_too_many(message, wait), "rate", key.id)
        if not may(key.role, method, path):
            refusal = Refusal(403, f"the role {key.role} may not do this")
            return self._refuse(refusal, "role", key.id)
        return Viewer(key.role, key.advertiser, key.id)

    def _unknown(self, scope: Scope, reason: str, known: str | None) -> Refusal:
        address = (scope.get("client") or ("",))[0]
        name = neighbourhood(address)
        wait = self._by_address.take(name, _FAILURES_PER_MINUTE, _FAILURES_AT_ONCE)
        if wait:
            refusal = _too_many("too many requests without a valid key: try later", wait)
            return self._refuse(refusal, "too many failures", known)
        return self._refuse(_NO_KEY, reason, known)

    def _refuse(self, refusal: Refusal, reason: str, key: str | None = None) -> Refusal:
        self.refused.add(reason)
        self._log.warning("request refused", reason=reason, key=key)
        return refusal


_NO_KEY = Refusal(
    401,
    "the header Authorization must be Bearer and a valid key",
    {"www-authenticate": 'Bearer realm="kreach"'},
)
_EXPOSED = Refusal(
    400,
    "the key must be in the header Authorization, got it in the address, which is logged on its "
    "way: the key has now been exposed, have it rotated",
)


def _too_many(message: str, wait: float) -> Refusal:
    return Refusal(429, message, {"retry-after": str(ceil(wait))})


def _bearer(headers: list[bytes]) -> str:
    """The key of the only header; empty if there is none, another kind, or several."""
    if len(headers) != 1 or len(headers[0]) > _MAX_HEADER:
        return ""
    scheme, _, text = headers[0].decode("latin-1").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
