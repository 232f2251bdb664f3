"""`kreach backup`, `restore`, `settle` and `migrate`, and every way to use them wrongly."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.access.keys import KeyStore
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.adsystem.disclosure.noise.ledger import PrivacyLedger
from kreach.adsystem.disclosure.noise.questions import BudgetExhausted, Charge, LedgerQuestion
from kreach.adsystem.ledger.journal import lock_store
from kreach.errors import KreachError
from kreach.publisher.panel.ledger import PanelLedger
from kreach.service.backup.rotation import dated_folder
from tests.adsystem.backup.old_stores import write_old_adsystem, write_old_gateway
from tests.adsystem.ledger.sample_journals import journal
from tests.cli.command import Result, kreach
from tests.publisher.gateway.sample_gateways import write_sample_build


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def ads(tmp_path: Path) -> Path:
    """Settings of an ad system whose stores are from before there were versions."""
    write_old_adsystem(tmp_path / "store")
    return write(tmp_path / "kreach.toml", '[adsystem]\nstore = "store"\n')


@pytest.fixture
def publisher(tmp_path: Path) -> Path:
    """Settings of a gateway with a hard cap and a panel."""
    write_old_gateway(tmp_path / "gateway")
    write_sample_build(tmp_path / "build")
    (tmp_path / "corrections.json").write_text("[]")
    lines = ("[gateway]", 'build = "build"', 'store = "gateway"', "[gateway.panel]", "share = 0.5")
    return write(tmp_path / "publisher.toml", "\n".join(lines) + "\n")


def run(command: str, config: Path, *more: object) -> Result:
    return kreach(command, "--config", str(config), *map(str, more))


def facts(done: Result) -> dict[str, Any]:
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def refused(done: Result, *words: str) -> None:
    """One line that says what is wrong."""
    assert done.code == 1, done
    assert done.out == ""
    assert done.err.startswith("kreach: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


def versions(done: Result) -> dict[str, tuple[int, int, str]]:
    stores = facts(done)["stores"]
    return {
        Path(one["path"]).name: (one["version"], one["current"], one["state"]) for one in stores
    }


def test_unversioned_stores_of_the_ad_system_are_migrated(ads: Path) -> None:
    store = ads.parent / "store"
    before = versions(run("migrate", ads, "--check", "--json"))
    assert before == {
        "noise.sqlite3": (1, 2, "older"),
        "chapters.sqlite3": (1, 5, "older"),
        "keys.sqlite3": (1, 2, "older"),
        "live.sqlite3": (1, 3, "older"),
        "control.sqlite3": (1, 5, "older"),
    }
    assert versions(run("migrate", ads, "--check", "--json")) == before  # which changed nothing
    assert {state for *_, state in versions(run("migrate", ads, "--json")).values()} == {"migrated"}
    assert {state for *_, state in versions(run("migrate", ads, "--json")).values()} == {"current"}
    assert "live.sqlite3: journal 3 of 3: current" in run("migrate", ads).out
    with closing(CampaignStore(store)) as campaigns:
        campaign = campaigns.get("one").campaign
        assert campaign.max_cpm == 20.0
        assert campaign.creatives[0].markup == "<b>ad</b>"
    with journal(store) as made:
        assert made.epoch == 5
        assert list(made.read("SELECT micros FROM impressions")) == [(1500,)]
        assert list(made.read("SELECT * FROM adjustments")) == []
    with closing(KeyStore(store)) as keys:
        assert [stored.key.role for stored in keys.all()] == ["operator"]
        assert keys.limits() == []
    with closing(ChapterStore(store)) as chapters:
        assert chapters.sets("v1") == {}
        assert chapters.restored_micros is None
    with closing(PrivacyLedger(store)) as ledger:
        answer = ledger.recorded(LedgerQuestion("spring", "v1", "window", 0, 10))
        assert answer is not None
        assert answer.answer == {"strength": {"max_frequency": 5}}


def test_unversioned_stores_of_a_gateway_are_migrated(publisher: Path) -> None:
    checked = facts(run("migrate", publisher, "--check", "--json"))["stores"]
    assert [(one["store"], one["version"], one["current"]) for one in checked] == [
        ("panel", 1, 2),
        ("showings", 1, 2),
        ("showings", 1, 2),
    ]
    run("migrate", publisher)
    migrated = facts(run("migrate", publisher, "--json"))["stores"]
    assert {one["state"] for one in migrated} == {"current"}
    with closing(sqlite3.connect(publisher.parent / "gateway" / "showings.sqlite")) as file:
        assert file.execute("SELECT shown_as FROM showing").fetchall() == [("",)]


def test_migration_waits_for_no_bidder_and_refuses_newer_stores(ads: Path) -> None:
    store = ads.parent / "store"
    with closing(_Lock(store)):
        refused(run("migrate", ads), "is in use by another bidder: stop it first")
    with closing(sqlite3.connect(store / "keys.sqlite3")) as file:
        file.execute("PRAGMA user_version = 9")
    refused(run("migrate", ads), "newer kreach (9, this one knows 2)", "upgrade kreach")
    shutil.rmtree(store)
    assert run("migrate", ads).out == "no stores yet\n"


class _Lock:
    def __init__(self, folder: Path) -> None:
        self._handle = lock_store(folder)

    def close(self) -> None:
        import os

        os.close(self._handle)


def test_an_older_store_is_backed_up_restored_and_settled(ads: Path) -> None:
    store, backup = ads.parent / "store", ads.parent / "backup"
    done = facts(run("backup", ads, "--out", backup, "--json"))
    assert (done["side"], done["campaigns"], done["chapters"]) == ("adsystem", 1, 1)
    assert done["noise_answers"] == 1
    assert done["journals"] == {"": {"rows": 1, "files": 0}}
    shutil.rmtree(store)
    again = run("restore", ads, "--backup", backup, "--digest", done["digest"])
    assert again.code == 0, again.err
    assert "bidders do not start before `kreach settle`" in again.out
    with pytest.raises(KreachError, match="kreach settle"):
        journal(store).__enter__()
    with closing(PrivacyLedger(store)) as ledger:
        asked = LedgerQuestion("spring", "v1", "window", 0, 11)
        charge = Charge(10, 35, 100, 10)
        assert isinstance(ledger.refusal(asked, charge), BudgetExhausted)
    with closing(ChapterStore(store)) as chapters:
        assert chapters.restored_micros is not None
    settled = facts(run("settle", ads, "--nothing-spent", "--redraw-noise", "--json"))
    assert settled["journals"] == [str(store)]
    with closing(PrivacyLedger(store)) as ledger:
        assert ledger.refusal(asked, charge) is None
    with journal(store) as made:
        assert made.fenced_epoch > 100_000


def test_a_gateway_is_backed_up_and_its_panels_are_closed(publisher: Path) -> None:
    root, backup = publisher.parent, publisher.parent / "backup"
    ledger = root / "build" / "publisher" / "panel.sqlite3"
    PanelLedger(ledger).close()  # of `kreach panel`
    done = facts(run("backup", publisher, "--out", backup, "--json"))
    assert (done["side"], done["showings"], done["panel_showings"]) == ("publisher", 1, 1)
    people = (root / "build" / "publisher" / "people.parquet").read_bytes()
    for name in ("gateway", "build"):
        shutil.rmtree(root / name)
    refused(run("restore", publisher, "--backup", backup), "corrections must not exist yet")
    (root / "corrections.json").unlink()
    again = run("restore", publisher, "--backup", backup)
    assert "no more releases of campaigns that the backup knows" in again.out
    assert (root / "build" / "publisher" / "people.parquet").read_bytes() == people
    assert (root / "corrections.json").read_text() == "[]"
    assert (root / "gateway" / "key").stat().st_mode & 0o777 == 0o600
    for path in (root / "gateway" / "panel" / "panel.sqlite3", ledger):
        with closing(PanelLedger(path)) as panel:
            assert panel.closed("spring")
            assert not panel.closed("autumn")
    checked = kreach("serve", "gateway", "--config", str(publisher), "--check-config")
    assert checked.code == 0, checked.err


def test_the_two_sides_are_never_mixed(ads: Path, publisher: Path) -> None:
    root = ads.parent
    for config, name in ((ads, "ads"), (publisher, "publisher")):
        assert run("backup", config, "--out", root / name).code == 0
    refused(run("restore", ads, "--backup", root / "publisher"), "never mixed")
    refused(run("restore", publisher, "--backup", root / "ads"), "never mixed")
    both = write(root / "both.toml", '[gateway]\nbuild = "build"\n[bidder]\nport = 1\n')
    for command, more in (
        ("backup", ("--out", root / "new")),
        ("restore", ("--backup", root / "ads")),
        ("settle", ("--nothing-spent",)),
        ("migrate", ()),
    ):
        refused(run(command, both, *more), "has both sides ([gateway] and [bidder])")
        neither = write(root / "neither.toml", "[clock]\n")
        refused(run(command, neither, *more), "config must have a section [adsystem] or [gateway]")
        refused(run(command, root / "none.toml", *more), "config must be a file that can be read")
    refused(run("settle", publisher, "--nothing-spent"), "no money to settle")
    names = [path.name for path in (root / "ads").rglob("*")]
    assert "showings.sqlite" not in names
    assert "people.parquet" not in names


def test_a_backup_needs_stores_and_a_new_folder(ads: Path, publisher: Path) -> None:
    root = ads.parent
    refused(run("backup", ads, "--out", root), "out must be a folder that does not exist yet")
    refused(run("backup", ads, "--out", root / "store" / "b"), "out must be outside")
    with closing(sqlite3.connect(root / "store" / "control.sqlite3")) as file:
        file.execute("PRAGMA user_version = 9")
    refused(run("backup", ads, "--out", root / "b"), "newer kreach (9, this one knows 5)")
    (root / "store" / "control.sqlite3").write_bytes(b"nothing that is a database" * 50)
    refused(run("backup", ads, "--out", root / "b"), "store must hold databases that can be read")
    (root / "store" / "control.sqlite3").unlink()
    refused(run("backup", ads, "--out", root / "b"), "store must hold campaigns (control.sqlite3)")
    (root / "build" / "publisher" / "key").unlink()
    refused(run("backup", publisher, "--out", root / "b"), "`kreach groups build`", "publisher/key")
    assert not list(root.glob("*b*.unfinished"))
    assert kreach("backup", "--config", str(ads)).code == 2
    assert kreach("backup", "--out", "b").code == 2


def test_a_scheduler_keeps_the_newest_backups_of_its_side(ads: Path, publisher: Path) -> None:
    into = ads.parent / "backups"
    taken = [dated_folder(into, 1_700_000_000.0 + at) for at in range(3)]
    for folder in taken:
        assert run("backup", ads, "--out", folder).code == 0
    assert run("backup", publisher, "--out", dated_folder(into, 1.0)).code == 0
    (into / "1999-01-01T00-00-00Z").mkdir()  # no backup
    (into / "my-own").symlink_to(taken[0])
    done = facts(run("backup", ads, "--into", into, "--keep", 2, "--json"))
    assert done["deleted"] == [folder.name for folder in taken[:2]]
    others = {"1970-01-01T00-00-01Z", "1999-01-01T00-00-00Z", "my-own"}
    left = {path.name for path in into.iterdir()}
    assert left == others | {Path(done["backup"]).name, taken[2].name}
    shutil.move(ads.parent / "store", ads.parent / "away")
    assert run("restore", ads, "--backup", done["backup"], "--digest", done["digest"]).code == 0
    for wrong in (("--keep", 2), ("--out", into / "b", "--into", into), ()):
        assert run("backup", ads, *wrong).code == 2


def test_a_bad_backup_is_not_restored(ads: Path) -> None:
    root, backup = ads.parent, ads.parent / "backup"
    assert run("backup", ads, "--out", backup, "--link").code == 0
    refused(run("restore", ads, "--backup", backup), "store must be empty")
    shutil.move(root / "store", root / "away")
    refused(run("restore", ads, "--backup", root), "backup must be a finished backup")
    for digest in ("00", "", "ü"):
        refused(run("restore", ads, "--backup", backup, "--digest", digest), "digest must be that")
    with (backup / "files" / "store" / "keys.sqlite3").open("ab") as file:
        file.write(b"more")
    refused(run("restore", ads, "--backup", backup), "store/keys.sqlite3 has another checksum")
    assert not (root / "store").exists()
    assert kreach("restore", "--config", str(ads)).code == 2


def test_settling_needs_every_campaign_and_plain_numbers(ads: Path) -> None:
    root = ads.parent
    refused(run("settle", ads, "--nothing-spent"), "was not restored, or is settled")
    assert run("backup", ads, "--out", root / "backup").code == 0
    shutil.rmtree(root / "store")
    assert run("restore", ads, "--backup", root / "backup").code == 0
    table = write(root / "spend.csv", "campaign,spend\none,2.5\n")
    refused(run("settle", ads), "say what was spent: --spend FILE, or --nothing-spent")
    refused(run("settle", ads, "--spend", table, "--nothing-spent"), "not both")
    refused(run("settle", ads, "--spend", table), "may be shown until", "settle after that")
    config = ads.read_text()
    _restored_long_ago(root / "store")
    for text, words in (
        ("", "begin with the line campaign,spend"),
        ("name,amount\n", "begin with the line campaign,spend"),
        ("campaign,spend\none\n", "have each campaign once"),
        ("campaign,spend\none,1\none,1\n", "have each campaign once"),
        ("campaign,spend\n,1\n", "have each campaign once"),
        ("campaign,spend\none,much\n", "be a number from 0"),
        ("campaign,spend\none,-1\n", "be a number from 0"),
        ("campaign,spend\none,nan\n", "be a number from 0"),
        ("campaign,spend\none,inf\n", "spend must be money"),
        ("campaign,spend\none,0.0000001\n", "in whole micros"),
        ("campaign,spend\nother,1\none,1\n", "name campaigns of the store, got 'other'"),
        ("campaign,spend\n", "with 0 where it did not: one missing"),
        ('campaign,spend\n"one,1\n', "be CSV in UTF-8"),
    ):
        refused(run("settle", ads, "--spend", write(table, text)), words)
    refused(run("settle", ads, "--spend", root / "none.csv"), "be a file that can be read")
    table.write_bytes(b"campaign,spend\n\xff,1\n")
    refused(run("settle", ads, "--spend", table), "be CSV in UTF-8")
    assert config == ads.read_text()
    write(table, "campaign,spend\n one ,2.5\n\n")
    done = facts(run("settle", ads, "--spend", table, "--json"))
    assert done["spent_micros"] == {"one": 2_500_000}
    with journal(root / "store") as made:
        assert [row[1:] for row in made.read("SELECT * FROM adjustments")] == [(1, 2_500_000)]
    refused(run("settle", ads, "--nothing-spent"), "nothing to settle")
    assert run("settle", ads, "--redraw-noise").code == 0
    refused(run("settle", ads, "--redraw-noise"), "has no restored noise ledger")


def _restored_long_ago(store: Path) -> None:
    """As if the restore had been an hour before."""
    with closing(sqlite3.connect(store / "live.sqlite3")) as file:
        file.execute("UPDATE meta SET value = value - 3600000000 WHERE name = 'restored'")
        file.commit()


def test_several_bidders_are_settled_together_and_once(tmp_path: Path) -> None:
    write_old_adsystem(tmp_path / "store")
    (tmp_path / "store" / "bidders").mkdir()
    for name in ("b1", "b2"):
        shutil.copytree(
            tmp_path / "store",
            tmp_path / "store" / "bidders" / name,
            symlinks=True,
            ignore=lambda *_: {"bidders", "keys.sqlite3", "noise.sqlite3", "chapters.sqlite3"},
        )
    (tmp_path / "store" / "live.sqlite3").unlink()
    config = write(tmp_path / "kreach.toml", '[adsystem]\nstore = "store"\n')
    done = facts(run("backup", config, "--out", tmp_path / "backup", "--json"))
    assert {name: one["rows"] for name, one in done["journals"].items()} == {
        "": 0,
        "b1": 1,
        "b2": 1,
    }
    shutil.rmtree(tmp_path / "store")
    assert run("restore", config, "--backup", tmp_path / "backup").code == 0
    folders = [tmp_path / "store" / "bidders" / name for name in ("b1", "b2")]
    for folder in folders:
        _restored_long_ago(folder)
    table = write(tmp_path / "spend.csv", "campaign,spend\none,2.5\n")
    settled = facts(run("settle", config, "--spend", table, "--json"))
    assert settled["journals"] == [str(folder) for folder in folders]
    with closing(sqlite3.connect(folders[1] / "live.sqlite3")) as file:  # as if it had been killed
        moment = "SELECT restored FROM adjustments"
        with closing(sqlite3.connect(folders[0] / "live.sqlite3")) as first:
            restored = first.execute(moment).fetchone()
        assert file.execute(moment).fetchone() is None
        file.execute("INSERT INTO meta VALUES ('restored', ?)", restored)
        file.commit()
    facts(run("settle", config, "--spend", table, "--json"))
    found = []
    for folder in folders:
        with journal(folder) as made:
            found.append([row[2] for row in made.read("SELECT * FROM adjustments")])
    assert found == [[2_500_000], []]
