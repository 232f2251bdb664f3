"""Telling Redis of money: what it takes down, what it gives, and when it gives nothing."""

import pytest
import redis
from simulations.fleet import RedisServer

from kreach.adsystem.sharing.redis_client import RedisUnavailable
from kreach.adsystem.sharing.redis_pool import (
    MAX_MICROS,
    BudgetStatus,
    LeaseGrant,
    RedisPool,
    RedisRestarted,
)
from kreach.errors import KreachError
from tests.adsystem.sharing.faulty_members import pool_of, settings_for

TWO = ("b1", "b2")


def both(url: str, budget: int = 1_000) -> tuple[RedisPool, RedisPool]:
    """Two bidders that have told that they hold nothing."""
    pools = pool_of(url, "b1", TWO), pool_of(url, "b2", TWO)
    for pool in pools:
        pool.sync([BudgetStatus(1, budget, 0, 0)], joining=True)
    return pools


def given(pool: RedisPool, *status: int, joining: bool = False) -> LeaseGrant:
    return pool.sync([BudgetStatus(1, *status)], joining=joining).leases[0]


def test_nothing_is_given_before_all_have_told(url: str) -> None:
    first, second = pool_of(url, "b1", TWO), pool_of(url, "b2", TWO)
    told = first.sync([BudgetStatus(1, 1_000, 0, 0)], joining=True)
    assert (told.leasing, told.missing) == (False, ("b2",))
    told = first.sync([BudgetStatus(1, 1_000, 0, 400)], joining=False)
    assert told.leases == (LeaseGrant(0, 1_000, 0, 0, 0, 0),)
    assert second.sync([BudgetStatus(1, 1_000, 200, 300)], joining=True).leasing
    told = first.sync([BudgetStatus(1, 1_000, 0, 400)], joining=False)
    assert (told.leasing, told.missing) == (True, ())
    assert told.leases == (LeaseGrant(400, 700, 200, 0, 0, 0),)


def test_what_is_held_is_taken_down_whatever_it_is(url: str) -> None:
    first, second = both(url)
    assert given(first, 1_000, 0, 900, joining=True).granted == 900
    assert given(second, 1_000, 0, 900, joining=True).granted == 900
    assert given(second, 1_000, 0, 950).granted == 900  # and no more
    assert given(second, 1_000, 0, 100).granted == 100  # less is always right


def test_all_together_get_no_more_than_the_budget(url: str) -> None:
    first, second = both(url)
    assert given(first, 1_000, 0, 600).granted == 600
    assert given(second, 1_000, 0, 600).granted == 400
    assert given(first, 1_000, 0, 601).granted == 600
    assert given(second, 1_000, 100, 100).granted == 100  # gives back what it did not spend
    assert given(first, 1_000, 300, 1_000).granted == 900


def test_money_comes_to_the_micro(url: str) -> None:
    budget = MAX_MICROS - 1
    first, second = both(url, budget)
    assert given(first, budget, 0, budget - 1).granted == budget - 1
    assert given(second, budget, 0, budget).granted == 1
    assert given(second, budget, 1, 2) == LeaseGrant(1, 1, 0, 0, 0, 0)


def test_days_have_money_of_their_own(url: str) -> None:
    first, second = both(url)
    assert given(first, 1_000, 0, 500, 3, 200, 0, 150)[3:] == (150, 200, 0)
    assert given(second, 1_000, 10, 400, 3, 200, 10, 150) == LeaseGrant(400, 500, 0, 50, 50, 0)
    assert given(second, 1_000, 10, 400, 4, 200, 0, 150)[3:] == (150, 200, 0)
    assert given(first, 1_000, 90, 500, 3, 200, 90, 90)[3:] == (90, 150, 10)
    assert given(second, 1_000, 10, 400, 3, 200, 10, 150)[3:] == (110, 110, 90)


def test_what_was_spent_before_there_was_a_limit_counts_against_it(url: str) -> None:
    """A daily budget may come when money of the day is gone already."""
    first, second = both(url)
    assert given(first, 1_000, 150, 300, 0, 200, 150, 150)[3:] == (150, 200, 0)
    assert given(second, 1_000, 0, 300, 0, 100, 150, 150)[3] == 150
    assert given(first, 1_000, 150, 300, 0, 200, 150, 200)[3] == 150


def test_a_lowered_budget_says_what_could_be_had(url: str) -> None:
    first, second = both(url)
    given(first, 1_000, 0, 500)
    given(second, 1_000, 0, 500)
    assert given(first, 600, 0, 500) == LeaseGrant(500, 100, 0, 0, 0, 0)
    assert given(second, 600, 0, 500).granted == 500  # it is the bidder who gives back
    assert given(first, 600, 0, 100).granted == 100
    assert given(second, 600, 0, 501).granted == 500


def test_campaigns_do_not_mix(url: str) -> None:
    first, second = both(url)
    told = first.sync([BudgetStatus(1, 500, 0, 500), BudgetStatus(11, 900, 0, 900)], joining=False)
    assert [one.granted for one in told.leases] == [500, 900]
    told = second.sync([BudgetStatus(11, 900, 0, 1), BudgetStatus(2, 70, 0, 70)], joining=False)
    assert [one.granted for one in told.leases] == [0, 70]


