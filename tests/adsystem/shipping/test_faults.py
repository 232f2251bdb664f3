"""Random schedules of a bidder, a stream, an object store and a mirror that fail at any step.

Messages come twice, late or not at all, answers get lost, everybody restarts. What reporting can
see is at every step a whole beginning of the bidder's log, each row once; at the end it is all.
"""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.ledger.clock_repair import repair_clock
from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.shipping.file_store import FilesUnavailable
from kreach.adsystem.shipping.mirror import BidderMirror
from kreach.adsystem.shipping.mirror_store import RowsMissing
from kreach.adsystem.shipping.publisher import LogPublisher
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.shipper import FileShipper
from kreach.adsystem.shipping.stream import StreamUnavailable
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import CAMPAIGNS, FIRST, GROUPS, all_rows, row, wait
from tests.adsystem.shipping.faulty_files import FaultyFiles
from tests.adsystem.shipping.faulty_stream import FaultyStream, StoredMessages

_EXPECTED = (StreamUnavailable, FilesUnavailable, RowsMissing)


class World:
    """One bidder's folder, a stream, a folder of files, and a mirror."""

    def __init__(self, root: Path, seed: int, faults: float) -> None:
        self.chance, self.faults = random.Random(seed), faults
        self.bidder, self.reporting = root / "bidder", root / "reporting"
        (root / "files").mkdir()
        self.settings = ShippingSettings(
            stream="nats://unused", files=(root / "files").as_uri(), heartbeat_seconds=0.05
        )
        self.stored = StoredMessages()
        self.told: list[dict[str, Any]] = []
        self.log = Log("test", lambda line: self.told.append(json.loads(line)))
        self.written, self.now = 0, FIRST / 1e6
        self.start_bidder()
        self.start_mirror()

    def connect(self) -> FaultyStream:
        return FaultyStream(self.stored, self.chance, self.faults)

    def files(self) -> FaultyFiles:
        return FaultyFiles(self.settings, self.chance, self.faults)

    def start_bidder(self) -> None:
        self.journal = Journal(self.bidder, self.log)
        identity = (self.journal.id, self.journal.epoch)
        self.publisher = LogPublisher(
            self.bidder, "b1", identity, self.connect(), self.settings, lambda: self.now, self.log
        )
        self.shipper = FileShipper(self.bidder, "b1", identity[0], self.files(), 1.0, self.log)

    def stop_bidder(self) -> None:
        self.publisher.close()
        self.journal.close()

    def start_mirror(self) -> None:
        self.mirror = BidderMirror(self.reporting, "b1", self.connect(), self.files())

    # -- steps --------------------------------------------------------------------------------

    def write(self) -> None:
        for _ in range(self.chance.randrange(1, 12)):
            self.journal.submit("impression", row(self.written, campaign=1 + self.written % 2))
            self.written += 1
        self.journal.submit("grant", (1, self.written))
        self.journal.submit("pacing", (1, FIRST + self.written, 1.0, self.written, *[0] * 6))
        self.journal.submit("moment", (FIRST + self.written,))
        assert wait(self.journal) is None
        self.now += 1.0

    def publish(self) -> None:
        self.publisher.publish_new(tables=self.chance.random() < 0.5)

    def compact(self) -> None:
        compact(self.journal, self.bidder, CAMPAIGNS, GROUPS, FIRST / 1e6 + 90_000.0)

    def ship(self) -> None:
        with suppress(*_EXPECTED):
            self.shipper.ship()

    def read(self) -> None:
        with suppress(*_EXPECTED):
            self.mirror.step(0.0, 0.0)

    def restart_bidder(self) -> None:
        self.stop_bidder()
        self.start_bidder()

    def restart_mirror(self) -> None:
        self.mirror.close()
        self.start_mirror()

    def lose_mirror(self) -> None:
        self.mirror.close()
        shutil.rmtree(self.reporting)
        self.start_mirror()

    def repair(self) -> None:
        """Rows and files move in time: the log is another one in the same place."""
        self.stop_bidder()
        repair_clock(self.bidder, (FIRST - 490) / 1e6, self.log)
        self.start_bidder()

    def check(self) -> None:
        """What is linked is a beginning of the log, each row once."""
        link = self.reporting / "bidders" / "b1"
        if not link.exists():
            return
        seen = sorted(number & (1 << 40) - 1 for number, *_ in all_rows(link))
        assert seen == list(range(len(seen)))
        prices = {number: micros for number, _, micros, _ in all_rows(link)}
        assert all(micros == 100 + (number & (1 << 40) - 1) for number, micros in prices.items())

    def settle(self) -> None:
        """Without further faults all arrives."""
        self.faults = 0.0
        self.restart_bidder()
        self.mirror.close()
        self.start_mirror()
        for _ in range(3):
            assert self.publisher.publish_new(tables=True) is None
            self.shipper.ship()
            for _ in range(200):
                with suppress(RowsMissing):
                    if not self.mirror.step(0.0, 0.0):
                        break
        link = self.reporting / "bidders" / "b1"
        assert sorted(all_rows(link)) == sorted(all_rows(self.bidder))
        assert len(all_rows(link)) == self.written
        status = self.mirror.status(self.now)
        assert status.ready
        assert status.rows_behind == 0
        moment = dict(_table(self.bidder, "meta"))["moment"]
        assert status.complete_until == pytest.approx(moment / 1e6, abs=1e-5)
        assert _table(link, "grants") == _table(self.bidder, "grants") == [(1, self.written)]
        assert len(_table(link, "pacing")) == len(_table(self.bidder, "pacing"))


def _table(folder: Path, table: str) -> list[Any]:
    from kreach.adsystem.ledger.journal import open_reader

    reader = open_reader(folder)
    try:
        return reader.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
    finally:
        reader.close()


_STEPS = (
    ["write"] * 6
    + ["publish"] * 6
    + ["read"] * 8
    + ["ship"] * 3
    + ["compact", "restart_bidder", "restart_mirror", "lose_mirror"]
)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_seen_is_a_beginning_of_the_log(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed, faults=0.15)
    try:
        for _ in range(60):
            getattr(world, world.chance.choice(_STEPS))()
            world.check()
        world.write()
        world.settle()
    finally:
        world.stop_bidder()
        world.mirror.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_lost_its_messages_gets_them_again(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, 100 + seed, faults=0.1)
    try:
        for at in range(45):
            if at in (15, 30):
                world.stored.wipe()
            getattr(world, world.chance.choice(_STEPS))()
            world.check()
        world.write()
        world.settle()
    finally:
        world.stop_bidder()
        world.mirror.close()


def test_a_repaired_log_replaces_the_old_one_when_it_is_complete(tmp_path: Path) -> None:
    world = World(tmp_path, 7, faults=0.0)
    try:
        for _ in range(3):
            world.write()
        world.compact()
        world.write()
        world.publish()
        world.ship()
        for _ in range(5):
            world.read()
        before = sorted(all_rows(tmp_path / "reporting" / "bidders" / "b1"))
        assert len(before) == world.written
        world.repair()
        assert sorted(all_rows(world.bidder)) != before
        world.publisher.publish_new(tables=True)
        world.read()  # files of the new generation are not there yet: the old one stays
        assert sorted(all_rows(tmp_path / "reporting" / "bidders" / "b1")) == before
        assert world.mirror.status(world.now).complete_until == 0.0
        world.ship()
        for _ in range(6):
            world.read()
        link = tmp_path / "reporting" / "bidders" / "b1"
        assert sorted(all_rows(link)) == sorted(all_rows(world.bidder))
    finally:
        world.stop_bidder()
        world.mirror.close()
