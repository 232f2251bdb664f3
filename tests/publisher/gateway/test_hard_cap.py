"""The hard cap: spans, repeats, holds, and what happens when the store fails or is killed."""

import asyncio
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.errors import KreachError
from kreach.publisher.gateway import GatewaySettings, HardCap, check, hard_cap, showings
from kreach.publisher.gateway.hard_cap import HardCaps, Holds
from kreach.publisher.gateway.showings import FILE, StoreUnavailable
from kreach.service.web import App
from tests.publisher.gateway.sample_gateways import (
    IDS,
    ManualClock,
    Reply,
    ask,
    gateway_process,
    replies_to,
    running_app,
    sample_gateway,
    serve_on_socket,
    until,
    write_sample_build,
)

ONCE = HardCap(campaign="once", cap=1)
DAILY = HardCap(campaign="daily", cap=2, span_seconds=86_400)
OFF = HardCap(campaign="off", cap=1, enabled=False)
ALL = ["once", "free", "daily", "off"]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_build(tmp_path_factory.mktemp("builds") / "one")


def capped(build: Path, store: Path, lines: list[str] | None = None, **options: Any) -> App:
    return sample_gateway(build, lines, **{"store": store, "caps": (ONCE, DAILY, OFF), **options})


def allow(user: str, campaigns: list[str], **options: Any) -> tuple[str, object]:
    return "POST /v1/allow", {"user_id": user, "campaigns": campaigns, **options}


def shown(user: str, campaign: str, impression: str) -> tuple[str, object]:
    body = {"user_id": user, "campaign": campaign, "impression_id": impression}
    return "POST /v1/shown", body


def documents(replies: list[Reply]) -> list[Any]:
    assert {reply.status for reply in replies} == {200}
    return [reply.document for reply in replies]


def test_a_user_at_the_cap_is_dropped_and_others_are_not(build: Path, tmp_path: Path) -> None:
    app = capped(build, tmp_path)
    answers = documents(
        replies_to(
            app,
            allow("ann", ALL),
            shown("ann", "once", "i1"),
            shown("ann", "daily", "i1"),
            allow("ann", [*ALL, "daily", "daily"]),
            shown("ann", "daily", "i2"),
            allow("ann", ALL),
            allow("bob", ALL),
            shown("ann", "free", "i1"),
            shown("ann", "off", "i1"),
            allow("ann", []),
        )
    )
    recorded, ignored = {"capped": True, "recorded": True}, {"capped": False, "recorded": False}
    assert answers == [
        {"allowed": ALL},
        recorded,
        recorded,
        {"allowed": ["free", "daily", "off"]},
        recorded,
        {"allowed": ["free", "off"]},
        {"allowed": ALL},
        ignored,
        ignored,
        {"allowed": []},
    ]
    metrics = replies_to(app, ("GET /metrics", b""))[0].body.decode().splitlines()
    assert 'kreach_gateway_capped_total{campaign="once"} 2.0' in metrics
    assert 'kreach_gateway_capped_total{campaign="daily"} 1.0' in metrics
    assert 'kreach_gateway_showings_total{campaign="daily"} 2.0' in metrics
    assert "kreach_gateway_store_rows 3.0" in metrics


def test_an_impression_counts_once_for_its_user_and_campaign(build: Path, tmp_path: Path) -> None:
    first, again, other, more, free = documents(
        replies_to(
            capped(build, tmp_path),
            shown("ann", "daily", "i1"),
            shown("ann", "daily", "i1"),
            shown("bob", "daily", "i1"),  # an exchange may number impressions in each request anew
            shown("ann", "once", "i1"),
            allow("ann", ["daily"]),
        )
    )
    assert [d["recorded"] for d in (first, again, other, more)] == [True, False, True, True]
    assert free == {"allowed": ["daily"]}


