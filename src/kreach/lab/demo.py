"""The whole system on one machine, on people that are made up: a week in a few minutes.

A simulated publisher forms groups from a simulated history, real services run in processes of
their own on embedded stores, and visitors come at a speed one can watch. The truth is known here
and only here: it is written beside what the ad system says, for the console to show both.
"""

import asyncio
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.times import iso_text
from kreach.errors import KreachError
from kreach.lab.exchange import Client, Place, lognormal_prices
from kreach.lab.live import LiveRun, LiveWorld, Mishaps
from kreach.lab.processes import Child, Process
from kreach.publisher.audit import audit
from kreach.publisher.build import BuildOptions, build_groups
from kreach.publisher.store import read_build
from kreach.service.clock import FASTEST, ClockSettings
from kreach.service.run import bind

__all__ = ["Demo", "DemoOptions", "Standing"]

_MU, _SIGMA = 1.0, 0.6  # of ln(price per thousand)
_PLACES = ((300, 250), (728, 90), (160, 600))
_STATE, _TRUTH, _AUDIT, _STUDY = "demo.json", "truth.json", "audit.json", "tradeoff"
_SERVICES = ("gateway", "bidder", "reporting")
_CAPS = 5  # of the truth
_SHOWN_REQUESTS = 40


@dataclass(frozen=True)
class DemoOptions:
    """How big, how long and how fast."""

    folder: Path
    people: int = 10_000
    group_size: int = 20
    days: float = 7.0
    minutes: float = 4.0
    visits_per_person: float = 6.0
    dispersion: float = 0.7
    seed: int = 1
    console_port: int | None = 8400

    def __post_init__(self) -> None:
        for name, least, most in (
            ("people", 400, 1_000_000),
            ("group_size", 2, 1_000),
            ("days", 0.5, 60.0),
            ("minutes", 0.05, 600.0),
            ("visits_per_person", 0.1, 200.0),
        ):
            if not least <= getattr(self, name) <= most:
                rule = f"lie between {least:g} and {most:g}"
                raise KreachError.rule(name, rule, getattr(self, name))
        if self.speed > FASTEST:
            least = self.days * 1_440.0 / FASTEST
            rule = f"be at least {least:.3f} for {self.days:g} days"
            raise KreachError.rule("minutes", rule, self.minutes)
        if self.people < 10 * self.group_size:
            raise KreachError.rule("people", "make at least ten groups", self.people)

    @property
    def speed(self) -> float:
        """Seconds that pass in the demonstration in a second."""
        return self.days * 86_400.0 / (self.minutes * 60.0)

    @property
    def visits(self) -> int:
        """In the whole flight."""
        return round(self.people * self.visits_per_person)


@dataclass(frozen=True)
class Standing:
    """How a campaign stands: what the ad system says, and what is true."""

    campaign: str
    impressions: int
    spend: float
    budget: float
    cap: int
    reach: float
    interval: tuple[float, float]
    true_reach: int
    over_exposed: float
    truly_over_exposed: int


