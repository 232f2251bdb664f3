"""The gate: who is let in, what the others are told, and what is written down about it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.access.gate import STRANGER, Gate, Refusal, Viewer, may
from kreach.adsystem.access.key import parts_of, text_of
from kreach.adsystem.access.keys import FILE, KeyStore, NewKey
from kreach.adsystem.access.ring import KeyRing
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

ADDRESS = "198.51.100.23"
_ONE = "/v1/campaigns/spring"
CALLS = [
    ("GET", "/v1/campaigns"),
    ("POST", "/v1/campaigns"),
    ("GET", _ONE),
    ("PATCH", _ONE),
    *(("GET", f"{_ONE}/{kind}") for kind in ("reach", "series", "curve", "pacing", "plan")),
    ("GET", "/v1/reach"),
    ("GET", "/v1/families/brand/reach"),
    ("POST", "/v1/plans"),
]
OF_PUBLISHERS = [("GET", "/v1/suppressions")]
OF_ALL = [
    ("GET", "/healthz"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/catalogues"),
    ("GET", "/v1/viewer"),
]
OF_OPERATORS = [
    ("GET", "/metrics"),
    ("DELETE", _ONE),
    ("PUT", _ONE),
    ("POST", _ONE),
    ("PATCH", "/v1/campaigns"),
    ("GET", "/v1/campaigns/"),
    ("GET", "/v1/campaigns\n"),
    ("GET", f"{_ONE}/reach/"),
    ("GET", f"{_ONE}/keys"),
    ("POST", f"{_ONE}/reach"),
    ("GET", "/v1/nothing"),
    ("GET", "/v1/plans"),
    ("POST", "/v1/viewer"),
    ("POST", "/v1/reach"),
    ("GET", "/metrics\n"),
    ("GET", "//metrics"),
    ("GET", "/healthz\n"),
    ("HEAD", "/healthz"),
    ("get", "/healthz"),
    ("GET", ""),
    ("GET", "/"),
    ("OPTIONS", "*"),
]


def test_what_each_role_may() -> None:
    for call in [*CALLS, *OF_ALL, *OF_PUBLISHERS, *OF_OPERATORS]:
        assert may("operator", *call)
        assert may("advertiser", *call) == (call in [*CALLS, *OF_ALL])
        assert may("publisher", *call) == (call in [*OF_PUBLISHERS, *OF_ALL])


class Door:
    """A gate, keys, and what it wrote down."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_790_000_000.0
        self.lines: list[str] = []
        self.store = KeyStore(folder, self.clock)
        log = Log("test", self.lines.append)
        self.ring = KeyRing(folder, self.clock, log, lambda: self.now)
        self.metrics = Metrics("test")
        self.gate = Gate(self.ring, log, self.metrics, self.clock)

    def clock(self) -> float:
        """The time that the test set."""
        return self.now

    def add(self, role: str, advertiser: str | None = None, **more: Any) -> NewKey:
        """A key that the ring knows."""
        made = self.store.add(role, advertiser, **more)
        self.ring.refresh()
        return made

    def ask(
        self,
        header: str | bytes | None,
        path: str = "/v1/campaigns",
        method: str = "GET",
        query: bytes = b"",
        client: object = (ADDRESS, 1),
    ) -> Viewer | Refusal:
        """Come with a header, or without."""
        told = header.encode() if isinstance(header, str) else header
        headers = [(b"host", b"x")] + ([] if told is None else [(b"authorization", told)])
        scope = {"method": method, "path": path, "query_string": query, "headers": headers}
        return self.gate(scope | {"client": client})

    def reasons(self) -> dict[str, float]:
        """What was refused, by reason."""
        return self.gate.refused.by_label


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    try:
        yield made
    finally:
        made.ring.close()
        made.store.close()


def test_each_role_comes_in_as_itself(door: Door) -> None:
    for role, advertiser in (("operator", None), ("advertiser", "acme"), ("publisher", None)):
        made = door.add(role, advertiser)
        for scheme in ("Bearer ", "bearer ", "BEARER  "):
            found = door.ask(scheme + made.text, "/healthz")
            assert found == Viewer(role, advertiser, made.key.id)
    assert door.ask(None, "/healthz") == STRANGER
    assert door.lines == []