def test_a_span_rolls_to_the_microsecond(build: Path, tmp_path: Path) -> None:
    clock = ManualClock()
    app = capped(build, tmp_path, clock=clock)

    async def story() -> None:
        async with running_app(app):
            for at, impression in ((0.0, "i1"), (3_600.0, "i2")):
                clock.now = 1_000_000.0 + at
                await ask(app, *shown("ann", "daily", impression))
                await ask(app, *shown("ann", "once", impression))
            for at, free in ((86_399.999_999, []), (86_400.0, ["daily"])):
                clock.now = 1_000_000.0 + at
                reply = await ask(app, *allow("ann", ["daily", "once"]))
                assert reply.document["allowed"] == free
            await ask(app, *shown("ann", "daily", "i3"))
            assert (await ask(app, *allow("ann", ["daily"]))).document["allowed"] == []

    asyncio.run(story())


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["allow", "shown"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["once", "daily", "free"]),
        st.integers(0, 6),
        st.sampled_from([0.0, 1.0, 40_000.0]),
    ),
    max_size=25,
)


def test_the_cap_agrees_with_counting(tmp_path: Path) -> None:
    """Any story of showings and questions, against a list of what happened."""

    @settings(max_examples=40)
    @given(ACTS)
    def agrees(acts: list[tuple[str, str, str, int, float]]) -> None:
        asyncio.run(told(acts))

    async def told(acts: list[tuple[str, str, str, int, float]]) -> None:
        told.number += 1  # type: ignore[attr-defined]
        clock = ManualClock()
        caps = HardCaps(tmp_path / str(told.number), (ONCE, DAILY), 30.0, clock)  # type: ignore[attr-defined]
        caps.showings.start()
        happened: dict[tuple[str, str, int], float] = {}
        for act, user, campaign, impression, passed in acts:
            clock.now += passed
            hard = {"once": ONCE, "daily": DAILY}.get(campaign)
            if act == "shown":
                new = hard is not None and (user, campaign, impression) not in happened
                assert await caps.shown(user, campaign, str(impression)) == new
                if new:
                    happened[user, campaign, impression] = clock.now
                continue
            span = 86_400.0 if campaign == "daily" else 1e12
            seen = [
                at
                for (who, what, _), at in happened.items()
                if (who, what) == (user, campaign) and at > clock.now - span
            ]
            free = hard is None or len(seen) < hard.cap
            assert caps.allowed(user, [campaign]) == ([campaign] if free else [])
        caps.showings.stop()

    told.number = 0  # type: ignore[attr-defined]
    agrees()


def test_it_remembers_over_a_restart_and_a_new_catalogue(build: Path, tmp_path: Path) -> None:
    replies_to(capped(build, tmp_path / "store"), shown("ann", "once", "i1"))
    other = write_sample_build(tmp_path / "other", "v2", seed=3)
    repeat, free = documents(
        replies_to(
            capped(other, tmp_path / "store"), shown("ann", "once", "i1"), allow("ann", ["once"])
        )
    )
    assert (repeat["recorded"], free) == (False, {"allowed": []})


def test_a_clock_that_was_set_back_does_not_reopen_a_span(build: Path, tmp_path: Path) -> None:
    """The store's latest time carries the clock over a restart."""
    ahead = ManualClock(2_000_000_000.0)
    brief = HardCap(campaign="brief", cap=1, span_seconds=300_000_000)
    replies_to(capped(build, tmp_path, clock=ahead, caps=(brief,)), shown("ann", "brief", "i1"))
    app = capped(build, tmp_path, caps=(brief,))
    assert documents(replies_to(app, allow("ann", ["brief"]))) == [{"allowed": []}]
    caps = HardCaps(tmp_path, (brief,), 30.0)
    assert caps.now_us() >= 2_000_000_000_000_000


