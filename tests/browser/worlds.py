"""A store with numbers in it, the files that others hand over, and the services that show them."""

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
from tests.adsystem.api.stores import GROUPS, START, Shop, make_campaign, make_catalogue
from tests.service.service_process import Service, serving

NOW = START + timedelta(days=3)
CANARY = "reader-canary-7"
_BAND = {"mean": 1.0, "low": 0.9, "high": 1.1}

__all__ = ["CANARY", "NOW", "World", "chromium", "made_world", "opened"]


def chromium() -> str:
    """The browser of this machine."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise RuntimeError("browser tests need chromium, chromium-browser or google-chrome in PATH")


class World:
    """Services at work, and a way to ask reporting what the pages should show."""

    def __init__(self, folder: Path, config: Path, reporting: Service, console: Service) -> None:
        self.folder, self.config = folder, config
        self.reporting, self.console = reporting, console

    @property
    def url(self) -> str:
        """The console's address."""
        return f"http://127.0.0.1:{self.console.port}"

    def api(self, path: str, **headers: str) -> dict[str, Any]:
        """What reporting says."""
        address = f"http://127.0.0.1:{self.reporting.port}{path}"
        answer = httpx.get(address, timeout=60.0, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


_COMMON: dict[str, Any] = {"budget": 50.0, "expected_requests": 600}
CAMPAIGNS = (
    make_campaign("spring", caps=(Cap(limit=2),), **_COMMON),
    make_campaign("summer", caps=(Cap(limit=1),), state="paused", **_COMMON),
    make_campaign("future", start=START + timedelta(days=20), caps=(Cap(limit=3),), **_COMMON),
)


def made_world(folder: Path, campaigns: tuple[Campaign, ...] = CAMPAIGNS) -> Path:
    """A store with three days of campaigns, and settings; their file."""
    catalogue = make_catalogue("dispersed")
    shop = Shop(folder, catalogue)
    shop.add(*campaigns)
    asyncio.run(_filled(shop))
    _hand_over(folder)
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
shown = {NOW.timestamp()}
begins = "never"
"""
    )
    return config


async def _filled(shop: Shop) -> None:
    chance = np.random.default_rng(7)
    async with shop.open():
        for day in range(3):
            shop.now = (START + timedelta(days=day, hours=2)).timestamp()
            await shop.sell(chance.integers(0, GROUPS, 120).tolist())
            await asyncio.sleep(0.15)  # the bidder writes its diary
        shop.compact()


def _hand_over(folder: Path) -> None:
    """An audit, a study, and the truth of a simulation."""
    spread = {"least": 5.0, "p05": 5.0, "median": 6.0, "mean": 6.4}
    audit = {
        "people": 192,
        "groups": GROUPS,
        "group_size": 5,
        "strategy": "random",
        "sizes": spread,
        "effective": spread | {"least": 3.2},
        "findings": [
            {"level": "ok", "text": "every group has at least 5 members"},
            {"level": "danger", "text": "<img src=x onerror=alert(1)> is text"},
        ],
        "linkage": [{"method": "sticky", "versions": [1, 2], "unique_share": [0.0, 0.0125]}],
    }
    (folder / "audit.json").write_text(json.dumps(audit))
    (folder / "tradeoff").mkdir()
    reach = {"1": _BAND, "5": _BAND | {"mean": 0.875}, "20": _BAND | {"mean": 0.8134}}
    study = {
        "setting": {"people": 192, "seed": 1},
        "relative_reach": {"random": {"planning_recency": reach}},
        "measurement_error": {"random": {"dispersed": {"5": _BAND | {"mean": 0.0123}}}},
        "advice": ["k = 5: random groups lose 12% of reach at equal budget."],
    }
    (folder / "tradeoff" / "summary.json").write_text(json.dumps(study))
    series = [
        {
            "ts": (START + timedelta(hours=hour)).isoformat().replace("+00:00", "Z"),
            "campaigns": {"spring": {"impressions": hour, "reach": [hour] * 5}},
        }
        for hour in range(72)
    ]
    user = {"data": [{"name": "kreach", "segment": [{"id": "v1-g0003"}]}]}
    requests = [{"user_id": CANARY, "user": user, "visit": 4_321}]
    (folder / "truth.json").write_text(json.dumps({"series": series, "requests": requests}))


@contextmanager
def opened(folder: Path, config: Path, **more: str) -> Iterator[World]:
    """Reporting and the console over a world that was made."""
    where = ("--config", str(config))
    with serving(folder, "reporting", *where) as reporting:
        url = f"http://127.0.0.1:{reporting.port}"
        given = {"KREACH_CONSOLE_REPORTING_URL": url, **more}
        with serving(folder, "console", *where, more=given) as console:
            world = World(folder, config, reporting, console)
            try:
                yield world
            finally:
                world.reporting.end()  # it may be another one by now
