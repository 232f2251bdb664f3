"""A log through a real NATS and a real object store, which die and come back."""

import queue
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import obstore
import pytest
from obstore.store import from_url
from simulations.shipping_servers import NatsCluster, NatsServer, ObjectServer

from kreach.adsystem.ledger.journal import FILE, Journal, open_reader
from kreach.adsystem.log.snapshot import LiveLog, LogIncomplete
from kreach.adsystem.shipping.manifest import RefusedEntry, manifest_folder
from kreach.adsystem.shipping.messages import RefusedBatch
from kreach.adsystem.shipping.mirror import BidderMirror
from kreach.adsystem.shipping.mirrors import LogMirrors
from kreach.adsystem.shipping.publisher import NotStored
from kreach.adsystem.shipping.rebuild import rebuild_bidder
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import all_rows
from tests.adsystem.shipping.conftest import shipping_settings
from tests.adsystem.shipping.shipped_journals import ShippedJournal, open_mirror
from tests.faults.service_processes import until


def read_until(mirror: BidderMirror, link: Path, rows: int) -> None:
    """Step until the store has so many rows."""

    def there() -> bool:
        with suppress(KreachError):
            mirror.step(0.05, 0.0)
        return link.exists() and len(all_rows(link)) == rows

    until(there, f"{rows} rows are mirrored")


def stored(made: ShippedJournal) -> Exception | None:
    """Whether the stream has all that the journal has."""
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    made.shipping.when_stored(ended.put)
    return ended.get(timeout=30)


def test_rows_and_files_arrive_once_whoever_dies(
    tmp_path: Path, nats: NatsServer, objects: ObjectServer, settings: ShippingSettings
) -> None:
    store, link = tmp_path / "store", tmp_path / "store" / "bidders" / "b1"
    made = ShippedJournal(tmp_path / "b1", settings)
    mirror = open_mirror(store, settings)
    try:
        made.write(0, 100)
        read_until(mirror, link, 100)
        assert made.compact() == 100
        made.write(100, 50)
        read_until(mirror, link, 150)
        until(lambda: mirror.read_files() or list(store.rglob("*.parquet")), "files arrive")
        assert sorted(all_rows(link)) == sorted(all_rows(tmp_path / "b1"))
        nats.kill()
        objects.down = True
        made.write(150, 50)
        assert made.compact() == 100  # into files, before they were published
        assert isinstance(stored(made), NotStored)
        objects.down, objects.failing = False, True
        nats.start()
        mirror.close()
        mirror = open_mirror(store, settings)  # goes on where it was
        made.write(200, 10)
        assert len(all_rows(link)) == 150  # the rows between are in files that cannot be had
        objects.failing = False
        read_until(mirror, link, 210)
        assert sorted(all_rows(link)) == sorted(all_rows(tmp_path / "b1"))
        mirror.close()
        shutil.rmtree(store)
        mirror = open_mirror(store, settings)  # from the object store and the stream
        read_until(mirror, link, 210)
        assert sorted(all_rows(link)) == sorted(all_rows(tmp_path / "b1"))
    finally:
        objects.down = objects.failing = False
        made.close()
        mirror.close()


