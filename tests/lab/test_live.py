"""The services as processes, driven over HTTP: ledger, log, report and truth agree.

People visit by Gamma rates and groups are formed blindly, so the released dispersion describes
them. Which auctions are won depends on timing, so runs are seeded but not equal to the last visit;
reach is checked at the level 0.9999, which is z = 3.9 a check. A run makes twelve such checks: at
0.99 one run in ten or so would fail though nothing is wrong.
"""

import asyncio
import json
import os
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab.exchange import Client, Placement, listed_prices, lognormal_prices
from kreach.lab.live import ExposureCounts, LiveRun, NoticeFaults, Truth
from kreach.lab.processes import ServiceProcess
from kreach.lab.visitors import IndependentVisitors, write_users, write_visits
from tests.cli.command import kreach

ROOT = Path(__file__).resolve().parents[2]
PEOPLE, VISITS = 1_000, 3_600
EXPIRY_SECONDS = 4
HARD_CAP = 2
LEVEL = 0.9999
BANNER, TOWER, BOARD, STRIP = (300, 250), (160, 600), (728, 90), (320, 50)
MOBILE = (300, 50)


def campaigns(now: datetime) -> list[dict[str, Any]]:
    """One of each kind, each with a size of its own, so that none starves another."""
    shared = {
        "start": (now - timedelta(minutes=1)).isoformat(),
        "end": (now + timedelta(minutes=5)).isoformat(),
        "market_mu": 0.0,
        "market_sigma": 0.7,
        "max_cpm": 50.0,
    }

    def one(name: str, size: tuple[int, int], **more: Any) -> dict[str, Any]:
        creative = {"id": f"{name}-1", "markup": "ad", "width": size[0], "height": size[1]}
        return {"id": name, "creative": creative, **shared, **more}

    return [
        one("planned", BANNER, budget=3.0, caps=[{"limit": 2}]),
        one("paper", TOWER, budget=0.4, bidder="paper", expected_requests=1_000),
        one(
            "rolling",
            BOARD,
            budget=2.0,
            caps=[{"limit": 1, "span_seconds": 10}, {"limit": 3}],
            daily_budget=0.5,
        ),
        one("first", MOBILE, budget=3.0, caps=[{"limit": 1}]),
        one("hard", STRIP, budget=3.0, caps=[{"limit": HARD_CAP}], max_cpm=20.0),
    ]


PLACES = (
    Placement(*BANNER),
    Placement(*TOWER),
    Placement(*BOARD, floor=0.1),
    Placement(*MOBILE, first_price=True),
    Placement(*STRIP),
)
BUDGETS = {"planned": 3.0, "paper": 0.4, "rolling": 0.5, "first": 3.0, "hard": 3.0}
SETTINGS = f"""
[adsystem]
store = "store"
catalogues = ["groups"]

[bidder]
expiry_seconds = {EXPIRY_SECONDS}
compaction_seconds = 1.0
compaction_rows = 100
pacing_seconds = 0.5
first_bid_share = 1.0

[gateway]
build = "groups"
store = "gateway-store"

[[gateway.caps]]
campaign = "hard"
cap = {HARD_CAP}
"""


class Addresses(NamedTuple):
    """Where the services are."""

    gateway: str
    bidder: str
    reporting: str