def refused_headers(door: Door) -> dict[str, str | bytes | None]:
    good = door.add("operator")
    key_id, secret = parts_of(good.text)
    gone = door.add("operator")
    door.store.revoke(gone.key.id)
    door.ring.refresh()
    expired = door.add("operator", expires_ts=door.now + 1.0)
    door.now += 2.0
    return {
        "none": None,
        "empty": "",
        "no scheme": good.text,
        "other scheme": f"Basic {good.text}",
        "no secret": "Bearer",
        "wrong secret": f"Bearer {text_of(key_id, secret[::-1])}",
        "unknown": f"Bearer {text_of('zzzzzzzzzzzz', secret)}",
        "revoked": f"Bearer {gone.text}",
        "expired": f"Bearer {expired.text}",
        "two in one": f"Bearer {good.text}, Bearer {good.text}",
        "tail": f"Bearer {good.text} x",
        "long": "Bearer " + "x" * 100_000,
        "no text": b"Bearer \xff\xfe\x00",
        "zero": f"Bearer {good.text}\0",
    }


def test_everything_that_is_not_good_gets_the_same_answer(door: Door) -> None:
    for header in refused_headers(door).values():
        found = door.ask(header)
        assert isinstance(found, Refusal)
        assert found == Refusal(
            401,
            "the header Authorization must be Bearer and a valid key",
            {"www-authenticate": 'Bearer realm="kreach"'},
        )
    assert door.reasons() == {
        "no key": 1,
        "unknown key": 10,
        "wrong secret": 1,
        "revoked key": 1,
        "expired key": 1,
    }


def test_two_headers_are_no_key(door: Door) -> None:
    made = door.add("operator")
    header = (b"authorization", f"Bearer {made.text}".encode())
    scope = {"method": "GET", "path": "/v1/campaigns", "query_string": b"", "client": None}
    assert isinstance(door.gate(scope | {"headers": [header]}), Viewer)
    assert isinstance(door.gate(scope | {"headers": [header, header]}), Refusal)


def test_a_wrong_key_is_refused_even_where_none_is_needed(door: Door) -> None:
    found = door.ask("Bearer nonsense", "/healthz")
    assert isinstance(found, Refusal)
    assert found.status == 401


def test_a_key_in_the_address_is_refused_good_or_not(door: Door) -> None:
    good = door.add("operator").text
    bad = text_of("zzzzzzzzzzzz", "a" * 43)
    told = []
    for text in (good, bad):
        encoded = text.replace("_", "%5F").encode()
        for query in (b"key=" + text.encode(), b"a=b&access_token=" + encoded, encoded):
            told.append(door.ask(None, query=query))
            told.append(door.ask(f"Bearer {good}", query=query))
        told.append(door.ask(f"Bearer {good}", path=f"/v1/campaigns/{text}"))
        told.append(door.ask(None, path=f"/v1/campaigns/{text}"))
    assert len(set(map(str, told))) == 1
    (found, *_) = told
    assert isinstance(found, Refusal)
    assert found.status == 400
    assert "exposed" in found.message
    assert door.reasons() == {"key in address": len(told)}
    assert parts_of(good)[1] not in "".join(door.lines) + str(found)


def test_a_role_that_may_not_is_told_so_whether_or_not_it_exists(door: Door) -> None:
    made = door.add("publisher")
    calls = [("GET", "/metrics"), ("GET", "/nothing"), ("DELETE", _ONE), ("GET", _ONE)]
    told = {str(door.ask(f"Bearer {made.text}", path, method)) for method, path in calls}
    assert told == {str(Refusal(403, "the role publisher may not do this"))}
    assert door.reasons() == {"role": len(calls)}