def test_old_rows_are_pruned(build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no span needs go; a whole flight's and a listed but disabled campaign's stay."""
    clock = ManualClock()
    caps = [HardCap(campaign=name, cap=9) for name in ("flight", "off", "gone")]
    daily = HardCap(campaign="daily", cap=9, span_seconds=86_400)
    rows = [shown(f"u{i}", c, "i") for i in range(30) for c in ("flight", "off", "gone", "daily")]
    replies_to(capped(build, tmp_path, caps=(*caps, daily), clock=clock), *rows)
    monkeypatch.setattr(showings, "MAX_PRUNED", 7)

    def left(now: float) -> dict[str, int]:
        clock.now = now
        off = HardCap(campaign="off", cap=9, enabled=False)
        app = capped(build, tmp_path, caps=(caps[0], off, daily), clock=clock)
        replies_to(app, ("GET /healthz", b""), *[shown("late", "flight", "i")] * 40)
        with sqlite3.connect(tmp_path / FILE) as database:
            query = "SELECT campaign, count(*) FROM showing GROUP BY 1"
            counts = dict(database.execute(query).fetchall())
        database.close()
        return counts

    assert left(1_000_000.0 + 86_399) == {"flight": 31, "off": 30, "gone": 30, "daily": 30}
    assert left(1_000_000.0 + 86_400) == {"flight": 31, "off": 30, "gone": 30}
    past = 1_000_000.0 + hard_cap.UNLISTED_SECONDS
    assert left(past) == {"flight": 31, "off": 30}


def test_many_showings_share_a_transaction(build: Path, tmp_path: Path) -> None:
    app = capped(build, tmp_path)

    async def story() -> str:
        async with running_app(app):
            calls = (ask(app, *shown(f"u{i}", "once", "i")) for i in range(600))
            replies = await asyncio.gather(*calls)
            assert all(reply.document["recorded"] for reply in replies)
            return (await ask(app, "GET /metrics")).body.decode()

    lines = dict(
        line.rsplit(" ", 1) for line in asyncio.run(story()).splitlines() if line[0] != "#"
    )
    assert lines["kreach_gateway_store_rows"] == "600.0"
    assert float(lines["kreach_gateway_store_batches"]) < 60


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """Killing a process does not show it; only a power cut would."""

    async def story() -> None:
        caps = HardCaps(tmp_path, (ONCE,), 30.0)
        caps.showings.start()
        assert await caps.shown("ann", "once", "i1")
        database = caps.showings.database
        assert database is not None
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        caps.showings.stop()

    asyncio.run(story())


def test_a_writer_that_meets_the_unforeseen_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        caps = HardCaps(
            tmp_path, (ONCE,), 30.0, clock := ManualClock(1e15)
        )  # no time a row could hold
        caps.showings.start()
        with pytest.raises(StoreUnavailable, match="the store cannot be written: OverflowError"):
            await caps.shown("ann", "once", "i1")
        clock.now = 1e6
        assert await caps.shown("ann", "once", "i1")
        assert caps.showings.failure is None
        caps.showings.stop()
        with pytest.raises(StoreUnavailable, match="the store is not open"):
            await caps.shown("ann", "once", "i2")
        monkeypatch.setattr(showings, "MAX_WAITING", 0)
        caps.showings.start()
        with pytest.raises(StoreUnavailable, match="too many showings are waiting"):
            await caps.shown("ann", "once", "i2")
        caps.showings.stop()

    asyncio.run(story())


def test_without_a_hold_two_page_loads_may_both_be_allowed(build: Path, tmp_path: Path) -> None:
    both = replies_to(capped(build, tmp_path), allow("ann", ["once"]), allow("ann", ["once"]))
    assert documents(both) == [{"allowed": ["once"]}] * 2


def test_a_hold_is_taken_by_one_of_many(build: Path, tmp_path: Path) -> None:
    clock = ManualClock()
    app = capped(build, tmp_path, clock=clock, hold_seconds=5)

    async def free(**options: Any) -> list[str]:
        reply = await ask(app, *allow("ann", ["once", "daily"], **options))
        allowed: list[str] = reply.document["allowed"]
        return allowed

    async def story() -> None:
        async with running_app(app):
            asked = await asyncio.gather(*(free(hold=True) for _ in range(20)))
            assert sum("once" in allowed for allowed in asked) == 1
            assert sum("daily" in allowed for allowed in asked) == 2
            assert await free() == []
            clock.now += 5.0  # nothing was shown: the holds end
            assert await free(hold=True) == ["once", "daily"]
            await ask(app, *shown("ann", "once", "i1"))  # turns the hold into a showing
            await ask(app, *shown("ann", "daily", "i1"))
            assert await free() == ["daily"]
            metrics = (await ask(app, "GET /metrics")).body.decode()
            assert "kreach_gateway_holds 0.0" in metrics

    asyncio.run(story())


def test_with_holds_no_interleaving_goes_over_the_cap(build: Path, tmp_path: Path) -> None:
    """Page loads at once over real HTTP: ask with a hold, show what is allowed."""
    app = capped(build, tmp_path, caps=(HardCap(campaign="three", cap=3),))
    users = ["ann", "bob", "cyd"]
    seen: list[str] = []

    def load(url: str, number: int) -> None:
        with httpx.Client(base_url=url) as client:
            for step in range(12):
                user = users[(number + step) % 3]
                _, body = allow(user, ["three"], hold=True)
                if client.post("/v1/allow", json=body).json()["allowed"]:
                    _, body = shown(user, "three", f"{number}-{step}")
                    assert client.post("/v1/shown", json=body).json()["recorded"]
                    seen.append(user)

    with serve_on_socket(app) as url:
        threads = [threading.Thread(target=load, args=(url, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert sorted(seen) == sorted(users * 3)


def test_holds_end_and_are_released_one_by_one() -> None:
    holds = Holds(2.0)
    holds.take(b"bob", 0)
    for at_us in (0, 1_000_000, 1_500_000):
        holds.take(b"ann", at_us)
    assert (holds.count(b"ann", 1_999_999), holds.count(b"bob", 1_999_999)) == (3, 1)
    holds.release(b"ann")
    assert holds.count(b"ann", 1_999_999) == 2
    assert (holds.count(b"ann", 2_000_000), holds.count(b"bob", 2_000_000)) == (2, 0)
    assert holds.count(b"ann", 3_000_000) == 1
    holds.release(b"ann")
    holds.release(b"ann")
    assert (holds.count(b"ann", 0), len(holds)) == (0, 0)


def test_two_gateways_may_share_a_store(build: Path, tmp_path: Path) -> None:
    one, two = capped(build, tmp_path), capped(build, tmp_path)

    async def story() -> None:
        async with running_app(one), running_app(two):
            calls = (ask(s, *shown(f"u{i}", "once", "i")) for i in range(50) for s in (one, two))
            replies = await asyncio.gather(*calls)
            assert {reply.status for reply in replies} == {200}
            assert sum(reply.document["recorded"] for reply in replies) == 50
            for app in (one, two):
                assert (await ask(app, *allow("u7", ["once"]))).document == {"allowed": []}

    asyncio.run(story())


TOML = """
build = "build"
store = "store"
caps = [{campaign = "once", cap = 1}, {campaign = "many", cap = 1000000, span_seconds = 3600}]
"""


def test_nothing_acknowledged_is_lost_when_it_is_killed(tmp_path: Path) -> None:
    write_sample_build(tmp_path / "build")
    acknowledged: list[str] = []
    tried: list[str] = []

    def show(url: str, name: str) -> None:
        with httpx.Client(base_url=url) as client:
            for number in range(100_000):
                tried.append(f"{name}-{number}")
                _, body = shown("ann", "many", f"{name}-{number}")
                try:
                    reply = client.post("/v1/shown", json=body)
                except httpx.HTTPError:
                    return
                assert reply.json()["recorded"]
                acknowledged.append(f"{name}-{number}")

    for life in range(2):
        before = len(acknowledged)
        with gateway_process(tmp_path, TOML) as process:
            threads = [
                threading.Thread(target=show, args=(process.url, f"{life}{n}")) for n in range(6)
            ]
            for thread in threads:
                thread.start()
            until(lambda before=before: len(acknowledged) > before + 150)  # type: ignore[misc]
            process.end()
            for thread in threads:
                thread.join(20)
    with sqlite3.connect(tmp_path / "store" / FILE) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = database.execute("SELECT count(*) FROM showing").fetchone()[0]
    database.close()
    assert len(acknowledged) <= rows <= len(tried)

    async def story() -> None:
        app = capped(
            tmp_path / "build", tmp_path / "store", caps=(HardCap(campaign="many", cap=1),)
        )
        async with running_app(app):
            replies = [await ask(app, *shown("ann", "many", i)) for i in acknowledged[::7]]
            assert not any(reply.document["recorded"] for reply in replies)

    asyncio.run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="another process's limits cannot be set")
def test_a_disk_that_takes_no_more_is_said_and_got_over(tmp_path: Path) -> None:
    """The limit on a file's size makes every write fail, as a full disk does."""
    import resource

    write_sample_build(tmp_path / "build")
    with (
        gateway_process(tmp_path, TOML) as process,
        httpx.Client(base_url=process.url) as client,
    ):

        def post(asked: tuple[str, Any]) -> httpx.Response:
            return client.post(asked[0].split(" ")[1], json=asked[1])

        unlimited = resource.RLIM_INFINITY
        assert post(shown("ann", "once", "i1")).status_code == 200
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (1, unlimited))
        reply = post(shown("bob", "once", "i1"))
        assert reply.status_code == 503
        assert reply.json()["error"]["message"].startswith("the store cannot be written: ")
        assert reply.headers["retry-after"] == "1"
        health = client.get("/healthz")
        assert (health.status_code, health.json()["hard_cap"]) == (503, "failing")
        assert health.json()["why"] == reply.json()["error"]["message"]
        assert "kreach_gateway_store_down 1.0" in client.get("/metrics").text
        assert post(("POST /v1/identify", {"user_id": IDS[0]})).status_code == 200
        assert post(allow("bob", ["free"])).json() == {"allowed": ["free"]}
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        until(lambda: client.get("/healthz").status_code == 200)  # without a showing
        assert post(allow("ann", ["once"])).json() == {"allowed": []}
        assert post(allow("bob", ["once"])).json() == {"allowed": ["once"]}
        assert post(shown("bob", "once", "i1")).json()["recorded"]
        assert post(allow("bob", ["once"])).json() == {"allowed": []}


