"""The settings of the ad side with its releases on this machine, for commands that read them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from kreach.cli.common import ConfigFile

if TYPE_CHECKING:
    from kreach.adsystem.settings import AdSystemSettings
    from kreach.adsystem.shipping.releases import ReleaseSettings
    from kreach.service.logs import Log
    from kreach.service.reload import SettingsReload

__all__ = ["ReleaseConfig", "checked_adsystem", "load_adsystem", "reload_of"]

_RELOADED = {  # fields by section that may change under a service
    "adsystem": ("catalogues", "audiences"),
    "releases": ("catalogues", "audiences", "options", "timeout_seconds"),
}


class ReleaseConfig(NamedTuple):
    """What the settings name, before any of it is fetched."""

    shared: "AdSystemSettings"
    releases: "ReleaseSettings"
    options: dict[str, str]
    restart_only: dict[str, Any]  # sections of the file without what can be reloaded

    @classmethod
    def read(cls, file: ConfigFile) -> "ReleaseConfig":
        from kreach.adsystem.settings import AdSystemSettings
        from kreach.adsystem.shipping.releases import ReleaseSettings
        from kreach.adsystem.shipping.settings import ShippingSettings

        fixed = {
            section: {
                name: value
                for name, value in values.items()
                if name not in _RELOADED.get(section, ())
            }
            for section, values in file.document.items()
        }
        return cls(
            file.load(AdSystemSettings, "adsystem"),
            file.load(ReleaseSettings, "releases"),
            file.load(ShippingSettings, "shipping").files_options,
            {section: values for section, values in fixed.items() if values},
        )

    def fetch(self, cache: Path | None = None) -> "AdSystemSettings":
        from kreach.adsystem.shipping.releases import fetch_releases

        return fetch_releases(self.shared, self.releases, self.options, cache)

    def changed_sections(self, before: "ReleaseConfig") -> list[str]:
        """Sections that differ from earlier ones in what needs a restart."""
        old, new = before.restart_only, self.restart_only
        return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def load_adsystem(file: ConfigFile, cache: Path | None = None) -> "AdSystemSettings":
    """`[adsystem]`, with what `[releases]` names fetched to this machine."""
    return ReleaseConfig.read(file).fetch(cache)


def reload_of(
    config: Path | None,
    in_use: "ReleaseConfig",
    log: "Log",
    check: "Callable[[AdSystemSettings], object] | None" = None,
) -> "SettingsReload[ReleaseConfig, AdSystemSettings]":
    """Takes up other catalogues and audiences under a running service, which began with `in_use`.

    These must be the very settings whose releases were fetched: addresses may be in files of their
    own, and those may change while a service starts.
    """
    from kreach.service.reload import SettingsReload

    def prepare(named: ReleaseConfig) -> "AdSystemSettings":
        sections = named.changed_sections(in_use)
        if sections:
            log.warning("restart to take up changed settings", sections=sections)
        shared = named.fetch()
        if check is not None:
            check(shared)
        return shared

    return SettingsReload(
        lambda: ReleaseConfig.read(ConfigFile(config)),
        prepare,
        in_use,
        log,
        in_use.releases.reload_seconds,
    )


@contextmanager
def checked_adsystem(file: ConfigFile) -> "Iterator[AdSystemSettings]":
    """The same for a check: what is not in the store is fetched, looked at and deleted."""
    with TemporaryDirectory(prefix="kreach-releases-") as folder:
        yield load_adsystem(file, Path(folder))