@contextmanager
def services(root: Path) -> Iterator[Addresses]:
    """All three as processes; ended by SIGTERM, each must leave in peace and log no failure."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(ServiceProcess(name, root / "kreach.toml", root / f"{name}.log"))
            for name in Addresses._fields
        ]
        yield Addresses(*(process.address() for process in running))
        for process in running:
            assert process.stop() == 0
            events = process.events()
            assert events[-1]["event"] == "stopped"
            assert not [event for event in events if event["level"] != "info"]


async def ask(address: str, path: str, document: object = None) -> Any:
    client = Client(address)
    try:
        answer = await client.ask("GET" if document is None else "POST", path, document)
    finally:
        await client.close()
    assert answer.status in {200, 201}, answer.body
    return answer.body.decode() if path == "/metrics" else answer.document


async def metrics(address: str) -> dict[tuple[str, str], float]:
    """Metrics of the bidder by name and campaign."""
    found = re.findall(
        r'^kreach_bidder_(\w+)(?:\{\w+="([^"]*)"\})? (\S+)$',
        await ask(address, "/metrics"),
        re.MULTILINE,
    )
    return {(name, label): float(value) for name, label, value in found}


async def metric_names(at: Addresses) -> set[str]:
    """The names of all metrics of all services."""
    pages = [await ask(address, "/metrics") for address in at]
    return {name for page in pages for name in re.findall(r"^# TYPE (kreach_\w+)", page, re.M)}


async def until_taken_up(bidder: str, count: int) -> None:
    """Wait until the bidder has the campaigns and money for them."""
    until = time.monotonic() + 180.0
    while time.monotonic() < until:
        if (await ask(bidder, "/healthz"))["campaigns"] == count:
            await asyncio.sleep(0.3)
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the bidder has not taken the campaigns up")


async def until_nothing_is_out(bidder: str) -> None:
    """Wait until the bids without a notice have expired."""
    until = time.monotonic() + EXPIRY_SECONDS + 180.0
    while time.monotonic() < until:
        shown = await metrics(bidder)
        if shown["bids_out", ""] == 0 and not any(
            value for (name, _), value in shown.items() if name == "reserved_micros"
        ):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("bids are still out")


def in_the_log(
    store: Path,
) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str, str]], int]:
    """Impressions, micros and groups by campaign from live rows and listed files; rows in files."""
    impressions: Counter[str] = Counter()
    spend: Counter[str] = Counter()
    groups: Counter[tuple[str, str, str]] = Counter()
    with closing(sqlite3.connect(store / "control.sqlite3")) as control:
        names = dict(control.execute("SELECT number, id FROM campaigns"))
    with closing(sqlite3.connect(store / "live.sqlite3")) as live:
        live.execute("BEGIN")
        rows = live.execute(
            """SELECT campaign, version, grp, micros FROM impressions
            JOIN catalogues ON catalogues.number = catalogue"""
        ).fetchall()
        files = [str(store / "log" / row[0]) for row in live.execute("SELECT file FROM compacted")]
    ids: dict[str, list[str]] = {}
    for number, version, group, micros in rows:
        if version not in ids:
            ids[version] = group_ids(store.parent)
        impressions[names[number]] += 1
        spend[names[number]] += micros
        groups[names[number], version, ids[version][group]] += 1
    in_files = 0
    if files:
        listed = duckdb.execute(
            'SELECT campaign, catalogue, "group", price_micros FROM read_parquet(?)', [files]
        ).fetchall()
        in_files = len(listed)
        for campaign, version, name, micros in listed:
            impressions[campaign] += 1
            spend[campaign] += micros
            groups[campaign, version, name] += 1
    return impressions, spend, groups, in_files


def group_ids(root: Path) -> list[str]:
    from kreach.boundary.files import read_catalogue

    return list(read_catalogue(root / "groups" / "release").groups)


async def told(reporting: str, names: list[str]) -> dict[str, Any]:
    """All that reporting says which must not change with a restart."""
    found: dict[str, Any] = {}
    for name in names:
        status = await ask(reporting, f"/v1/campaigns/{name}?level={LEVEL}")
        for live in ("pace", "delivery", "delivery_reason"):  # they rest on what bidders expect now
            status["status"].pop(live, None)
        reach = await ask(reporting, f"/v1/campaigns/{name}/reach?cap=1&cap=2&cap=3&level={LEVEL}")
        series = await ask(reporting, f"/v1/campaigns/{name}/series?by=hour&cap=1&cap=2")
        found[name] = {"status": status, "reach": reach, "series": series}
    return found


def agree(found: dict[str, Any], truth: Truth, log: Any) -> None:
    """Report, log and truth, to the micro and the impression."""
    impressions, spend, groups, _ = log
    assert groups == truth.groups
    for name, says in found.items():
        billed, micros = truth.billed.impressions(name), truth.spend_micros[name]
        assert (impressions[name], spend[name]) == (billed, micros)
        status = says["status"]["status"]
        assert (status["impressions"], status["spend_micros"]) == (billed, micros)
        assert (says["reach"]["impressions"], says["reach"]["spend_micros"]) == (billed, micros)
        series = says["series"]
        assert (series["impressions"], series["spend_micros"]) == (billed, micros)
        assert sum(period["impressions"] for period in series["series"]) == billed
        last = series["series"][-1]["cumulative"]
        whole = [report["reach"] for report in says["reach"]["reports"][:2]]
        assert [report["reach"] for report in last] == pytest.approx(whole, rel=1e-9)


def reach_holds_the_truth(found: dict[str, Any], truth: Truth) -> None:
    """Intervals of all caps hold the reach of the impressions that the ad system knows of.

    Not under the hard cap, which chooses people; there, reach at the cap is the impressions.
    """
    for name in ("planned", "paper", "rolling", "first"):
        assert truth.billed.impressions(name) > 100
        for report in found[name]["reach"]["reports"]:
            low, high = report["interval"]
            assert low <= truth.billed.reach(name, report["cap"]) <= high, (name, report)
    assert truth.dropped["hard"] > 0
    assert truth.over_exposed("hard", HARD_CAP) == 0
    assert truth.reach("hard", HARD_CAP) == truth.seen.impressions("hard")


def no_trace_of_people(root: Path, world: IndependentVisitors) -> None:
    """No user id on the ad side: not in a store, not in a log."""
    files = [root / "bidder.log", root / "reporting.log", root / "gateway.log"]
    files += [file for file in (root / "store").rglob("*") if file.is_file()]
    for file in files:
        held = file.read_bytes()
        assert world.user_ids[0][:10].encode() not in held, file.name
        assert b"news.example" not in held, file.name


def build(root: Path, world: IndependentVisitors, out: str) -> Path:
    """`kreach groups build` on a history of the same people."""
    history = world.history(40 * PEOPLE, time.time(), seed=7)
    visits = write_visits(root / "visits.csv", world.user_ids, history)
    users = write_users(root / "users.csv", world.user_ids)
    options = ["--users", str(users), "--group-size", "20", "--out", str(root / out)]
    # visits of days come within seconds here: a model of history would take them for one session
    independent = ("--knowledge", "dispersion")
    done = kreach(
        "groups", "build", "--visits", str(visits), *options, *independent, "--seed", "0", "--json"
    )
    assert done.code == 0, done.err
    return root / out


@pytest.fixture(scope="module")
def world() -> IndependentVisitors:
    """People who visit unevenly."""
    return IndependentVisitors.draw(PEOPLE, 0.8, seed=5)


@pytest.fixture(scope="module")
def groups(world: IndependentVisitors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their groups, for tests that do not change them."""
    return build(tmp_path_factory.mktemp("publisher"), world, "groups")