def test_a_store_that_is_damaged_under_way_is_said(build: Path, tmp_path: Path) -> None:
    app = capped(build, tmp_path)

    async def story() -> None:
        async with running_app(app):
            await ask(app, *shown("ann", "once", "i1"))
            for path in tmp_path.glob(f"{FILE}*"):
                path.write_bytes(b"no database" * 1_000)
            replies = [await ask(app, *shown(f"u{i}", "once", "i")) for i in range(3)]
            assert {reply.status for reply in replies} == {503}
            assert (await ask(app, *allow("ann", ["once"]))).status == 503
            assert (await ask(app, *allow("ann", ["free"]))).status == 200
            assert (await ask(app, "GET /healthz")).status == 503
            assert (await ask(app, "POST /v1/identify", {"user_id": "ann"})).status == 200

    asyncio.run(story())


WRONG = [
    ("allow", {"user_id": "CANARY"}, "campaigns is required"),
    ("allow", {"campaigns": []}, "user_id is required"),
    ("allow", {"user_id": "CANARY", "campaigns": "x"}, "campaigns: Expected `array`, got `str`"),
    ("allow", {"user_id": "CANARY", "campaigns": [1]}, "campaigns[0]: Expected `str`, got `int`"),
    (
        "allow",
        {"user_id": "CANARY", "campaigns": ["x"] * 1_001},
        "campaigns: Expected `array` of length <= 1000",
    ),
    (
        "allow",
        {"user_id": "CANARY", "campaigns": [], "hold": 1},
        "hold: Expected `bool`, got `int`",
    ),
    ("allow", {"user_id": "CANARY\0", "campaigns": []}, "user_id must not contain a NUL character"),
    (
        "shown",
        {"user_id": "CANARY", "campaign": "once"},
        "impression_id is required",
    ),
    (
        "shown",
        {"user_id": "CANARY", "campaign": "once", "impression_id": "CANARY\0"},
        "impression_id must not contain a NUL character",
    ),
    (
        "shown",
        {"user_id": "CANARY", "campaign": "", "impression_id": "1"},
        "campaign: Expected `str` of length >= 1",
    ),
    (
        "shown",
        {"user_id": "CANARY", "campaign": "once", "impression_id": 5},
        "impression_id: Expected `str`, got `int`",
    ),
]


