"""Running services take up a new release by themselves or on SIGHUP, and never a bad one."""

import asyncio
import json
import re
import shutil
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.shipping.releases import push_release
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.faults.service_processes import (
    Client,
    Service,
    bid_request,
    make_campaign,
    make_store,
    parse_bid,
    until,
)

NAME = "spring"


def release(root: Path, version: str, groups: int) -> Path:
    """A release on disk, not pushed yet."""
    ids = tuple(f"g{j:03d}" for j in range(groups))
    sizes = np.random.default_rng(2).integers(20, 40, groups)
    folder = root / f"built-{version}-{groups}"
    write_catalogue(Catalogue(version, datetime.now(UTC), 20, ids, sizes), folder)
    return folder


class Fleet:
    """A bidder and reporting on one settings file, which names releases by address."""

    def __init__(self, root: Path, bidder: Service, reporting: Service, config: Path) -> None:
        self.bucket = root / "bucket"
        self.services = {"bidder": bidder, "reporting": reporting}
        self.config, self.text = config, config.read_text()

    def name(self, *addresses: str) -> None:
        """Write the settings anew."""
        before = re.search(r"catalogues = .*", self.text)
        assert before is not None
        text = self.text.replace(before[0], f"catalogues = {json.dumps(list(addresses))}")
        self.config.write_text(text)

    def hang_up(self) -> None:
        for service in self.services.values():
            service.process.send_signal(signal.SIGHUP)

    def health(self) -> list[dict[str, Any]]:
        return [service.ask("/healthz").document for service in self.services.values()]

    def catalogues(self) -> list[list[str]]:
        return [document["catalogues"] for document in self.health()]

    def refusals(self) -> list[str]:
        """What each says is wrong with its settings, in health and metrics alike."""
        found = []
        for kind, service in self.services.items():
            reply, metrics = service.ask("/healthz"), service.ask("/metrics").body.decode()
            assert reply.status == 200  # it serves
            assert service.ask("/readyz").status == 200
            why = reply.document["reload"]
            assert f"kreach_{kind}_reload_refused {float(why != 'ok')}" in metrics
            found.append(why)
        return found

    def count(self, event: str) -> int:
        return min(
            len([one for one in service.events() if one["event"] == event])
            for service in self.services.values()
        )

    def wait_for(self, event: str, times: int) -> None:
        until(lambda: self.count(event) == times, f"{event}, {times} times")

    def sell(self, version: str, times: int = 5) -> int:
        """Impressions on a catalogue that were billed."""

        async def sell() -> int:
            client, billed = await Client.open(self.services["bidder"].port), 0
            for group in range(times):
                asked = bid_request(group).replace(b'"v1"', f'"{version}"'.encode())
                reply = await client.ask("/openrtb2/bid", asked)
                if reply.status == 200:
                    sold = parse_bid(reply, time.time())
                    paid = await client.ask(f"/openrtb2/billing/{sold.token}?price=0.1")
                    billed += int(paid.status == 200)
            client.close()
            return billed

        return asyncio.run(sell())

    def reported(self, version: str) -> int:
        reply = self.services["reporting"].ask(f"/v1/campaigns/{NAME}/reach?catalogue={version}")
        assert reply.status == 200, reply.body
        return int(reply.document["impressions"])


