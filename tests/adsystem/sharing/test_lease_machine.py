"""Any order of bids, losses of answers, late messages, crashes and wipes: no money is there twice.

At every step, whatever each bidder could come to use, now or after a crash, sums up to the budget
at most, and what each may use of the day to the day's budget.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from simulations.fleet import RedisServer

from kreach.adsystem.settings import RedisSettings
from kreach.boundary.times import DAY_SECONDS
from tests.adsystem.sharing.faulty_members import (
    EXPIRY_SECONDS,
    NUMBER,
    FaultyMember,
    a_campaign,
    settings_for,
)

picks = st.integers(0, 10**6)
NAMES = ("b1", "b2", "b3", "b4")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Three, so that one can take another's place in no time."""
    with ExitStack() as held:
        folder = tmp_path_factory.mktemp("redis")
        yield [held.enter_context(RedisServer(folder)) for _ in range(3)]


@dataclass
class Bid:
    """A bid that is out."""

    member: FaultyMember
    epoch: int
    micros: int
    day: int
    expires: float


class Sharing(RuleBasedStateMachine):
    servers: list[RedisServer]
    clients: list[redis.Redis]
    runs: list[str]
    folder: Path

    @initialize(
        count=st.integers(2, 4),
        budget=st.sampled_from([0.1, 0.5, 5.0]),
        share=st.sampled_from([None, 0.1, 0.5]),
    )
    def begin(self, count: int, budget: float, share: float | None) -> None:
        self.campaign = a_campaign(budget, None if share is None else round(budget * share, 6))
        self.names = NAMES[:count]
        self.at = 0
        self.members: list[FaultyMember] = []
        self.bids: list[Bid] = []
        self.now = 0.0
        self._flush()
        for name in self.names:
            member = FaultyMember(self._settings(), name, self.folder, self.campaign)
            self.now = member.now
            self.members.append(member)
        self.in_turn(2)

    def _settings(self) -> RedisSettings:
        return settings_for(self.servers[self.at].url, self.names)

    def _flush(self) -> None:
        self.clients[self.at].flushall()

    def _pick(self, pick: int) -> FaultyMember:
        alive = [member for member in self.members if member.alive]
        return alive[pick % len(alive)]

    # -- Redis ----------------------------------------------------------------------------------

    @precondition(lambda self: any(member.alive for member in self.members))
    @rule(pick=picks, mode=st.sampled_from(["ok", "ok", "lost", "held", "held"]))
    def exchange(self, pick: int, mode: str) -> None:
        self._pick(pick).exchange(mode)

    @precondition(lambda self: any(member.wire.held for member in self.members))
    @rule(pick=picks, which=picks)
    def late(self, pick: int, which: int) -> None:
        """A message that was given up arrives."""
        waiting = [member.wire for member in self.members if member.wire.held]
        wire = waiting[pick % len(waiting)]
        wire.deliver(which % len(wire.held))

    @rule(rounds=st.integers(1, 2))
    def in_turn(self, rounds: int) -> None:
        """All goes well for a while."""
        for _ in range(rounds):
            for member in self.members:
                if member.alive:
                    member.exchange()
                    member.disk.commit()

    @rule(how=st.sampled_from(["anew", "emptied", *["not at all"] * 2]))
    def forgets(self, how: str) -> None:
        """Redis starts anew with nothing, or loses its memory without a new run."""
        if how == "not at all":
            return
        if how == "anew":
            self.at = (self.at + 1) % len(self.servers)
        self._flush()
        if how == "anew":
            for member in self.members:  # what is on its way to the one before leads nowhere
                member.move(self._settings())

    # -- disks ----------------------------------------------------------------------------------

    @precondition(lambda self: any(member.disk.waiting for member in self.members))
    @rule(pick=picks, fails=st.sampled_from([False, False, True]))
    def written(self, pick: int, fails: bool) -> None:
        waiting = [member for member in self.members if member.disk.waiting]
        waiting[pick % len(waiting)].disk.commit(fails=fails)

    @precondition(lambda self: any(member.alive for member in self.members))
    @rule(pick=picks)
    def crash(self, pick: int) -> None:
        member = self._pick(pick)
        member.crash()
        if pick % 2:
            member.start()

    @precondition(lambda self: not all(member.alive for member in self.members))
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        dead = [member for member in self.members if not member.alive]
        dead[pick % len(dead)].start()

    # -- bids -----------------------------------------------------------------------------------

    @precondition(lambda self: any(member.alive for member in self.members))
    @rule(pick=picks, part=st.sampled_from([0.3, 0.9, 1.0]))
    def bid(self, pick: int, part: float) -> None:
        member = self._pick(pick)
        wanted = max(round(member.account.available(member.day) * part), 1)
        taken = member.account.take(wanted, 1, member.day)
        if taken:
            expires = self.now + EXPIRY_SECONDS
            self.bids.append(Bid(member, member.disk.epoch, taken, member.day, expires))

    @precondition(lambda self: any(member.alive for member in self.members))
    @rule(pick=picks)
    def spend(self, pick: int) -> None:
        """All that may be spent is, and more is asked for."""
        member = self._pick(pick)
        taken = member.account.take(member.account.available(member.day), 1, member.day)
        if taken:
            member.account.post(taken, taken, member.day)
            member.disk.spent.append((taken, member.day))
        member.exchange()
        member.disk.commit()

    @precondition(lambda self: any(member.alive for member in self.members))
    @rule(pick=picks, then=st.sampled_from(["", "lost", "crash", "crash", "wait"]))
    def burst(self, pick: int, then: str) -> None:
        """One after the other all money goes out on bids, and most of it comes back at once."""
        member = self._pick(pick)
        for _ in range(4):
            self.bid(pick, 1.0)
            member.exchange()
            member.disk.commit()
        if then == "crash":
            member.crash()
            member.start()
        elif then == "wait":
            self.time_passes(13.0)
        elif then == "lost":
            for bid in [bid for bid in self.bids if bid.member is member]:
                self._lose(bid)

    @precondition(lambda self: self.bids)
    @rule(pick=picks, part=st.sampled_from([0.0, 0.5, 1.0, 1.0]))
    def billed(self, pick: int, part: float) -> None:
        bid = self.bids[pick % len(self.bids)]
        member, price = bid.member, round(bid.micros * part)
        if not member.alive:
            return
        self.bids.remove(bid)
        if bid.epoch == member.disk.epoch:
            member.account.post(bid.micros, price, bid.day)
        else:  # of the run before a crash: honoured, for the log knew of its money
            assert member.account.hold_carried(bid.micros, bid.day)
            member.account.post(bid.micros, price, bid.day)
        member.disk.spent.append((price, bid.day))

    @precondition(lambda self: self.bids)
    @rule(pick=picks)
    def lost(self, pick: int) -> None:
        self._lose(self.bids[pick % len(self.bids)])

    def _lose(self, bid: Bid) -> None:
        self.bids.remove(bid)
        if bid.member.alive and bid.epoch == bid.member.disk.epoch:
            bid.member.account.release(bid.micros, bid.day)

    @rule(seconds=st.sampled_from([1.0, 5.0, 13.0, DAY_SECONDS / 2]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for bid in [bid for bid in self.bids if bid.expires <= self.now]:
            self._lose(bid)
        for member in self.members:
            member.now = self.now
            if member.alive:
                member.account.expire_carried(self.now)

    # -- laws -----------------------------------------------------------------------------------

    @invariant()
    def no_money_is_there_twice(self) -> None:
        if self.members:
            total = round(self.campaign.budget * 1e6)
            assert sum(member.usable() for member in self.members) <= total

    @invariant()
    def nor_of_a_day(self) -> None:
        if self.members and self.campaign.daily_budget is not None:
            daily = round(self.campaign.daily_budget * 1e6)
            usable = 0
            for member in self.members:
                older = [
                    b for b in self.bids if b.member is member and b.epoch != member.disk.epoch
                ]
                usable += member.usable_today(sum(b.micros for b in older if b.day == member.day))
            assert usable <= daily

    @invariant()
    def what_is_out_can_be_paid(self) -> None:
        """Also what was out when its bidder died."""
        total, daily = self.campaign.budget, self.campaign.daily_budget
        spent = [one for member in self.members for one in member.disk.spent]
        spent += [(bid.micros, bid.day) for bid in self.bids]
        assert sum(micros for micros, _ in spent) <= round(total * 1e6)
        if self.members and daily is not None:
            today = self.members[0].day
            assert sum(micros for micros, day in spent if day == today) <= round(daily * 1e6)

    @invariant()
    def what_may_be_used_is_set_aside(self) -> None:
        """What makes the sums hold: Redis knows of no less than a bidder could come to use."""
        if not self.members:
            return
        client = self.clients[self.at]
        base = f"{{kreach}}:{self.runs[self.at]}:"
        told, money = client.hgetall(f"{base}members"), client.hgetall(f"{base}money:{NUMBER}")
        for member in self.members:
            if member.name.encode() in told:
                assert int(money[f"g:{member.name}".encode()]) >= member.usable()

    @invariant()
    def what_is_used_was_granted(self) -> None:
        for member in self.members:
            if member.alive:
                account = member.account
                assert account.spent + account.reserved <= max(account.granted, account.spent)
                assert account.granted <= max(member.disk.grants.get(NUMBER, 0), account.spent)

    def teardown(self) -> None:
        """In the end, with all alive and told, everybody gets what is left."""
        for member in self.members:
            if not member.alive:
                member.start()
        self.time_passes(EXPIRY_SECONDS + 3.0)
        for _ in range(4):
            self.in_turn(1)
        left = round(self.campaign.budget * 1e6) - sum(
            member.account.spent for member in self.members
        )
        if self.members and left > 0 and self.campaign.daily_budget is None:
            assert all(member.fleet.status.leasing for member in self.members)
            assert sum(member.account.available(member.day) for member in self.members) > 0
        for member in self.members:
            if member.alive:
                member.close()


def test_money_is_never_given_out_twice(servers: list[RedisServer], tmp_path: Path) -> None:
    clients = [redis.Redis.from_url(server.url) for server in servers]
    runs = [client.info("server")["run_id"] for client in clients]
    told = {"servers": servers, "folder": tmp_path, "clients": clients, "runs": runs}
    machine = type("Machine", (Sharing,), told)
    try:
        # no shrinking: with a real Redis it takes minutes, and the steps tell enough
        chosen = settings(max_examples=28, stateful_step_count=60, phases=[Phase.generate])
        run_state_machine_as_test(machine, settings=chosen)
    finally:
        for client in clients:
            client.close()
