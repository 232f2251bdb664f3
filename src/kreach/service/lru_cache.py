"""An LRU cache with a limit on the number or the total weight of its values."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["LruCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, safe for several threads, with a total weight of at most `max_weight`.

    By default each value weighs 1. The least recently used value is evicted first; the newest one
    stays, whatever it weighs. Values are shared, so nobody may change them. None is not
    a value.

    >>> cache = LruCache[int, str](max_weight=7, weight=len)
    >>> for number, word in enumerate(["one", "two", "three"]):
    ...     cache.put(number, word)
    >>> cache.get(1), cache.get(2), len(cache)
    (None, 'three', 1)
    """

    def __init__(self, max_weight: int, weight: Callable[[V], int] = lambda _: 1) -> None:
        self._max_weight, self._weight = max_weight, weight
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._total_weight = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key, or None if it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Cache a value, in place of an earlier one of the key."""
        with self._lock:
            previous = self._values.pop(key, None)
            if previous is not None:
                self._total_weight -= self._weight(previous)
            self._values[key] = value
            self._total_weight += self._weight(value)
            while self._total_weight > self._max_weight and len(self._values) > 1:
                self._total_weight -= self._weight(self._values.popitem(last=False)[1])

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The cached value, or the result of `make`, cached. Threads do not wait for each other."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def items(self) -> list[tuple[K, V]]:
        """All entries, the least recently used first."""
        with self._lock:
            return list(self._values.items())
