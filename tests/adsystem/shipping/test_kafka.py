"""The same log through Kafka: librdkafka's brokers for tests, over TCP."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import StreamUnavailable, open_stream
from kreach.errors import KreachError
from tests.adsystem.ledger.sample_journals import all_rows
from tests.adsystem.shipping.shipped_journals import ShippedJournal, open_mirror
from tests.adsystem.shipping.test_shipped_log import read_until, stored
from tests.faults.service_processes import until


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Three of them; they end with the client that made them."""
    made = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "none", "log_level": 0})
    known = made.list_topics(timeout=20).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in known)
    del made


def kafka_settings(brokers: str, tmp_path: Path) -> ShippingSettings:
    files = tmp_path / "files"
    files.mkdir(exist_ok=True)
    name = tmp_path.name.replace("_", "-")[-40:].strip("-")
    return ShippingSettings(
        stream=f"kafka://{brokers}",
        files=files.as_uri(),
        prefix=name,
        replicas=3,
        timeout_seconds=0.5,
        heartbeat_seconds=0.1,
        publish_seconds=0.02,
        files_seconds=0.1,
    )


def test_rows_and_files_arrive_once(brokers: str, tmp_path: Path) -> None:
    settings = kafka_settings(brokers, tmp_path)
    store, link = tmp_path / "store", tmp_path / "store" / "bidders" / "b1"
    made = ShippedJournal(tmp_path / "b1", settings)
    mirror = open_mirror(store, settings)
    try:
        made.write(0, 60)
        read_until(mirror, link, 60)
        made.compact()
        made.write(60, 20)
        read_until(mirror, link, 80)
        made.close()
        made = ShippedJournal(tmp_path / "b1", settings)  # the next epoch
        made.write(80, 5)
        read_until(mirror, link, 85)
        mirror.close()
        shutil.rmtree(store)
        mirror = open_mirror(store, settings)
        read_until(mirror, link, 85)
        assert sorted(all_rows(link)) == sorted(all_rows(tmp_path / "b1"))
        until(lambda: stored(made) is None, "stored")
    finally:
        made.close()
        mirror.close()


def test_brokers_that_are_not_there_are_unavailable(tmp_path: Path) -> None:
    settings = kafka_settings("127.0.0.1:1", tmp_path)
    stream = open_stream(settings, "b1")
    with pytest.raises(StreamUnavailable):
        stream.publish(b"", "key")
    with pytest.raises(StreamUnavailable):
        stream.newest()
    with pytest.raises(StreamUnavailable):
        stream.read(0, 0.05)
    stream.close()


def test_credentials_are_lines_of_a_file(tmp_path: Path) -> None:
    import msgspec

    path = tmp_path / "client.properties"
    path.write_text("# for the cluster\nsecurity.protocol = SASL_SSL\nnonsense\n")
    settings = msgspec.structs.replace(
        kafka_settings("127.0.0.1:1", tmp_path), credentials_file=path
    )
    with pytest.raises(KreachError, match="credentials_file must have lines name=value"):
        open_stream(settings, "b1")
    path.unlink()
    with pytest.raises(KreachError, match="credentials_file must be a file that can be read"):
        open_stream(settings, "b1")
