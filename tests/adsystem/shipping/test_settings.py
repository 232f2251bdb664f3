"""What `[shipping]` refuses, and what `--check-config` says of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from simulations.shipping_servers import NatsServer, ObjectServer

from kreach.adsystem.shipping.check import check_shipping
from kreach.adsystem.shipping.file_store import FileStore, FilesUnavailable, ObjectExists
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream
from kreach.boundary.files import write_catalogue
from kreach.errors import KreachError
from kreach.service.config import load_settings
from tests.adsystem.bidserver.sample_bidders import sample_catalogue
from tests.cli.command import kreach

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
        (BOTH | {"bidders": ("b1", "b1")}, "bidders must name each bidder once, got b1, b1"),
        *(
            (BOTH | {"stream": wrong}, "stream must name servers as host or host:port")
            for wrong in (
                *("nats:// ", "nats://[:4222", "nats://h:x", "kafka://h:99999", "kafka://h,,g"),
                *("nats://u:secret@a b:1", "nats://h:1,nats://:2"),
            )
        ),
        (
            BOTH | {"files_options": {"allow_http": "yes"}},
            "files_options must have allow_http as true or false, got 'yes'",
        ),
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


def test_check_config_reaches_both(
    tmp_path: Path, nats: NatsServer, objects: ObjectServer, settings: ShippingSettings
) -> None:
    assert check_shipping(ShippingSettings()) == {}
    write_catalogue(sample_catalogue(), tmp_path / "release")
    config = tmp_path / "kreach.toml"
    options = ", ".join(f'{name} = "{value}"' for name, value in settings.files_options.items())
    config.write_text(
        '[adsystem]\ncatalogues = ["release"]\n'
        '[redis]\nurl = "redis://127.0.0.1:1/0"\nbidders = ["b1"]\n[bidder]\nname = "b1"\n'
        f'[shipping]\nstream = "{settings.stream}"\nfiles = "{settings.files}"\n'
        f"timeout_seconds = 1.0\nfiles_options = {{{options}}}\n"
    )
    secret = str(settings.stream).replace("//", "//user:secret@")
    well = f"NATS JetStream at {settings.stream} answers", f"{settings.files} can be read"
    for service in ("bidder", "reporting"):
        done = kreach("serve", service, "--config", str(config), "--check-config", "--json")
        assert done.code == 0, done.err
        facts = json.loads(done.out)
        assert (facts["stream"], facts["files"]) == well
        assert facts["notices"] == "stored"
    config.write_text(config.read_text().replace(str(settings.stream), secret))
    check = ("serve", "bidder", "--config", str(config), "--check-config")
    nats.kill()
    try:
        done = kreach(*check)
        assert done.code == 1
        assert "[shipping] stream: the stream does not answer" in done.err
        assert f"files: {well[1]}" in done.err
    finally:
        nats.start()
    objects.down = True
    done = kreach(*check)
    objects.down = False
    assert done.code == 1
    assert f"stream: {well[0]}; files: the object store failed" in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"files": "file://host/log"}, "files must have three slashes after file:"),
        ({"files": "s3:///log"}, r"files must name a store .*, got s3:///log"),
        (
            {"files": "s3://log", "files_options": {"regoin": "eu"}},
            "files_options must have names that this kind of store knows, .*, got 'regoin'",
        ),
    ],
)
def test_an_object_store_that_cannot_be_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(KreachError, match=error):
        FileStore(ShippingSettings(**BOTH | given))


@pytest.mark.parametrize(
    ("stream", "text", "error"),
    [
        ("nats", None, "credentials_file must be a file that can be read"),
        ("nats", "\x00 secret", "credentials_file must be a NATS credentials file"),
        ("kafka", None, "credentials_file must be a file that can be read"),
        ("kafka", "# ok\n\nsecret", "credentials_file must have lines name=value, got line 3 of"),
        ("kafka", "no.such=secret", "properties that librdkafka knows, got No such .*no.such"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_and_not_shown(
    tmp_path: Path, stream: str, text: str | None, error: str
) -> None:
    path = tmp_path / "credentials"
    if text is not None:
        path.write_text(text)
    given = {"stream": f"{stream}://127.0.0.1:1", "credentials_file": path}
    with pytest.raises(KreachError, match=error) as caught:
        open_stream(ShippingSettings(**BOTH | given), "b1")
    assert "secret" not in str(caught.value)


def test_a_shared_folder_that_is_not_mounted_any_more_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    store = FileStore(ShippingSettings(stream="nats://x", files=folder.as_uri()))
    store.put_once("bidders/b1/one", b"1")
    folder.rename(tmp_path / "away")
    for call in (
        lambda: store.put_once("bidders/b1/two", b"2"),
        lambda: store.get("bidders/b1/one"),
        lambda: store.list_names("bidders"),
    ):
        with pytest.raises(FilesUnavailable, match="is not there: is it mounted"):
            call()
    assert not folder.exists()
    (tmp_path / "away").rename(folder)
    store.put_once("bidders/b1/two", b"2")
    assert store.list_names("bidders") == ["bidders/b1/one", "bidders/b1/two"]


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
