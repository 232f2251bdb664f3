"""A hard cap that forgets: what is older than the memory does not count and is erased."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kreach.boundary.files import read_catalogue
from kreach.errors import KreachError
from kreach.publisher.gateway import GatewaySettings, HardCap, check, showings
from kreach.publisher.gateway.hard_cap import HardCaps
from kreach.publisher.gateway.showings import FILE
from kreach.publisher.grouping import AtRandom, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import release
from kreach.publisher.store import write_build
from tests.publisher.gateway.sample_gateways import (
    IDS,
    ManualClock,
    replies_to,
    sample_gateway,
    until,
    write_sample_build,
)
from tests.publisher.populations import KEY, NOW

HOUR = 3_600.0
ONCE = HardCap(campaign="once", cap=1)
TWICE = HardCap(campaign="twice", cap=2)
START = 1_000_000.0


def caps_at(store: Path, clock: ManualClock, *caps: HardCap, hours: float = 24.0) -> HardCaps:
    return HardCaps(store, caps, 30.0, clock, hours * HOUR)


def on_disk(store: Path) -> bytes:
    """All that the store's files hold, the log of changes included."""
    return b"".join(file.read_bytes() for file in sorted(store.iterdir()) if FILE in file.name)


def rows(store: Path) -> int:
    with closing(sqlite3.connect(store / FILE)) as database:
        return int(database.execute("SELECT count(*) FROM showing").fetchone()[0])


def pseudonym(caps: HardCaps, user: str) -> bytes:
    return caps._pseudonyms.user("once", user)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showings, "_PRUNE_SECONDS", 0.01)


def test_a_showing_counts_for_the_memory_and_not_longer(tmp_path: Path) -> None:
    clock = ManualClock(START)

    async def story() -> None:
        caps = caps_at(tmp_path, clock, ONCE, TWICE)
        caps.showings.start()
        await caps.shown("ann", "once", "i1")
        await caps.shown("ann", "twice", "i1")
        clock.now += 12 * HOUR
        assert caps.allowed("ann", ["once", "twice"]) == ["twice"]
        await caps.shown("ann", "twice", "i2")
        assert caps.allowed("ann", ["once", "twice"]) == []
        clock.now = START + 24 * HOUR - 1e-6
        assert caps.allowed("ann", ["once", "twice"]) == []
        clock.now = START + 24 * HOUR
        assert caps.allowed("ann", ["once", "twice"]) == ["once", "twice"]
        caps.showings.stop()

    asyncio.run(story())


@pytest.mark.usefixtures("often")
def test_what_is_forgotten_is_gone_from_every_file_while_it_runs(tmp_path: Path) -> None:
    """Nobody asks and nothing is shown: the store forgets by itself."""
    clock = ManualClock(START)

    async def story() -> None:
        caps = caps_at(tmp_path, clock, ONCE)
        caps.showings.start()
        for number in range(500):
            await caps.shown(f"u{number}", "once", "i1")
        clock.now += 1.0
        await caps.shown("late", "once", "i1")
        marks = [pseudonym(caps, f"u{number}") for number in range(500)]
        late = pseudonym(caps, "late")
        held = on_disk(tmp_path)
        assert all(mark in held for mark in [*marks, late])
        clock.now = START + 24 * HOUR
        await asyncio.to_thread(until, lambda: caps.showings.rows == 1)
        await asyncio.to_thread(until, lambda: not any(m in on_disk(tmp_path) for m in marks))
        assert caps.allowed("u7", ["once"]) == ["once"]
        assert caps.allowed("late", ["once"]) == []
        caps.showings.stop()
        assert late in on_disk(tmp_path)
        assert not any(mark in on_disk(tmp_path) for mark in marks)

    asyncio.run(story())


