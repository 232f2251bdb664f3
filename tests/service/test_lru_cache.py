"""The LRU cache evicts by use and weight, and makes missing values."""

import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.service.lru_cache import LruCache


def test_the_least_recently_used_value_is_evicted_first() -> None:
    cache = LruCache[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_replacing_a_value_frees_its_weight() -> None:
    cache = LruCache[str, str](10, len)
    cache.put("a", "x" * 9)
    cache.put("a", "x")
    cache.put("b", "y" * 9)
    assert (cache.get("a"), cache.get("b")) == ("x", "y" * 9)


def test_the_newest_value_stays_whatever_it_weighs() -> None:
    cache = LruCache[str, str](10, len)
    cache.put("a", "x")
    cache.put("b", "y" * 11)
    assert (cache.get("a"), cache.get("b")) == (None, "y" * 11)


def test_a_value_is_made_once_and_again_after_eviction() -> None:
    cache, calls = LruCache[int, str](1), list[int]()

    def make(key: int) -> str:
        calls.append(key)
        return str(key)

    assert [cache.get_or_make(key, partial(make, key)) for key in (1, 1, 2, 1)] == [
        "1",
        "1",
        "2",
        "1",
    ]
    assert calls == [1, 2, 1]


def test_a_failed_make_caches_nothing() -> None:
    cache = LruCache[int, str](1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.get_or_make(1, lambda: "x" * (1 // 0))
        assert len(cache) == 0


def test_a_slow_make_does_not_block_other_threads() -> None:
    cache, started, finish = LruCache[str, str](2), threading.Event(), threading.Event()

    def slowly() -> str:
        started.set()
        assert finish.wait(30)
        return "slow"

    other = threading.Thread(target=cache.get_or_make, args=("a", slowly))
    other.start()
    assert started.wait(30)
    assert cache.get_or_make("b", lambda: "quick") == "quick"
    finish.set()
    other.join()
    assert cache.get("a") == "slow"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9))), st.integers(1, 20))
def test_agrees_with_a_plain_list(steps: list[tuple[int, int]], max_weight: int) -> None:
    cache = LruCache[int, int](max_weight, lambda value: value)
    plain: list[tuple[int, int]] = []  # the newest last
    for key, value in steps:
        assert cache.get(key) == next((v for k, v in plain if k == key), None)
        plain = [one for one in plain if one[0] != key] + [(key, value)]
        cache.put(key, value)
        while sum(v for _, v in plain) > max_weight and len(plain) > 1:
            plain.pop(0)
        assert len(cache) == len(plain)
