"""Token buckets: how much they let through, and that they stay small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.access.limits import Buckets, neighbourhood


class Clock:
    """A clock that the test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_an_even_rate() -> None:
    clock = Clock()
    buckets = Buckets(clock, 10)
    assert [buckets.take("a", 600, 60) for _ in range(60)] == [0.0] * 60
    assert buckets.take("a", 600, 60) == pytest.approx(0.1)
    assert buckets.take("b", 600, 60) == 0.0  # others are not touched
    clock.now += 0.1
    assert buckets.take("a", 600, 60) == 0.0
    assert buckets.take("a", 600, 60) > 0.0
    clock.now += 3_600
    assert sum(buckets.take("a", 600, 60) == 0.0 for _ in range(100)) == 60


@given(
    st.lists(st.floats(0.0, 5.0), min_size=1, max_size=200),
    st.integers(1, 1_000),
    st.integers(1, 100),
)
def test_never_more_than_burst_and_rate(steps: list[float], rate: int, burst: int) -> None:
    clock = Clock()
    buckets = Buckets(clock, 10)
    taken = 0
    history = []
    for step in steps:
        history.append(step)
        clock.now += step
        wait = buckets.take("a", rate, burst)
        taken += wait == 0.0
        assert 0.0 <= wait <= 60.0 / rate
        if wait:  # after that long, and not a moment sooner than needed, there is one
            other = Clock()
            later = Buckets(other, 1)
            for past in history:
                other.now += past
                later.take("a", rate, burst)
            other.now += wait * (1 + 1e-9) + 1e-9
            assert later.take("a", rate, burst) == 0.0
    assert taken <= burst + sum(steps) * rate / 60.0 + 1e-6


def test_a_clock_that_steps_back_gives_nothing() -> None:
    clock = Clock()
    buckets = Buckets(clock, 10)
    for _ in range(2):
        buckets.take("a", 60, 2)
    clock.now -= 500
    assert buckets.take("a", 60, 2) > 0.0
    clock.now += 1
    assert buckets.take("a", 60, 2) == 0.0


def test_memory_is_bounded() -> None:
    buckets = Buckets(Clock(), 100)
    for number in range(1_000):
        buckets.take(str(number), 60, 1)
        assert buckets.take("busy", 60, 1_001) == 0.0
        assert len(buckets) <= 100
    assert buckets.take("busy", 60, 1_001) == 0.0
    assert buckets.take("busy", 60, 1_001) > 0.0  # what is used is not forgotten
    assert buckets.take("999", 60, 1) > 0.0
    assert buckets.take("0", 60, 1) == 0.0  # what is not used is


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("a socket", ""),
    ],
)
def test_whom_an_address_is_counted_with(address: str, counted: str) -> None:
    assert neighbourhood(address) == counted