@pytest.mark.parametrize(("route", "body", "error"), WRONG)
def test_wrong_questions_are_refused_without_an_echo(
    build: Path, tmp_path: Path, route: str, body: object, error: str
) -> None:
    reply = replies_to(capped(build, tmp_path), (f"POST /v1/{route}", body))[0]
    assert (reply.status, reply.document["error"]["message"]) == (400, error)


def test_without_caps_everything_is_allowed_and_nothing_kept(build: Path, tmp_path: Path) -> None:
    app = sample_gateway(build, store=tmp_path / "store", caps=(OFF,))
    answers = documents(replies_to(app, shown("ann", "off", "i"), allow("ann", ["off", "x"])))
    assert answers == [{"capped": False, "recorded": False}, {"allowed": ["off", "x"]}]
    assert not (tmp_path / "store").exists()


def test_no_user_id_is_in_answers_logs_metrics_or_the_store(tmp_path: Path) -> None:
    canaries = [f"CANARY-{i}-Zq" for i in range(40)]
    write_sample_build(tmp_path / "build", ids=[*canaries[:20], *IDS])
    answers = b""
    with gateway_process(tmp_path, TOML) as process, httpx.Client(base_url=process.url) as client:
        for user in canaries:
            for path, body in (
                ("identify", {"user_id": user}),
                ("allow", {"user_id": user, "campaigns": ["once", "many", "free"], "hold": True}),
                ("shown", {"user_id": user, "campaign": "once", "impression_id": user}),
                ("shown", {"user_id": user, "campaign": "many", "impression_id": user}),
                ("shown", {"user_id": user, "campaign": "free", "impression_id": user}),
                ("identify", {"user_id": [user]}),
                ("shown", {"user_id": user, user: user}),
                (user, {"user_id": user}),
            ):
                answers += client.post(f"/v1/{path}", json=body).content
            answers += client.get(f"/v1/identify?user_id={user}").content
            answers += client.post("/v1/identify", content=user.encode()).content
        answers += client.get("/metrics").content + client.get("/healthz").content
        stored = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
        assert len(stored[FILE]) + len(stored[f"{FILE}-wal"]) > 10_000
        process.end()
    for content in (answers, process.log_path.read_bytes(), *stored.values()):
        assert b"CANARY" not in content.replace(b"\0", b"")
        for user in canaries[:3]:
            assert user.encode("utf-16-le") not in content