async def drive(at: Addresses, world: IndependentVisitors) -> Truth:
    notice_faults = NoticeFaults(duplicate=0.1, late=0.05, late_seconds=1.0, lost=0.03)
    market = lognormal_prices(0.0, 0.7)
    capped = frozenset({"hard"})
    async with LiveRun(
        world, at.gateway, at.bidder, market, PLACES, notice_faults, capped, 11
    ) as run:
        await run.run(VISITS - 500, 12)
        run.notice_faults = NoticeFaults(late=0.2, late_seconds=EXPIRY_SECONDS + 1.5)
        return await run.run(500, 12)


def test_ledger_log_report_and_truth_agree(
    tmp_path: Path, world: IndependentVisitors, groups: Path
) -> None:
    now = datetime.now(UTC)
    (tmp_path / "groups").symlink_to(groups)
    (tmp_path / "kreach.toml").write_text(SETTINGS)
    asked = campaigns(now)
    names = [campaign["id"] for campaign in asked]
    with services(tmp_path) as at:
        truth = asyncio.run(_first_run(at, world, asked))
        found = asyncio.run(told(at.reporting, names))
        documented = set(re.findall(r"`(kreach_\w+)", (ROOT / "docs/services.md").read_text()))
        with_keys = {f"kreach_reporting_{name}_total" for name in ("refused", "suppressed")}
        panel = {name for name in documented if name.startswith("kreach_gateway_panel_")}
        assert len(panel) == 4
        browser = {name for name in documented if name.startswith("kreach_gateway_browser_")}
        assert len(browser) == 2
        assert asyncio.run(metric_names(at)) == documented - with_keys - panel - browser
    agree(found, truth, in_the_log(tmp_path / "store"))
    reach_holds_the_truth(found, truth)
    for name, budget in BUDGETS.items():
        assert truth.spend_micros[name] <= round(budget * 1e6)
    for seen in ("billing 200 done", "billing 200 repeated", "billing never sent", "billing 410"):
        assert truth.answers[seen] > 0, truth.answers
    assert in_the_log(tmp_path / "store")[3] > 0
    no_trace_of_people(tmp_path, world)
    with services(tmp_path) as at:
        assert asyncio.run(told(at.reporting, names)) == found
        asyncio.run(_second_run(at, world, truth, names))


