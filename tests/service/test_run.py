"""`kreach serve`: checks of settings, starts that fail, signals, and the end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.adsystem.bidserver.sample_bidders import sample_request
from tests.adsystem.bidserver.sample_stores import sample_store
from tests.cli.command import kreach
from tests.publisher.gateway.sample_gateways import write_sample_build
from tests.service.service_process import Service, environment, serving, until

pytestmark = pytest.mark.xdist_group("serve")

BODY = json.dumps(sample_request()).encode()


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)


def made_settings(folder: Path, service: str) -> Path:
    if service != "gateway":
        return sample_store(folder)
    write_sample_build(folder / "build")
    config = folder / "publisher.toml"
    config.write_text('[gateway]\nbuild = "build"\nport = 0\n')
    return config


SERVICES = ("bidder", "reporting", "gateway")


@pytest.mark.parametrize("service", SERVICES)
def test_good_settings(tmp_path: Path, service: str) -> None:
    config = made_settings(tmp_path, service)
    done = kreach("serve", service, "--config", str(config), "--check-config")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "configuration is valid"
    done = kreach("serve", service, "--config", str(config), "--check-config", "--json")
    assert done.code == 0
    assert json.loads(done.out)["ok"] is True


def test_the_check_tells_what_it_found(tmp_path: Path) -> None:
    config = sample_store(tmp_path)
    done = kreach("serve", "bidder", "--config", str(config), "--check-config", "--json")
    found = json.loads(done.out)
    assert found["catalogues"] == {"v1": 6}
    assert found["audiences"] == {"everyone": 120}
    assert found["store"] == str(tmp_path / "store")


BAD = [
    ("bidder", "[bidder]\nport = 'x'", "port"),
    ("bidder", "[bidder]\nprt = 5", "prt"),
    ("bidder", "[biddr]\n", "sections"),
    ("bidder", "[bidder]\nsegtax = 4", "segtax"),
    ("bidder", "[adsystem]\nrates = {EUR = 1.1}", "rates_date"),
    ("bidder", "[adsystem]\nrates = {EUR = 0.0}\nrates_date = 2026-11-01", "rates"),
    ("bidder", "[adsystem]\ncreative_review = 'maybe'", "creative_review must be"),
    ("bidder", "[bidder\n", "TOML"),
    ("bidder", "", "catalogues"),
    ("bidder", '[adsystem]\ncatalogues = ["nowhere"]', "catalogue"),
    ("bidder", "[bidder]\ntoken_key = 'short'", "token_key"),
    ("reporting", "[reporting]\nport = 70000", "port"),
    ("reporting", '[adsystem]\ncatalogues = ["nowhere"]', "catalogue"),
    ("gateway", '[gateway]\nbuild = "nowhere"', "build"),
    ("gateway", "[gateway]\nunknown = 1", "unknown"),
]


@pytest.mark.parametrize(("service", "toml", "told"), BAD)
def test_bad_settings_are_one_clear_line(
    tmp_path: Path, service: str, toml: str, told: str
) -> None:
    config = tmp_path / "kreach.toml"
    config.write_text(toml)
    for more in ([], ["--json"]):
        done = kreach("serve", service, "--config", str(config), "--check-config", *more)
        assert done.code == 1
        assert done.out == ""
        assert len(done.err.strip().splitlines()) == 1
        assert told in done.err
        assert "Traceback" not in done.err
    assert kreach("serve", service, "--config", str(config)).code == 1


def test_an_audience_that_does_not_fit_is_found_by_the_check(tmp_path: Path) -> None:
    config = sample_store(tmp_path)
    (tmp_path / "golf.csv").write_text("group,size,targeted\nnobody,20,5\n")
    text = config.read_text().replace("[bidder]", 'audiences = {golf = "golf.csv"}\n[bidder]')
    config.write_text(text)
    done = kreach("serve", "bidder", "--config", str(config), "--check-config")
    assert done.code == 1
    assert "group" in done.err


@pytest.mark.parametrize("more", [["--port", "70000"], ["--port", "x"], ["--unknown"], ["extra"]])
def test_wrong_usage(more: list[str]) -> None:
    assert kreach("serve", "bidder", *more).code == 2


@pytest.mark.parametrize("service", SERVICES)
def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path, service: str) -> None:
    config = made_settings(tmp_path, service)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = kreach("serve", service, "--config", str(config), "--port", port)
    assert done.code == 1
    told = [line for line in done.err.strip().splitlines() if not line.startswith("{")]
    (line,) = told  # beside events of the log
    assert port in line
    assert "be free to listen on" in line


def test_a_store_that_is_taken_is_said(tmp_path: Path) -> None:
    config = sample_store(tmp_path)
    with serving(tmp_path, "bidder", "--config", str(config)) as first:
        second = Service(tmp_path, ["bidder", "--config", str(config)])
        try:
            assert second.stop_code() == 1
            (failed,) = second.events("start failed")
            assert "is in use by another bidder" in failed["kind"]
            assert b"Traceback" not in second.output()
            last = second.output().decode().strip().splitlines()[-1]
            assert "could not start" in last
        finally:
            second.end()
        assert first.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_service_in_peace(tmp_path: Path, number: int) -> None:
    config = sample_store(tmp_path)
    with serving(tmp_path, "bidder", "--config", str(config)) as service:
        assert service.ask("GET", "/healthz")[0] == 200
        assert service.stop(number) == 0
        assert len(service.events("stopped")) == 1
        assert b"Traceback" not in service.output()


def accepts(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


def billing_request(service: Service) -> bytes:
    """A bid, and the request that bills it."""
    until(lambda: service.ask("POST", "/openrtb2/bid", BODY)[0] == 200)
    got = json.loads(service.ask("POST", "/openrtb2/bid", BODY)[2])
    burl = got["seatbid"][0]["bid"][0]["burl"].replace("${AUCTION_PRICE}", "0.5")
    return f"GET /{burl.split('/', 3)[3]} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


def test_requests_under_way_are_answered_before_the_end(tmp_path: Path) -> None:
    """A body that began to come before the signal is waited for; new connections are not taken."""
    config = sample_store(tmp_path)
    with serving(tmp_path, "reporting", "--config", str(config)) as service:
        body = json.dumps({"budget": 5.0, "id": "late"}).encode()
        head = (
            b"POST /v1/campaigns HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            b"expect: 100-continue\r\n"
        )
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
            connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 100")  # it waits for the body
            connection.sendall(body[:5])
            service.send_signal(signal.SIGTERM)
            until(lambda: not accepts(service.port))
            assert service.alive
            connection.sendall(body[5:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 4")  # dates are missing: an answer
        assert service.stop() == 0


def test_billing_that_was_acknowledged_is_there_after_the_end(tmp_path: Path) -> None:
    config = sample_store(tmp_path)
    acknowledged = 0
    with serving(tmp_path, "bidder", "--config", str(config)) as service:
        requests = [billing_request(service) for _ in range(30)]
        answers: list[bytes] = []

        def send(request: bytes) -> None:
            try:
                with socket.create_connection(
                    ("127.0.0.1", service.port), timeout=10
                ) as connection:
                    connection.sendall(request)
                    answers.append(connection.recv(65_536))
            except OSError:
                answers.append(b"")

        threads = [threading.Thread(target=send, args=(request,)) for request in requests]
        for at, thread in enumerate(threads):
            thread.start()
            if at == len(threads) // 2:  # some are done, others under way, others to come
                until(lambda: len(answers) >= len(threads) // 2)
                service.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert service.stop() == 0
        acknowledged = sum(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert acknowledged >= len(requests) // 2
    with serving(tmp_path, "bidder", "--config", str(config)) as again:
        (folded,) = again.events("log loaded")
        assert folded["impressions"] >= acknowledged
        assert again.stop() == 0


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    config = sample_store(tmp_path, bidder='seat = "file"')
    more = {"KREACH_BIDDER_SEAT": "environment"}
    with serving(tmp_path, "bidder", "--config", str(config), more=more) as service:
        until(lambda: service.ask("POST", "/openrtb2/bid", BODY)[0] == 200)
        got = json.loads(service.ask("POST", "/openrtb2/bid", BODY)[2])
        assert got["seatbid"][0]["seat"] == "environment"
        assert service.stop() == 0


def test_help_is_quick_and_names_the_services() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kreach", "serve", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env=environment({"COLUMNS": "100"}),
    )
    assert done.returncode == 0
    assert all(service in done.stdout for service in SERVICES)
