"""A store with three days of campaigns, input files of the console, and running services."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.boundary.times import iso_text
from tests.adsystem.api.live_stores import GROUPS, START, LiveStore, make_campaign, make_catalogue
from tests.service.service_process import Service, serving

NOW = START + timedelta(days=3)
CANARY = "reader-canary-7"
_BAND = {"mean": 1.0, "low": 0.9, "high": 1.1}

__all__ = ["CANARY", "NOW", "Services", "chromium", "firefox", "start_services", "write_store"]


def chromium() -> str:
    """The path of the Chromium on this machine."""
    return _find_program("chromium", "chromium-browser", "google-chrome")


def firefox() -> str:
    """The path of the Firefox on this machine."""
    return _find_program("firefox-esr", "firefox")


def _find_program(*names: str) -> str:
    paths = (shutil.which(name) for name in names)
    path = next((path for path in paths if path is not None), None)
    if path is None:
        raise RuntimeError(f"browser tests need one of these programs: {', '.join(names)}")
    return path


class Services:
    """Running services, and a client of reporting for what the pages should show."""

    def __init__(self, folder: Path, config: Path, reporting: Service, console: Service) -> None:
        self.folder, self.config = folder, config
        self.reporting, self.console = reporting, console

    @property
    def url(self) -> str:
        """The console's address."""
        return f"http://127.0.0.1:{self.console.port}"

    def api(self, path: str, **headers: str) -> dict[str, Any]:
        """The JSON that reporting answers."""
        address = f"http://127.0.0.1:{self.reporting.port}{path}"
        answer = httpx.get(address, timeout=60.0, headers=headers)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON that reporting answers to a body."""
        answer = httpx.post(f"http://127.0.0.1:{self.reporting.port}{path}", json=body, timeout=90)
        assert answer.status_code < 300, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Change a campaign."""
        answer = httpx.patch(f"http://127.0.0.1:{self.reporting.port}{path}", json=body)
        assert answer.status_code == 200, answer.text

    def field_errors(self, body: dict[str, Any]) -> dict[str, str]:
        """The messages by field with which reporting refuses a campaign."""
        answer = httpx.post(f"http://127.0.0.1:{self.reporting.port}/v1/campaigns", json=body)
        assert answer.status_code == 422, answer.text
        return {one["field"]: one["message"] for one in answer.json()["error"]["fields"]}


_COMMON: dict[str, Any] = {"budget": 50.0, "expected_requests": 600}
CAMPAIGNS = (
    make_campaign("spring", caps=(Cap(limit=2),), **_COMMON),
    make_campaign("summer", caps=(Cap(limit=1),), state="paused", **_COMMON),
    make_campaign("future", start=START + timedelta(days=20), caps=(Cap(limit=3),), **_COMMON),
    make_campaign("autumn", start=START + timedelta(hours=55), expected_requests=600),
)


def write_store(folder: Path, campaigns: tuple[Campaign, ...] = CAMPAIGNS) -> Path:
    """Write a store, the input files and the settings; returns the settings file."""
    catalogue = make_catalogue("dispersed")
    shop = LiveStore(folder, catalogue)
    shop.add(*campaigns)
    asyncio.run(_sell(shop))
    _write_input_files(folder)
    config = folder / "kreach.toml"
    config.write_text(
        f"""[adsystem]
store = "store"
catalogues = ["{catalogue.version}"]
[reporting]
port = 0
[console]
port = 0
groups_audit = "audit.json"
tradeoff = "tradeoff"
truth_file = "truth.json"
[clock]
speed = 60.0
start_seconds = {NOW.timestamp()}
start_file = "never"
"""
    )
    return config


async def _sell(shop: LiveStore) -> None:
    generator = np.random.default_rng(7)
    async with shop.open():
        for day in range(3):
            shop.now = (START + timedelta(days=day, hours=2)).timestamp()
            await shop.sell(generator.integers(0, GROUPS, 120).tolist())
            await asyncio.sleep(0.15)  # the bidder writes a checkpoint
        shop.now = (START + timedelta(hours=60)).timestamp()
        await asyncio.sleep(0.5)  # autumn begins, and bids most
        await shop.sell(generator.integers(0, GROUPS, 90).tolist())
        shop.compact()


_SEEN = {
    "people": 192,
    "min_visible": 4,
    "median_visible": 5.5,
    "people_in_small_groups": 0,
    "worst_guess": 0.42,
    "mean_guess": 0.3,
}


def _write_input_files(folder: Path) -> None:
    """An audit, a study, and the truth of a simulation."""
    spread = {"least": 5.0, "p05": 5.0, "median": 6.0, "mean": 6.4}
    audit = {
        "people": 192,
        "groups": GROUPS,
        "group_size": 5,
        "strategy": "random",
        "sizes": spread,
        "effective": spread | {"least": 3.2},
        "verdict": "This catalogue must not be released: 1 danger was found.",
        "findings": [
            {
                "level": "ok",
                "text": "every group has at least 5 members",
                "check": "group size",
                "number": "5 people",
                "floor": "at least 5",
            },
            {"level": "danger", "text": "<img src=x onerror=alert(1)> is text"},
        ],
        "linkage": [{"method": "sticky", "versions": [1, 2], "unique_share": [0.0, 0.0125]}],
        "visible": [{"audience": "everyone", "kind": "everyone", "seen": _SEEN}],
        "past": {"versions": 3, "singled_out": 0, "in_small_crowds": 2, "smallest": 4, "median": 9},
        "not_examined": ["What observers know from elsewhere."],
    }
    (folder / "audit.json").write_text(json.dumps(audit))
    (folder / "tradeoff").mkdir()
    reach = {"1": _BAND, "5": _BAND | {"mean": 0.875}, "20": _BAND | {"mean": 0.8134}}
    study = {
        "setting": {"people": 192, "seed": 1},
        "relative_reach": {"random": {"planning_visitors": reach}},
        "measurement_error": {"random": {"dispersed": {"5": _BAND | {"mean": 0.0123}}}},
        "advice": ["k = 5: random groups lose 12% of reach at equal budget."],
    }
    (folder / "tradeoff" / "summary.json").write_text(json.dumps(study))
    series = [
        {
            "ts": iso_text(START + timedelta(hours=hour)),
            "campaigns": {"spring": {"impressions": hour, "reach": [hour] * 5}},
        }
        for hour in range(72)
    ]
    user = {"data": [{"name": "kreach", "segment": [{"id": "v1-g0003"}]}]}
    requests = [{"user_id": CANARY, "user": user, "visit": 4_321}]
    (folder / "truth.json").write_text(json.dumps({"series": series, "requests": requests}))


@contextmanager
def start_services(folder: Path, config: Path, **more: str) -> Iterator[Services]:
    """Run reporting and the console over a store."""
    where = ("--config", str(config))
    with serving(folder, "reporting", *where) as reporting:
        url = f"http://127.0.0.1:{reporting.port}"
        environment = {"KREACH_CONSOLE_REPORTING_URL": url, **more}
        with serving(folder, "console", *where, more=environment) as console:
            services = Services(folder, config, reporting, console)
            try:
                yield services
            finally:
                services.reporting.end()  # a test may have replaced it
