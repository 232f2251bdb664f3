"""Kafka as the stream of a log: a topic with one partition for each bidder."""

import time
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import StreamMessage, StreamUnavailable
from kreach.errors import KreachError

__all__ = ["KafkaStream"]

_BATCH = 200
_MAX_BYTES = 8_000_000


class KafkaStream:
    """One bidder's topic. Positions are offsets plus one: 0 is before the first message."""

    def __init__(self, settings: ShippingSettings, bidder: str) -> None:
        self._settings = settings
        self._topic = f"{settings.prefix}.log.{bidder}"
        servers = (settings.stream or "").removeprefix("kafka://")
        # not waiting for the first time-out of a broker that has gone: the caller tries again
        self._options: dict[str, Any] = {
            "bootstrap.servers": servers,
            "socket.timeout.ms": int(settings.timeout_seconds * 1_000),
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
            **_properties(settings.credentials_file),
        }
        try:
            Consumer(self._options | {"group.id": "check"}).close()  # reads all properties
        except KafkaException as error:
            rule = "hold properties that librdkafka knows"
            text = error.args[0].str() if error.args else ""
            raise KreachError.rule("credentials_file", rule, text) from None
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._read_to = -1

    def publish(self, data: bytes, key: str) -> None:
        """Store a message on all replicas that are in sync."""
        outcome: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            outcome.append(error)

        try:
            if self._producer is None:
                self._create_topic()
                self._producer = Producer(
                    self._options
                    | {
                        "acks": "all",
                        "enable.idempotence": True,
                        "linger.ms": 0,
                        "message.max.bytes": _MAX_BYTES,
                        "message.timeout.ms": int(self._settings.timeout_seconds * 1_000),
                    }
                )
            self._producer.produce(
                self._topic, value=data, key=key, partition=0, on_delivery=delivered
            )
            self._wait(outcome)
        except (KafkaException, BufferError) as error:
            self._producer = None
            raise _unavailable(error) from None
        if not outcome:
            self._producer = None  # it may still send it: begin anew
            raise _unavailable(None)
        if outcome[0] is not None:  # the message was given up, stored or not
            if outcome[0].fatal():
                self._producer = None  # else keep what it has by then: connections, its id
            raise _unavailable(outcome[0])

    def _wait(self, outcome: list[KafkaError | None]) -> None:
        assert self._producer is not None
        until = time.monotonic() + self._settings.timeout_seconds + 0.5
        while not outcome and time.monotonic() < until:
            self._producer.poll(0.05)

    def _create_topic(self) -> None:
        settings = self._settings
        admin = AdminClient(self._options)
        if self._topic in admin.list_topics(timeout=settings.timeout_seconds).topics:
            return
        topic = NewTopic(
            self._topic,
            num_partitions=1,
            replication_factor=settings.replicas,
            config={
                "retention.ms": str(int(settings.retention_hours * 3_600_000)),
                "max.message.bytes": str(_MAX_BYTES),
            },
        )
        made = admin.create_topics([topic], request_timeout=settings.timeout_seconds)
        try:
            made[self._topic].result(settings.timeout_seconds)
        except (
            KafkaException,
            TimeoutError,
        ):  # it is there by now, or brokers make it by themselves
            known = admin.list_topics(self._topic, timeout=settings.timeout_seconds).topics
            error = known[self._topic].error
            if error is not None:
                raise KafkaException(error) from None

    def newest(self) -> StreamMessage | None:
        """The last message of the topic."""
        seconds = self._settings.timeout_seconds
        consumer = self._new_consumer()
        try:
            place = TopicPartition(self._topic, 0)
            try:
                if self._topic not in consumer.list_topics(timeout=seconds).topics:
                    return None
                low, high = consumer.get_watermark_offsets(place, timeout=seconds)
                if high <= low:
                    return None
                consumer.assign([TopicPartition(self._topic, 0, high - 1)])
                found = _messages(consumer.consume(1, seconds))
            except KafkaException as error:
                raise _unavailable(error) from None
            if not found:
                raise StreamUnavailable("the stream does not answer (no message)")
            return found[-1]
        finally:
            consumer.close()

    def read(self, after: int, seconds: float) -> list[StreamMessage]:
        """The next messages of the topic."""
        try:
            if self._consumer is None or self._read_to != after:
                self._drop_consumer()
                self._consumer = self._new_consumer()
                topics = self._consumer.list_topics(timeout=self._settings.timeout_seconds).topics
                if self._topic not in topics:
                    self._drop_consumer()
                    return []
                start = after if after > 0 else OFFSET_BEGINNING
                self._consumer.assign([TopicPartition(self._topic, 0, start)])
            self._read_to = after
            found = _messages(self._consumer.consume(_BATCH, max(seconds, 0.05)))
            if not found:  # nothing new, or nobody there
                self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, 0), timeout=self._settings.timeout_seconds
                )
        except KafkaException as error:
            self._drop_consumer()
            raise _unavailable(error) from None
        if found:
            self._read_to = found[-1].position
        return found

    def _new_consumer(self) -> Consumer:
        return Consumer(
            self._options
            | {
                "group.id": f"{self._topic}.mirror",  # nothing is ever committed to it
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )

    def _drop_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def close(self) -> None:
        """End all connections."""
        self._drop_consumer()
        self._producer = None


def _messages(found: list[Message]) -> list[StreamMessage]:
    for each in found:
        error = each.error()
        if error is not None:
            raise KafkaException(error)
    return [StreamMessage((each.offset() or 0) + 1, each.value() or b"") for each in found]


def _unavailable(error: object) -> StreamUnavailable:
    if isinstance(error, KafkaException):
        error = error.args[0]
    name = error.name() if isinstance(error, KafkaError) else type(error).__name__
    return StreamUnavailable(f"the stream does not answer ({name})")


def _properties(path: Path | None) -> dict[str, str]:
    """librdkafka's own settings, one `name=value` to a line."""
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KreachError.rule(
            "credentials_file", "be a file that can be read", str(path)
        ) from error
    found = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        name, mark, value = line.partition("=")
        if mark and not line.startswith("#"):
            found[name.strip()] = value.strip()
        elif line and not line.startswith("#"):  # it may be a password: it is not shown
            rule = "have lines name=value"
            raise KreachError.rule("credentials_file", rule, f"line {number} of {path}")
    return found
