"""A real bidder on a socket: odd requests over HTTP, and what is no HTTP at all."""

import http.client
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from simulations.request_fuzzer import mutated

from tests.adsystem.bidserver.sample_bidders import sample_request
from tests.adsystem.bidserver.sample_stores import running_campaign, sample_store
from tests.service.service_process import Service, raw, serving, until

pytestmark = pytest.mark.xdist_group("raw http")

BODY = json.dumps(sample_request()).encode()
HEAD = b"POST /openrtb2/bid HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One bidder for all of this module: each test leaves it fit for the next."""
    folder = tmp_path_factory.mktemp("raw")
    campaigns = [running_campaign(), running_campaign("other")]
    config = sample_store(folder, campaigns)
    with serving(folder, "bidder", "--config", str(config)) as made:
        until(lambda: is_well(made))
        yield made
        assert is_well(made)
        assert made.stop() == 0
        assert not made.events("request failed")
        assert b"Traceback" not in made.output()


def is_well(server: Service) -> bool:
    assert server.alive
    return server.ask("POST", "/openrtb2/bid", BODY)[0] == 200


def test_odd_requests_over_http(server: Service) -> None:
    """Three thousand on a connection that is kept while the server keeps it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    statuses = {200: 0, 204: 0, 400: 0, 413: 0}
    for body in mutated(7, 3_000):
        try:
            connection.request("POST", "/openrtb2/bid", body)
            answer = connection.getresponse()
            answer.read()
        except ConnectionError:  # closed while we were still sending what is too long
            assert len(body) > 256_000
            connection.close()
            continue
        statuses[answer.status] += 1
    connection.close()
    assert statuses[200] > 300
    assert statuses[204] > 100
    assert statuses[400] > 300


MALFORMED = [
    b"\r\n\r\n\r\n",
    b"GARBAGE\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"\x00" * 1_000,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nhost: x\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n: empty\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nx: \x00\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /openrtb2/billing/\xff\xfe HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    HEAD + b"content-length: -5\r\n\r\n",
    HEAD + b"content-length: x\r\n\r\n",
    HEAD + b"content-length: 99999999999999999999999\r\n\r\n",
    HEAD + b"content-length: 10\r\ncontent-length: 20\r\n\r\n" + b"x" * 30,
    HEAD + b"transfer-encoding: chunked\r\n\r\nZZ\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    HEAD + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    HEAD + b"content-length: 2\r\n\r\n{}{}{}{}",
]


@pytest.mark.parametrize("sent", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_http_is_refused(server: Service, sent: bytes) -> None:
    got = raw(server.port, sent, 3.0, half_close=True)
    assert got == b"" or got.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert is_well(server)


def test_random_bytes(server: Service) -> None:
    generator = Random(3)
    for at in range(200):
        sent = generator.randbytes(generator.randrange(1, 400))
        if at % 2:
            whole = bytearray(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
            for _ in range(4):
                whole[generator.randrange(90)] = generator.randrange(256)
            sent = bytes(whole)
        with socket.create_connection(("127.0.0.1", server.port), timeout=3) as made:
            made.sendall(sent)
            if at % 3:
                made.shutdown(socket.SHUT_WR)
    assert is_well(server)


def test_bodies_that_end_early(server: Service) -> None:
    head = HEAD + b"content-length: %d\r\n\r\n" % len(BODY)
    for part in (0, 1, len(BODY) // 2, len(BODY) - 1):
        assert raw(server.port, head + BODY[:part], 3.0, half_close=True) == b""
    assert is_well(server)


def test_a_body_in_many_pieces(server: Service) -> None:
    sent = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as made:
        for at in range(0, len(sent), 7):
            made.sendall(sent[at : at + 7])
            time.sleep(0.002)
        assert made.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_chunked_body(server: Service) -> None:
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (BODY[:9], BODY[9:])) + b"0\r\n\r\n"
    head = HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    assert raw(server.port, head + pieces).startswith(b"HTTP/1.1 200")


def test_requests_in_a_row_without_waiting(server: Service) -> None:
    one = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    last = one.replace(b"host: x\r\n", b"host: x\r\nconnection: close\r\n")
    assert raw(server.port, one * 20 + last).count(b"HTTP/1.1 200") == 21


def test_a_length_that_is_too_long_is_refused_before_it_has_come(server: Service) -> None:
    head = HEAD + b"content-length: 999999999\r\n\r\n"
    got = raw(server.port, head + b"x" * 300_000, 5.0)
    assert got == b"" or got.startswith(b"HTTP/1.1 413")  # a reset may overtake the answer
    assert is_well(server)


def test_slow_clients_hold_nobody_up(server: Service) -> None:
    slow = []
    for at in range(60):
        made = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        made.sendall((b"POST /openrtb2/b", HEAD, HEAD + b"content-length: 99\r\n\r\n{")[at % 3])
        slow.append(made)
    begun = time.monotonic()
    for _ in range(50):
        assert is_well(server)
    assert time.monotonic() - begun < 15.0
    for made in slow:
        made.close()
    assert is_well(server)


def test_clients_that_leave_without_reading(server: Service) -> None:
    one = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as made:
            linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)  # reset on close
            made.sendall(one * 3)
    assert is_well(server)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_connections_and_memory_do_not_pile_up(server: Service) -> None:
    """After all of the above, and some more."""

    def held() -> tuple[int, int]:
        files = len(os.listdir(f"/proc/{server.pid}/fd"))
        pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
        return files, pages * os.sysconf("SC_PAGE_SIZE")

    for _ in range(2):
        for sent in MALFORMED:
            raw(server.port, sent, 2.0, half_close=True)
    before = held()
    for _ in range(5):
        for sent in MALFORMED:
            raw(server.port, sent, 2.0, half_close=True)
    until(lambda: held()[0] <= before[0] + 2)
    assert held()[1] - before[1] < 8 << 20