async def _first_run(
    at: Addresses, world: IndependentVisitors, asked: list[dict[str, Any]]
) -> Truth:
    for campaign in asked:
        await ask(at.reporting, "/v1/campaigns", campaign)
    await until_taken_up(at.bidder, len(asked))
    truth = await drive(at, world)
    await until_nothing_is_out(at.bidder)
    shown = await metrics(at.bidder)
    for name, budget in ((campaign["id"], campaign["budget"]) for campaign in asked):
        micros = truth.spend_micros[name]
        assert shown["impressions_total", name] == truth.billed.impressions(name)
        assert shown["spend_micros_total", name] == micros
        assert shown["budget_left_micros", name] == round(budget * 1e6) - micros
    return truth


async def _second_run(
    at: Addresses, world: IndependentVisitors, before: Truth, names: list[str]
) -> None:
    """After a restart money goes on from where it was, and so does the hard cap."""
    shown = await metrics(at.bidder)
    for name in names:
        assert shown["carried_micros", name] == 0  # nothing was out when it stopped
    async with LiveRun(
        world, at.gateway, at.bidder, placements=PLACES, hard_capped=frozenset({"hard"}), seed=12
    ) as run:
        after = await run.run(500, 8)
    both = before.seen.of("hard") + after.seen.of("hard")
    assert after.seen.impressions("hard") > 0
    assert both.max() <= HARD_CAP
    for name in names:
        status = (await ask(at.reporting, f"/v1/campaigns/{name}"))["status"]
        assert status["spend_micros"] == before.spend_micros[name] + after.spend_micros[name]


def test_a_publisher_goes_over_to_a_new_catalogue_without_a_gap(
    tmp_path: Path, world: IndependentVisitors, groups: Path
) -> None:
    """The order of docs/services.md: the ad system loads it, then the publisher serves it."""
    now = datetime.now(UTC)
    (tmp_path / "old").symlink_to(groups)
    link, config = tmp_path / "current", tmp_path / "kreach.toml"
    link.symlink_to("old")
    settings = SETTINGS.replace('build = "groups"', 'build = "current"\nreload_seconds = 600')
    config.write_text(settings.replace('["groups"]', '["old/release"]'))
    with ExitStack() as stack:
        gateway, bidder, reporting = (
            stack.enter_context(ServiceProcess(name, config, tmp_path / f"{name}.log"))
            for name in Addresses._fields
        )
        at = Addresses(gateway.address(), bidder.address(), reporting.address())
        campaign = campaigns(now)[0]
        asyncio.run(ask(at.reporting, "/v1/campaigns", campaign))
        asyncio.run(until_taken_up(at.bidder, 1))
        run = LiveRun(world, at.gateway, at.bidder, placements=(Placement(*BANNER),), seed=3)
        asyncio.run(_some_visits(run))
        build(tmp_path, world, "new")
        config.write_text(settings.replace('["groups"]', '["old/release", "new/release"]'))
        for service in (bidder, reporting):
            os.kill(service.pid, signal.SIGHUP)
            _wait_for(service, "settings taken up", 1)
        asyncio.run(_some_visits(run))  # still on the old one
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").rename(link)
        os.kill(gateway.pid, signal.SIGHUP)
        _wait_for(gateway, "catalogue loaded", 2)
        asyncio.run(_some_visits(run))
        name, billed = campaign["id"], Counter[str]()
        for (_, version, _), count in run.truth.groups.items():
            billed[version] += count
        address = reporting.address()
        status = asyncio.run(ask(address, f"/v1/campaigns/{name}"))["status"]
        assert status["impressions"] == billed.total()
        assert status["spend_micros"] == run.truth.spend_micros[name]
        assert len(billed) == 2
        for version, count in billed.items():
            reach = asyncio.run(ask(address, f"/v1/campaigns/{name}/reach?catalogue={version}"))
            assert (reach["impressions"], count > 20) == (count, True)
    assert not {"unknown catalogue", "unknown group"} & set(run.truth.no_bids)


async def _some_visits(run: LiveRun) -> None:
    await run.run(200, 8)
    await run.close()  # connections belong to this loop; the next visits make their own


def _wait_for(process: ServiceProcess, event: str, times: int) -> None:
    until = time.monotonic() + 180.0
    while sum(told["event"] == event for told in process.events()) < times:
        assert time.monotonic() < until, f"no {event}"
        time.sleep(0.05)


