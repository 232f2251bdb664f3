"""A gateway process within limits: slow clients are cut, and each port answers its own routes."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kreach.publisher.gateway.user_tokens import UserTokens
from tests.publisher.gateway.sample_gateways import IDS, write_sample_build
from tests.service.service_process import raw, serving

pytestmark = pytest.mark.xdist_group("serve")

KEY = bytes(range(32))


def test_slow_clients_are_cut_and_ports_are_apart(tmp_path: Path) -> None:
    write_sample_build(tmp_path / "build")
    (tmp_path / "user.key").write_text(KEY.hex())
    (tmp_path / "user.key").chmod(0o600)
    config = tmp_path / "publisher.toml"
    config.write_text(
        '[gateway]\nbuild = "build"\nport = 0\n[server]\nheader_seconds = 0.5\n'
        '[gateway.browser]\nport = 0\nallowed_origins = ["https://www.example"]\n'
        'user_key_file = "user.key"\n'
    )
    with serving(tmp_path, "gateway", "--config", str(config)) as gateway, ExitStack() as opened:
        (second,) = gateway.events("second port ready")
        slow = []
        for at in range(40):
            port = second["port"] if at % 2 else gateway.port
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            client.sendall(b"POST /v1/identify HTTP/1.1\r\nhost: 127.0.0.1\r\n"[: at * 3])
            slow.append(client)
        for client in slow:
            assert client.recv(1) == b""  # closed, or else the timeout fails the test
        body = b'{"user_id": "%b"}' % IDS[0].encode()
        json = {"content-type": "application/json"}
        assert gateway.ask("POST", "/v1/identify", body, json)[0] == 200
        assert gateway.ask("GET", "/readyz")[0] == 200
        token = UserTokens(KEY).sign(IDS[0], time.time() + 600)
        head = (
            "POST /v1/identify HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
            f"origin: https://www.example\r\ncookie: kreach_user={token}\r\n"
            "content-length: 0\r\n\r\n"
        )
        answer = raw(second["port"], head.encode())
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"access-control-allow-origin: https://www.example" in answer
        metrics = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        assert raw(second["port"], metrics).startswith(b"HTTP/1.1 404")
        assert gateway.stop() == 0
