"""The whole system on one machine with simulated people: a week in a few minutes.

A simulated publisher builds groups from simulated visits, and simulated visitors arrive. The
services are real ones, as processes on embedded stores. Only the simulation knows the truth
(who saw what). It writes the truth to a file, so that the console can show it next to the reported
figures.
"""

import asyncio
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.correction import Correction, read_corrections
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS, from_seconds, iso_seconds
from kreach.errors import KreachError
from kreach.lab.demo_advertiser import (
    ADVERTISER,
    AttackResult,
    DemoKeys,
    difference_attack,
)
from kreach.lab.demo_options import CampaignResult, DemoOptions
from kreach.lab.exchange import Client, Placement, lognormal_prices
from kreach.lab.live import LiveRun, NoticeFaults
from kreach.lab.processes import ModuleProcess, ServiceProcess
from kreach.lab.visitors import (
    SiteVisitors,
    site_days,
    visitor_columns,
    write_users,
    write_visits,
)
from kreach.numeric.types import IntArray
from kreach.publisher.audit.build_audit import audit_build
from kreach.publisher.build import BuildOptions, build_groups
from kreach.service.clock import ClockSettings
from kreach.service.run import bind

__all__ = ["CampaignResult", "Demo", "DemoOptions"]

_MU, _SIGMA = 1.0, 0.6  # of ln(price per thousand)
_BANNER_SIZES = ((300, 250), (728, 90), (160, 600))
_CAMPAIGNS = (  # name, budget at 60,000 visits, cap, bidder
    ("spring-shoes", 24.0, 2, "planning"),
    ("city-concert", 12.0, 1, "planning"),
    (f"{ADVERTISER}.hiking-boots", 12.0, 2, "paper"),  # an advertiser's own, by the paper's rule
)
_STATE, _TRUTH, _AUDIT, _STUDY = "demo.json", "truth.json", "audit.json", "tradeoff"
_SERVICES = ("gateway", "bidder", "reporting")
_CORRECTIONS = "corrections.json"
_PANEL_SHARE, _PANEL_RHO, _PANEL_DAYS = 0.2, 0.25, 3.0  # a small site needs more of both
_CONSOLE_SECONDS = 180.0  # in which both consoles start, also on a busy machine
_PORTS_APART = 10  # the operator's console and the advertiser's
_TRUTH_CAPS = 5  # caps whose true reach is written
_MAX_TRUTH_POINTS = 2_000
_RECENT_REQUESTS = 40  # shown in the console
_MAX_LATE_SECONDS = 300.0  # simulated, on average; more is worth a warning


