"""Reads the settings of a service as its command would, with secrets in a folder of the test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kreach.adsystem.settings import (
    AdSystemSettings,
    BidderSettings,
    ConsoleSettings,
    RedisSettings,
    ReportingSettings,
)
from kreach.adsystem.shipping.releases import ReleaseSettings
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.publisher.gateway import GatewaySettings
from kreach.service.config import Settings, load_settings
from kreach.service.connections import ServerSettings

__all__ = ["SECTIONS_OF", "read_settings"]

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose"
_SHARED: dict[str, type[Settings]] = {
    "adsystem": AdSystemSettings,
    "redis": RedisSettings,
    "releases": ReleaseSettings,
    "shipping": ShippingSettings,
}
SECTIONS_OF: dict[str, dict[str, type[Settings]]] = {
    "gateway": {"gateway": GatewaySettings},
    "bidder": {**_SHARED, "bidder": BidderSettings},
    "reporting": {**_SHARED, "reporting": ReportingSettings},
    "backup": _SHARED,
    "console": {"console": ConsoleSettings},
}
_SECRETS = {
    "URL": "redis://:secret@redis:6379/0\n",
    "TOKEN_KEY": "ab" * 32 + "\n",
    "STREAM": "nats://kreach:secret@nats:4222\n",
    "CATALOGUES": (COMPOSE / "releases" / "catalogues").read_text(),
}


def read_settings(
    service: str, document: Mapping[str, Any], environment: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """The sections of a service. Every variable of the environment must be one of them."""
    known = dict(environment)
    for name in environment:
        secret = next((one for one in _SECRETS if name.endswith(f"_{one}_FILE")), None)
        if secret is not None:  # the file is made where the service runs
            path = folder / secret
            path.write_text(_SECRETS[secret])
            known[name] = str(path)
    sections = SECTIONS_OF[service] | {"server": ServerSettings}
    for name in environment:
        if name.startswith("KREACH_"):
            own = [f"KREACH_{section.upper()}_" for section in sections]
            assert name.startswith(tuple(own)), f"{service} does not read {name}"
            section = next(one for one in sections if name.startswith(f"KREACH_{one.upper()}_"))
            field = name.removeprefix(f"KREACH_{section.upper()}_").lower()
            fields = sections[section].__struct_fields__
            assert {field, field.removesuffix("_file")} & set(fields), f"{name} is no setting"
    found: dict[str, Any] = {
        section: load_settings(kind, section, document, base=Path("/"), environment=known)
        for section, kind in sections.items()
    }
    if service == "bidder":
        found["redis"].check_name(found["bidder"].name)
        found["shipping"].check_bidder(found["bidder"].name, found["bidder"].token_key)
    return found
