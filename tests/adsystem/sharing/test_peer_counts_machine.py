"""Any order of impressions, exchanges, failures, starts and wipes: others' impressions count once.

What a bidder heard of others is never more than they have shown, and all of it once all have told.
"""

from collections.abc import Iterator
from contextlib import ExitStack
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
from kreach.adsystem.sharing import redis_pool
from kreach.adsystem.sharing import redis_scripts as scripts
from tests.adsystem.sharing.counting_bidders import (
    GROUPS,
    PLACES,
    CountingBidder,
    SampleLog,
    check_never_more,
    moments_of_others,
    of_others,
)
from tests.adsystem.sharing.faulty_members import settings_for
from tests.adsystem.sharing.faulty_redis import CommandFault

picks = st.integers(0, 10**6)
NAMES = ("b1", "b2", "b3")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Two, so that one can take the other's place in no time."""
    with ExitStack() as held:
        folder = tmp_path_factory.mktemp("redis")
        yield [held.enter_context(RedisServer(folder)) for _ in range(2)]


@pytest.fixture
def short_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed keeps the last few entries only."""
    assert "'MAXLEN', '~', '20000'" in scripts.ADD_ROWS
    short = scripts.ADD_ROWS.replace("'MAXLEN', '~', '20000'", "'MAXLEN', '=', '3'")
    monkeypatch.setattr(redis_pool, "ADD_ROWS", short)


class Counting(RuleBasedStateMachine):
    servers: list[RedisServer]
    clients: list[redis.Redis]
    folder: Path
    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self.at = 0
        self.logs: dict[str, SampleLog] = {}
        self.bidders: list[CountingBidder] = []

    @initialize(knows=st.booleans())
    def begin(self, knows: bool) -> None:
        self._flush()
        for name in NAMES:
            log = self.logs[name] = SampleLog(self.folder / str(self.made) / name)
            bidder = CountingBidder(self._settings(), name, log)
            if not knows:  # it takes campaigns up one by one
                bidder.places = frozenset()
            self.bidders.append(bidder)

    def _settings(self) -> RedisSettings:
        return settings_for(self.servers[self.at].url, NAMES)

    def _flush(self) -> None:
        self.clients[self.at].flushall()

    def _pick(self, pick: int) -> CountingBidder:
        return self.bidders[pick % len(self.bidders)]

    @rule(
        pick=picks,
        rows=st.lists(
            st.tuples(st.sampled_from(sorted(PLACES)), st.integers(0, GROUPS - 1)),
            min_size=1,
            max_size=4,
        ),
    )
    def shown(self, pick: int, rows: list[tuple[tuple[int, str], int]]) -> None:
        told = [(campaign, version, group) for (campaign, version), group in rows]
        self._pick(pick).log.add(told)

    @rule(pick=picks)
    def exchange(self, pick: int) -> None:
        self._pick(pick).exchange()

    @rule(pick=picks, commands=st.sampled_from([0, 1, 1, 1, 2, 3, 4, 5, 6]), done=st.booleans())
    def cut(self, pick: int, commands: int, done: bool) -> None:
        bidder = self._pick(pick)
        bidder.log.add([(1, "v1", 0), (2, "v1", 1)])
        bidder.exchange(CommandFault(commands, done=done))

    @rule(pick=picks, commands=st.integers(1, 8), rows=st.integers(0, 2))
    def between(self, pick: int, commands: int, rows: int) -> None:
        """While one looks, another tells."""
        bidder, other = self._pick(pick), self._pick(pick + 1)
        bidder.impatient()

        def meanwhile() -> None:
            for at in range(rows):
                other.log.add([(1 + at, "v1", 2), (1, "v2", 3)])
            other.exchange()

        bidder.exchange(CommandFault(commands, meanwhile=meanwhile))

    @rule()
    def in_turn(self) -> None:
        for bidder in self.bidders:
            bidder.impatient()
            bidder.exchange()

    @rule(pick=picks, place=st.sampled_from(sorted(PLACES)))
    def taken_up(self, pick: int, place: tuple[int, str]) -> None:
        bidder = self._pick(pick)
        bidder.places |= {place}

    @rule(pick=picks)
    def started(self, pick: int) -> None:
        """A bidder starts anew: it knows its own log only."""
        before = self._pick(pick)
        before.close()
        again = CountingBidder(before.settings, before.name, before.log, before.epoch + 1)
        again.places = before.places
        self.bidders[self.bidders.index(before)] = again

    @rule(how=st.sampled_from(["anew", "emptied", "not at all"]))
    def forgets(self, how: str) -> None:
        if how == "not at all":
            return
        if how == "anew":
            self.at = (self.at + 1) % len(self.servers)
        self._flush()
        if how == "anew":
            for bidder in self.bidders:
                bidder.move(self._settings())

    @precondition(lambda self: self.bidders)
    @rule(pick=picks, rounds=st.integers(3, 8))
    def talks(self, pick: int, rounds: int) -> None:
        """One tells so often that others cannot follow."""
        bidder = self._pick(pick)
        for at in range(rounds):
            bidder.log.add([(1, "v1", at % GROUPS)])
            bidder.exchange()

    @invariant()
    def never_more(self) -> None:
        for bidder in self.bidders:
            check_never_more(bidder, self.logs)

    def teardown(self) -> None:
        """Once all have told, all is known."""
        for bidder in self.bidders:
            bidder.places = PLACES
        for _ in range(4):
            self.in_turn()
        for bidder in self.bidders:
            assert bidder.heard == of_others(self.logs, bidder.name)
            assert bidder.moments == moments_of_others(self.logs, bidder.name)
            bidder.close()


@pytest.mark.usefixtures("short_feed")
def test_others_impressions_count_once(servers: list[RedisServer], tmp_path: Path) -> None:
    clients = [redis.Redis.from_url(server.url) for server in servers]
    told = {"servers": servers, "folder": tmp_path, "clients": clients}
    try:
        chosen = settings(max_examples=24, stateful_step_count=40, phases=[Phase.generate])
        run_state_machine_as_test(type("Machine", (Counting,), told), settings=chosen)
    finally:
        for client in clients:
            client.close()
