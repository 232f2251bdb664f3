"""A panel over real processes: the corrected report is the simulation's truth, through kill −9.

Everybody is in the panel and noise is next to nothing, so that what reporting says must be what
the simulation recorded; an hour of the services' clock passes in a second.
"""

import asyncio
import json
import signal
import sqlite3
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kreach.lab.exchange import Placement
from kreach.lab.live import LiveRun
from kreach.lab.processes import ServiceProcess
from kreach.lab.visitors import IndependentVisitors, write_users, write_visits
from tests.cli.command import kreach
from tests.lab.test_live import Addresses, ask, until_nothing_is_out, until_taken_up

PEOPLE, VISITS = 600, 2_400
START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
SPEED = 3_600.0
SETTINGS = f"""
[adsystem]
store = "store"
catalogues = ["groups"]
corrections = ["corrections.json"]

[bidder]
expiry_seconds = 36000
first_bid_share = 1.0
pacing_seconds = 0.5

[gateway]
build = "groups"
store = "gateway-store"

[gateway.panel]
share = 1.0
out = "corrections.json"
every = "hour"
late_seconds = 0.0
max_releases = 400
rho = 1000.0
min_people = 100
min_reach = 20

[clock]
speed = {SPEED}
start_seconds = {START.timestamp()}
start_file = "begins"
"""


@pytest.fixture(scope="module")
def world() -> IndependentVisitors:
    return IndependentVisitors.draw(PEOPLE, 0.6, seed=8)


def build(folder: Path, world: IndependentVisitors) -> None:
    history = world.history(40 * PEOPLE, START.timestamp() - 3_600.0, seed=7)
    visits = write_visits(folder / "visits.csv", world.user_ids, history)
    users = write_users(folder / "users.csv", world.user_ids)
    done = kreach(
        *("groups", "build", "--visits", str(visits), "--users", str(users)),
        *(
            "--group-size",
            "20",
            "--knowledge",
            "none",
            "--seed",
            "0",
            "--out",
            str(folder / "groups"),
        ),
    )
    assert done.code == 0, done.err


def test_the_corrected_report_is_the_truth_though_the_gateway_is_killed(
    tmp_path: Path, world: IndependentVisitors
) -> None:
    build(tmp_path, world)
    config = tmp_path / "kreach.toml"
    config.write_text(SETTINGS)
    campaign = {
        "id": "spring",
        "start": (START - timedelta(hours=1)).isoformat(),
        "end": (START + timedelta(days=10)).isoformat(),
        "budget": 50.0,
        "caps": [{"limit": 3}],
        "max_cpm": 50.0,
        "market_mu": 0.0,
        "market_sigma": 0.7,
        "creative": {"id": "a", "markup": "ad", "width": 300, "height": 250},
    }
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(ServiceProcess(name, config, tmp_path / f"{name}.log"))
            for name in Addresses._fields
        }
        at = Addresses(*(running[name].address() for name in Addresses._fields))
        asyncio.run(ask(at.reporting, "/v1/campaigns", campaign))
        asyncio.run(until_taken_up(at.bidder, 1))
        (tmp_path / "begins").write_text(repr(time.time()))
        run = LiveRun(
            world, at.gateway, at.bidder, placements=(Placement(),), seed=3, tell_all=True
        )

        async def visits_through_a_kill() -> None:
            driving = asyncio.create_task(run.run(VISITS, 8, per_second=300.0))
            await asyncio.sleep(3.0)
            running["gateway"].stop(signal.SIGKILL)
            port = int(at.gateway.rpartition(":")[2])
            again = ServiceProcess("gateway", config, tmp_path / "gateway.log", port)
            running["gateway"] = stack.enter_context(again)
            await driving
            await run.close()

        asyncio.run(visits_through_a_kill())
        shown = asyncio.run(_status_after_a_release(at, tmp_path))
        asyncio.run(until_nothing_is_out(at.bidder))
        reach = asyncio.run(ask(at.reporting, "/v1/campaigns/spring/reach?cap=1&cap=2&cap=3"))
    truth = run.truth
    assert truth.seen.impressions("spring") == truth.billed.impressions("spring") > 300
    assert shown["impressions"] == truth.billed.impressions("spring")
    assert shown["correction"]["weight"] == 1.0
    model = shown["correction"]["model_unique_reach"]
    noise = json.loads((tmp_path / "corrections.json").read_text())["corrections"][0]["releases"]
    slack = 5.0 * noise[-1]["noise_std"] + 0.5
    assert slack < 6.0
    for report in reach["reports"]:
        cap = report["cap"]
        assert report["reach"] == pytest.approx(truth.seen.reach("spring", cap), abs=slack * cap)
    assert model > truth.seen.reach("spring", 1) + 20.0  # uniform visits would be wrong
    files = [*tmp_path.glob("*.log"), tmp_path / "corrections.json"]
    files += [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    files += [file for file in (tmp_path / "gateway-store").rglob("*") if file.is_file()]
    assert len(files) > 6
    for file in files:
        assert world.user_ids[0][:10].encode() not in file.read_bytes(), file.name


async def _status_after_a_release(at: Addresses, folder: Path) -> dict[str, Any]:
    """The status once a release has everything: one of a time after the last showing."""
    path = folder / "corrections.json"
    with closing(sqlite3.connect(folder / "gateway-store" / "panel" / "showings.sqlite")) as store:
        last = store.execute("SELECT max(at_us) FROM showing").fetchone()[0] / 1e6
    until = time.monotonic() + 180.0
    while time.monotonic() < until:
        status: dict[str, Any] = (await ask(at.reporting, "/v1/campaigns/spring"))["status"]
        correction = status["correction"]
        if path.exists() and correction is not None:
            released = datetime.fromisoformat(correction["released"]).timestamp()
            if released > last:
                return status
        await asyncio.sleep(0.5)
    raise AssertionError("no release")