def test_three_copies_survive_the_server_that_is_written_to(
    tmp_path: Path, nats: NatsServer, objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nats").mkdir()
    with NatsCluster(tmp_path / "nats") as cluster:
        more = {"stream": cluster.url, "replicas": 3, "acknowledge": "replicated"}
        settings = shipping_settings(nats, objects, tmp_path, monkeypatch, **more)
        made = ShippedJournal(tmp_path / "b1", settings)
        try:
            made.write(0, 40)
            until(lambda: stored(made) is None, "a cluster has a leader")
            lost = cluster.servers[cluster.leader(settings.prefix)]
            lost.kill()
            lost.wipe()
            made.write(40, 40)
            until(lambda: stored(made) is None, "another server leads")
        finally:
            made.close()
        mirror = open_mirror(tmp_path / "store", settings)  # from the two that are left
        try:
            read_until(mirror, tmp_path / "store" / "bidders" / "b1", 80)
        finally:
            mirror.close()


def test_reporting_waits_for_a_log_and_says_how_old_it_is(
    tmp_path: Path, nats: NatsServer, settings: ShippingSettings
) -> None:
    store = tmp_path / "store"
    mirrors = LogMirrors(store, ["b1"], settings, Log("test", lambda _: None))
    live = LiveLog(
        store, "100MB", lambda: [one.bidder for one in mirrors.statuses() if not one.ready]
    )
    with pytest.raises(LogIncomplete, match="the log of b1 has not arrived yet"), live.snapshot():
        pass
    made = ShippedJournal(tmp_path / "b1", settings)
    mirrors.start()
    try:
        made.write(0, 30)
        until(lambda: mirrors.statuses()[0].rows_behind == 0 and _seen(live) == 30, "30 rows")
        complete = mirrors.complete_clock(time.time)
        until(lambda: complete() == pytest.approx(journal_time(made), abs=1e-5), "complete")
        nats.kill()
        until(lambda: mirrors.statuses()[0].failure is not None, "failure")
        assert _seen(live) == 30  # what is here is shown, and said to be old
        assert mirrors.is_stale(mirrors.statuses()[0])  # the journal's clock is years ago
        nats.start()
        made.write(30, 5)
        until(lambda: _seen(live) == 35, "35 rows")
        made.close()  # in order: nothing is missing from now on
        until(lambda: mirrors.statuses()[0].seconds_behind < 10.0, "stopped is not old")
        assert complete() > journal_time(made)
    finally:
        mirrors.close()
        live.close()
        with suppress(OSError):
            made.close()


def journal_time(made: ShippedJournal) -> float:
    reader = open_reader(made.folder)
    moment = reader.execute("SELECT value FROM meta WHERE name = 'moment'").fetchone()[0]
    reader.close()
    return float(moment / 1e6)


def _seen(live: LiveLog) -> int:
    with suppress(LogIncomplete), live.snapshot() as snapshot:
        rows = snapshot.table().rows
        return int(snapshot.columns(rows.aggregate(n=rows.count()))["n"][0])
    return -1


def test_a_grant_is_usable_when_the_stream_has_it(
    tmp_path: Path, nats: NatsServer, settings: ShippingSettings
) -> None:
    made = ShippedJournal(
        tmp_path / "b1", msgspec.structs.replace(settings, acknowledge="replicated")
    )
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    try:
        made.journal.submit("grant", (1, 500), ended.put)
        assert ended.get(timeout=30) is None
        nats.kill()
        made.journal.submit("grant", (1, 900), ended.put)
        made.journal.submit("impression", (7, 1, 1, 0, 1, 1, 99, 5), ended.put)
        answers = [ended.get(timeout=30) for _ in range(2)]
        assert answers[0] is None  # the impression: in the journal
        assert isinstance(answers[1], NotStored)
        assert made.shipping.replicated_row == 0
        nats.start()
        until(lambda: stored(made) is None, "the stream answers")
        assert made.shipping.replicated_row == 1
    finally:
        made.close()


def test_a_lost_disk_is_rebuilt(tmp_path: Path, settings: ShippingSettings) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    made.write(0, 40)
    assert made.compact() == 40
    made.write(40, 20)
    made.journal.submit("grant", (1, 7_000))
    before = sorted(all_rows(tmp_path / "b1"))
    identity, epoch = made.journal.id, made.journal.epoch
    with pytest.raises(KreachError, match="have no log that would be replaced"):
        rebuild_bidder(tmp_path / "b1", "b1", settings)
    assert stored(made) is None
    with pytest.raises(KreachError, match="is running and publishes: stop it first"):
        rebuild_bidder(tmp_path / "again", "b1", settings)
    made.close()
    shutil.rmtree(tmp_path / "b1")
    facts = rebuild_bidder(tmp_path / "b1", "b1", settings)
    assert sorted(all_rows(tmp_path / "b1")) == before
    assert (facts.impressions, facts.live_rows, facts.last_row) == (60, 20, 60)
    assert facts.granted_micros == {1: 7_000}
    assert sum(facts.spent_micros.values()) == sum(micros for _, _, micros, _ in before)
    made = ShippedJournal(tmp_path / "b1", settings)  # which a mirror was not
    try:
        assert made.journal.id == identity
        assert made.journal.epoch > epoch + 900
        made.write(60, 5)
        assert stored(made) is None
        assert len(all_rows(tmp_path / "b1")) == 65
        mirror = open_mirror(tmp_path / "store", settings)
        read_until(mirror, tmp_path / "store" / "bidders" / "b1", 65)
        mirror.close()
    finally:
        made.close()


def test_nobody_rebuilds_what_was_never_shipped(tmp_path: Path, settings: ShippingSettings) -> None:
    with pytest.raises(KreachError, match="the stream has nothing of bidder b9"):
        rebuild_bidder(tmp_path / "b9", "b9", settings)
    assert not (tmp_path / "b9").exists()


def test_a_mirror_is_no_bidders_folder(tmp_path: Path, settings: ShippingSettings) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    mirror = open_mirror(tmp_path / "store", settings)
    link = tmp_path / "store" / "bidders" / "b1"
    made.write(0, 3)
    read_until(mirror, link, 3)
    made.close()
    mirror.close()
    with pytest.raises(KreachError, match="is a mirror of a bidder on another machine"):
        Journal(link.resolve(), Log("test", lambda _: None))
    link.unlink()
    link.mkdir()
    with pytest.raises(KreachError, match="is a bidder's own folder and cannot be a mirror"):
        open_mirror(tmp_path / "store", settings)


def overwrite(settings: ShippingSettings, name: str, data: bytes) -> None:
    """Change an object from outside."""
    options: dict[str, Any] = {"config": {"endpoint": settings.files_options["endpoint"]}}
    options["client_options"] = {"allow_http": True}
    obstore.put(from_url(settings.files or "", region="us-east-1", **options), name, data)


def test_foreign_and_torn_objects_are_refused(tmp_path: Path, settings: ShippingSettings) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    made.write(0, 20)
    made.compact()
    made.close()
    mirror = open_mirror(tmp_path / "store", settings)
    names = mirror._files.list_names("bidders/b1/log")
    whole = mirror._files.get(names[0])
    entries = mirror._files.list_names(manifest_folder("b1", 0))
    entry = mirror._files.get(entries[0])
    try:
        overwrite(settings, names[0], whole[: len(whole) // 2])
        with pytest.raises(RefusedEntry, match="damaged or foreign: its checksum is not that of"):
            mirror.step(0.05, 0.0)
        overwrite(settings, names[0], whole)
        overwrite(settings, entries[0], entry.replace(b'"rows":20', b'"rows":21'))
        with pytest.raises(RefusedEntry, match="is damaged, or of another bidder"):
            mirror.step(0.05, 0.0)
        overwrite(settings, entries[0], b"{}")
        with pytest.raises(RefusedEntry, match="is foreign or damaged"):
            mirror.step(0.05, 0.0)
        assert not (tmp_path / "store" / "bidders" / "b1").exists()
        overwrite(settings, entries[0], entry)
        read_until(mirror, tmp_path / "store" / "bidders" / "b1", 20)
    finally:
        mirror.close()


def test_foreign_messages_are_refused(tmp_path: Path, settings: ShippingSettings) -> None:
    stream = open_stream(settings, "b1")
    stream.publish(b"hello", "foreign")
    mirror = open_mirror(tmp_path / "store", settings)
    with pytest.raises(RefusedBatch, match="holds a message that is foreign or damaged"):
        mirror.step(0.05, 0.0)
    mirror.close()
    stream.close()


def test_a_second_publisher_is_fenced(tmp_path: Path, settings: ShippingSettings) -> None:
    first = ShippedJournal(tmp_path / "b1", settings)
    first.write(0, 5)
    assert stored(first) is None
    first.journal.run_now(lambda _: None)
    shutil.copytree(tmp_path / "b1", tmp_path / "copy")
    shutil.copyfile(tmp_path / "b1" / FILE, tmp_path / "copy" / FILE)
    second = ShippedJournal(tmp_path / "copy", settings)  # a later epoch of the same log
    try:
        until(lambda: stored(second) is None, "the later one publishes")
        first.write(5, 5)
        error = stored(first) or stored(first)
        assert error is not None
        until(lambda: "another process publishes" in str(stored(first)), "it knows why")
    finally:
        second.close()
        first.close()


def test_a_slow_stream_is_not_waited_for_forever(
    tmp_path: Path, nats: NatsServer, settings: ShippingSettings
) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    made.write(0, 5)
    assert stored(made) is None
    nats.signal(signal.SIGSTOP)
    try:
        made.write(5, 5)
        assert isinstance(stored(made), NotStored)
    finally:
        nats.signal(signal.SIGCONT)
    until(lambda: stored(made) is None, "it answers again")
    thread = threading.Thread(target=made.close)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_a_read_that_brings_nothing_is_followed_by_one_that_does(
    tmp_path: Path, settings: ShippingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of NATS returns no messages now and then, where it should time out."""
    made = ShippedJournal(tmp_path / "b1", settings)
    made.write(0, 5)
    assert stored(made) is None
    stream = open_stream(settings, "b1")
    (first, *_) = stream.read(0, 5.0)
    with monkeypatch.context() as patched:

        async def nothing(*_: object, **__: object) -> list[object]:
            return []

        patched.setattr("nats.js.client.JetStreamContext.PullSubscription.fetch", nothing)
        assert stream.read(0, 0.1) == []
    assert stream.read(0, 5.0)[0] == first
    stream.close()
    made.close()


def test_no_error_ends_a_mirror(
    tmp_path: Path, settings: ShippingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    lines: list[str] = []
    failing, step = True, BidderMirror.step

    def fails_at_first(mirror: BidderMirror, seconds: float, files_seconds: float) -> int:
        if failing:
            raise IndexError("list index out of range")
        return step(mirror, seconds, files_seconds)

    monkeypatch.setattr(BidderMirror, "step", fails_at_first)
    mirrors = LogMirrors(tmp_path / "store", ["b1"], settings, Log("reporting", lines.append))
    mirrors.start()
    try:
        until(lambda: mirrors.statuses()[0].failure == "IndexError", "it is said")
        failing = False
        made.write(0, 5)
        link = tmp_path / "store" / "bidders" / "b1"
        until(lambda: link.exists() and len(all_rows(link)) == 5, "rows arrive all the same")
        until(lambda: mirrors.statuses()[0].failure is None, "and nothing fails")
    finally:
        mirrors.close()
        made.close()


def test_rows_come_through_the_stream_while_the_object_store_is_away(
    tmp_path: Path, settings: ShippingSettings, objects: ObjectServer
) -> None:
    made = ShippedJournal(tmp_path / "b1", settings)
    log, link = Log("reporting", lambda line: None), tmp_path / "store" / "bidders" / "b1"
    mirrors = LogMirrors(tmp_path / "store", ["b1"], settings, log)
    mirrors.start()
    try:
        made.write(0, 5)
        until(lambda: link.exists() and len(all_rows(link)) == 5, "rows arrive")
        objects.failing = True
        until(lambda: "object store" in str(mirrors.statuses()[0].failure), "it is missed")
        made.write(5, 5)
        until(lambda: len(all_rows(link)) == 10, "rows arrive through the stream")
        assert "object store" in str(mirrors.statuses()[0].failure)
        objects.failing = False
        until(lambda: mirrors.statuses()[0].failure is None, "it is back")
        made.compact()
        made.write(10, 5)
        until(lambda: len(all_rows(link)) == 15, "files and rows")
    finally:
        objects.failing = False
        mirrors.close()
        made.close()


def test_an_empty_stream_is_no_empty_log_until_the_object_store_was_read(
    tmp_path: Path, settings: ShippingSettings, objects: ObjectServer
) -> None:
    """There may be files: a report without them, or a chapter closed without them, is wrong."""
    mirror = open_mirror(tmp_path / "store", settings)
    try:
        objects.failing = True
        mirror.step(0.05, 0.0)
        unread = mirror.status(time.time())
        assert (unread.ready, unread.complete_until) == (False, 0.0)
        objects.failing = False
        mirror.step(0.05, 0.0)
        empty = mirror.status(time.time())
        assert empty.ready
        assert empty.complete_until > 0.0
    finally:
        objects.failing = False
        mirror.close()


def test_a_password_is_used_and_never_told(tmp_path: Path, settings: ShippingSettings) -> None:
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats", options=("--user", "kreach", "--pass", "open-it")) as server:
        address = server.url.removeprefix("nats://")
        right = msgspec.structs.replace(settings, stream=f"nats://kreach:open-it@{address}")
        stream = open_stream(right, "b1")
        stream.publish(b"x", "key")
        stream.close()
        wrong = msgspec.structs.replace(settings, stream=f"nats://kreach:guess@{address}")
        made = ShippedJournal(tmp_path / "b1", wrong)
        assert isinstance(stored(made), NotStored)
        made.close()
        assert any(line["event"] == "log not published" for line in made.told)
        assert "guess" not in str(made.told)
