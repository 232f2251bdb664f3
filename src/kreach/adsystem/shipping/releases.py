"""Catalogues and audiences on many machines: pushed once to an object store, fetched by all.

A release never changes. Its address in `[releases]` ends in a checksum, so what a service uses is
what was pushed, whoever can write to the object store. A fetched release stays in the store: a
service starts without the object store once it has what its settings name.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from kreach.adsystem.settings import AdSystemSettings
from kreach.adsystem.shipping.file_store import FileStore, FilesUnavailable, ObjectExists
from kreach.adsystem.shipping.manifest import sha256
from kreach.adsystem.shipping.settings import check_files, check_options
from kreach.adsystem.store_layout import RELEASES_FOLDER, sync_path
from kreach.boundary.files import read_catalogue, read_groups
from kreach.errors import KreachError
from kreach.service.config import Settings

__all__ = ["ReleaseSettings", "fetch_releases", "push_release"]

_MANIFEST = "manifest.json"
_FILES = ("catalogue.json", "classes.parquet", "groups.parquet", "visit_model.json")
_ADDRESS = re.compile(r"([a-z0-9]+://.*[^/])/([A-Za-z0-9._-]+)#sha256=([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_AUDIENCES = (".parquet", ".csv")


class ReleaseSettings(Settings, frozen=True, kw_only=True):
    """`[releases]`: catalogues and audiences that are fetched, instead of those in `[adsystem]`.

    `catalogues` (the newest last) and `audiences` are addresses that `kreach catalogues push`
    printed. `options` describe the object store, as `files_options` of `[shipping]` do, which are
    the default. Every `reload_seconds` a service looks whether its settings name other catalogues
    or audiences; at 0 it does so on SIGHUP only.
    """

    catalogues: tuple[str, ...] = ()
    audiences: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    options: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    timeout_seconds: float = 10.0
    reload_seconds: float = 0.0

    def __post_init__(self) -> None:
        for address in self.catalogues:
            _Address.of("catalogues", address)
        for address in self.audiences.values():
            if not _Address.of("audiences", address).is_file:
                rule = f"be addresses of files ({', '.join(_AUDIENCES)})"
                raise KreachError.rule("audiences", rule, address)
        check_options("options", self.options)
        if not 0.05 <= self.timeout_seconds <= 600.0:
            rule = "lie between 0.05 and 600"
            raise KreachError.rule("timeout_seconds", rule, self.timeout_seconds)
        if self.reload_seconds and not 1.0 <= self.reload_seconds <= 86_400.0:
            rule = "be 0 (on SIGHUP only) or lie between 1 and 86400"
            raise KreachError.rule("reload_seconds", rule, self.reload_seconds)


class _ReleasedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    bytes: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    files: tuple[_ReleasedFile, ...]


class _Address(NamedTuple):
    """Where a release is: the store and folder, its name there, and its checksum."""

    place: str
    name: str
    digest: str

    @classmethod
    def of(cls, argument: str, text: str) -> "_Address":
        found = _ADDRESS.fullmatch(text)
        if found is None:
            rule = "be an address that kreach catalogues push printed, ending in #sha256=…"
            raise KreachError.rule(argument, rule, text)
        check_files(argument, found[1])
        return cls(*found.groups())

    @property
    def is_file(self) -> bool:
        return self.name.endswith(_AUDIENCES)

    @property
    def text(self) -> str:
        return f"{self.place}/{self.name}#sha256={self.digest}"


@dataclass(frozen=True)
class _Place:
    """What a `FileStore` needs to know."""

    files: str | None
    files_options: Mapping[str, str]
    timeout_seconds: float


def push_release(path: Path, to: str, options: Mapping[str, str], seconds: float = 10.0) -> str:
    """Push a released folder, or the groups file of an audience. Returns its address.

    Only the files of a release leave the machine, after its floors were checked again.
    """
    to = to.rstrip("/")
    check_files("to", to)
    store = FileStore(_Place(to, options, seconds), "to")
    try:
        if path.is_file():
            return _push_audience(path, to, store)
        return _push_catalogue(path / "release" if (path / "release").is_dir() else path, to, store)
    except ObjectExists:
        rule = "hold no other release of this version: a release never changes"
        raise KreachError.rule("to", rule, to) from None


def _push_audience(path: Path, to: str, store: FileStore) -> str:
    if path.suffix not in _AUDIENCES or not _NAME.fullmatch(path.name):
        rule = f"be a released folder or a groups file ({', '.join(_AUDIENCES)})"
        raise KreachError.rule("path", rule, str(path))
    read_groups(path)
    data = path.read_bytes()
    digest = sha256(data)
    name = f"{path.stem}.{digest[:16]}{path.suffix}"
    store.put_once(name, data)
    return _Address(to, name, digest).text


def _push_catalogue(folder: Path, to: str, store: FileStore) -> str:
    version = read_catalogue(folder).version
    if not _NAME.fullmatch(version) or version.endswith(_AUDIENCES):
        raise KreachError.rule("version", "be letters, digits, dots, - or _", version)
    files = []
    for name in _FILES:
        if (folder / name).exists():
            data = (folder / name).read_bytes()
            store.put_once(f"{version}/{name}", data)
            files.append(_ReleasedFile(name, len(data), sha256(data)))
    manifest = msgspec.json.encode(_Manifest(version, tuple(files)))
    store.put_once(f"{version}/{_MANIFEST}", manifest)  # last: what has no manifest is not there
    return _Address(to, version, sha256(manifest)).text


def fetch_releases(
    shared: AdSystemSettings,
    releases: ReleaseSettings,
    options: Mapping[str, str],
    cache: Path | None = None,
) -> AdSystemSettings:
    """The settings with all that `[releases]` names on this machine; as they are without it.

    `cache` is a folder to fetch into instead of the store, for checks that leave nothing behind.
    """
    for name in ("catalogues", "audiences"):
        if getattr(releases, name) and getattr(shared, name):
            rule = f"be left out where [releases] has {name}"
            raise KreachError.rule(f"{name} of [adsystem]", rule, len(getattr(shared, name)))
    stored = shared.store / RELEASES_FOLDER

    def local(argument: str, text: str) -> Path:
        address = _Address.of(argument, text)
        found = _stored(stored, address)
        place = _Place(address.place, releases.options or options, releases.timeout_seconds)
        return found or _fetch(address, FileStore(place, argument), cache or stored)

    catalogues = tuple(local("catalogues", text) for text in releases.catalogues)
    audiences = {name: local("audiences", text) for name, text in releases.audiences.items()}
    return msgspec.structs.replace(
        shared,
        catalogues=catalogues or shared.catalogues,
        audiences=audiences or shared.audiences,
    )


def _stored(folder: Path, address: _Address) -> Path | None:
    """Where a release was fetched to before; None if it was not, or its files were damaged."""
    place = folder / address.digest
    try:
        if address.is_file:
            path = place / address.name
            return path if sha256(path.read_bytes()) == address.digest else None
        manifest = (place / _MANIFEST).read_bytes()
        if sha256(manifest) != address.digest:
            return None
        for file in _files_of(manifest, address):
            if sha256((place / file.name).read_bytes()) != file.sha256:
                return None
    except OSError:
        return None
    return place


def _fetch(address: _Address, store: FileStore, folder: Path) -> Path:
    """Fetch a release into a folder of its own, in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder))
    try:
        if address.is_file:
            _write(draft / address.name, _checked(store, address.name, address.digest, address))
        else:
            name = f"{address.name}/{_MANIFEST}"
            manifest = _checked(store, name, address.digest, address)
            for file in _files_of(manifest, address):
                name = f"{address.name}/{file.name}"
                _write(draft / file.name, _checked(store, name, file.sha256, address))
            _write(draft / _MANIFEST, manifest)
        place = folder / address.digest
        if place.exists() and _stored(folder, address) is None:
            shutil.rmtree(place)  # damaged
        if not place.exists():
            draft.rename(place)
            sync_path(folder)
    except OSError:
        if _stored(folder, address) is None:  # no other process was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place / address.name if address.is_file else place


def _checked(store: FileStore, name: str, digest: str, address: _Address) -> bytes:
    try:
        data = store.get(name)
    except FilesUnavailable as error:
        raise FilesUnavailable(f"release {address.text} cannot be fetched: {error}") from None
    if sha256(data) != digest:
        raise KreachError(
            f"{name} of release {address.text} has another checksum: it was changed or damaged, "
            "push the release again under another address"
        )
    return data


def _files_of(manifest: bytes, address: _Address) -> tuple[_ReleasedFile, ...]:
    """The files that a manifest lists: those of a release, no others."""
    try:
        files = msgspec.json.decode(manifest, type=_Manifest).files
    except msgspec.DecodeError as error:
        raise KreachError(f"release {address.text} has no readable manifest ({error})") from None
    if not {file.name for file in files} <= set(_FILES):
        raise KreachError(f"release {address.text} lists a file that no release has")
    return files


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sync_path(path)
