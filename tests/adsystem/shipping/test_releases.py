"""Releases through a real object store and a shared folder: pushed once, fetched and checked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulations.shipping_servers import KEYS, ObjectServer

from kreach.adsystem.catalogues import read_audience, read_catalogues
from kreach.adsystem.settings import AdSystemSettings
from kreach.adsystem.shipping.file_store import FilesUnavailable
from kreach.adsystem.shipping.releases import ReleaseSettings, fetch_releases, push_release
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue, write_groups
from kreach.errors import KreachError
from kreach.service.config import load_settings
from tests.adsystem.bidserver.sample_bidders import sample_catalogue
from tests.cli.command import kreach

DIGEST = "ab" * 32


@pytest.fixture
def catalogue() -> Catalogue:
    return sample_catalogue()


@pytest.fixture
def release(tmp_path: Path, catalogue: Catalogue) -> Path:
    """A build of a publisher: its release, beside what must never leave."""
    folder = tmp_path / "groups"
    write_catalogue(catalogue, folder / "release")
    (folder / "members.parquet").write_text("user-1")
    (folder / "release" / "notes.txt").write_text("user-1")
    return folder


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    (tmp_path / "bucket").mkdir()
    return (tmp_path / "bucket").as_uri()


def fetched(store: Path, *catalogues: str, **more: Any) -> AdSystemSettings:
    settings = ReleaseSettings(catalogues=catalogues, **more)
    return fetch_releases(AdSystemSettings(store=store), settings, {})


def test_a_release_reaches_other_machines_through_an_object_store(
    tmp_path: Path,
    release: Path,
    catalogue: Catalogue,
    objects: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    objects.failing = objects.down = False
    place = objects.settings("releases")
    options = place["files_options"]
    few = tmp_path / "autos.parquet"
    write_groups(catalogue, few, catalogue.sizes // 2)
    address = push_release(release, f"{place['files']}/", options)
    audience = push_release(few, place["files"], options)
    assert push_release(release, place["files"], options) == address  # changes nothing
    settings = ReleaseSettings(
        catalogues=(address,), audiences={"autos": audience}, timeout_seconds=1.0
    )
    for machine in ("b1", "reporting"):
        shared = AdSystemSettings(store=tmp_path / machine)
        there = fetch_releases(shared, settings, options)
        (read,) = read_catalogues(there)
        assert read.version == catalogue.version
        assert read.groups == catalogue.groups
        whole = catalogue.audience(tuple((catalogue.sizes // 2).tolist()))
        assert read_audience(there, read, "autos").targeted_user_count == whole.targeted_user_count
        names = {path.name for path in (tmp_path / machine).rglob("*") if path.is_file()}
        assert "manifest.json" in names
        assert not names & {"members.parquet", "notes.txt"}
    objects.down = True  # what is here already is enough
    shared = AdSystemSettings(store=tmp_path / "b1")
    assert fetch_releases(shared, settings, options).catalogues[0].is_dir()
    with pytest.raises(FilesUnavailable, match=f"release .*{catalogue.version}#sha256=.* cannot"):
        fetch_releases(AdSystemSettings(store=tmp_path / "b2"), settings, options)
    assert not list((tmp_path / "b2").rglob("*.parquet"))
    objects.down = False


def test_another_release_under_the_same_version_is_refused(
    release: Path, catalogue: Catalogue, bucket: str, tmp_path: Path
) -> None:
    address = push_release(release, bucket, {})
    other = tmp_path / "other"
    shutil.copytree(release / "release", other)
    facts = json.loads((other / "catalogue.json").read_text())
    (other / "catalogue.json").write_text(json.dumps(facts | {"class_floor": 1}))
    with pytest.raises(KreachError, match="to must hold no other release of this version"):
        push_release(other, bucket, {})
    assert read_catalogues(fetched(tmp_path / "store", address))[0].version == catalogue.version


def _change(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (lambda folder: _change(folder / "groups.parquet"), "groups.parquet of release .* another"),
        (lambda folder: _change(folder / "manifest.json"), "manifest.json of release .* another"),
        (lambda folder: (folder / "groups.parquet").unlink(), "cannot be fetched"),
    ],
)
def test_what_was_changed_since_it_was_pushed_is_refused(
    tmp_path: Path, release: Path, bucket: str, harm: Callable[[Path], None], error: str
) -> None:
    address = push_release(release, bucket, {})
    store = tmp_path / "store"
    assert fetched(store, address).catalogues
    folder = next(path for path in (tmp_path / "bucket").iterdir())
    harm(folder)
    with pytest.raises(KreachError, match=error):
        fetched(tmp_path / "new", address)
    assert not list((tmp_path / "new" / "releases").iterdir())  # nothing half-done
    assert fetched(store, address).catalogues  # fetched before


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, release: Path, bucket: str) -> None:
    address = push_release(release, bucket, {})
    (place,) = fetched(tmp_path / "store", address).catalogues
    good = (place / "groups.parquet").read_bytes()
    _change(place / "groups.parquet")
    assert fetched(tmp_path / "store", address).catalogues == (place,)
    assert (place / "groups.parquet").read_bytes() == good


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"catalogues": ("s3://b/v1",)}, "catalogues must be an address that kreach catalogues"),
        ({"catalogues": (f"http://b/v1#sha256={DIGEST}",)}, "catalogues must begin with s3://"),
        ({"catalogues": (f"s3://b/../x/#sha256={DIGEST}",)}, "catalogues must be an address"),
        ({"audiences": {"a": f"s3://b/v1#sha256={DIGEST}"}}, "audiences must be addresses of file"),
        ({"options": {"secret_access_key": "x"}}, "options must hold no secrets"),
        ({"timeout_seconds": 0.0}, "timeout_seconds must lie between 0.05 and 600"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(KreachError, match=error):
        ReleaseSettings(**given)


def test_catalogues_come_from_one_place(tmp_path: Path, release: Path, bucket: str) -> None:
    settings = ReleaseSettings(catalogues=(push_release(release, bucket, {}),))
    shared = AdSystemSettings(store=tmp_path / "store", catalogues=(release,))
    with pytest.raises(KreachError, match=r"catalogues of \[adsystem\] must be left out where"):
        fetch_releases(shared, settings, {})
    assert fetch_releases(shared, ReleaseSettings(), {}) == shared


def test_what_is_no_release_is_not_pushed(tmp_path: Path, bucket: str) -> None:
    for name, error in (
        ("visits.txt", "path must be a released folder or a groups file"),
        ("visits.csv", "must have"),
        ("none", "catalogue must be a released folder"),
    ):
        path = tmp_path / name
        if path.suffix:
            path.write_text("user_id,ts\nuser-1,2026-01-01\n")
        with pytest.raises(KreachError, match=error):
            push_release(path, bucket, {})
    assert not list((tmp_path / "bucket").iterdir())


def test_commands_push_and_check(tmp_path: Path, release: Path, bucket: str) -> None:
    pushed = kreach("catalogues", "push", str(release), "--to", bucket, "--json")
    address = json.loads(pushed.out)["address"]
    assert kreach("catalogues", "push", str(release), "--to", bucket).out == f"{address}\n"
    config = tmp_path / "kreach.toml"
    config.write_text(f'[releases]\ncatalogues = ["{address}"]\n')
    for service in ("bidder", "reporting"):
        done = kreach("serve", service, "--config", str(config), "--check-config", "--json")
        assert done.code == 0, done.err
        assert len(json.loads(done.out)["catalogues"]) == 1
    assert not (tmp_path / "kreach-store" / "releases").exists()  # a check leaves nothing
    config.write_text(f'[releases]\ncatalogues = ["{address[:-64]}{DIGEST}"]\n')
    done = kreach("serve", "bidder", "--config", str(config), "--check-config")
    assert done.code == 1
    assert "has another checksum: it was changed or damaged" in done.err


def test_settings_come_from_the_environment() -> None:
    text = f'["file:///mnt/releases/v1#sha256={DIGEST}"]'
    environment = {"KREACH_RELEASES_CATALOGUES": text}
    loaded = load_settings(ReleaseSettings, "releases", {}, environment=environment)
    assert loaded.catalogues == (f"file:///mnt/releases/v1#sha256={DIGEST}",)