def open_fleet(root: Path, held: ExitStack, **releases: object) -> tuple[Fleet, str]:
    """Services on the release v1; its address."""
    config = make_store(root, [make_campaign(NAME, 100.0)])
    (root / "bucket").mkdir()
    first = push_release(release(root, "v1", 40), (root / "bucket").as_uri(), {})
    lines = [f"catalogues = {json.dumps([first])}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in releases.items()]
    text = config.read_text().replace('catalogues = ["release"]\n', "")
    config.write_text(text + "[releases]\n" + "\n".join(lines) + "\n")
    bidder = held.enter_context(Service("bidder", config))
    reporting = held.enter_context(Service("reporting", config))
    fleet = Fleet(root, bidder, reporting, config)
    assert fleet.catalogues() == [["v1"], ["v1"]]
    until(lambda: fleet.sell("v1", 1), "the first bid")
    return fleet, first


def test_a_new_release_is_taken_up_on_a_signal_and_a_bad_one_is_not(tmp_path: Path) -> None:
    with ExitStack() as held:
        fleet, first = open_fleet(tmp_path, held)
        bucket = fleet.bucket.as_uri()
        second = push_release(release(tmp_path, "v2", 30), bucket, {})

        (fleet.bucket / "elsewhere").mkdir()
        wrong_pin = second[:-64] + "ab" * 32
        other_groups = push_release(release(tmp_path, "v1", 25), f"{bucket}/elsewhere", {})
        damaged = push_release(release(tmp_path, "v3", 30), bucket, {})
        (fleet.bucket / "v3" / "groups.parquet").write_bytes(b"not what was pushed")
        never_pushed = f"{bucket}/v9#sha256={'00' * 32}"
        for refused, (addresses, why) in enumerate(
            [
                ((first, wrong_pin), "another checksum"),
                ((first, damaged), "groups.parquet of release .* has another checksum"),
                ((first, never_pushed), "cannot be fetched"),
                ((second, other_groups), "catalogues must have a new version"),
            ],
            start=1,
        ):
            fleet.name(*addresses)
            fleet.hang_up()
            fleet.wait_for("reload refused", refused)
            assert all(re.search(why, text) for text in fleet.refusals()), fleet.refusals()
            assert fleet.catalogues() == [["v1"], ["v1"]]  # v2 is not taken up alone
        before = fleet.reported("v1")
        sold = fleet.sell("v1")
        assert (sold, fleet.sell("v2")) == (5, 0)
        until(lambda: fleet.reported("v1") == before + sold, "the old release is served")

        fleet.name(first, second)
        fleet.hang_up()
        fleet.wait_for("settings taken up", 1)
        assert fleet.catalogues() == [["v1", "v2"], ["v1", "v2"]]
        assert fleet.refusals() == ["ok", "ok"]
        sold = 0
        while sold < 5:  # a new catalogue's first bids wait for a plan
            sold += fleet.sell("v2", 1)
        until(lambda: fleet.reported("v2") == sold, "the new release is measured")
        assert all(service.process.poll() is None for service in fleet.services.values())


def test_services_look_for_themselves_and_wait_for_the_object_store(tmp_path: Path) -> None:
    with ExitStack() as held:
        fleet, first = open_fleet(tmp_path, held, reload_seconds=1)
        second = push_release(release(tmp_path, "v2", 30), fleet.bucket.as_uri(), {})
        shutil.move(fleet.bucket, tmp_path / "away")
        fleet.name(first, second)
        fleet.wait_for("reload refused", 1)
        assert all("be a folder that exists" in text for text in fleet.refusals())
        assert fleet.sell("v1") == 5
        shutil.move(tmp_path / "away", fleet.bucket)
        fleet.wait_for("settings taken up", 1)
        assert fleet.catalogues() == [["v1", "v2"], ["v1", "v2"]]

        fleet.config.write_text("[releases\n")  # half-written
        fleet.wait_for("reload refused", 2)
        assert all("config must be TOML" in text for text in fleet.refusals())
        fleet.name(second)
        fleet.wait_for("settings taken up", 2)
        assert fleet.catalogues() == [["v2"], ["v2"]]


def test_a_change_that_needs_a_restart_is_named(tmp_path: Path) -> None:
    with ExitStack() as held:
        fleet, first = open_fleet(tmp_path, held)
        fleet.text = fleet.text.replace("[bidder]", '[bidder]\nseat = "other"')
        fleet.name(first)
        fleet.hang_up()
        fleet.wait_for("settings taken up", 1)
        for service in fleet.services.values():
            (said,) = [e for e in service.events() if e["event"].startswith("restart to take up")]
            assert said["sections"] == ["bidder"]