class Demo:
    """A demo. Call in this order: prepare, start, create_campaigns, run, close."""

    def __init__(self, options: DemoOptions, say: Callable[[str], None] = lambda _: None) -> None:
        self.options = options
        self._say = say
        self._stack = ExitStack()
        self._addresses: dict[str, str] = {}
        self._truth_series: list[dict[str, Any]] = []
        self._requests: deque[dict[str, Any]] = deque(maxlen=_RECENT_REQUESTS)
        self._earlier_visits = 0  # of the runs that this one continues
        self._earlier_exposures: dict[str, IntArray] = {}
        self._clock_start = 0.0  # simulated time at which this run starts
        self._running: dict[str, ServiceProcess] = {}

    def prepare(self, *, fresh: bool) -> bool:
        """Create people and groups. Returns True if it continues an earlier demo instead."""
        options, folder = self.options, self.options.folder
        state = folder / _STATE
        if folder.exists() and any(folder.iterdir()) and not state.exists():
            rule = "be empty or hold an earlier demo"
            raise KreachError.rule("folder", rule, str(folder))
        if fresh and folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if state.exists():
            self._load(json.loads(state.read_text()))
            self._draw_people()
            return True
        self._clock_start = datetime.now(UTC).replace(microsecond=0).timestamp()
        self._start = self._clock_start
        self._say(f"{options.people:,} people visit; building groups")
        self._draw_people()
        self._build_groups()
        return False

    def _draw_people(self) -> None:
        """Draw people, and their visits before the flight. The same start has the same visits."""
        options = self.options
        per_day = options.visits_per_person / site_days(self._start, self.flight_end)
        self.population = SiteVisitors.draw(options.people, per_day, options.seed)
        begin = self._start - options.history_days * DAY_SECONDS
        self._history = self.population.schedule(begin, self._start)

    def _build_groups(self) -> None:
        options, folder, begin = self.options, self.options.folder, from_seconds(self._start)
        user_ids = self.population.user_ids
        visits = write_visits(folder / "visits.csv", user_ids, self._history)
        columns = visitor_columns(options.people, options.seed)
        users = write_users(folder / "users.csv", user_ids, columns)
        groups = folder / "groups"
        build = BuildOptions(
            visits, options.group_size, "random", groups, users, sensitive=tuple(columns)
        )
        build_groups(build, begin, lambda _: None)
        self._say("auditing the groups before release")
        report = audit_build(groups, begin, lambda _: None, seed=options.seed)
        _write(folder / _AUDIT, json.dumps(report.document()))
        _write(folder / _TRUTH, json.dumps({"series": [], "requests": []}))

    def _load(self, state: dict[str, Any]) -> None:
        if state["options"] != self.options.fixed():
            earlier = " ".join(f"{name}={value}" for name, value in state["options"].items())
            raise KreachError(
                f"the folder holds a demo with other options ({earlier}): "
                "use the same options, or --fresh to start over"
            )
        self._clock_start, self._start, self._earlier_visits = (
            state["shown"],
            state["start"],
            state["visits"],
        )
        self._truth_series = json.loads((self.options.folder / _TRUTH).read_text())["series"]
        self._earlier_exposures = {
            name: np.array(counts, dtype=np.int64) for name, counts in state["seen"].items()
        }

    @property
    def goes_on(self) -> bool:
        """Whether visitors keep coming after the flights: with a console, for new campaigns."""
        return self.options.console_port is not None

    @property
    def flight_end(self) -> float:
        """When the flights end, in simulated seconds."""
        return self._start + self.options.days * DAY_SECONDS

    @property
    def _expiry(self) -> int:
        """How long notices of a bid are accepted: three real seconds, in simulated ones."""
        return min(ceil(3.0 * self.options.speed), DAY_SECONDS)

    def _write_settings(self) -> None:
        options = self.options
        self._begins = options.folder / "begins"
        self._begins.unlink(missing_ok=True)
        clock = ClockSettings(
            speed=options.speed, start_seconds=self._clock_start, start_file=self._begins
        )
        self.clock = clock.steady()
        sections: dict[str, dict[str, Any]] = {
            "adsystem": {
                "store": "store",
                "catalogues": ["groups/release"],
                "corrections": [_CORRECTIONS],
            },
            "bidder": {
                "expiry_seconds": self._expiry,
                "compaction_seconds": 10.0,
                "compaction_rows": 1_000,
                "compaction_at_stop": True,
                "pacing_seconds": 0.5,
                "market_mu": _MU,
                "market_sigma": _SIGMA,
                "hourly": self._hourly(),
            },
            "reporting": {"keys": True},
            "guard": {"closing_seconds": self._expiry + 1_800.0},
            "gateway": {"build": "groups", "store": "gateway-store"},
            **self._panel_section(),
            "clock": {
                "speed": clock.speed,
                "start_seconds": clock.start_seconds,
                "start_file": self._begins.name,
            },
        }
        lines = []
        for name, values in sections.items():
            self._clock_lines = [f"[{name}]", *(f"{k} = {json.dumps(values[k])}" for k in values)]
            lines += [*self._clock_lines, ""]  # the clock comes last
        _write(options.folder / "kreach.toml", "\n".join(lines))

    def _panel_section(self) -> dict[str, dict[str, Any]]:
        """A panel of a fifth of the groups, with a release every day of a flight of days."""
        if not self.has_panel:
            return {}
        every = "day" if self.options.days >= _PANEL_DAYS else "hour"
        times = self.options.days * (1.0 if every == "day" else 24.0)
        panel = {
            "share": _PANEL_SHARE,
            "out": _CORRECTIONS,
            "together": [[name for name, *_ in _CAMPAIGNS]],
            "every": every,
            "max_cap": 2,
            "rho": _PANEL_RHO,
            "max_releases": ceil(times) + 1,
            "min_people": 200,
        }
        return {"gateway.panel": panel}

    @property
    def has_panel(self) -> bool:
        """Whether noise can be drawn, which needs the extra `dp`."""
        return find_spec("opendp") is not None

    def _hourly(self) -> list[int]:
        """Past visits by the hour of the day, for bidders that plan ahead."""
        hours = (self._history.at_seconds % DAY_SECONDS // HOUR_SECONDS).astype(np.int64)
        counts: list[int] = (1 + np.bincount(hours, minlength=24)).tolist()
        return counts

    def check_port(self) -> None:
        """Raise if the port of the console is in use."""
        if self.options.console_port:
            bind(self.options.console_host, self.options.console_port).close()

    def start(self) -> dict[str, str]:
        """Start the services. Returns their addresses."""
        self._say("starting gateway, bidder, reporting" + self._console_text())
        self._write_settings()
        folder = self.options.folder
        self.keys = DemoKeys.of_demo(folder)
        config = folder / "kreach.toml"
        self._running = {
            name: self._stack.enter_context(ServiceProcess(name, config, folder / f"{name}.log"))
            for name in _SERVICES
        }
        self._addresses = {name: process.address() for name, process in self._running.items()}
        if self.options.console_port is not None:
            self._start_console(self.options.console_port)
        return self._addresses

    @property
    def addresses(self) -> dict[str, str]:
        """The services by name."""
        return dict(self._addresses)

    def recent_requests(self) -> list[dict[str, Any]]:
        """The last visits, with what the gateway answered."""
        return list(self._requests)

    def corrections(self) -> tuple[Correction, ...]:
        """What the panel has released so far."""
        file = self.options.folder / _CORRECTIONS
        return read_corrections(file) if file.exists() else ()

    def _console_text(self) -> str:
        return "" if self.options.console_port is None else " and the console"

    def _start_console(self, port: int) -> None:
        """The operator's console, and one where the advertiser signs in with its key."""
        folder = self.options.folder
        sections: dict[str, dict[str, Any]] = {
            "console": {
                "key_file": DemoKeys.operator_file(),
                "truth_file": _TRUTH,
                "groups_audit": _AUDIT,
                "tradeoff": _STUDY,
            },
            "advertiser_console": {"sign_in": ["key"]},
        }
        ports = {"console": port, "advertiser_console": self._advertiser_port(port)}
        for name, section in sections.items():
            section |= {
                "host": self.options.console_host,
                "names": ["localhost"],
                "reporting_url": self._addresses["reporting"],
            }
            lines = ["[console]", *(f"{key} = {json.dumps(section[key])}" for key in section)]
            config = folder / f"{name}.toml"
            _write(config, "\n".join([*lines, "", *self._clock_lines]))
            process = ServiceProcess("console", config, folder / f"{name}.log", ports[name])
            self._running[name] = self._stack.enter_context(process)
        for name in sections:
            self._addresses[name] = self._running[name].address(_CONSOLE_SECONDS)
        if not (folder / _STUDY / "summary.json").exists():
            self._start_study()

    def _advertiser_port(self, port: int) -> int:
        """Ten above the operator's console, or any free one."""
        if port == 0:
            return 0
        try:
            bind(self.options.console_host, port + _PORTS_APART).close()
        except KreachError:
            return 0
        return port + _PORTS_APART

    def _start_study(self) -> None:
        """Study in the background what other group sizes would cost."""
        options = self.options
        arguments = (options.folder, options.people, options.seed, _MU, _SIGMA)
        command = ["kreach.lab.demo_study", *(str(argument) for argument in arguments)]
        self._stack.enter_context(ModuleProcess(command, options.folder / "tradeoff.log"))

    def reporting(self, *, as_advertiser: bool = False) -> Client:
        """A client of reporting, with the operator's or the advertiser's key."""
        key = self.keys.advertiser if as_advertiser else self.keys.operator
        return Client(self._addresses["reporting"], key=key)

    async def attack(self) -> AttackResult:
        """Let the advertiser try to learn about few people: two windows that differ by a minute."""
        operator, advertiser = self.reporting(), self.reporting(as_advertiser=True)
        name = _CAMPAIGNS[-1][0].removeprefix(f"{ADVERTISER}.")
        now = min(self.clock(), self.flight_end)
        try:
            return await difference_attack(operator, advertiser, name, self._start, now)
        finally:
            await operator.close()
            await advertiser.close()

    async def create_campaigns(self) -> None:
        """Create the campaigns that do not exist yet, and wait until the bidder has them."""
        begin = from_seconds(self._start)
        flight = {
            "start": begin.isoformat(),
            "end": (begin + timedelta(days=self.options.days)).isoformat(),
            "market_mu": _MU,
            "market_sigma": _SIGMA,
        }
        scale = self.options.visits / 60_000
        client = self.reporting()
        known = {row["id"] for row in (await self._get(client, "/v1/campaigns"))["campaigns"]}
        for at, (name, budget, cap, bidder) in enumerate(_CAMPAIGNS):
            width, height = _BANNER_SIZES[at]
            campaign = {
                "id": name,
                "budget": round(budget * scale, 2),
                "caps": [{"limit": cap}],
                "bidder": bidder,
                "expected_requests": max(self.options.visits // len(_BANNER_SIZES), 1),
                "max_cpm": 20.0,
                "creative": {
                    "id": f"{name.rpartition('.')[2]}-1",
                    "markup": f"<p>{name.rpartition('.')[2]}</p>",
                    "width": width,
                    "height": height,
                },
                **flight,
            }
            if name not in known:
                answer = await client.ask("POST", "/v1/campaigns", campaign)
                if answer.status != 201:
                    raise RuntimeError(f"reporting refused a campaign: {answer.body!r}")
        await self._wait_for_bidder()
        await client.close()

    async def _wait_for_bidder(self) -> None:
        client = Client(self._addresses["bidder"])
        deadline = time.monotonic() + 20.0
        while (await self._get(client, "/healthz"))["campaigns"] < len(_BANNER_SIZES):
            if time.monotonic() > deadline:
                raise RuntimeError("the bidder did not load the campaigns within 20 seconds")
            await asyncio.sleep(0.05)
        await client.close()

    async def _get(self, client: Client, path: str) -> Any:
        answer = await client.ask("GET", path)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        return answer.document

    async def run(
        self, stop: asyncio.Event, update: Callable[[list[CampaignResult]], None]
    ) -> None:
        """Send visits until the flights end or `stop` is set; call `update` twice a second."""
        _write(self._begins, repr(time.time()))
        live = LiveRun(
            self.population,
            self._addresses["gateway"],
            self._addresses["bidder"],
            lognormal_prices(_MU, _SIGMA),
            tuple(Placement(*size) for size in _BANNER_SIZES),
            NoticeFaults(duplicate=0.02, lost=0.0),
            seed=self.options.seed,
            watch=self._requests.append,
            tell_all=self.has_panel,
        )
        for name, counts in self._earlier_exposures.items():
            live.truth.seen.of(name)[:] = counts
        self._live = live
        visiting = asyncio.create_task(self._send_visits(live))
        watching = asyncio.create_task(self._watch(update))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({visiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (visiting, watching, stopping):
                task.cancel()
            outcomes = await asyncio.gather(visiting, watching, stopping, return_exceptions=True)
            await live.close()
        for error in outcomes:
            if isinstance(error, Exception):
                raise error
        update(await self.results())
        self._save()
        if self._mean_late_seconds > _MAX_LATE_SECONDS:
            minutes = self._mean_late_seconds / 60.0
            self._say(
                f"visits were sent {minutes:.0f} simulated minutes late on average, which blurs "
                "sessions: this machine needs fewer --people or more --minutes"
            )

    @property
    def _mean_late_seconds(self) -> float:
        return self._live.late_seconds / max(self._live.visits_started, 1)

    async def _send_visits(self, live: LiveRun) -> None:
        """Send the visits that no earlier run has sent, each at its time.

        Those of the flight; with a console also those after it, flight by flight, until stopped.
        """
        speed, begin, length = self.options.speed, self._start, self.flight_end - self._start
        skip = self._earlier_visits
        while True:
            visits = self.population.schedule(begin, begin + length)
            if skip < len(visits.person):
                await live.follow(visits, self.clock, speed, 24, skip=skip)
            skip = max(skip - len(visits.person), 0)
            begin += length
            left = max(begin - self.clock(), 0.0) / speed  # the night may be quiet
            if not self.goes_on:
                # the last notices arrive or expire
                await asyncio.sleep(left + 1.0 + self._expiry / speed)
                return
            await asyncio.sleep(left)

    async def _watch(self, update: Callable[[list[CampaignResult]], None]) -> None:
        while True:
            update(await self.results())
            self._save()
            await asyncio.sleep(0.5)

    async def results(self) -> list[CampaignResult]:
        """The reported and the true figures of every campaign."""
        client = self.reporting()
        seen = self._live.truth.seen
        results = []
        campaigns = (await self._get(client, "/v1/campaigns?limit=20"))["campaigns"]
        for campaign in campaigns:
            cap = campaign["caps"][-1]["limit"]
            document = await self._get(client, f"/v1/campaigns/{campaign['id']}/reach?cap={cap}")
            report = document["reports"][0]
            results.append(
                CampaignResult(
                    campaign["id"],
                    document["impressions"],
                    document["spend"],
                    campaign["budget"],
                    cap,
                    report["reach"],
                    (report["interval"][0], report["interval"][1]),
                    seen.reach(campaign["id"], cap),
                    report["over_exposed"],
                    seen.over_exposed(campaign["id"], cap),
                )
            )
        await client.close()
        return results

    def progress(self) -> tuple[float, datetime]:
        """The elapsed share of the flight, and the simulated time."""
        share = min((self._now() - self._start) / (self.flight_end - self._start), 1.0)
        return share, from_seconds(self._now())

    def _now(self) -> float:
        """The simulated time; without a console it ends with the flights."""
        return self.clock() if self.goes_on else min(self.clock(), self.flight_end)

    def _save(self) -> None:
        """Write the truth for the console, and the state from which a demo can continue."""
        seen = self._live.truth.seen
        names = list(seen.campaigns)
        now = self._now()
        point = {
            "ts": iso_seconds(now),
            "campaigns": {
                name: {
                    "impressions": seen.impressions(name),
                    "reach": [seen.reach(name, cap) for cap in range(1, _TRUTH_CAPS + 1)],
                }
                for name in names
            },
        }
        self._truth_series.append(point)
        if len(self._truth_series) > _MAX_TRUTH_POINTS:  # a demo may run for days
            del self._truth_series[1::2]
        truth = {"series": self._truth_series, "requests": list(self._requests)}
        _write(self.options.folder / _TRUTH, json.dumps(truth))
        state = {
            "options": self.options.fixed(),
            "start": self._start,
            "shown": now,
            "visits": self._earlier_visits + self._live.visits_started,
            "late_seconds": round(self._mean_late_seconds, 1),
            "seen": {name: seen.of(name).tolist() for name in names},
        }
        _write(self.options.folder / _STATE, json.dumps(state))

    def close(self) -> None:
        """Stop the services in order, so that they save what they acknowledged."""
        for process in reversed(self._running.values()):
            process.stop()
        self._stack.close()


def _write(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text)
    os.replace(draft, path)
