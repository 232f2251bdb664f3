"""What `[shipping]` refuses, and what `--check-config` says of it."""

from pathlib import Path
from typing import Any

import pytest
from simulations.shipping_servers import NatsServer

from kreach.adsystem.shipping.check import check_shipping
from kreach.adsystem.shipping.file_store import FileStore, FilesUnavailable, ObjectExists
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.errors import KreachError
from kreach.service.config import load_settings

BOTH: dict[str, Any] = {"stream": "nats://10.0.0.7:4222", "files": "s3://bucket/log"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"stream": "nats://x"}, "stream and files go together"),
        ({"files": "s3://x"}, "stream and files go together"),
        ({"acknowledge": "replicated"}, "acknowledge must be stored without a stream"),
        (BOTH | {"acknowledge": "later"}, "acknowledge must be stored or replicated"),
        (BOTH | {"stream": "http://u:secret@x"}, "stream must begin with nats://"),
        (BOTH | {"files": "/mnt/log"}, "files must begin with s3://"),
        (BOTH | {"replicas": 9}, "replicas must lie between 1 and 5"),
        (BOTH | {"bidders": ("B 1",)}, "bidders must be 1 to 32 small letters"),
        (
            BOTH | {"files_options": {"aws_secret_access_key": "x"}},
            "files_options must hold no secrets: set them in the environment",
        ),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(KreachError, match=error) as caught:
        ShippingSettings(**given)
    assert "secret@" not in str(caught.value)


def test_a_bidder_needs_a_name_and_a_key_that_outlives_its_disk() -> None:
    ShippingSettings().check_bidder(None, None)
    settings = ShippingSettings(**BOTH)
    settings.check_bidder("b1", None)
    with pytest.raises(KreachError, match="bidder name is required to ship a log"):
        settings.check_bidder(None, None)
    settings = ShippingSettings(**BOTH, acknowledge="replicated")
    with pytest.raises(KreachError, match=r"token_key of \[bidder\] is required"):
        settings.check_bidder("b1", None)
    settings.check_bidder("b1", "5e" * 32)


def test_settings_come_from_file_and_environment(tmp_path: Path) -> None:
    document = {"shipping": BOTH | {"files_options": {"region": "eu-west-1"}}}
    environment = {"KREACH_SHIPPING_STREAM": "nats://user:pass@10.0.0.8:4222"}
    loaded = load_settings(ShippingSettings, "shipping", document, environment=environment)
    assert loaded.stream == "nats://user:pass@10.0.0.8:4222"
    assert loaded.files_options == {"region": "eu-west-1"}


def test_check_config_reaches_both(nats: NatsServer, settings: ShippingSettings) -> None:
    assert check_shipping(ShippingSettings()) == {}
    found = check_shipping(settings)["shipping"]
    assert found == f"NATS JetStream and {settings.files}, notices stored"
    nats.kill()
    try:
        with pytest.raises(KreachError, match="the stream does not answer"):
            check_shipping(settings)
    finally:
        nats.start()


def test_a_shared_folder_takes_an_object_once(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="files must be a folder that exists"):
        FileStore(ShippingSettings(stream="nats://x", files=(tmp_path / "none").as_uri()))
    store = FileStore(ShippingSettings(stream="nats://x", files=tmp_path.as_uri()))
    store.put_once("bidders/b1/a", b"one")
    store.put_once("bidders/b1/a", b"one")
    with pytest.raises(ObjectExists, match="is another one"):
        store.put_once("bidders/b1/a", b"two")
    assert store.get("bidders/b1/a") == b"one"
    with pytest.raises(FilesUnavailable, match="bidders/b1/b is not in the object store"):
        store.get("bidders/b1/b")
    store.put_once("bidders/b1/c", b"one")
    assert store.list_names("bidders/b1", "bidders/b1/a") == ["bidders/b1/c"]
    assert store.list_names("bidders/b2") == []
