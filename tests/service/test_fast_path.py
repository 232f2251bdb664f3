"""The route that is answered without ASGI behaves on the wire as if it were not."""

import gzip
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.adsystem.bidserver.sample_bidders import sample_request
from tests.adsystem.bidserver.sample_stores import sample_store
from tests.service.service_process import Service, serving

BODY = json.dumps(sample_request("g0")).encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def post(body: bytes = BODY, path: str = "/openrtb2/bid", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.fixture(scope="module")
def bidder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("direct")
    config = sample_store(Path(folder))
    with serving(folder, "bidder", "--config", str(config)) as service:
        until = time.monotonic() + 120
        while not talk(service, post()).startswith(b"HTTP/1.1 200"):  # taken up and granted
            assert time.monotonic() < until
        yield service


def talk(service: Service, *parts: bytes, seconds: float = 2.0, answers: int = 1) -> bytes:
    """Send parts one after the other; what came back, with `<closed>` if the server closed."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=seconds) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.02)
        received = b""
        try:
            while not _whole(received, answers):
                more = connection.recv(65_536)
                if not more:
                    return received + b"<closed>"
                received += more
        except TimeoutError:
            pass
        return received


def _whole(received: bytes, answers: int) -> bool:
    count = 0
    while received:
        head, mark, rest = received.partition(b"\r\n\r\n")
        if not mark:
            return False
        lengths = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ]
        length = lengths[0] if lengths else 0
        if len(rest) < length:
            return False
        received, count = rest[length:], count + (not head.startswith(b"HTTP/1.1 100"))
    return count >= answers


def test_requests_in_one_packet_are_answered_in_order(bidder: Service) -> None:
    wrong = post(b"nonsense")
    received = talk(bidder, post() + HEALTH + wrong + post() + HEALTH, answers=5)
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"400", b"200", b"200"]
    assert received.index(b'"log"') < received.index(b'"error"') < received.rindex(b'"seatbid"')


@pytest.mark.parametrize("at", [1, 60, 100, 200])
def test_a_request_in_pieces(bidder: Service, at: int) -> None:
    whole = post()
    assert talk(bidder, whole[:at], whole[at:]).startswith(b"HTTP/1.1 200")


def test_chunks(bidder: Service) -> None:
    head = b"POST /openrtb2/bid HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert talk(bidder, head + chunks).startswith(b"HTTP/1.1 200")


def test_the_connection_is_kept_or_closed_as_asked(bidder: Service) -> None:
    closing = talk(bidder, post(more="connection: close\r\n"), answers=2)
    assert closing.endswith(b"<closed>")
    assert closing.count(b"connection: close") == 1
    old = talk(bidder, post().replace(b"HTTP/1.1", b"HTTP/1.0"), answers=2)
    assert old.startswith(b"HTTP/1.1 200")
    assert old.endswith(b"<closed>")
    assert b"<closed>" not in talk(bidder, post(), post(), answers=2)


def test_expectations_queries_and_methods_go_the_other_way(bidder: Service) -> None:
    received = talk(bidder, post(more="expect: 100-continue\r\n"))
    assert received.startswith(b"HTTP/1.1 100")
    assert b"HTTP/1.1 200" in received
    assert talk(bidder, post(path="/openrtb2/bid?x=1")).startswith(b"HTTP/1.1 200")
    assert talk(bidder, HEALTH.replace(b"/healthz", b"/openrtb2/bid")).startswith(b"HTTP/1.1 405")


def test_a_body_that_is_too_long(bidder: Service) -> None:
    for _ in range(20):  # who is closed upon while sending may not get to read the answer
        with suppress(ConnectionResetError, BrokenPipeError):
            received = talk(bidder, post(b"x" * 300_000), answers=2)
            break
    else:
        raise AssertionError("the answer never came through")
    assert received.startswith(b"HTTP/1.1 413")
    assert received.count(b"connection: close") == 1
    assert received.endswith(b"<closed>")


def test_what_is_not_openrtb(bidder: Service) -> None:
    received = talk(bidder, post(b'{"id": 7}'))
    assert received.startswith(b"HTTP/1.1 400")
    assert b"OpenRTB" in received


def test_a_silent_client_is_let_go(bidder: Service) -> None:
    """Half-way through a request, and between two of them."""
    with ThreadPoolExecutor() as pool:  # the waits are real: both at once
        half = pool.submit(talk, bidder, post()[:120], seconds=12.0)
        idle = pool.submit(talk, bidder, post(), seconds=12.0, answers=2)
        assert half.result().endswith(b"<closed>")
        assert idle.result().startswith(b"HTTP/1.1 200")
        assert idle.result().endswith(b"<closed>")


def test_a_client_that_does_not_read_is_not_written_to_without_end(bidder: Service) -> None:
    with socket.create_connection(("127.0.0.1", bidder.port), timeout=5.0) as connection:
        connection.setblocking(False)
        sent, stuck = 0, 0
        many = post() * 50
        until = time.monotonic() + 120.0
        while stuck < 10 and time.monotonic() < until:  # for half a second nothing is taken
            try:
                sent += connection.send(many[sent % len(many) :])
                stuck = 0
            except BlockingIOError:
                time.sleep(0.05)
                stuck += 1
        assert stuck == 10
        assert sent < 200_000_000
    assert talk(bidder, post()).startswith(b"HTTP/1.1 200")


def test_compressed_requests(bidder: Service) -> None:
    packed = post(gzip.compress(BODY), more="content-encoding: gzip\r\n")
    received = talk(bidder, packed + packed + post(), answers=3)
    assert received.count(b"HTTP/1.1 200 ") == 3
    for body, encoding, status in (
        (gzip.compress(b" " * 256_001), "gzip", b"413"),
        (BODY, "gzip", b"400"),
        (BODY, "br", b"415"),
    ):
        refused = talk(bidder, post(body, more=f"content-encoding: {encoding}\r\n"))
        assert refused.startswith(b"HTTP/1.1 " + status)
