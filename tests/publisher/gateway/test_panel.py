"""The panel of a running gateway: what it counts, when it releases, what a crash leaves."""

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kreach.boundary.correction import read_corrections
from kreach.errors import KreachError
from kreach.publisher.gateway import GatewaySettings
from kreach.publisher.gateway.panel import PANEL_FOLDER, GatewayPanel, due_ends
from kreach.publisher.gateway.settings import PanelSettings
from kreach.publisher.gateway.showings import FILE
from kreach.publisher.panel.differences import PanelDifferences, PanelShowings
from kreach.publisher.panel.ledger import PanelLedger, close_panels
from kreach.publisher.panel.offline import LEDGER, panel_key
from kreach.publisher.panel.release import Floors, PanelPublisher
from kreach.publisher.panel.sample import Panel, choose_panel
from kreach.publisher.store import read_group_lookup, read_panel_build
from kreach.service.metrics import Metrics
from tests.publisher.gateway.sample_gateways import (
    IDS,
    ManualClock,
    ask,
    gateway_process,
    log_to,
    running_app,
    sample_gateway,
    swap_link,
    until,
    write_sample_build,
)
from tests.publisher.panel.worlds import no_noise

DAY = 86_400.0
START = 20_000 * DAY  # a midnight


def settings(folder: Path, **more: Any) -> PanelSettings:
    given: dict[str, Any] = {
        "share": 0.5,
        "out": folder / "corrections.json",
        "min_people": 20,
        "min_reach": 5,
    }
    return PanelSettings(**(given | more))


def panel_of(build: Path, campaign: str = "spring", share: float = 0.5) -> Panel:
    found = read_panel_build(build)
    return choose_panel(found.catalogue, found.visits, share, panel_key(found.key), campaign)


def showing(user: str, campaign: str, impression: str) -> tuple[str, dict[str, str]]:
    body = {"user_id": user, "campaign": campaign, "impression_id": impression}
    return "POST /v1/shown", body


def exact_totals(
    build: Path, shown: list[tuple[str, float]], campaign: str = "spring"
) -> np.ndarray:
    """Truth less model from what was shown, by the code that reads files."""
    lookup, panel = read_group_lookup(build), panel_of(build, campaign)
    catalogue = read_panel_build(build).catalogue
    place = panel.positions()
    rows = [
        (IDS.index(user), place[catalogue.groups.index(lookup.identify(user).group)], at)
        for user, at in shown
    ]
    inside = np.array([row for row in rows if row[1] >= 0])
    person, where, at = inside.T
    showings = PanelShowings(
        person.astype(np.int64), where.astype(np.int64), (at * 1e6).astype(np.int64)
    )
    return PanelDifferences.counted(catalogue, panel, showings, 4).totals()


async def show(app: Any, clock: ManualClock, days: int, per_day: int) -> list[tuple[str, float]]:
    """Showings over some days, each of them reported twice."""
    chance = np.random.default_rng(2)
    shown = []
    for day in range(days):
        for number in range(per_day):
            clock.now = START + day * DAY + 60.0 * number
            user = IDS[int(chance.integers(0, 60))]
            for _ in range(2):
                reply = await ask(app, *showing(user, "spring", f"{day}-{number}"))
                assert reply.status == 200
            shown.append((user, clock.now))
    return shown


def test_it_releases_what_the_showings_say(tmp_path: Path) -> None:
    """Without noise: the file holds exactly truth − model of what was acknowledged."""
    build = write_sample_build(tmp_path / "build")
    clock, metrics = ManualClock(START), Metrics("gateway")
    panel = GatewayPanel(settings(tmp_path), tmp_path / "store", log_to(), metrics, clock, no_noise)
    panel.load(build)
    lookup = read_group_lookup(build)
    chance = np.random.default_rng(5)
    shown: list[tuple[str, float]] = []

    async def story() -> None:
        panel.showings.start()
        for number in range(300):
            clock.now = START + 700.0 * number
            user = IDS[int(chance.integers(0, 120))]
            for _ in range(2):  # repeated reports count once
                await panel.shown(user, "spring", f"i{number}", "v1", lookup.identify(user).group)
            shown.append((user, clock.now))
        await asyncio.to_thread(panel.showings.stop)

    asyncio.run(story())
    clock.now = START + 2 * DAY + 599.0
    assert [len(each.releases) for each in panel.release_due()] == [1]  # the first day is over
    clock.now = START + 3 * DAY + 601.0
    panel.release_due()
    found = read_corrections(tmp_path / "corrections.json")
    assert [each.campaign for each in found] == ["spring"]
    releases = found[0].releases
    assert [each.end.timestamp() for each in releases] == [START + DAY, START + 3 * DAY]
    first = [each for each in shown if each[1] < START + DAY]
    np.testing.assert_allclose(releases[0].differences, exact_totals(build, first), atol=0.01)
    np.testing.assert_allclose(releases[1].differences, exact_totals(build, shown), atol=0.01)


