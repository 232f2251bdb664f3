"""A real NATS and a real object store over HTTP, for all tests of shipping."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulations.shipping_servers import KEYS, NatsServer, ObjectServer

from kreach.adsystem.shipping.settings import ShippingSettings


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def objects() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.close()


@pytest.fixture
def settings(
    nats: NatsServer, objects: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ShippingSettings:
    """A stream and a prefix of the bucket that a test has to itself."""
    return shipping_settings(nats, objects, tmp_path, monkeypatch)


def shipping_settings(
    nats: NatsServer,
    objects: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    **more: Any,
) -> ShippingSettings:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    objects.failing = objects.down = False
    name = tmp_path.name.replace("_", "-")[-40:].strip("-")
    given: dict[str, Any] = {
        "stream": nats.url,
        "prefix": name,
        "timeout_seconds": 1.0,
        "heartbeat_seconds": 0.1,
        "publish_seconds": 0.02,
        "files_seconds": 0.2,
        **objects.settings(name),
    }
    return ShippingSettings(**(given | more))
