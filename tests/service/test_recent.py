"""What was used lately stays, within its room."""

import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.service.lru_cache import LruCache


def test_what_was_not_used_longest_goes_first() -> None:
    held = LruCache[str, int](2)
    held.put("a", 1)
    held.put("b", 2)
    assert held.get("a") == 1
    held.put("c", 3)
    assert (held.get("a"), held.get("b"), held.get("c")) == (1, None, 3)


def test_a_value_in_place_of_another_frees_its_weight() -> None:
    held = LruCache[str, str](10, len)
    held.put("a", "x" * 9)
    held.put("a", "x")
    held.put("b", "y" * 9)
    assert (held.get("a"), held.get("b")) == ("x", "y" * 9)


def test_the_newest_stays_whatever_it_weighs() -> None:
    held = LruCache[str, str](10, len)
    held.put("a", "x")
    held.put("b", "y" * 11)
    assert (held.get("a"), held.get("b")) == (None, "y" * 11)


def test_is_made_once_and_again_when_it_is_gone() -> None:
    held, made = LruCache[int, str](1), list[int]()

    def make(key: int) -> str:
        made.append(key)
        return str(key)

    assert [held.of(key, partial(make, key)) for key in (1, 1, 2, 1)] == ["1", "1", "2", "1"]
    assert made == [1, 2, 1]


def test_what_could_not_be_made_leaves_nothing() -> None:
    held = LruCache[int, str](1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            held.of(1, lambda: "x" * (1 // 0))
        assert len(held) == 0


def test_who_makes_does_not_keep_others_waiting() -> None:
    held, begun, over = LruCache[str, str](2), threading.Event(), threading.Event()

    def slowly() -> str:
        begun.set()
        assert over.wait(30)
        return "slow"

    other = threading.Thread(target=held.of, args=("a", slowly))
    other.start()
    assert begun.wait(30)
    assert held.of("b", lambda: "quick") == "quick"
    over.set()
    other.join()
    assert held.get("a") == "slow"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9))), st.integers(1, 20))
def test_is_like_the_plainest_list(steps: list[tuple[int, int]], room: int) -> None:
    held = LruCache[int, int](room, lambda value: value)
    plain: list[tuple[int, int]] = []  # the newest last
    for key, value in steps:
        found = held.get(key)
        assert found == next((v for k, v in plain if k == key), None)
        plain = [one for one in plain if one[0] != key] + [(key, value)]
        held.put(key, value)
        while sum(v for _, v in plain) > room and len(plain) > 1:
            plain.pop(0)
        assert len(held) == len(plain)