def test_a_set_of_campaigns_is_counted_as_one(tmp_path: Path) -> None:
    """It has a panel of its own, and two campaigns may use the same impression ids."""
    build = write_sample_build(tmp_path / "build")
    clock, metrics = ManualClock(START), Metrics("gateway")
    given = settings(tmp_path, together=(("summer", "spring"),))
    panel = GatewayPanel(given, tmp_path / "store", log_to(), metrics, clock, no_noise)
    panel.load(build)
    lookup = read_group_lookup(build)
    chance = np.random.default_rng(6)
    shown: dict[str, list[tuple[str, float]]] = {"spring": [], "summer": [], "autumn": []}

    async def story() -> None:
        panel.showings.start()
        for number in range(300):
            clock.now = START + 200.0 * number
            user = IDS[int(chance.integers(0, 120))]
            for campaign, seen in shown.items():
                for _ in range(2):
                    group = lookup.identify(user).group
                    await panel.shown(user, campaign, f"i{number}", "v1", group)
                seen.append((user, clock.now))
        await asyncio.to_thread(panel.showings.stop)

    asyncio.run(story())
    clock.now = START + DAY + 601.0
    found = {each.campaign: each for each in panel.release_due()}
    assert set(found) == {"spring", "summer", "autumn", "spring + summer"}
    both = exact_totals(build, shown["spring"] + shown["summer"], "spring + summer")
    differences = found["spring + summer"].releases[0].differences
    np.testing.assert_allclose(differences, both, atol=0.01)
    alone = exact_totals(build, shown["summer"], "summer")
    np.testing.assert_allclose(found["summer"].releases[0].differences, alone, atol=0.01)