def test_a_bidder_that_is_killed_loses_nothing_it_acknowledged(
    tmp_path: Path, world: IndependentVisitors, groups: Path
) -> None:
    """SIGKILL under load, twice; the exchange repeats billing notices until they are answered."""
    now, config = datetime.now(UTC), tmp_path / "kreach.toml"
    (tmp_path / "groups").symlink_to(groups)
    config.write_text(SETTINGS.replace(f"expiry_seconds = {EXPIRY_SECONDS}", "expiry_seconds = 60"))
    asked = campaigns(now)[:4]
    with ExitStack() as stack:
        gateway, bidder, reporting = (
            stack.enter_context(ServiceProcess(name, config, tmp_path / f"{name}.log"))
            for name in Addresses._fields
        )
        at = Addresses(gateway.address(), bidder.address(), reporting.address())
        for campaign in asked:
            asyncio.run(ask(at.reporting, "/v1/campaigns", campaign))
        asyncio.run(until_taken_up(at.bidder, len(asked)))
        run = LiveRun(world, at.gateway, at.bidder, placements=PLACES[:4], seed=4)

        async def drive_through_kills() -> None:
            nonlocal bidder
            driving = asyncio.create_task(run.run(1_500, 12, per_second=200.0))
            for _ in range(2):
                await asyncio.sleep(1.5)
                bidder.stop(signal.SIGKILL)
                port = int(at.bidder.rpartition(":")[2])
                bidder = stack.enter_context(ServiceProcess("bidder", config, bidder.log, port))
                await asyncio.to_thread(bidder.address)
                await until_taken_up(at.bidder, len(asked))
            await driving
            await run.run(500, 12)  # however long the restarts took, it bids again
            await run.close()

        asyncio.run(drive_through_kills())
        found = asyncio.run(told(at.reporting, [campaign["id"] for campaign in asked]))
        log = in_the_log(tmp_path / "store")
    truth = run.truth
    assert truth.answers["billing unanswered"] + truth.no_bids["no answer"] > 0
    assert {kind for kind in truth.answers if kind.startswith("billing")} <= {
        "billing 200 done",
        "billing 200 repeated",
        "billing unanswered",
    }
    agree(found, truth, log)
    for name, budget in list(BUDGETS.items())[:4]:
        assert truth.billed.impressions(name) == truth.seen.impressions(name) > 0
        assert truth.spend_micros[name] <= round(budget * 1e6)


def test_sample_settings_are_good_beside_a_build(tmp_path: Path, groups: Path) -> None:
    (tmp_path / "groups").symlink_to(groups)
    for service, file in (
        ("gateway", "publisher.toml"),
        ("bidder", "kreach.toml"),
        ("reporting", "kreach.toml"),
    ):
        config = tmp_path / file
        config.write_text((ROOT / "examples" / file).read_text())
        done = kreach("serve", service, "--config", str(config), "--check-config", "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["ok"] is True


def test_a_tally_counts_people_up_to_the_cap() -> None:
    tally = ExposureCounts(3)
    for person in (0, 0, 0, 2):
        tally.add("a", person)
    assert [tally.reach("a", cap) for cap in (1, 2, 3)] == [2, 3, 4]
    assert [tally.over_exposed("a", cap) for cap in (1, 2, 3)] == [1, 1, 0]
    assert (tally.impressions("a"), tally.impressions("b")) == (4, 0)


def test_a_world_is_made_of_what_it_was_given() -> None:
    even = IndependentVisitors.draw(50, np.inf, seed=1)
    assert len(set(even.user_ids)) == 50
    np.testing.assert_allclose(even.shares, 1 / 50)
    assert IndependentVisitors.draw(50, 0.5, seed=1).shares.std() > even.shares.std()
    with pytest.raises(KreachError, match="dispersion"):
        IndependentVisitors.draw(50, 0.0, seed=1)
    with pytest.raises(KreachError, match="probability"):
        NoticeFaults(lost=1.5)


def test_prices_come_from_a_law_or_a_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    drawn = lognormal_prices(1.0, 0.5)(generator, 4_000)
    assert abs(np.log(drawn).mean() - 1.0) < 4 * 0.5 / np.sqrt(4_000)
    (tmp_path / "prices.csv").write_text("market_price,count\n1.5,1\n2.5,3\n")
    listed = listed_prices(tmp_path / "prices.csv")(generator, 4_000)
    assert set(listed.tolist()) == {1.5, 2.5}
    assert abs((listed == 2.5).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4_000)


def test_a_client_speaks_to_http_addresses_only() -> None:
    with pytest.raises(KreachError, match="http://"):
        Client("https://bidder.example")


def test_a_process_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "kreach.toml").write_text("[adsystem]\n")
    with ServiceProcess("bidder", tmp_path / "kreach.toml", tmp_path / "log") as process:
        with pytest.raises(RuntimeError, match="catalogues must name at least one"):
            process.address()
        assert process.stop() == 1
