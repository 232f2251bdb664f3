"""Verifies a backup and puts its files where nothing is yet.

Files are copied beside their place, checked while they are copied, changed by `prepare` (which
fences what must not happen twice) and only then moved to their place.
"""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path, PurePosixPath

from kreach.errors import KreachError
from kreach.service.backup.manifest import FILES, MANIFEST, Manifest, read_manifest
from kreach.service.backup.writer import copy_file, make_private_folder, sync_folder
from kreach.service.sqlite import OtherSchema, Schema, check_intact, file_version

__all__ = ["Prepare", "check_backup", "restore_backup"]

Prepare = Callable[[Mapping[str, Path]], None]
"""Changes restored files before they are in place: gets where each root is for now."""


def check_backup(
    folder: Path, side: str, schemas: Mapping[str, Schema], digest: str | None = None
) -> Manifest:
    """The manifest, if this side and this version can restore the backup.

    `digest` is the one that was printed when the backup was taken.
    """
    manifest = read_manifest(folder)
    if manifest.side != side:
        raise KreachError(
            f"backup {folder} is of the {manifest.side}'s side and the settings are of the "
            f"{side}'s: the two are never mixed"
        )
    if digest is not None and manifest.digest() != digest.strip().lower():
        raise KreachError.rule("digest", f"be that of the backup ({manifest.digest()})", digest)
    for file in manifest.files:
        if file.store is None:
            continue
        schema = schemas.get(file.store)
        if schema is None or (file.version or 1) > schema.version:
            raise KreachError(
                f"backup {folder} was taken by kreach {manifest.kreach} and has a {file.store} "
                f"store of version {file.version}, newer than this kreach knows: upgrade kreach"
            )
    present = {one.relative_to(folder).as_posix() for one in folder.rglob("*") if not one.is_dir()}
    listed = {f"{FILES}/{file.path}" for file in manifest.files} | {MANIFEST}
    for path in sorted(present ^ listed):
        problem = "is missing" if path in listed else "is not in its manifest"
        raise KreachError(f"backup {folder} is damaged: {path} {problem}")
    return manifest


def restore_backup(
    folder: Path,
    manifest: Manifest,
    roots: Mapping[str, Path],
    schemas: Mapping[str, Schema],
    prepare: Prepare,
) -> None:
    """Put the files of each root in its place, which must be free: an empty folder or nothing."""
    for name in {_root(file.path) for file in manifest.files}:
        if name not in roots:
            raise KreachError(
                f"backup {folder} holds {name!r}, for which the settings have no place: "
                "restore with the settings that it was taken with"
            )
    used = {name: place for name, place in roots.items() if _has(manifest, name)}
    for name, place in used.items():
        _check_free(name, place)
    drafts = {name: _draft(place) for name, place in used.items()}
    try:
        for draft in drafts.values():
            _remove(draft)  # of a restore that was killed
        for file in manifest.files:
            target = _place(drafts, file.path)
            make_private_folder(target.parent)
            found = copy_file(folder / FILES / file.path, target)
            if found != (file.size_bytes, file.sha256):
                raise KreachError(f"backup {folder} is damaged: {file.path} has another checksum")
            if file.store is not None:
                _check_database(target, file.path, folder, schemas[file.store])
        prepare(drafts)
        for name, draft in drafts.items():
            _sync(draft)
            if used[name].is_dir():
                used[name].rmdir()  # empty
            draft.rename(used[name])
            sync_folder(used[name].parent)
    finally:
        for draft in drafts.values():
            _remove(draft)


def _root(path: str) -> str:
    return PurePosixPath(path).parts[0]


def _has(manifest: Manifest, name: str) -> bool:
    return any(_root(file.path) == name for file in manifest.files)


def _place(roots: Mapping[str, Path], path: str) -> Path:
    name, *rest = PurePosixPath(path).parts
    return roots[name].joinpath(*rest)


def _draft(place: Path) -> Path:
    return place.absolute().with_name(f".{place.name}.restoring")


def _check_free(name: str, place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        if any(place.iterdir()):
            raise KreachError.rule(name, "be empty: move what is there away first", str(place))
    elif place.exists() or place.is_symlink():
        raise KreachError.rule(name, "not exist yet: move it away first", str(place))


def _check_database(path: Path, name: str, folder: Path, schema: Schema) -> None:
    try:
        with closing(sqlite3.connect(path)) as connection:
            file_version(connection, schema, path)
            check_intact(connection)
    except OtherSchema as error:
        raise KreachError(f"backup {folder} is damaged: {name}: {error}") from None
    except sqlite3.Error as error:
        raise KreachError(f"backup {folder} is damaged: {name} ({error})") from None


def _sync(draft: Path) -> None:
    if draft.is_dir():
        for one in (*(one for one in draft.rglob("*") if one.is_dir()), draft):
            sync_folder(one)


def _remove(draft: Path) -> None:
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)
