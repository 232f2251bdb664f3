"""NATS JetStream as the stream of a log.

All bidders share one stream, with a subject for each. A publisher names the sequence number of its
last message: the server refuses one that does not follow it, so a process that should have ended
cannot write between the messages of its successor.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api

from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import StreamMessage, StreamUnavailable

__all__ = ["NatsStream"]

_WRONG_LAST_SEQUENCE = 10071
_BATCH = 200
_IDLE_SECONDS = 60.0  # after which the server forgets a reader
T = TypeVar("T")


class NatsStream:
    """One bidder's subject. The client's event loop has a thread of its own."""

    def __init__(self, settings: ShippingSettings, bidder: str) -> None:
        self._settings = settings
        self._name = settings.prefix
        self._subject = f"{settings.prefix}.log.{bidder}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        self._client: Client | None = None
        self._js: JetStreamContext | None = None
        self._last_sequence: int | None = None  # of the subject
        self._reader: JetStreamContext.PullSubscription | None = None
        self._read_to = -1

    def publish(self, data: bytes, key: str) -> None:
        """Store a message after the last one that this publisher knows of."""
        self._run(self._publish(data, key))

    def newest(self) -> StreamMessage | None:
        """The last message of the subject; what is published next comes after it."""
        return self._run(self._newest())

    def read(self, after: int, seconds: float) -> list[StreamMessage]:
        """The next messages of the subject."""
        return self._run(self._read(after, seconds), seconds)

    def close(self) -> None:
        """Close the connection and end the thread."""
        if not self._thread.is_alive():
            return
        with suppress(OSError, nats.errors.Error, TimeoutError):
            self._call(self._disconnect(), self._settings.timeout_seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        if not self._thread.is_alive():
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(seconds)
        except TimeoutError:
            running.cancel()
            raise

    def _run(self, work: Coroutine[Any, Any, T], more_seconds: float = 0.0) -> T:
        limit = 2.0 * self._settings.timeout_seconds + more_seconds
        try:
            return self._call(work, limit)
        except (OSError, nats.errors.Error, TimeoutError) as error:
            try:
                self._call(self._disconnect(), self._settings.timeout_seconds)
            except (OSError, nats.errors.Error, TimeoutError):
                self._client = self._js = self._reader = None
            raise StreamUnavailable(f"the stream does not answer ({_reason(error)})") from None

    async def _connected(self) -> JetStreamContext:
        if self._js is not None and self._client is not None and self._client.is_connected:
            return self._js
        await self._disconnect()
        settings, seconds = self._settings, self._settings.timeout_seconds
        credentials = settings.credentials_file
        # fractions of a second work, whatever the types of the library say
        options: dict[str, Any] = {"connect_timeout": seconds, "reconnect_time_wait": 0.05}
        if credentials is not None:
            options["user_credentials"] = str(credentials)
        self._client = Client()  # first: a connection that fails is closed too
        await self._client.connect(
            (settings.stream or "").split(","),
            allow_reconnect=False,  # a call that fails connects anew, and reads what is stored
            max_reconnect_attempts=1,
            error_cb=_ignore,
            **options,
        )
        self._js = self._client.jetstream(timeout=seconds)
        try:
            await self._js.stream_info(self._name)
        except nats.js.errors.NotFoundError:
            await self._js.add_stream(
                name=self._name,
                subjects=[f"{self._name}.log.*"],
                max_age=settings.retention_hours * 3_600.0,
                num_replicas=settings.replicas,
                storage=api.StorageType.FILE,
                duplicate_window=120.0,
            )
        return self._js

    async def _disconnect(self) -> None:
        client, self._client, self._js, self._reader = self._client, None, None, None
        if client is not None:
            await client.close()
            await asyncio.sleep(0)  # for its transport to end

    async def _publish(self, data: bytes, key: str) -> None:
        js = await self._connected()
        if self._last_sequence is None:
            await self._newest()
        headers = {
            "Nats-Msg-Id": key,
            "Nats-Expected-Last-Subject-Sequence": str(self._last_sequence or 0),
        }
        try:
            stored = await js.publish(self._subject, data, headers=headers, stream=self._name)
        except nats.js.errors.APIError as error:
            if error.err_code != _WRONG_LAST_SEQUENCE:
                raise
            newest = await self._newest()  # its answer was lost, or somebody else publishes
            if newest is None or newest.data != data:
                raise StreamUnavailable("the stream holds another message than expected") from None
            return
        self._last_sequence = stored.seq

    async def _newest(self) -> StreamMessage | None:
        js = await self._connected()
        try:
            found = await js.get_last_msg(self._name, self._subject)
        except nats.js.errors.NotFoundError:
            self._last_sequence = 0
            return None
        self._last_sequence = found.seq
        return StreamMessage(found.seq or 0, found.data or b"")

    async def _read(self, after: int, seconds: float) -> list[StreamMessage]:
        js = await self._connected()
        if self._reader is None or self._read_to != after:
            state = (await js.stream_info(self._name)).state
            start = after + 1 if after <= state.last_seq else 1
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=start,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=_IDLE_SECONDS,
            )
            self._reader = await js.pull_subscribe(self._subject, stream=self._name, config=config)
        self._read_to = after
        try:
            messages = await self._reader.fetch(_BATCH, timeout=max(seconds, 0.05))
        except TimeoutError:
            # nothing new, or a server that has forgotten this reader
            await self._reader.consumer_info()
            return []
        found = [StreamMessage(each.metadata.sequence.stream, each.data) for each in messages]
        if found:  # now and then the client returns none instead of timing out
            self._read_to = found[-1].position
        return found


async def _ignore(_: Exception) -> None:
    """Errors are raised by the calls that meet them."""


def _reason(error: BaseException) -> str:
    """What went wrong, without addresses or what was sent."""
    if isinstance(error, nats.js.errors.APIError):
        return f"{error.code} {error.description}"
    return type(error).__name__
