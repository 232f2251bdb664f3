"""The seam to durable streams: what a bidder and a mirror need of one, and which there are."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["Fenced", "LogStream", "StreamMessage", "StreamUnavailable", "open_stream"]


class StreamUnavailable(KreachError):
    """The stream cannot be reached, or did not answer in time: try again."""


class Fenced(KreachError):
    """Another process publishes for this bidder: never try again."""


class StreamMessage(NamedTuple):
    """A stored message, and its place in the stream."""

    position: int
    data: bytes


class LogStream(Protocol):
    """The ordered messages of one bidder. Used by one thread at a time.

    Every call raises `StreamUnavailable` where it may be repeated. A message may be stored twice;
    readers tell by what is in it.
    """

    def publish(self, data: bytes, key: str) -> None:
        """Store a message; returns when all copies that the stream promises are made."""

    def newest(self) -> StreamMessage | None:
        """The last message that is stored."""

    def read(self, after: int, seconds: float) -> list[StreamMessage]:
        """The next messages after a position, waiting for the first of them at most so long.

        A position that the stream does not have, because it began anew or dropped its oldest
        messages, means the first that it has.
        """

    def close(self) -> None:
        """End all connections."""


def check_credentials(path: Path) -> None:
    """A credentials file of NATS that can be used: the package that signs with it is here too."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        rule = "be a file that can be read"
        raise KreachError.rule("credentials_file", rule, str(path)) from None
    if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
        rule = "be a NATS credentials file, with a user's JWT and its seed"
        raise KreachError.rule("credentials_file", rule, str(path))
    if find_spec("nkeys") is None:
        raise KreachError(
            "credentials_file of a NATS server needs the package nkeys: pip install nkeys"
        )


def open_stream(settings: ShippingSettings, bidder: str) -> LogStream:
    """The stream that the settings name. Connects at the first call."""
    assert settings.stream is not None
    if settings.stream.startswith("kafka://"):
        require_extra("shipping through Kafka", "kafka")
        from kreach.adsystem.shipping.kafka_stream import KafkaStream  # noqa: PLC0415

        return KafkaStream(settings, bidder)
    require_extra("shipping through NATS", "nats")
    if settings.credentials_file is not None:
        check_credentials(settings.credentials_file)
    from kreach.adsystem.shipping.nats_stream import NatsStream  # noqa: PLC0415

    return NatsStream(settings, bidder)
