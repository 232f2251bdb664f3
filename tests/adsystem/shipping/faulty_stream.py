"""A stream in memory whose acknowledgements get lost, and whose messages come twice and late."""

import random

from kreach.adsystem.shipping.stream import StreamMessage, StreamUnavailable


class StoredMessages:
    """What a stream holds, whoever is connected to it."""

    def __init__(self) -> None:
        self.messages: list[StreamMessage] = []
        self.delayed: list[bytes] = []
        self._next = 1
        self.runs = 0  # whoever was connected to an earlier one is not any more

    def add(self, data: bytes) -> None:
        self.messages.append(StreamMessage(self._next, data))
        self._next += 1

    def drop_oldest(self, count: int) -> None:
        """As its retention does."""
        del self.messages[:count]

    def wipe(self) -> None:
        """Begin anew: positions too."""
        self.messages, self._next = [], 1
        self.runs += 1


class FaultyStream:
    """One connection to it."""

    def __init__(self, stored: StoredMessages, chance: random.Random, faults: float) -> None:
        self._stored, self._chance, self._faults = stored, chance, faults
        self._run = stored.runs
        self.closed = False

    def _fails(self) -> bool:
        cut, self._run = self._run != self._stored.runs, self._stored.runs
        return cut or self._chance.random() < self._faults

    def publish(self, data: bytes, key: str) -> None:
        if self._fails():
            raise StreamUnavailable("not sent")
        if self._fails():  # sent by now, stored some time
            self._stored.delayed.append(data)
            raise StreamUnavailable("no answer in time")
        if self._stored.delayed and self._fails():
            self._stored.add(self._stored.delayed.pop(0))
        self._stored.add(data)
        if self._fails():
            self._stored.add(data)
        if self._fails():
            raise StreamUnavailable("the answer got lost")

    def newest(self) -> StreamMessage | None:
        if self._fails():
            raise StreamUnavailable("no answer")
        return self._stored.messages[-1] if self._stored.messages else None

    def read(self, after: int, seconds: float) -> list[StreamMessage]:
        if self._fails():
            raise StreamUnavailable("no answer")
        messages = self._stored.messages
        if messages and after > messages[-1].position:
            after = 0
        found = [each for each in messages if each.position > after][:7]
        if found and self._fails():  # got lost on the way to the reader
            del found[self._chance.randrange(len(found))]
        return found

    def close(self) -> None:
        self.closed = True
