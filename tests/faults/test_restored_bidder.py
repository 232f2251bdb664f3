"""A bidder's disk is lost and restored from its backup; reporting, elsewhere, lost nothing."""

import asyncio
import json
import random
import shutil
import sqlite3
import time
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from simulations.fleet import RedisServer
from simulations.shipping_servers import NatsServer

from kreach.adsystem.campaigns.store import CampaignStore
from tests.adsystem.ledger.sample_journals import all_rows
from tests.cli.command import kreach
from tests.faults.service_processes import (
    Client,
    Exchange,
    Service,
    make_campaign,
    make_store,
    until,
)

EXPIRY_SECONDS = 2
_SHARED = """
[redis]
url = "{redis}"
bidders = ["b1"]
[shipping]
stream = "{nats}"
files = "{files}"
files_seconds = 0.2
[guard]
grid_seconds = 1
min_impressions = 5
min_people = 20
min_audience = 20
settle_seconds = 0.5
closing_seconds = 4
[reporting]
keys = true
"""


class Machines:
    """A bidder and reporting with stores of their own, and an advertiser who looks at reports."""

    def __init__(self, root: Path, held: ExitStack) -> None:
        for name in ("redis", "nats", "files"):
            (root / name).mkdir()
        self.redis = held.enter_context(RedisServer(root / "redis"))
        nats = held.enter_context(NatsServer(root / "nats"))
        shared = _SHARED.format(
            redis=self.redis.url, nats=nats.url, files=(root / "files").as_uri()
        )
        self.stores = {name: root / name / "store" for name in ("bidder", "reporting")}
        self.own_log = self.stores["bidder"] / "bidders" / "b1"
        self.configs = {}
        for name, store in self.stores.items():
            (root / name).mkdir()
            options: dict[str, Any] = {"name": "b1", "expiry_seconds": EXPIRY_SECONDS}
            config = make_store(root / name, [], store, **options)
            config.write_text(config.read_text() + shared)
            self.configs[name] = config
        shutil.rmtree(self.stores["bidder"])
        with closing(CampaignStore(self.stores["reporting"])) as campaigns:
            campaigns.add(make_campaign("acme.spring", 500.0))
        self._keys = {role: self._key(role) for role in ("operator", "advertiser")}
        self._held = held
        self.reporting = held.enter_context(Service("reporting", self.configs["reporting"]))
        self.start_bidder()

    def start_bidder(self) -> None:
        self.bidder = self._held.enter_context(Service("bidder", self.configs["bidder"]))

    def _key(self, role: str) -> str:
        words = ["keys", "add", "--config", str(self.configs["reporting"]), "--role", role]
        words += ["--rate", "100000"]
        words += ["--advertiser", "acme"] if role == "advertiser" else []
        return kreach(*words).out.strip()

    def run(self, name: str, *words: str) -> Any:
        """A command with a machine's settings; its document."""
        done = kreach(words[0], "--config", str(self.configs[name]), *words[1:], "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def get(self, role: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.reporting.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {self._keys[role]}", "content-type": "application/json"},
            method="GET" if body is None else "PATCH",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
        return text if path == "/metrics" else json.loads(text)

    def shown(self) -> int:
        """Impressions that the advertiser sees."""
        return self.get("advertiser", "/v1/campaigns/spring")["status"]["impressions"] or 0

    def withheld(self) -> list[str]:
        status = self.get("advertiser", "/v1/campaigns/spring")["status"]
        return [note["reason"] for note in status["suppressed"]]

    def in_log(self) -> int:
        """Impressions that reporting has."""
        status = self.get("operator", "/v1/campaigns/acme.spring")["status"]
        return int(status["impressions"])

    def behind(self) -> bool:
        return "kreach_reporting_chapters_behind 1.0" in self.get("operator", "/metrics")

    def in_chapters(self) -> int:
        """Rows of all chapters that reporting has closed."""
        file = self.stores["reporting"] / "chapters.sqlite3"
        with closing(sqlite3.connect(file)) as chapters:
            found = chapters.execute("SELECT coalesce(sum(rows), 0) FROM chapters").fetchone()[0]
        return int(found)

    def sell(self, count: int) -> Exchange:
        """Impressions that were billed and acknowledged."""
        chance = random.Random(count)
        exchange = Exchange(chance, lost=0.0, silent=0.0, exp=(1,), bidder="b1")

        async def trade() -> None:
            client = await Client.open(self.bidder.port)
            while len(exchange.billed()) < count:
                await exchange.one_request(client)
            client.close()

        asyncio.run(asyncio.wait_for(trade(), 60))
        return exchange


def test_chapters_go_on_when_a_bidder_alone_was_restored(tmp_path: Path) -> None:
    with ExitStack() as held:
        at = Machines(tmp_path, held)
        first = at.sell(20).billed()
        until(lambda: at.in_log() == 20, "the log arrives")
        at.run("bidder", "backup", "--out", str(tmp_path / "backup"))
        lost = at.sell(20).billed()

        def more_than_the_backup_has() -> bool:
            at.sell(2)
            return at.shown() > len(first)

        until(more_than_the_backup_has, "the advertiser sees rows that will be lost")
        at.bidder.kill()
        spent = sum(micros for *_, micros, _ in all_rows(at.own_log))
        shutil.rmtree(at.stores["bidder"])
        assert len(lost) == 20

        at.run("bidder", "restore", "--backup", str(tmp_path / "backup"))
        at.redis.kill()  # with its data it would refuse a bidder that lost rows
        at.redis.start()
        known = sum(micros for *_, micros, _ in all_rows(at.own_log))
        table = tmp_path / "spend.csv"
        table.write_text(f"campaign,spend\nacme.spring,{(spent - known) / 1e6:.6f}\n")
        time.sleep(EXPIRY_SECONDS + 3)
        at.run("bidder", "settle", "--spend", str(table))
        seen, chapters = at.shown(), at.in_chapters()
        at.start_bidder()
        new = len(at.sell(20).billed())
        until(lambda: at.in_log() == 20 + new, "the restored log takes the place of the lost one")
        until(lambda: "log lacks rows" in at.withheld(), "the advertiser is told")
        time.sleep(2)  # cells in which chapters could be closed
        assert (at.shown(), at.in_chapters(), at.behind()) == (seen, chapters, True)

        (resumed,) = at.run("reporting", "settle", "--resume-chapters")["chapters_resumed"]
        assert (resumed["campaign"], resumed["catalogue"]) == ("acme.spring", "v1")

        def newer_chapters() -> bool:
            nonlocal new
            new += len(at.sell(2).billed())
            return at.shown() > seen

        until(newer_chapters, "the advertiser sees new chapters")
        assert "log lacks rows" not in at.withheld()
        assert not at.behind()
        again = kreach("settle", "--config", str(at.configs["reporting"]), "--resume-chapters")
        assert "nothing to resume" in again.err
        at.get("operator", "/v1/campaigns/acme.spring", {"state": "ended"})
        # in the end: what was closed before the loss, and each impression since once
        until(lambda: at.shown() == chapters + new, "the final figures are complete")
        time.sleep(2)
        assert at.shown() == chapters + new
