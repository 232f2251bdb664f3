"""The moments between disk, wire and Redis at which money could come to be held twice."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis

from tests.adsystem.sharing.faulty_members import FaultyMember, a_campaign, settings_for

TWO = ("b1", "b2")
UNIT = 1_000_000


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pair(
    url: str, folder: Path, held: ExitStack, budget: float, daily: float | None = None
) -> tuple[FaultyMember, FaultyMember]:
    """Two bidders that have told, and have a slice each."""
    campaign = a_campaign(budget, daily)
    first, second = (FaultyMember(settings_for(url, TWO), name, folder, campaign) for name in TWO)
    for member in (first, second):
        held.enter_context(closing(member))
    for _ in range(2):
        first.synced()
        second.synced()
    return first, second


def takes_all(member: FaultyMember) -> int:
    """All that Redis will give to one who spends whatever it gets."""
    for _ in range(60):
        taken = member.account.take(member.account.available(member.day), 1, member.day)
        if taken:
            member.account.post(taken, taken, member.day)
            member.disk.spent.append((taken, member.day))
        member.exchange()
        member.disk.commit()
    return member.account.spent


def all_out(member: FaultyMember) -> None:
    """One bid after the other, until much is out."""
    for _ in range(4):
        member.account.take(member.account.available(member.day), 1, member.day)
        member.exchange()
        member.disk.commit()


def test_what_is_given_back_is_out_of_the_log_before_others_have_it(
    url: str, tmp_path: Path, held: ExitStack
) -> None:
    first, second = pair(url, tmp_path, held, 5.0)
    all_out(first)
    granted = first.account.granted
    first.account.release(first.account.reserved, first.day)
    first.exchange()  # it gives most of it back, and the disk has not written that yet
    assert first.account.granted < granted
    assert takes_all(second) == 5 * UNIT - granted
    first.crash()
    first.start()  # the log brings back what it held: nobody else has it
    assert first.account.granted == granted
    first.now = second.now = first.now + 20.0
    first.account.expire_carried(first.now)
    for member in (first, second, first):
        member.synced()
    assert takes_all(second) + takes_all(first) == 5 * UNIT


def test_one_that_started_from_its_log_gives_back_through_its_log(
    url: str, tmp_path: Path, held: ExitStack
) -> None:
    first, second = pair(url, tmp_path, held, 5.0)
    all_out(first)
    granted = first.account.granted
    first.crash()
    first.start()
    first.exchange()
    first.now = second.now = first.now + 20.0
    first.account.expire_carried(first.now)
    first.exchange()
    assert first.account.granted < granted == first.disk.grants[1]
    assert takes_all(second) == 5 * UNIT - granted
    first.disk.commit()
    first.exchange()
    assert takes_all(second) == 5 * UNIT - first.account.granted


def test_a_grant_whose_write_waits_is_not_bid_with(
    url: str, tmp_path: Path, held: ExitStack
) -> None:
    first, second = pair(url, tmp_path, held, 5.0)
    before = first.account.granted
    first.account.take(before, 1, first.day)
    first.exchange()
    first.exchange()
    assert first.account.available(first.day) == 0
    first.disk.commit(fails=True)
    assert first.account.granted == before
    first.synced()  # the disk is well again
    assert first.account.granted > before
    assert first.account.granted + takes_all(second) <= 5 * UNIT


def test_a_message_that_comes_late_gives_nothing_back(
    url: str, tmp_path: Path, held: ExitStack
) -> None:
    first, second = pair(url, tmp_path, held, 5.0)
    first.exchange("held")  # it holds one slice
    all_out(first)
    first.wire.deliver(0)
    assert takes_all(second) == 5 * UNIT - first.account.granted


def test_an_answer_that_is_lost_is_asked_for_again(
    url: str, tmp_path: Path, held: ExitStack
) -> None:
    first, second = pair(url, tmp_path, held, 5.0)
    before = first.account.granted
    first.account.take(before, 1, first.day)
    first.exchange("lost")
    first.disk.commit()
    assert first.account.granted == before
    first.synced()
    assert before < first.account.granted
    assert takes_all(second) == 5 * UNIT - first.account.granted


@pytest.mark.parametrize("told", [True, False], ids=["all have told", "one has not"])
def test_after_a_crash_and_a_wipe_a_day_is_whose_it_was(
    url: str, tmp_path: Path, held: ExitStack, told: bool
) -> None:
    first, second = pair(url, tmp_path, held, 50.0, 0.3)
    assert takes_all(second) + takes_all(first) == 300_000
    first.crash()
    with redis.Redis.from_url(url) as client:
        client.flushall()
    first.start()
    for _ in range(3):
        first.exchange()
        if told:
            second.exchange()
    assert first.fleet.status.leasing == told
    first.now = second.now = first.now + 20.0
    first.account.expire_carried(first.now)
    assert first.account.available(first.day) == 0
    first.synced()
    assert first.account.available(first.day) == 0