class Demo:
    """Makes it, runs it and ends it."""

    def __init__(self, options: DemoOptions, say: Callable[[str], None] = lambda _: None) -> None:
        self.options = options
        self._say = say
        self._stack = ExitStack()
        self._addresses: dict[str, str] = {}
        self._truth_series: list[dict[str, Any]] = []
        self._requests: deque[dict[str, Any]] = deque(maxlen=_SHOWN_REQUESTS)
        self._done = 0  # visits of earlier runs
        self._shown = 0.0

    # -- making it ----------------------------------------------------------------------------

    def prepare(self, *, fresh: bool) -> bool:
        """Make people, groups and settings, or take up those that are there; True if these."""
        options, folder = self.options, self.options.folder
        state = folder / _STATE
        if fresh and folder.exists():
            if any(folder.iterdir()) and not state.exists():
                rule = "be empty or hold an earlier demonstration"
                raise KreachError.rule("folder", rule, str(folder))
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.world = LiveWorld.drawn(options.people, options.dispersion, options.seed)
        if state.exists():
            self._take_up(json.loads(state.read_text()))
            return True
        if any(folder.iterdir()):
            rule = "be empty or hold an earlier demonstration"
            raise KreachError.rule("folder", rule, str(folder))
        self._shown = datetime.now(UTC).replace(microsecond=0).timestamp()
        self._start = self._shown
        self._say(f"{options.people:,} people visit; the publisher forms groups")
        begin = datetime.fromtimestamp(self._start, UTC)
        visits = self.world.write_history(
            folder / "visits.csv", 20 * options.people, begin, options.seed
        )
        users = self.world.write_users(folder / "users.csv")
        made = BuildOptions(
            visits, options.group_size, "random", folder / "groups", users, seed=options.seed
        )
        build_groups(made, begin, lambda _: None)
        self._say("the publisher audits them before it hands them over")
        built = read_build(folder / "groups")
        report = audit(built.people, built.assignment, seed=options.seed)
        _write(folder / _AUDIT, json.dumps(report.document()))
        _write(folder / _TRUTH, json.dumps({"series": [], "requests": []}))
        return False

    def _take_up(self, state: dict[str, Any]) -> None:
        if state["options"] != self._facts():
            rule = "be asked for with the same options, or anew"
            raise KreachError.rule("earlier demonstration", rule, state["options"])
        self._shown, self._start, self._done = state["shown"], state["start"], state["visits"]
        told = json.loads((self.options.folder / _TRUTH).read_text())
        self._truth_series = told["series"]
        self._earlier = {
            name: np.array(counts, dtype=np.int64) for name, counts in state["seen"].items()
        }

    def _facts(self) -> dict[str, Any]:
        options = self.options
        return {
            "people": options.people,
            "group_size": options.group_size,
            "days": options.days,
            "visits_per_person": options.visits_per_person,
            "dispersion": options.dispersion,
            "seed": options.seed,
        }

    @property
    def ends(self) -> float:
        """When the flights end, on the clock of the demonstration."""
        return self._start + self.options.days * 86_400.0

    @property
    def _expiry(self) -> int:
        """How long after a bid its notices are honoured: some seconds of those who watch."""
        return min(ceil(3.0 * self.options.speed), 86_400)

    def _write_settings(self) -> None:
        options = self.options
        self._begins = options.folder / "begins"
        self._begins.unlink(missing_ok=True)
        told = ClockSettings(
            speed=options.speed, start_seconds=self._shown, start_file=self._begins
        )
        self.clock = told.steady()
        sections: dict[str, dict[str, Any]] = {
            "adsystem": {"store": "store", "catalogues": ["groups/release"]},
            "bidder": {
                "expiry_seconds": self._expiry,
                "compaction_seconds": 10.0,
                "compaction_rows": 1_000,
                "compaction_at_stop": True,
                "pacing_seconds": 0.5,
                "market_mu": _MU,
                "market_sigma": _SIGMA,
            },
            "gateway": {"build": "groups", "store": "gateway-store"},
            "clock": {
                "speed": told.speed,
                "start_seconds": told.start_seconds,
                "start_file": self._begins.name,
            },
        }
        lines = []
        for name, values in sections.items():
            self._clock_lines = [f"[{name}]", *(f"{k} = {json.dumps(values[k])}" for k in values)]
            lines += [*self._clock_lines, ""]  # the clock comes last
        _write(options.folder / "kreach.toml", "\n".join(lines))

    # -- running it ---------------------------------------------------------------------------

    def check_port(self) -> None:
        """Say at once that somebody else listens where the console should."""
        if self.options.console_port:
            bind("127.0.0.1", self.options.console_port).close()

    def start(self) -> dict[str, str]:
        """Start the services; their addresses."""
        self._write_settings()
        folder = self.options.folder
        config = folder / "kreach.toml"
        running = {
            name: self._stack.enter_context(Process(name, config, folder / f"{name}.log"))
            for name in _SERVICES
        }
        self._running = running
        self._addresses = {name: process.address() for name, process in running.items()}
        if self.options.console_port is not None:
            self._start_console(self.options.console_port)
        return self._addresses

    def _start_console(self, port: int) -> None:
        folder = self.options.folder
        told = {
            "reporting_url": self._addresses["reporting"],
            "truth_file": _TRUTH,
            "groups_audit": _AUDIT,
            "tradeoff": _STUDY,
        }
        lines = ["[console]", *(f"{name} = {json.dumps(value)}" for name, value in told.items())]
        _write(folder / "console.toml", "\n".join([*lines, "", *self._clock_lines]))
        console = Process("console", folder / "console.toml", folder / "console.log", port)
        self._running["console"] = self._stack.enter_context(console)
        self._addresses["console"] = console.address()
        if not (folder / _STUDY / "summary.json").exists():
            self._study()

    def _study(self) -> None:
        """Have it found out, meanwhile, what groups of another size would cost."""
        options = self.options
        facts = (options.folder, options.people, options.seed, _MU, _SIGMA)
        command = ["kreach.lab.demo_study", *(str(fact) for fact in facts)]
        self._stack.enter_context(Child(command, options.folder / "tradeoff.log"))

    async def campaigns(self) -> None:
        """Make the campaigns, unless they are there."""
        begin = datetime.fromtimestamp(self._start, UTC)
        flight = {
            "start": begin.isoformat(),
            "end": (begin + timedelta(days=self.options.days)).isoformat(),
            "market_mu": _MU,
            "market_sigma": _SIGMA,
        }
        scale = self.options.visits / 60_000
        client = Client(self._addresses["reporting"])
        known = {one["id"] for one in (await self._get(client, "/v1/campaigns"))["campaigns"]}
        for at, (name, budget, cap, bidder) in enumerate(
            (
                ("spring-shoes", 24.0, 2, "planning"),
                ("city-concert", 12.0, 1, "planning"),
                ("paper-rule", 12.0, 2, "paper"),
            )
        ):
            width, height = _PLACES[at]
            made = {
                "id": name,
                "budget": round(budget * scale, 2),
                "caps": [{"limit": cap}],
                "bidder": bidder,
                "expected_requests": max(self.options.visits // len(_PLACES), 1),
                "creative": {"id": f"{name}-1", "width": width, "height": height},
                **flight,
            }
            if name not in known:
                answer = await client.ask("POST", "/v1/campaigns", made)
                if answer.status != 201:
                    raise RuntimeError(f"a campaign was refused: {answer.body!r}")
        await self._until_taken_up()
        await client.close()

    async def _until_taken_up(self) -> None:
        client = Client(self._addresses["bidder"])
        until = time.monotonic() + 20.0
        while (await self._get(client, "/healthz"))["campaigns"] < len(_PLACES):
            if time.monotonic() > until:
                raise RuntimeError("the bidder has not taken the campaigns up")
            await asyncio.sleep(0.05)
        await client.close()

    async def _get(self, client: Client, path: str) -> Any:
        answer = await client.ask("GET", path)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        return answer.document

    async def run(self, stop: asyncio.Event, every: Callable[[list[Standing]], None]) -> None:
        """Let visitors come until the flights end or `stop` is set; tell how it stands."""
        _write(self._begins, repr(time.time()))
        left = max(self.options.visits - self._done, 0)
        seconds = max(self.ends - self.clock(), 0.0) / self.options.speed
        live = LiveRun(
            self.world,
            self._addresses["gateway"],
            self._addresses["bidder"],
            lognormal_prices(_MU, _SIGMA),
            tuple(Place(*size) for size in _PLACES),
            Mishaps(twice=0.02, lost=0.0),
            seed=self.options.seed + self._done,
            watch=self._requests.append,
        )
        for name, counts in getattr(self, "_earlier", {}).items():
            live.truth.seen.of(name)[:] = counts
        self._live = live
        coming = asyncio.create_task(self._come(live, left, seconds))
        watching = asyncio.create_task(self._watch(every))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (coming, watching, stopping):
                task.cancel()
            found = await asyncio.gather(coming, watching, stopping, return_exceptions=True)
            await live.close()
        for error in found:
            if isinstance(error, Exception):
                raise error
        every(await self.standings())
        self._keep()

    async def _come(self, live: LiveRun, visits: int, seconds: float) -> None:
        if visits and seconds > 0.0:
            await live.run(visits, 24, per_second=visits / seconds)
        settled = self._expiry / self.options.speed
        await asyncio.sleep(1.0 + settled)  # the last notices come, and then it is too late for any

    async def _watch(self, every: Callable[[list[Standing]], None]) -> None:
        while True:
            every(await self.standings())
            self._keep()
            await asyncio.sleep(0.5)

    async def standings(self) -> list[Standing]:
        """How the campaigns stand, by the ad system's word and in truth."""
        client = Client(self._addresses["reporting"])
        seen = self._live.truth.seen
        found = []
        listed = (await self._get(client, "/v1/campaigns?limit=20"))["campaigns"]
        for one in listed:
            cap = one["caps"][-1]["limit"]
            document = await self._get(client, f"/v1/campaigns/{one['id']}/reach?cap={cap}")
            report = document["reports"][0]
            found.append(
                Standing(
                    one["id"],
                    document["impressions"],
                    document["spend"],
                    one["budget"],
                    cap,
                    report["reach"],
                    (report["interval"][0], report["interval"][1]),
                    seen.reach(one["id"], cap),
                    report["over_exposed"],
                    seen.over_exposed(one["id"], cap),
                )
            )
        await client.close()
        return found

    def progress(self) -> tuple[float, datetime]:
        """The share of the flight that is over, and what the clock shows."""
        now = min(self.clock(), self.ends)
        return (now - self._start) / (self.ends - self._start), datetime.fromtimestamp(now, UTC)

    # -- keeping and ending it ----------------------------------------------------------------

    def _keep(self) -> None:
        """Write the truth down: for the console, and to be gone on from."""
        seen = self._live.truth.seen
        names = list(seen.campaigns)
        now = min(self.clock(), self.ends)
        point = {
            "ts": iso_text(datetime.fromtimestamp(now, UTC)),
            "campaigns": {
                name: {
                    "impressions": seen.impressions(name),
                    "reach": [seen.reach(name, cap) for cap in range(1, _CAPS + 1)],
                }
                for name in names
            },
        }
        self._truth_series.append(point)
        truth = {"series": self._truth_series, "requests": list(self._requests)}
        _write(self.options.folder / _TRUTH, json.dumps(truth))
        state = {
            "options": self._facts(),
            "start": self._start,
            "shown": now,
            "visits": self._done + self._live.came,
            "seen": {name: seen.of(name).tolist() for name in names},
        }
        _write(self.options.folder / _STATE, json.dumps(state))

    def close(self) -> None:
        """End the services in order; what they acknowledged is kept."""
        for process in reversed(getattr(self, "_running", {}).values()):
            process.stop()
        self._stack.close()


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text)
    os.replace(draft, path)
