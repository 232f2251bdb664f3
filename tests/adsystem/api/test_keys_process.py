"""Keys with a real service in a process of its own: revoked while it runs, and never leaked."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kreach.adsystem.access.key import parts_of
from tests.adsystem.bidserver.sample_stores import sample_store
from tests.cli.command import kreach
from tests.service.service_process import Service, environment, serving

pytestmark = pytest.mark.xdist_group("serve")

BODY = {"id": "spring", "budget": 5, "max_cpm": 5, "start": "2026-11-01T00:00:00Z"}
BODY["end"] = "2036-12-01T00:00:00Z"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)


def made_settings(folder: Path, more: str = "keys = true\n") -> Path:
    config = sample_store(folder)
    config.write_text(config.read_text() + more + "[guard]\nenabled = false\n")
    return config


def soon(true: Callable[[], bool]) -> None:
    """Within a second, where the machine has time; not so often that wrong keys reach a limit."""
    end = time.monotonic() + 120.0
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def added(config: Path, *more: str) -> str:
    done = kreach("keys", "add", "--config", str(config), "--rate", "100000", *more)
    assert done.code == 0, done.err
    return done.out.strip()


def status_of(
    service: Service, text: str | None, path: str = "/v1/campaigns", **more: bytes
) -> int:
    headers = {} if text is None else {"authorization": f"Bearer {text}"}
    method = "POST" if "body" in more else "GET"
    if "body" in more:
        headers["content-type"] = "application/json"
    return service.ask(method, path, more.get("body", b""), headers)[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Path]]:
    """A service that runs, and its settings."""
    folder = tmp_path_factory.mktemp("keys")
    config = made_settings(folder)
    with serving(folder, "reporting", "--config", str(config)) as service:
        yield service, config


def test_keys_come_and_go_while_the_service_runs(place: tuple[Service, Path]) -> None:
    service, config = place
    assert status_of(service, None) == 401
    operator = added(config, "--role", "operator")
    soon(lambda: status_of(service, operator) == 200)
    acme = added(config, "--role", "advertiser", "--advertiser", "acme")
    soon(lambda: status_of(service, acme, body=json.dumps(BODY).encode()) == 201)
    assert status_of(service, acme, "/v1/campaigns/spring") == 200
    assert status_of(service, acme, "/v1/campaigns/acme.spring") == 404
    assert status_of(service, operator, "/v1/campaigns/acme.spring") == 200
    assert status_of(service, acme, "/metrics") == 403

    key_id = parts_of(acme)[0]
    where = ("--config", str(config))
    done = kreach("keys", "rotate", key_id, "--grace-seconds", "2", *where)
    fresh, end = done.out.strip(), time.monotonic() + 2.0
    soon(lambda: status_of(service, fresh) == 200)
    if time.monotonic() < end - 0.2:
        assert status_of(service, acme) == 200
    soon(lambda: status_of(service, acme) == 401)
    assert status_of(service, fresh) == 200

    assert kreach("keys", "revoke", key_id, *where).code == 0
    soon(lambda: status_of(service, fresh) == 401)
    assert status_of(service, operator) == 200


def test_health_is_open_and_bare(place: tuple[Service, Path]) -> None:
    service, _ = place
    status, _, body = service.ask("GET", "/healthz")
    assert (status, json.loads(body)) == (200, {"status": "ok"})


def test_secrets_are_nowhere_around_the_service(place: tuple[Service, Path]) -> None:
    service, config = place
    operator = added(config, "--role", "operator")
    soon(lambda: status_of(service, operator) == 200)
    wrong = operator[:-4] + "0000"
    assert status_of(service, wrong) == 401
    assert service.ask("GET", f"/v1/campaigns?key={operator}")[0] == 400
    assert status_of(service, operator, "/v1/campaigns/nobody") == 404
    headers = {"authorization": f"Bearer {operator}"}
    _, _, metrics = service.ask("GET", "/metrics", headers=headers)
    secret = parts_of(operator)[1]
    process = Path(f"/proc/{service.pid}")
    seen = {
        "log": service.output(),
        "metrics": metrics,
        "command line": (process / "cmdline").read_bytes(),
        "environment": (process / "environ").read_bytes(),
        "store": b"".join(f.read_bytes() for f in (config.parent / "store").glob("*sqlite3*")),
    }
    for name, text in seen.items():
        assert text, name
        for hidden in (secret, wrong[20:], secret[:20], "Bearer", "127.0.0.1:"):
            assert hidden.encode() not in text, name
    assert parts_of(operator)[0].encode() in seen["store"]
    refused = service.events("request refused")
    assert {"wrong secret", "key in address"} <= {event["reason"] for event in refused}
    assert {event["key"] for event in refused} >= {parts_of(operator)[0]}


def test_the_check_of_settings_tells_about_keys(tmp_path: Path) -> None:
    config = made_settings(tmp_path)
    command = ("serve", "reporting", "--config", str(config), "--check-config")
    before = sorted(path.name for path in (tmp_path / "store").iterdir())
    document = json.loads(kreach(*command, "--json").out)
    assert document["keys"] == {"operator": 0, "advertiser": 0, "publisher": 0}
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before
    added(config, "--role", "publisher")
    document = json.loads(kreach(*command, "--json").out)
    assert document["keys"] == {"operator": 0, "advertiser": 0, "publisher": 1}
    config.write_text(config.read_text().replace("enabled = false", "closing_seconds = 1"))
    done = kreach(*command)
    assert (done.code, done.out) == (1, "")
    assert "closing_seconds of [guard] must be more than expiry_seconds of [bidder]" in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::"])
def test_an_open_service_that_others_could_reach_does_not_start(tmp_path: Path, host: str) -> None:
    config = made_settings(tmp_path, f'host = "{host}"\n')
    for more in (["--check-config"], []):
        done = kreach("serve", "reporting", "--config", str(config), *more)
        assert (done.code, done.out) == (1, "")
        assert "keys must be true unless host is a loopback address" in done.err
        assert len(done.err.strip().splitlines()) == 1
    text = config.read_text().replace("[guard]", "keys = true\n[guard]")
    config.write_text(text)
    assert kreach("serve", "reporting", "--config", str(config), "--check-config").code == 0
