"""Answers of the reporting API on a live log: one rival is the bare figures of the library."""

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np

import kreach as kr
from benchmarks.timing import duration, print_table
from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.campaigns.campaign import campaign_from
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.settings import AdSystemSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.service.logs import Log

__all__ = ["run"]

_START = datetime(2026, 3, 2, tzinfo=UTC)
_DAYS, _GROUPS, _CAMPAIGNS, _ROWS = 7, 500, 10, 100_000
_NEW_ROWS = 20  # between two questions, as on a campaign that runs
_ROUNDS = 9
_QUESTIONS = {
    "reach so far": "/v1/campaigns/c1/reach?cap=1",
    "status": "/v1/campaigns/c2",
    "list of 10 campaigns": "/v1/campaigns",
    "reach in a window": "/v1/campaigns/c3/reach?cap=1&start=2026-03-03T0{round}:00:00Z",
    "series of 7 days": "/v1/campaigns/c4/series?by=day&cap=1",
    "curve of 168 hours": "/v1/campaigns/c5/curve?by=hour&cap=1",
}


class _Store:
    """A journal that grows, and campaigns."""

    def __init__(self, folder: Path) -> None:
        ids = tuple(f"g{j:04d}" for j in range(_GROUPS))
        created = _START - timedelta(days=1)
        catalogue = Catalogue("v1", created, 20, ids, np.full(_GROUPS, 20), 0.6)
        write_catalogue(catalogue, folder / "release")
        self.settings = AdSystemSettings(store=folder / "store", catalogues=(folder / "release",))
        campaigns = CampaignStore(self.settings.store)
        for number in range(_CAMPAIGNS):
            flight = {"start": _START, "end": _START + timedelta(days=_DAYS)}
            dates = {name: moment.isoformat() for name, moment in flight.items()}
            campaigns.add(
                campaign_from({"id": f"c{number}", "budget": 1000.0, "max_cpm": 5.0, **dates})
            )
        campaigns.close()
        self.journal = Journal(self.settings.store, Log("bench", lambda line: None))
        self._catalogue = self.journal.catalogue_number("v1")
        self._chance, self._row = np.random.default_rng(1), 0
        self.add(_ROWS)

    def add(self, rows: int) -> None:
        """Write impressions at random times of the flight."""
        times = self._chance.uniform(0.0, _DAYS * 86_400.0, rows) + _START.timestamp()
        groups = self._chance.integers(0, _GROUPS, rows)
        for seconds, group in zip(times.tolist(), groups.tolist(), strict=True):
            self._row += 1
            number = self.journal.epoch << 40 | self._row
            ts = round(seconds * 1e6)
            campaign = 1 + self._row % _CAMPAIGNS
            row = (number, campaign, self._catalogue, group, ts, ts, ts // 10**6 + 900, 2_000)
            self.journal.submit("impression", row)
        self.journal.run_now(lambda _: None)


async def _answer_seconds(store: _Store) -> dict[str, float]:
    """The median time of each answer, with new rows before each."""
    app = reporting_app(store.settings, ReportingSettings(), Log("bench", lambda line: None))
    transport = httpx.ASGITransport(app)
    seconds: dict[str, list[float]] = {name: [] for name in _QUESTIONS}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8403") as client,
    ):
        for round_number in range(_ROUNDS):
            for name, path in _QUESTIONS.items():
                store.add(_NEW_ROWS)
                begun = time.perf_counter()
                answer = await client.get(path.format(round=round_number))
                seconds[name].append(time.perf_counter() - begun)
                answer.raise_for_status()
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def _library_seconds() -> float:
    """The figures of one report, computed by the library on counts that are at hand."""
    audience = kr.Audience.disjoint([20] * _GROUPS, dispersion=0.6)
    times = []
    for seed in range(_ROUNDS):
        counts = np.random.default_rng(seed).poisson(_ROWS / _CAMPAIGNS / _GROUPS, _GROUPS)
        begun = time.perf_counter()
        report = kr.measure(audience, counts, cap=1)
        report.interval(0.95)
        report.at_least_intervals(10)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def run() -> None:
    """Time every kind of answer beside the library's own figures."""
    bare = _library_seconds()
    with tempfile.TemporaryDirectory(prefix="kreach-bench-") as folder:
        store = _Store(Path(folder))
        answers = asyncio.run(_answer_seconds(store))
        store.journal.close()
    rows = [("the figures of one report, by the library", duration(bare), "1.0")]
    rows += [
        (name, duration(seconds), f"{seconds / bare:.1f}") for name, seconds in answers.items()
    ]
    title = f"{_ROWS:,} live rows of {_CAMPAIGNS} campaigns, {_GROUPS} groups, in process"
    print_table(title, ("answer", "median time", "÷ library"), rows)
