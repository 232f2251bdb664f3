"""An advertiser who asks for everything all the time learns of no few impressions or people."""

import asyncio
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.reports.questions import ReachQuestion
from kreach.adsystem.reports.report import Allowed
from kreach.boundary.times import Window
from tests.adsystem.api.live_stores import (
    END,
    GROUPS,
    START,
    LiveStore,
    make_campaign,
    make_catalogue,
)
from tests.adsystem.disclosure.chapters.test_policy import EVER, FLOORS, guarded
from tests.adsystem.report_services import PlainReports

LEAST = FLOORS.min_impressions


def test_polling_tells_of_whole_chapters_only(tmp_path: Path) -> None:
    asyncio.run(_polling(tmp_path))


async def _polling(folder: Path) -> None:
    catalogue = make_catalogue("disjoint")
    live = LiveStore(folder, catalogue)
    live.add(make_campaign("spring"))
    generator = np.random.default_rng(11)
    totals: set[tuple[int, int]] = set()  # impressions and spend
    windows: set[tuple[str, str]] = set()
    with guarded(live) as service:
        async with live.open():
            live.now = START.timestamp()
            for _ in range(60):
                live.now += float(generator.integers(60, 2_400))
                await live.sell(generator.integers(0, GROUPS, generator.integers(0, 4)).tolist())
                _ask_for_everything(service, generator, totals, windows)
        live.now = END.timestamp() + 7_200
        _ask_for_everything(service, generator, totals, windows)
        assert max(totals)[0] == len(live.sold)
    assert len(totals) > 5
    assert len(windows) > 8
    for (one, paid), (other, more) in combinations(sorted(totals), 2):
        assert other - one >= LEAST
        assert more > paid
    inside = {window: _rows(live, *window) for window in windows}
    for first, second in combinations(windows, 2):
        apart = inside[first] ^ inside[second]
        assert not apart or len(apart) >= LEAST
        groups = np.unique([live.sold[at][2] for at in apart]).astype(int)
        assert not apart or catalogue.sizes[groups].sum() >= FLOORS.min_people


def _ask_for_everything(
    service: PlainReports,
    generator: np.random.Generator,
    totals: set[tuple[int, int]],
    windows: set[tuple[str, str]],
) -> None:
    listed = service.listing(None, 10)["campaigns"][0]["status"]
    told = [listed, service.status("spring", 0.95)["status"]]
    told.append(service.reach("spring", ReachQuestion(caps=(1,))))
    for document in told:
        if document["impressions"] is not None:
            totals.add((document["impressions"], document["spend_micros"]))
    for entry in service.pacing("spring", EVER, 1_000)["pacing"]:
        totals.add((entry["impressions"], entry["spent_micros"]))
    series = service.series("spring", "hour", ReachQuestion(caps=(1,)))["series"]
    for period in series:
        windows.add((period["start"], period["end"]))
    moments = [START.timestamp() + 600.0 * float(n) for n in generator.integers(0, 200, 2)]
    asked: list[dict[str, Any]] = []
    for start, end in [(m, m + 600.0) for m in moments] + [(min(moments), max(moments))]:
        window = Window.between(*(_text(moment) for moment in (start, max(end, start + 1.0))))
        try:
            asked.append(service.reach("spring", ReachQuestion(window, (1,))))
        except Withheld as error:
            near = error.allowed or Allowed()
            edges = [(a, b) for a in near.start for b in near.end if a < b]
            asked += [
                service.reach("spring", ReachQuestion(Window.between(*edge), (1,)))
                for edge in edges
            ]
    for document in asked:
        windows.add((document["start"], document["end"]))


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def _rows(live: LiveStore, start: str, end: str) -> set[int]:
    window = Window.between(start, end)
    assert window.start is not None
    assert window.end is not None
    low, high = window.start.timestamp(), window.end.timestamp()
    return {at for at, row in enumerate(live.sold) if low <= row[3] < high}