def test_the_rate_of_a_key(door: Door) -> None:
    made = door.add("operator", rate_per_minute=50)
    other = door.add("operator")
    header = f"Bearer {made.text}"
    assert [type(door.ask(header)) for _ in range(6)] == [Viewer] * 5 + [Refusal]
    found = door.ask(header)
    assert isinstance(found, Refusal)
    assert (found.status, found.headers) == (429, {"retry-after": "2"})
    assert "50 requests a minute" in found.message
    door.now += 1.2
    assert isinstance(door.ask(header), Viewer)
    assert isinstance(door.ask(header), Refusal)
    assert [type(door.ask(f"Bearer {other.text}")) for _ in range(60)] == [Viewer] * 60
    assert isinstance(door.ask(f"Bearer {other.text}"), Refusal)
    assert door.reasons() == {"rate": 4}


def test_a_slow_key_gets_one_request_at_a_time(door: Door) -> None:
    header = f"Bearer {door.add('operator', rate_per_minute=1).text}"
    assert isinstance(door.ask(header), Viewer)
    found = door.ask(header)
    assert isinstance(found, Refusal)
    assert found.headers == {"retry-after": "60"}


def test_what_a_role_may_not_costs_it_as_much(door: Door) -> None:
    header = f"Bearer {door.add('publisher', rate_per_minute=20).text}"
    told = [door.ask(header, "/metrics") for _ in range(3)]
    assert [found.status for found in told if isinstance(found, Refusal)] == [403, 403, 429]


def test_wrong_keys_from_one_address_run_dry_and_good_ones_do_not(door: Door) -> None:
    good = f"Bearer {door.add('operator').text}"
    told = [door.ask("Bearer nonsense") for _ in range(31)]
    assert [one.status for one in told if isinstance(one, Refusal)] == [401] * 30 + [429]
    last = told[-1]
    assert isinstance(last, Refusal)
    assert last.headers == {"retry-after": "2"}
    assert isinstance(door.ask(good), Viewer)
    elsewhere = door.ask(None, client=("198.51.100.24", 1))
    assert isinstance(elsewhere, Refusal)
    assert elsewhere.status == 401
    door.now += 2.0
    again = door.ask(None)
    assert isinstance(again, Refusal)
    assert again.status == 401


def test_addresses_do_not_fill_the_memory(door: Door) -> None:
    for number in range(12_000):
        door.ask(None, client=(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1))
    assert door.gate.address_count == 10_000


@pytest.mark.parametrize("client", [None, ("", 0), ("nonsense", 1), ["::1", 2]])
def test_clients_without_an_address(door: Door, client: object) -> None:
    assert isinstance(door.ask(None, client=client), Refusal)


def test_logs_and_counters_hold_no_secret_and_no_address(door: Door) -> None:
    known = door.add("advertiser", "acme", rate_per_minute=10)
    headers = refused_headers(door)
    for header in headers.values():
        door.ask(header, path="/v1/campaigns/who-asks-this", query=b"q=and-this")
    for _ in range(3):
        door.ask(f"Bearer {known.text}", "/metrics")
    for _ in range(40):
        door.ask("Bearer kreach_guess")
    said = "".join(door.lines) + door.metrics.render().decode()
    for header in [*headers.values(), known.text]:
        text = header if isinstance(header, str) else ""
        secret = parts_of(text.removeprefix("Bearer "))[1]
        assert not secret or secret not in said
    for hidden in (ADDRESS, "Bearer", "who-asks", "and-this", "guess", "zzzzzzzzzzzz", "acme"):
        assert hidden not in said
    assert known.key.id not in door.metrics.render().decode()
    events = [json.loads(line) for line in door.lines]
    assert {event["event"] for event in events} == {"request refused"}
    assert known.key.id in {event["key"] for event in events}
    assert {"rate", "role", "unknown key"} <= {event["reason"] for event in events}


def test_keys_that_cannot_be_read(door: Door, tmp_path: Path) -> None:
    made = door.add("operator")
    (tmp_path / FILE).rename(tmp_path / "aside")
    door.now += 11.0
    door.ring.refresh()
    found = door.ask(f"Bearer {made.text}")
    assert isinstance(found, Refusal)
    assert (found.status, found.headers) == (503, {"retry-after": "5"})
    assert door.ask(None, "/healthz") == STRANGER
    assert door.reasons() == {"keys unreadable": 1}