@pytest.mark.parametrize("listed", [(ONCE,), (HardCap(campaign="once", cap=1, enabled=False),), ()])
def test_what_grew_old_while_it_was_down_is_erased_at_the_start(
    tmp_path: Path, listed: tuple[HardCap, ...]
) -> None:
    """Also where the campaign is now disabled, or no cap is listed any more."""
    build, store = write_sample_build(tmp_path / "build"), tmp_path / "store"
    clock = ManualClock(START)

    async def story() -> bytes:
        caps = caps_at(store, clock, ONCE)
        caps.showings.start()
        await caps.shown("ann", "once", "i1")
        caps.showings.stop()
        return pseudonym(caps, "ann")

    mark = asyncio.run(story())
    assert mark in on_disk(store)
    clock.now += 24 * HOUR
    app = sample_gateway(build, store=store, caps=listed, memory_hours=24, clock=clock)
    body = {"user_id": "ann", "campaigns": ["once"]}
    replies = replies_to(app, ("GET /healthz", b""), ("POST /v1/allow", body))
    assert replies[0].document["hard_cap"] == ("on" if listed and listed[0].enabled else "off")
    assert replies[1].document == {"allowed": ["once"]}
    assert rows(store) == 0
    assert mark not in on_disk(store)


@pytest.mark.usefixtures("often")
def test_forgetting_is_done_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    steps: list[int] = []
    monkeypatch.setattr(showings, "MAX_PRUNED", 50)

    async def story() -> None:
        caps = caps_at(tmp_path, clock, ONCE)
        prune = caps.showings._prune

        def counted(database: sqlite3.Connection) -> tuple[int, bool]:
            pruned, more = prune(database)
            steps.append(pruned)
            return pruned, more

        monkeypatch.setattr(caps.showings, "_prune", counted)
        caps.showings.start()
        for number in range(220):
            await caps.shown(f"u{number}", "once", "i1")
        clock.now += 24 * HOUR
        await asyncio.to_thread(until, lambda: caps.showings.rows == 0)
        caps.showings.stop()

    asyncio.run(story())
    assert max(steps) == 50
    assert sum(steps) == 220


def test_one_memory_holds_for_all_caps() -> None:
    build = Path("build")
    span = HardCap(campaign="daily", cap=1, span_seconds=60)
    with pytest.raises(KreachError, match="span_seconds must be left out of caps with memory_ho"):
        GatewaySettings(build=build, caps=(span,), memory_hours=24)
    for hours in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(KreachError, match="memory_hours must be from"):
            GatewaySettings(build=build, memory_hours=hours)
    assert GatewaySettings(build=build, memory_hours=0.5).memory_seconds == 1_800.0
    assert GatewaySettings(build=build).memory_seconds is None


def test_the_release_tells_the_buyer_the_hours_and_the_gateway_keeps_to_them(
    tmp_path: Path,
) -> None:
    people = People(np.full(len(IDS), 3))
    groups = form_groups(people, 10, AtRandom(), 1)
    released = release(
        people, groups, key=KEY, buyer="acme", version="v1", now=NOW, memory_hours=24.0
    )
    facts = {"version": "v1", "group_size": 10, "strategy": "random"}
    write_build(tmp_path / "build", IDS, people, groups, released, KEY, facts)
    assert read_catalogue(tmp_path / "build" / "release").memory_hours == 24.0
    settings = GatewaySettings(build=tmp_path / "build", memory_hours=24.0)
    assert check(settings)["memory_hours"] == 24.0
    for other in (None, 25.0):
        with pytest.raises(KreachError, match="memory_hours must be 24, as the release tells"):
            check(GatewaySettings(build=tmp_path / "build", memory_hours=other))
    with pytest.raises(KreachError, match="memory_hours must be a number > 0"):
        release(people, groups, key=KEY, buyer="a", version="v", now=NOW, memory_hours=0.0)


def test_a_release_that_states_nothing_goes_with_any_memory(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    assert "memory_hours" not in (build / "release" / "catalogue.json").read_text()
    assert check(GatewaySettings(build=build, memory_hours=1.0))["memory_hours"] == 1.0
