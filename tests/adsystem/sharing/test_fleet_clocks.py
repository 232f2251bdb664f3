"""Clocks of a fleet: whoever is apart says so, whatever Redis's own clock and the network do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_clocks import ClockLead, ClockSample, FleetClocks
from kreach.adsystem.sharing.redis_pool import RedisPool
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.sharing.faulty_members import settings_for
from tests.adsystem.sharing.fleet_bidders import fleet_bidders, settle
from tests.faults.in_process_bidder import a_campaign


class Member:
    """A member's clocks: its own, ahead by so much, and the monotonic one of its machine."""

    def __init__(self, name: str, ahead: float, max_seconds: float = 1.0) -> None:
        self.name, self.ahead, self.lines = name, ahead, list[dict[str, Any]]()
        log = Log("bidder", lambda line: self.lines.append(json.loads(line)))
        self.clocks = FleetClocks(name, max_seconds, log)

    def look(
        self,
        others: "list[Member]",
        at: float = 1_000.0,
        there: float = 0.0,
        back: float = 0.0,
        redis_ahead: float = 0.0,
    ) -> None:
        """Ask Redis at a time, over a network that takes its time each way."""
        leads = {one.name: one.clocks.own for one in others if one.clocks.own is not None}
        sent, received = at + 7_000.0, at + 7_000.0 + there + back
        sample = ClockSample(sent, received, at + there + redis_ahead, leads)
        waited = 0.3  # until the event loop looks at it
        self.clocks.compare(sample, at + there + back + waited + self.ahead, received + waited)


def test_members_that_agree_say_nothing_and_one_that_is_apart_is_named() -> None:
    members = [Member("b1", 0.2), Member("b2", -0.3), Member("b3", 5.0)]
    for _ in range(2):
        for member in members:
            member.look(members)
    assert [member.clocks.apart for member in members] == [("b3",), ("b3",), ("b1", "b2")]
    assert members[0].clocks.difference_seconds == pytest.approx(-4.8)
    assert members[2].clocks.difference_seconds == pytest.approx(5.3)
    line = members[0].lines[-1]
    assert (line["level"], line["event"]) == ("error", "clocks differ")
    assert line["ahead_seconds"] == {"b3": -4.8}
    assert len(members[0].lines) == 1  # once
    members[2].ahead = 0.0
    for _ in range(2):
        for member in members:
            member.look(members)
    assert [member.clocks.apart for member in members] == [(), (), ()]
    assert members[0].lines[-1]["event"] == "clocks agree"


def test_a_member_alone_has_nobody_to_compare_with() -> None:
    member = Member("b1", 50.0)
    member.look([member])
    member.look([member])
    assert member.clocks.difference_seconds is None
    assert member.clocks.apart == ()


def test_what_a_dead_member_published_is_forgotten() -> None:
    dead, member = Member("b1", 50.0), Member("b2", 0.0)
    dead.look([])
    member.look([dead], at=1_059.0)
    assert len(member.clocks.apart) == 1
    member.look([dead], at=1_061.0)
    assert len(member.clocks.apart) == 0


@given(
    ahead=st.floats(-3.0, 3.0),
    redis_ahead=st.floats(-1e6, 1e6),
    delays=st.tuples(*(st.floats(0.0, 2.0) for _ in range(4))),
)
def test_no_network_and_no_clock_of_redis_makes_a_false_alarm(
    ahead: float, redis_ahead: float, delays: tuple[float, float, float, float]
) -> None:
    first, second = Member("b1", ahead), Member("b2", 0.0)
    first.look([], there=delays[0], back=delays[1], redis_ahead=redis_ahead)
    second.look([first], at=1_004.0, there=delays[2], back=delays[3], redis_ahead=redis_ahead)
    if abs(ahead) < 1.0 - 1e-6:
        assert second.clocks.apart == ()
    if abs(ahead) > 1.0 + sum(delays) + 1e-3:  # twice the error at most
        assert second.clocks.apart == ("b1",)


def test_leads_survive_redis_and_nonsense_does_not(url: str) -> None:
    lead = ClockLead(-1.5, 0.25, 1_793_491_200.125)
    assert ClockLead.decode(lead.encode()) == lead
    for text in ("", "1 2", "1 2 3 4", "a b c", "1.5 2 3"):
        assert ClockLead.decode(text) is None
    pools = [RedisPool(settings_for(url, ("b1", "b2")), name) for name in ("b1", "b2")]
    try:
        for pool in pools:
            pool.find_run()
        assert "b1" not in pools[0].compare_clocks(None).leads
        pools[0].compare_clocks(lead)
        pools[1]._client.hset(pools[1]._key("clocks"), "b2", "nonsense")
        sample = pools[1].compare_clocks(None)
        assert sample.leads == {"b1": lead}
        assert sample.sent <= sample.received
    finally:
        for pool in pools:
            pool.close()


def test_the_bound_is_checked() -> None:
    for seconds in (0.0, -1.0, 1e9):
        with pytest.raises(KreachError, match="max_clock_difference_seconds"):
            RedisSettings(url="redis://x", bidders=("b1",), max_clock_difference_seconds=seconds)


def test_bidders_whose_clocks_differ_say_so_in_health_and_metrics(tmp_path: Path, url: str) -> None:
    async def story() -> None:
        first, second = fleet_bidders(tmp_path, ("b1", "b2"), url, a_campaign())
        second.wall = first.wall + 90.0
        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            for _ in range(3):  # what one measures, it publishes with its next look
                for bidder in (first, second):
                    assert bidder.state.fleet is not None
                    await bidder.state.fleet.compare_clocks()
            health = (await first.ask("/healthz")).document["sharing"]
            assert health["clocks_apart"] == ["b2"]
            assert health["clock_difference_seconds"] == pytest.approx(-90.0, abs=5.0)
            metrics = (await second.ask("/metrics")).body.decode()
            assert "kreach_bidder_sharing_clocks_apart 1.0\n" in metrics
            assert [line["event"] for line in second.troubles()].count("clocks differ") == 1

    asyncio.run(story())
