"""Validate the build and the store of a gateway without changing them."""

import os
from pathlib import Path
from typing import Any

from kreach.errors import KreachError
from kreach.extras import require_extra
from kreach.publisher.gateway.catalogue_versions import read_served_catalogue
from kreach.publisher.gateway.panel import PANEL_FOLDER
from kreach.publisher.gateway.pseudonyms import read_key
from kreach.publisher.gateway.settings import GatewaySettings, PanelSettings
from kreach.publisher.gateway.showings import FILE, check_writable
from kreach.publisher.gateway.user_tokens import read_user_key
from kreach.publisher.store import read_panel_build
from kreach.service.sqlite import store_errors

__all__ = ["check"]


def check(settings: GatewaySettings) -> dict[str, Any]:
    """The facts of the build and the store, ready for JSON; a KreachError if one cannot serve."""
    served = read_served_catalogue(
        settings.build, settings.choice, settings.provider, settings.memory_hours
    )
    facts: dict[str, Any] = {
        "catalogue": served.version,
        "people": len(served.lookup),
        "groups": len(served.lookup.groups),
        "hard_caps": sorted(settings.enabled_caps),
        "family_caps": sorted(settings.enabled_families),
        "memory_hours": settings.memory_hours,
        "panel": None if settings.panel is None else settings.panel.share,
        "store": None,
        "browser": None,
    }
    if settings.browser is not None:
        read_user_key(settings.browser.user_key_file)
        facts["browser"] = list(settings.browser.allowed_origins)
    if settings.enabled_caps or settings.enabled_families:
        _check_store(settings.store)
        facts["store"] = str(settings.store)
    if settings.panel is not None:
        _check_panel(settings.panel, settings.build)
        _check_store(settings.store / PANEL_FOLDER)
        facts["store"] = str(settings.store)
    return facts


def _check_panel(panel: PanelSettings, build: Path) -> None:
    require_extra("[gateway.panel]", "dp")
    if read_panel_build(build).catalogue.classes is not None:
        rule = "have disjoint groups with [gateway.panel]"
        raise KreachError.rule("build", rule, "overlapping groups")
    folder = panel.out.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise KreachError.rule("out", "be in a folder that can be written", str(panel.out))


def _check_store(folder: Path) -> None:
    if not folder.exists():
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            rule = "be a folder or a path where one can be created"
            raise KreachError.rule("store", rule, str(folder))
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise KreachError.rule("store", "be a folder that can be written", str(folder))
    key = read_key(folder)
    if not (folder / FILE).exists():
        return
    if key is None:
        rule = f"hold the key that {FILE} was written with"
        raise KreachError.rule("store", rule, f"{folder} without a key")
    with store_errors("be writable", folder):
        check_writable(folder / FILE)
