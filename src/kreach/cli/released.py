"""The settings of the ad side with its releases on this machine, for commands that read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kreach.cli.common import ConfigFile

if TYPE_CHECKING:
    from kreach.adsystem.settings import AdSystemSettings

__all__ = ["checked_adsystem", "load_adsystem"]


def load_adsystem(file: ConfigFile, cache: Path | None = None) -> "AdSystemSettings":
    """`[adsystem]`, with what `[releases]` names fetched to this machine."""
    from kreach.adsystem.settings import AdSystemSettings
    from kreach.adsystem.shipping.releases import ReleaseSettings, fetch_releases
    from kreach.adsystem.shipping.settings import ShippingSettings

    shared = file.load(AdSystemSettings, "adsystem")
    releases = file.load(ReleaseSettings, "releases")
    options = file.load(ShippingSettings, "shipping").files_options
    return fetch_releases(shared, releases, options, cache)


@contextmanager
def checked_adsystem(file: ConfigFile) -> "Iterator[AdSystemSettings]":
    """The same for a check: what is not in the store is fetched, looked at and deleted."""
    with TemporaryDirectory(prefix="kreach-releases-") as folder:
        yield load_adsystem(file, Path(folder))
