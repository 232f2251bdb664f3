"""What a page of another site can make a browser send is refused; what clients send is not."""

from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.service.request_checks import RequestChecks, check_names

JSON = {"content-type": "application/json"}
HERE = {"host": "127.0.0.1:8403"}


def status(checks: RequestChecks, method: str, headers: dict[str, str], *more: Any) -> int:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    refused = checks.refusal({"method": method, "headers": [*encoded, *more]})
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8403", "localhost", "[::1]:8403", "192.0.2.7", "[2001:db8::1]:80", "api.example"],
)
def test_own_names_and_addresses_pass(host: str) -> None:
    checks = RequestChecks(["api.example"])
    for _ in range(2):  # the second time it is known
        assert status(checks, "GET", {"host": host}) == 200
        assert status(checks, "PATCH", {"host": host} | JSON) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8403",
        "[::1",
        "",
        "api.example.evil",
        "a@b@c",
        "\xff",
    ],
)
def test_a_name_that_was_rebound_is_refused(host: str) -> None:
    checks = RequestChecks(["api.example"])
    assert status(checks, "GET", {"host": host}) == 403
    assert status(checks, "POST", {"host": host} | JSON) == 403


def test_one_host_and_no_more() -> None:
    checks = RequestChecks()
    assert status(checks, "GET", {}) == 403
    assert status(checks, "GET", HERE, (b"host", b"127.0.0.1:8403")) == 403
    assert status(checks, "GET", HERE, (b"origin", b"null"), (b"origin", b"null")) == 403


def test_any_host_where_a_key_is_required() -> None:
    checks = RequestChecks(any_host=True)
    assert status(checks, "GET", {"host": "whatever.example"}) == 200
    assert status(checks, "GET", {}) == 200
    foreign = {"host": "whatever.example", "origin": "https://evil.example"}
    assert status(checks, "GET", foreign) == 403


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:8400"},  # another service of this machine
        {"origin": "null"},
        {"origin": "127.0.0.1:8403"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_pages_of_others_are_refused(method: str, headers: dict[str, str]) -> None:
    assert status(RequestChecks(), method, HERE | JSON | headers) == 403


def test_own_pages_pass_and_links_may_be_followed() -> None:
    checks = RequestChecks(["api.example"], origins=["https://www.example"])
    for headers in (
        {"origin": "http://127.0.0.1:8403", "sec-fetch-site": "same-origin"},
        {"origin": "https://api.example"},
        {"origin": "https://www.example", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ):
        assert status(checks, "POST", HERE | JSON | headers) == 200
    link = HERE | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert status(checks, "GET", link) == 200
    assert status(checks, "POST", link | JSON) == 403  # a form
    assert status(checks, "POST", HERE | JSON | {"origin": "https://www.example:444"}) == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "application/json"}, 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"content-type": "application/merge-patch+json"}, 200),
        ({}, 200),  # no body: the route says what is missing
        ({"content-length": "0"}, 200),
        ({"content-length": "5"}, 415),
        ({"transfer-encoding": "chunked"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "text/plain; x=application/json"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/jsonx"}, 415),
        ({"content-type": ""}, 415),
    ],
)
def test_bodies_say_that_they_are_json(headers: dict[str, str], expected: int) -> None:
    for method in ("POST", "PATCH", "PUT"):
        assert status(RequestChecks(), method, HERE | headers) == expected
    assert status(RequestChecks(), "GET", HERE | headers) == 200


@pytest.mark.parametrize("name", ["Api.example", "api:80", "", "https://api", "a b"])
def test_names_in_settings(name: str) -> None:
    check_names(["api.example", "gateway", "x"])
    with pytest.raises(KreachError, match="names must be host names"):
        check_names([name])