def test_the_store_is_closed_to_others_and_its_names_need_the_key(
    build: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    replies_to(capped(build, store), shown("ann", "once", "i1"), shown("ann", "daily", "i1"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.iterdir()}
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert modes == {"key": 0o600, FILE: 0o600}
    with sqlite3.connect(store / FILE) as database:
        users = database.execute("SELECT DISTINCT user FROM showing").fetchall()
    database.close()
    assert len(users) == 2  # not linked from campaign to campaign
    other = capped(build, tmp_path / "other")
    replies_to(other, shown("ann", "once", "i1"))
    assert (store / "key").read_bytes() != (tmp_path / "other" / "key").read_bytes()


def lose_key(store: Path) -> None:
    (store / "key").unlink()


def spoil_key(store: Path) -> None:
    (store / "key").write_text("00ff\n")


def open_key(store: Path) -> None:
    (store / "key").chmod(0o644)


def foreign_file(store: Path) -> None:
    (store / FILE).unlink()
    with sqlite3.connect(store / FILE) as database:
        database.execute("CREATE TABLE other (x)")
    database.close()


def no_database(store: Path) -> None:
    (store / FILE).write_bytes(b"x" * 5_000)


DAMAGES = {
    lose_key: "store must hold the key that showings.sqlite was written with",
    spoil_key: "store must hold a key of 32 bytes in hexadecimal",
    open_key: r"store must hold a key that others cannot read \(mode 0600\)",
    foreign_file: "showings.sqlite is the database of another program",
    no_database: "store must hold a showings.sqlite of this gateway",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_store_that_is_not_ours_is_refused(build: Path, tmp_path: Path, damage: Any) -> None:
    replies_to(capped(build, tmp_path), shown("ann", "once", "i1"))
    damage(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KreachError, match=DAMAGES[damage]):
        capped(build, tmp_path)
    with pytest.raises(KreachError, match=DAMAGES[damage]):
        check(GatewaySettings(build=build, store=tmp_path, caps=(ONCE,)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