def test_nothing_of_people_outside_the_panel_is_kept(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    clock = ManualClock(START)
    app = sample_gateway(
        build, store=tmp_path / "store", clock=clock, panel=settings(tmp_path, late_seconds=0.0)
    )

    async def story() -> list[tuple[str, float]]:
        async with running_app(app):
            return await show(app, clock, 2, 60)

    shown = asyncio.run(story())
    lookup, panel = read_group_lookup(build), panel_of(build)
    groups = read_panel_build(build).catalogue.groups
    inside = {groups[at] for at in panel.groups}
    expected = sum(lookup.identify(user).group in inside for user, _ in shown)
    file = tmp_path / "store" / PANEL_FOLDER / FILE
    with sqlite3.connect(file) as database:
        rows = database.execute("SELECT user, campaign, shown_as FROM showing").fetchall()
    database.close()
    assert len(rows) == expected > 20
    held = file.read_bytes()
    assert not any(user.encode() in held for user in IDS[:60])
    assert {row[2].split(" ")[1] for row in rows} == {"v1"}


def test_only_campaigns_that_are_named_are_counted(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    metrics = Metrics("gateway")
    app = sample_gateway(
        build,
        store=tmp_path / "store",
        metrics=metrics,
        panel=settings(tmp_path, campaigns=("spring",), share=1.0),
    )

    async def story() -> None:
        async with running_app(app):
            for number, campaign in enumerate(["spring", "summer"] * 5):
                assert (await ask(app, *showing(IDS[3], campaign, f"{number}"))).status == 200
            assert (await ask(app, "GET /healthz")).document["panel"] == "on"

    asyncio.run(story())
    shown = metrics.render().decode()
    assert 'kreach_gateway_panel_showings_total{campaign="spring"} 5' in shown
    assert "summer" not in shown


def test_a_new_catalogue_has_a_panel_of_its_own(tmp_path: Path) -> None:
    one = write_sample_build(tmp_path / "one")
    two = write_sample_build(tmp_path / "two", "v2", seed=2)
    link = tmp_path / "current"
    link.symlink_to(one)
    clock = ManualClock(START)
    app = sample_gateway(
        link,
        store=tmp_path / "store",
        clock=clock,
        reload_seconds=0.05,
        panel=settings(tmp_path, share=1.0),
    )

    async def story() -> None:
        async with running_app(app):
            for number in range(40):
                await ask(app, *showing(IDS[number], "spring", f"a{number}"))
            swap_link(link, two)
            async with asyncio.timeout(120):
                while (await ask(app, "GET /healthz")).document["catalogue"] != "v2":
                    await asyncio.sleep(0.02)
            for number in range(60):
                await ask(app, *showing(IDS[number], "spring", f"b{number}"))

    asyncio.run(story())
    with sqlite3.connect(tmp_path / "store" / PANEL_FOLDER / FILE) as database:
        rows = Counter(
            row[0].split(" ")[1] for row in database.execute("SELECT shown_as FROM showing")
        )
    database.close()
    assert rows == {"v1": 40, "v2": 60}


def test_showings_of_campaigns_that_are_over_are_erased(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    clock = ManualClock(START)
    panel = GatewayPanel(
        settings(tmp_path, share=1.0, quiet_days=3.0),
        tmp_path / "store",
        log_to(),
        Metrics("gateway"),
        clock,
        no_noise,
    )
    panel.load(build)
    lookup = read_group_lookup(build)

    async def story() -> None:
        panel.showings.start()
        for user in IDS:
            await panel.shown(user, "spring", user, "v1", lookup.identify(user).group)
        clock.now = START + DAY + 700.0
        before = await asyncio.to_thread(panel.release_due)
        clock.now = START + 5 * DAY
        await asyncio.to_thread(panel.release_due)
        panel.showings._prune_due = 0.0  # in a minute, otherwise
        await panel.shown(IDS[0], "other", "1", "v1", lookup.identify(IDS[0]).group)
        async with asyncio.timeout(120):
            while panel.showings.rows != 1:
                await asyncio.sleep(0.05)
        after = await asyncio.to_thread(panel.release_due)
        assert after[-1].releases[0] == before[0].releases[0]  # what was said stays said
        await asyncio.to_thread(panel.showings.stop)

    asyncio.run(story())


def gateway_panel(folder: Path, build: Path, clock: ManualClock, **more: Any) -> GatewayPanel:
    panel = GatewayPanel(
        settings(folder, share=1.0, **more),
        folder / "store",
        log_to(),
        Metrics("g"),
        clock,
        no_noise,
    )
    panel.load(build)
    return panel


def count(panel: GatewayPanel, build: Path, users: list[str], name: str) -> None:
    """Show a campaign to people, between a start and a stop of the panel's store."""
    lookup = read_group_lookup(build)
    version = lookup.version

    async def story() -> None:
        panel.showings.start()
        for user in users:
            group = lookup.identify(user).group
            await panel.shown(user, "spring", f"{name} {user}", version, group)
        await asyncio.to_thread(panel.showings.stop)

    asyncio.run(story())


def test_a_day_without_showings_has_no_release(tmp_path: Path) -> None:
    build, clock = write_sample_build(tmp_path / "build"), ManualClock(START)
    panel = gateway_panel(tmp_path, build, clock)
    count(panel, build, IDS, "first")
    for day in (1, 2, 3):
        clock.now = START + day * DAY + 700.0
        assert [len(each.releases) for each in panel.release_due()] == [1]
    count(panel, build, IDS[:30], "later")  # on the fourth day
    clock.now = START + 4 * DAY + 700.0
    found = panel.release_due()[0]
    assert [each.end.timestamp() for each in found.releases] == [START + DAY, START + 4 * DAY]


def test_a_campaign_that_comes_back_after_its_showings_were_erased(tmp_path: Path) -> None:
    """What is left cannot be compared with what was released: nothing more is."""
    build, clock = write_sample_build(tmp_path / "build"), ManualClock(START)
    panel = gateway_panel(tmp_path, build, clock)
    count(panel, build, IDS, "first")
    clock.now = START + DAY + 700.0
    before = panel.release_due()
    with sqlite3.connect(tmp_path / "store" / PANEL_FOLDER / FILE) as database:
        database.execute("DELETE FROM showing")
    database.close()
    clock.now = START + 40 * DAY
    count(panel, build, IDS, "again")
    clock.now = START + 42 * DAY
    assert panel.release_due() == before


def test_corrections_of_an_older_catalogue_stay_after_a_restart(tmp_path: Path) -> None:
    one, clock = write_sample_build(tmp_path / "one"), ManualClock(START)
    two = write_sample_build(tmp_path / "two", "v2", seed=2)
    first = gateway_panel(tmp_path, one, clock)
    count(first, one, IDS, "first")
    clock.now = START + DAY + 700.0
    before = first.release_due()
    second = gateway_panel(tmp_path, two, clock)
    count(second, two, IDS, "second")
    clock.now = START + 2 * DAY + 700.0
    second.release_due()
    found = read_corrections(tmp_path / "corrections.json")
    assert {each.catalogue for each in found} == {"v1", "v2"}
    assert before[0] in found


def test_nothing_acknowledged_is_lost_or_counted_twice_when_it_is_killed(tmp_path: Path) -> None:
    """kill −9 under load, twice; publishers repeat what was not acknowledged."""
    build = write_sample_build(tmp_path / "build")
    toml = """
build = "build"
store = "store"
[gateway.panel]
share = 1.0
out = "corrections.json"
min_people = 20
min_reach = 5
"""
    shown: Counter[str] = Counter()
    lock = threading.Lock()

    def acknowledged(client: httpx.Client, body: Any) -> bool:
        try:
            return client.post(f"{urls[-1]}/v1/shown", json=body).status_code == 200
        except httpx.HTTPError:
            threading.Event().wait(0.02)
            return False

    def report(name: str) -> None:
        with httpx.Client(timeout=60.0, trust_env=False) as client:  # a new one takes 30 ms
            for number in range(150):
                user = IDS[(number * 7 + len(name)) % len(IDS)]
                body = showing(user, "spring", f"{name}-{number}")[1]
                while not acknowledged(client, body):  # by whichever life of the gateway
                    pass
                with lock:
                    shown[user] += 1

    urls: list[str] = []
    threads: list[threading.Thread] = []
    for life in range(3):
        with gateway_process(tmp_path, toml) as process:
            urls.append(process.url)
            if life == 0:
                threads = [threading.Thread(target=report, args=(f"{n}",)) for n in range(4)]
                for thread in threads:
                    thread.start()
            if life < 2:
                reached = sum(shown.values())
                until(lambda reached=reached: sum(shown.values()) > reached + 60)  # type: ignore[misc]
                process.end()
            else:
                for thread in threads:
                    thread.join(60)
    assert sum(shown.values()) == 600
    with sqlite3.connect(tmp_path / "store" / PANEL_FOLDER / FILE) as database:
        rows = database.execute("SELECT user, count(*) FROM showing GROUP BY user").fetchall()
    database.close()
    assert sorted(count for _, count in rows) == sorted(shown.values())
    assert build.exists()
    assert not (tmp_path / "corrections.json").exists()  # no day is over


def test_noise_is_drawn_once_whatever_happens_to_the_file(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "build")
    clock = ManualClock(START)

    def run(show_some: bool) -> dict[str, Any]:
        panel = GatewayPanel(
            settings(tmp_path, share=1.0), tmp_path / "store", log_to(), Metrics("g"), clock
        )
        panel.load(build)
        lookup = read_group_lookup(build)

        async def story() -> None:
            panel.showings.start()
            for user in IDS if show_some else ():
                await panel.shown(user, "spring", user, "v1", lookup.identify(user).group)
            await asyncio.to_thread(panel.showings.stop)

        asyncio.run(story())
        clock.now = START + 1.5 * DAY
        panel.release_due()
        document: dict[str, Any] = json.loads((tmp_path / "corrections.json").read_text())
        return document

    first = run(show_some=True)
    (tmp_path / "corrections.json").unlink()
    assert run(show_some=False) == first
    assert (tmp_path / "store" / PANEL_FOLDER / LEDGER).exists()


def test_releases_are_due_when_a_period_is_over_and_late_showings_had_time() -> None:
    first, day = round(START * 1e6) + 5, round(DAY * 1e6)
    midnight = round(START * 1e6)
    assert due_ends("day", 600.0, first, midnight + day + 599_000_000) == []
    assert due_ends("day", 600.0, first, midnight + day + 600_000_000) == [midnight + day]
    assert len(due_ends("hour", 0.0, first, midnight + day)) == 24
    assert due_ends("day", 0.0, first, first - 10) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 0.0}, "share must be above 0"),
        ({"share": 2.0}, "share must be above 0 and at most 1"),
        ({"every": "minute"}, "minute"),
        ({"max_cap": 0}, "max_cap must be a whole number from 1"),
        ({"rho": 0.0}, "rho must be"),
        ({"min_people": 0}, "min_people must be"),
        ({"quiet_days": 0.0}, "quiet_days must be above 0"),
        ({"late_seconds": -1.0}, "late_seconds must be"),
        ({"campaigns": ("",)}, "campaigns must be"),
        ({"together": (("a",),)}, "together must be sets of two or more different campaigns"),
        ({"together": (("a", "a"),)}, "together must be sets of two or more"),
        ({"together": (("a", "b"), ("b", "a"))}, "together must list each set once, got a . b"),
        ({"together": (("a", ""),)}, "together must be 1 to 256"),
        ({"campaigns": ("a",), "together": (("a", "b"),)}, "together must name campaigns that"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(KreachError, match=message):
        settings(tmp_path, **wrong)


def test_overlapping_groups_have_no_panel(tmp_path: Path) -> None:
    build = write_sample_build(tmp_path / "two", layers=2)
    with pytest.raises(KreachError, match="disjoint groups"):
        sample_gateway(build, store=tmp_path / "store", panel=settings(tmp_path))
    assert GatewaySettings(build=build, panel=settings(tmp_path)).panel is not None


def test_a_restored_panel_repeats_its_releases_and_makes_no_new_ones(tmp_path: Path) -> None:
    """What was drawn and counted since the backup is lost: it must not be drawn again."""
    build = write_sample_build(tmp_path / "build")
    clock = ManualClock(START)
    chosen = settings(tmp_path)

    def opened() -> GatewayPanel:
        made = GatewayPanel(
            chosen, tmp_path / "store", log_to(), Metrics("gateway"), clock, no_noise
        )
        made.load(build)
        return made

    async def show_all(panel: GatewayPanel, campaign: str) -> None:
        lookup = read_group_lookup(build)
        panel.showings.start()
        for number, user in enumerate(IDS):
            clock.now += 60.0
            group = lookup.identify(user).group
            await panel.shown(user, campaign, f"{clock.now}-{number}", "v1", group)
        await panel.stop()

    asyncio.run(show_all(opened(), "spring"))
    clock.now = START + DAY + 601.0
    first = opened().release_due()
    assert [len(each.releases) for each in first] == [1]
    ledger = tmp_path / "store" / PANEL_FOLDER / LEDGER
    close_panels(ledger, ["summer"], round(clock.now * 1e6))
    for campaign in ("spring", "summer", "autumn"):
        asyncio.run(show_all(opened(), campaign))
    clock.now = START + 3 * DAY + 601.0
    after = {each.campaign: each for each in opened().release_due()}
    assert set(after) == {"spring", "autumn"}
    assert after["spring"] == first[0]
    publisher = PanelPublisher(PanelLedger(ledger), no_noise, Floors(20, 5))
    found = read_panel_build(build)
    panel = panel_of(build, "summer")
    people = np.arange(40)
    everybody = PanelShowings(people, people % len(panel), people * 0)
    with pytest.raises(
        KreachError, match="panel of summer was closed when its ledger was restored"
    ):
        publisher.release("summer", found.catalogue, panel, everybody, chosen.terms(), [1])
