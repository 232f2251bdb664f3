"""What was used lately, kept at hand."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["LruCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, up to `room` of them, or of their `weight`; for use by several threads.

    What was not used longest goes first; the newest stays, whatever it weighs. Values are shared
    and weighed as they come: nobody may change them. No value is None.

    >>> words = LruCache[int, str](room=7, weight=len)
    >>> for number, word in enumerate(["one", "two", "three"]):
    ...     words.put(number, word)
    >>> words.get(1), words.get(2), len(words)
    (None, 'three', 1)
    """

    def __init__(self, room: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        self._room, self._weight = room, weight
        self._lock = threading.Lock()
        self._held: OrderedDict[K, V] = OrderedDict()
        self._load = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """What was put there, if it is still at hand."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of the one before."""
        with self._lock:
            before = self._held.pop(key, None)
            if before is not None:
                self._load -= self._weight(before)
            self._held[key] = value
            self._load += self._weight(value)
            while self._load > self._room and len(self._held) > 1:
                self._load -= self._weight(self._held.popitem(last=False)[1])

    def of(self, key: K, make: Callable[[], V]) -> V:
        """What is at hand, or is made now: by each who asks meanwhile, none waits for another."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found
