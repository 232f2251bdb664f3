"""`kreach backup`, `restore`, `settle` and `migrate`: the stores of one side."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.cli.backup_sides import side_of
from kreach.cli.common import Json
from kreach.errors import KreachError

__all__ = ["backup", "migrate", "restore", "settle"]

SideConfig = Annotated[
    Path,
    typer.Option(
        "--config", help="Settings (TOML) of one side: the ad system's or the publisher's."
    ),
]


def backup(
    config: SideConfig,
    out: Annotated[Path | None, typer.Option(help="Folder to write; must not exist.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder of backups, instead: a new one by its time.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="With --into: delete older backups than so many.")
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Hard links for files that never change, if possible.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy all stores of one side while its services run.

    The copy holds the same secrets as the stores: keys, the log, showings. Example:

    kreach backup --config kreach.toml --out backups/2026-11-18

    For a scheduler: kreach backup --config kreach.toml --into backups --keep 14
    """
    from kreach import __version__
    from kreach.boundary.times import iso_seconds
    from kreach.service.backup.rotation import dated_folder, remove_older
    from kreach.service.backup.writer import BackupWriter

    if (out is None) == (into is None):
        raise typer.BadParameter("give --out FOLDER, or --into FOLDER for a new one by its time")
    if keep is not None and into is None:
        raise typer.BadParameter("--keep needs --into: only backups of one folder are counted")
    side = side_of(config)
    if into is not None:
        out = dated_folder(into, time.time())
    assert out is not None
    with BackupWriter(out, tuple(side.roots.values()), link=link) as writer:
        facts = side.copy(writer)
        manifest = writer.finish(side.name, __version__, iso_seconds(time.time()), facts)
    size = sum(file.size_bytes for file in manifest.files)
    deleted: dict[str, Any] = {}
    if into is not None and keep is not None:
        deleted["deleted"] = [path.name for path in remove_older(into, side.name, keep)]
    _show(
        {
            "backup": str(out),
            "side": manifest.side,
            "taken": manifest.taken,
            "files": len(manifest.files),
            "size_bytes": size,
            "digest": manifest.digest(),
            **facts,
            **deleted,
        },
        as_json,
    )


def restore(
    config: SideConfig,
    source: Annotated[Path, typer.Option("--backup", help="Folder that `kreach backup` wrote.")],
    digest: Annotated[
        str | None, typer.Option(help="Digest that `kreach backup` printed: refuse any other.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a backup where the settings have no stores yet, and fence what must not happen twice.

    Bidders start after `kreach settle` only. Example:

    kreach restore --config kreach.toml --backup backups/2026-11-18
    """
    from kreach.service.backup.reader import check_backup, restore_backup

    side = side_of(config)
    manifest = check_backup(source, side.name, side.schemas, digest)
    now = time.time()
    restore_backup(source, manifest, side.roots, side.schemas, lambda at: side.fence(at, now))
    _show(
        {
            "restored": str(source),
            "side": manifest.side,
            "taken": manifest.taken,
            "files": len(manifest.files),
            "digest": manifest.digest(),
        },
        as_json,
        side.after_restore,
    )


def settle(
    config: SideConfig,
    spend: Annotated[
        Path | None,
        typer.Option(help="What campaigns spent since the backup (CSV: campaign, spend)."),
    ] = None,
    nothing_spent: Annotated[
        bool, typer.Option("--nothing-spent", help="No bid was made since the backup.")
    ] = False,
    redraw_noise: Annotated[
        bool,
        typer.Option(
            "--redraw-noise",
            help="Accept that noisy answers lost since the backup are drawn again.",
        ),
    ] = False,
    resume_chapters: Annotated[
        bool,
        typer.Option(
            "--resume-chapters",
            help="Accept that a restored bidder's log lacks rows that advertisers were shown.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """After a restore: book what was spent since the backup, and let bidders start. Example:

    kreach settle --config kreach.toml --spend spend.csv

    Where reporting was not restored with the bidder, its advertisers see nothing new before this,
    with reporting's settings: kreach settle --config kreach.toml --resume-chapters
    """
    from kreach.adsystem.backup import restored
    from kreach.adsystem.backup.chapter_resume import resume_chapters as resume
    from kreach.adsystem.settings import BidderSettings, GuardSettings, RedisSettings
    from kreach.adsystem.shipping.settings import ShippingSettings
    from kreach.boundary.times import iso_seconds

    side = side_of(config)
    if side.name != "adsystem":
        raise KreachError(
            "the publisher's side has no money to settle: --config is the ad system's"
        )
    if spend is not None and nothing_spent:
        raise KreachError("give --spend or --nothing-spent, not both")
    if spend is None and not nothing_spent and not redraw_noise and not resume_chapters:
        raise KreachError("say what was spent: --spend FILE, or --nothing-spent")
    store, now = side.roots["store"], time.time()
    facts: dict[str, Any] = {}
    if spend is not None or nothing_spent:
        spent = None if spend is None else restored.read_spend(spend)
        expiry = side.file.load(BidderSettings, "bidder").expiry_seconds
        done = restored.settle(store, spent, now, expiry)
        facts = {"spent_micros": done.spent_micros, "journals": list(done.journals)}
    if redraw_noise:
        facts["noise_reopened_until"] = iso_seconds(restored.redraw_noise(store, now))
    if resume_chapters:
        guard = side.file.load(GuardSettings, "guard")
        bidders = side.file.load(ShippingSettings, "shipping").bidders
        bidders = bidders or side.file.load(RedisSettings, "redis").bidders
        found = resume(store, guard, bidders, now)
        facts["chapters_resumed"] = [asdict(one) for one in found]
    _show(facts, as_json)


def migrate(
    config: SideConfig,
    check: Annotated[
        bool, typer.Option("--check", help="Only show the version of each store.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the stores of one side to the version of this kreach. Stop services and back up first.

    Example: kreach migrate --config kreach.toml --check
    """
    from kreach.service.backup.stores import migrate as upgrade
    from kreach.service.backup.stores import store_versions

    side = side_of(config)
    versions = store_versions(side.files(), side.schemas)
    if not check:
        with side.locked():
            upgrade(versions, side.schemas)
    rows = [
        {
            "path": str(one.path),
            "store": one.store,
            "version": one.version,
            "current": one.current,
            "state": ("older" if check else "migrated") if one.is_older else "current",
        }
        for one in versions
    ]
    if as_json:
        typer.echo(json.dumps({"stores": rows}))
        return
    for row in rows:
        typer.echo(
            f"{row['path']}: {row['store']} {row['version']} of {row['current']}: {row['state']}"
        )
    if not rows:
        typer.echo("no stores yet")


def _show(facts: dict[str, Any], as_json: bool, notes: tuple[str, ...] = ()) -> None:
    if as_json:
        typer.echo(json.dumps({**facts, "notes": list(notes)} if notes else facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")
    for note in notes:
        typer.echo(note)