def test_a_telling_that_comes_late_changes_nothing(url: str) -> None:
    """One that was given up as lost can still arrive, and would give back what is held now."""
    first, second = both(url)
    late = pool_of(url, "b1", TWO)  # the same turn: sent, and given up
    assert given(first, 1_000, 0, 300).granted == 300
    assert given(first, 1_000, 0, 700).granted == 700
    for joining in (False, True):
        with pytest.raises(KreachError, match="two processes claim bidder b1"):
            late.sync([BudgetStatus(1, 1_000, 0, 100)], joining=joining)
    assert given(second, 1_000, 0, 1_000).granted == 300


def test_a_later_start_has_the_later_turn(url: str) -> None:
    first, _ = both(url)
    for _ in range(5):
        given(first, 1_000, 0, 300)
    again = pool_of(url, "b1", TWO, epoch=2)
    assert given(again, 1_000, 0, 200, joining=True).granted == 200
    with pytest.raises(KreachError, match="b1"):
        given(first, 1_000, 0, 300)


def test_another_log_is_not_taken_for_the_same_bidder(url: str) -> None:
    both(url)
    other = RedisPool(settings_for(url, TWO), "b1", "log-of-somebody-else", 9)
    other.find_run()
    for joining in (False, True):
        with pytest.raises(KreachError, match="Redis knows bidder b1 by another log"):
            other.sync([], joining=joining)


def test_bidders_that_disagree_on_who_they_are_get_nothing(url: str) -> None:
    first, second = pool_of(url, "b1", TWO), pool_of(url, "b2", ("b1", "b2", "b3"))
    first.sync([BudgetStatus(1, 1_000, 0, 0)], joining=True)
    assert second.sync([BudgetStatus(1, 1_000, 0, 0)], joining=True).missing == ("b1", "b3")
    told = first.sync([BudgetStatus(1, 1_000, 0, 10)], joining=False)
    assert (told.leasing, told.missing, told.leases[0].granted) == (False, ("b2",), 0)
    agreed = pool_of(url, "b2", ("b2", "b1"), epoch=2)  # the order is nobody's business
    assert agreed.sync([BudgetStatus(1, 1_000, 0, 0)], joining=True).leasing
    assert given(first, 1_000, 0, 10).granted == 10


def test_one_who_left_keeps_what_it_held(url: str) -> None:
    three = ("b1", "b2", "b3")
    gone = pool_of(url, "b3", three)
    gone.sync([BudgetStatus(1, 1_000, 250, 400)], joining=True)
    first, second = both(url)
    assert given(first, 1_000, 0, 900) == LeaseGrant(600, 600, 250, 0, 0, 0)
    assert given(second, 1_000, 0, 900).granted == 0


def test_who_is_not_known_must_tell_all_first(url: str) -> None:
    first, _ = both(url)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    with pytest.raises(RedisRestarted):
        given(first, 1_000, 0, 10)
    assert first.run_id == ""


def test_a_run_that_is_over_is_noticed_by_everything_that_is_told(
    server: RedisServer, url: str
) -> None:
    first, second = both(url)
    given(first, 1_000, 0, 600)
    old_run = first.run_id
    server.kill()
    with pytest.raises(RedisUnavailable, match="ConnectionError"):
        given(first, 1_000, 0, 700)
    server.start()
    with pytest.raises(RedisRestarted):
        given(first, 1_000, 0, 700)
    assert first.find_run()
    assert first.run_id != old_run
    assert not first.find_run()
    assert given(first, 1_000, 0, 600, joining=True).granted == 600
    with pytest.raises(RedisRestarted):
        given(second, 1_000, 0, 10)


def test_what_an_earlier_run_left_on_disk_is_not_looked_at(url: str) -> None:
    """A Redis that comes back with an old copy is one that knows nothing, and is tidied up."""
    first, _ = both(url)
    given(first, 1_000, 0, 600)
    with redis.Redis.from_url(url) as client:
        client.set("{kreach}:0000000000000000:rows", "left over")
        client.set("{kreach-2}:somebody", "else's")
        first.delete_other_runs()
        left = client.keys("*")
    assert b"{kreach}:0000000000000000:rows" not in left
    assert b"{kreach-2}:somebody" in left
    assert given(first, 1_000, 0, 600).granted == 600


def test_prefixes_keep_systems_apart(url: str) -> None:
    first = both(url)[0]
    other = pool_of(url, "b1", ("b1",), prefix="other")
    given(first, 1_000, 0, 900)
    assert other.sync([BudgetStatus(1, 1_000, 0, 1_000)], joining=True).leasing
    assert given(other, 1_000, 0, 1_000).granted == 1_000


def test_a_redis_that_throws_keys_away_is_refused(url: str) -> None:
    pool = RedisPool(settings_for(url, TWO), "b1")
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(
                KreachError,
                match="maxmemory-policy of Redis must be noeviction, got 'allkeys-lru'",
            ):
                pool.find_run()
            client.config_set("maxmemory-policy", "noeviction")
            assert pool.find_run()
        finally:
            client.config_set("maxmemory", "0")


def test_a_redis_that_is_not_there_is_away_and_its_address_is_not_told() -> None:
    pool = RedisPool(settings_for("redis://:secret@127.0.0.1:1/0", TWO), "b1")
    with pytest.raises(RedisUnavailable) as caught:
        pool.find_run()
    assert "secret" not in str(caught.value)
