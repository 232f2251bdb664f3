"""Host, Origin and Content-Type checks: requests that a page of another site makes are refused.

A service on loopback or in a private network is in reach of every browser there. Three ways lead a
foreign page to it, and each has its check:

* DNS rebinding: the page's own name resolves to the service's address, so that the browser takes
  the service for the page's own. The Host is then the page's name, which is none of the service's.
  An address (192.0.2.7) cannot be rebound, so services accept addresses.
* A request to the service's real address. Browsers send Origin and Sec-Fetch-Site with it.
* A form or a `text/plain` body, which browsers send without asking first. Bodies must be JSON.

Clients that are no browsers send a Host and a content type, and none of the other headers.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kreach.errors import KreachError

__all__ = [
    "PREFLIGHT_HEADERS",
    "RefusedRequest",
    "RequestChecks",
    "check_names",
    "check_origins",
    "cors_headers",
]

Scope = Mapping[str, Any]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_ORIGIN = re.compile(r"https?://[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?")
_WITH_BODIES = frozenset({"POST", "PUT", "PATCH"})
_OWN_SITES = frozenset({b"same-origin", b"none"})  # "none": typed by a person, not a page's
_JSON_TYPE = re.compile(rb"application/(?:[a-z0-9.-]+\+)?json[ \t]*(?:;.*)?", re.IGNORECASE)
_MAX_KNOWN = 1_000


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """The answer to a request that fails a check."""

    status: int
    message: str


_WRONG_HOST = RefusedRequest(
    403, "host must be an address or a name of this service: list others under `names`"
)
_CROSS_SITE = RefusedRequest(403, "a page of another site may not call this service")
_NOT_JSON = RefusedRequest(415, "content-type must be application/json")


class RequestChecks:
    """The checks of one service.

    `names` are the host names under which clients reach it, beside loopback and the `host` that it
    listens on. With `any_address`, every numeric address is a name too; with `any_host`, the Host
    is not checked: for services where a browser has no authority that a page could borrow.
    `origins` are those of pages that may call the service from a browser. Bodies must be JSON,
    unless `json_bodies` is false.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        host: str = "127.0.0.1",
        *,
        any_address: bool = True,
        any_host: bool = False,
        origins: Iterable[str] = (),
        json_bodies: bool = True,
    ) -> None:
        self._json_bodies = json_bodies
        self._own = frozenset(names)
        self._names = _LOOPBACK | self._own | {host.strip("[]").lower()}
        self._any_address, self._any_host = any_address, any_host
        self.origins = frozenset(origin.encode() for origin in origins)
        self._known_hosts: set[bytes] = set()  # hosts that passed: as many as clients spell

    def refusal(self, scope: Scope) -> RefusedRequest | None:
        """Why a request is refused; None if it may pass."""
        found: dict[bytes, bytes] = {}
        for name, value in scope.get("headers", ()):
            if name in _CHECKED:
                if name in found and name in _ONCE:
                    return _WRONG_HOST if name == b"host" else _CROSS_SITE
                found[name] = value
        host = found.get(b"host")
        if not self._is_own_host(host):
            return _WRONG_HOST
        method = scope.get("method", "GET")  # a websocket has none
        if not self._is_own_page(found, host or b"", method):
            return _CROSS_SITE
        if self._json_bodies and method in _WITH_BODIES and _has_other_body(found):
            return _NOT_JSON
        return None

    def allowed_origin(self, scope: Scope) -> bytes | None:
        """The origin of the page behind a request, if it is one of `origins`."""
        if not self.origins:
            return None
        found = [value for name, value in scope.get("headers", ()) if name == b"origin"]
        return found[0] if len(found) == 1 and found[0] in self.origins else None

    def _is_own_host(self, host: bytes | None) -> bool:
        if self._any_host or host in self._known_hosts:
            return True
        name = None if host is None else _name(f"//{host.decode('latin-1')}")
        if host is None or name is None:
            return False
        if name not in self._names and not (self._any_address and _is_address(name)):
            return False
        if len(self._known_hosts) < _MAX_KNOWN:
            self._known_hosts.add(host)
        return True

    def _is_own_page(self, found: Mapping[bytes, bytes], host: bytes, method: str) -> bool:
        """Whether no page of another site is behind a request.

        A link from elsewhere may be followed: it reads a page for a person, and changes nothing.
        """
        origin = found.get(b"origin")
        if origin is not None:
            text = origin.decode("latin-1")
            if origin in self.origins:
                return True
            if _authority(text) != host.decode("latin-1").lower() and _name(text) not in self._own:
                return False
        site = found.get(b"sec-fetch-site")
        if site is None or site in _OWN_SITES or (origin is not None and site == b"same-site"):
            return True
        return method == "GET" and found.get(b"sec-fetch-mode") == b"navigate"


PREFLIGHT_HEADERS = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"600"),
)


def cors_headers(origin: bytes) -> list[tuple[bytes, bytes]]:
    """Let a page of this origin read a response, with the cookies of its browser."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"vary", b"origin"),
    ]


_ONCE = frozenset({b"host", b"origin", b"content-type"})
_CHECKED = _ONCE | {
    *(b"sec-fetch-site", b"sec-fetch-mode"),
    *(b"content-length", b"transfer-encoding"),
}


def _has_other_body(found: Mapping[bytes, bytes]) -> bool:
    """Whether there is a body that does not say that it is JSON."""
    kind = found.get(b"content-type")
    if kind is not None:
        return not _JSON_TYPE.fullmatch(kind)
    return found.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in found


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _authority(origin: str) -> str | None:
    """Name and port of an origin such as https://name:port; None if it is not one."""
    scheme, separator, authority = origin.lower().partition("://")
    return authority if separator and scheme in ("http", "https") else None


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def check_names(names: Iterable[str]) -> None:
    """Refuse what cannot be a host name in a setting `names`."""
    for name in names:
        if not _NAME.fullmatch(name):
            rule = "be host names in small letters, without a port"
            raise KreachError.rule("names", rule, name)


def check_origins(origins: Iterable[str]) -> None:
    """Refuse what is not exactly an origin, as browsers write it, in `allowed_origins`."""
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            rule = "be origins such as https://www.example.com, without a path or a wildcard"
            raise KreachError.rule("allowed_origins", rule, origin)
