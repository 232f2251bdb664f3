"""The settings of the ad side: what bidder and reporting share, and what each has of its own."""

import os
import re
import secrets
from pathlib import Path
from typing import Any

from kreach.adsystem.campaigns.campaign import EVERYONE
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import read_catalogue, read_groups
from kreach.errors import KreachError
from kreach.service.config import Settings

__all__ = [
    "AdSystemSettings",
    "BidderSettings",
    "ReportingSettings",
    "check_adsystem",
    "read_audience",
    "read_catalogues",
    "token_key",
]


_URL = re.compile(r"https?://[A-Za-z0-9._~:/\[\]@!&'()*+,;=%-]+")


class AdSystemSettings(Settings, frozen=True, kw_only=True):
    """`[adsystem]`: where the state is, and what publishers released.

    `catalogues` are folders that publishers released, the newest last; requests of each are
    answered, so a publisher can go over to the next without a gap. `audiences` names groups files
    (of the newest catalogue) with head-counts of targeted people; `everyone` is always there.
    """

    store: Path = Path("kreach-store")
    catalogues: tuple[Path, ...] = ()
    audiences: dict[str, Path] = {}  # noqa: RUF012 - msgspec copies it
    currency: str = "USD"


class BidderSettings(Settings, frozen=True, kw_only=True):
    """`[bidder]`: the server, the notices, and how to bid."""

    host: str = "127.0.0.1"
    port: int = 8402
    public_url: str | None = None  # where exchanges reach this bidder; default: host and port
    provider: str = "kreach"  # whose user data carries the group
    token_key: str | None = None  # hex; default: a key of its own, kept in the store
    seat: str = "kreach"
    expiry_seconds: int = 900  # how long after a bid its notices are honoured
    win_notices: bool = True
    least_tmax_ms: int = 10  # requests that leave less time are not bid on
    plans: int = 100  # per flight
    hourly: tuple[float, ...] | None = None  # 24 weights of traffic by the hour, UTC
    market_mu: float = 0.0  # ln of the price per thousand, believed at first
    market_sigma: float = 1.0
    compaction_seconds: float = 300.0
    compaction_rows: int = 50_000
    pacing_seconds: float = 10.0
    pacing_days: float = 90.0
    most_body_bytes: int = 256_000

    def __post_init__(self) -> None:
        check_port(self.port)
        check_url("public_url", self.public_url)
        _at_least("expiry_seconds", self.expiry_seconds, 1, 86_400)
        _at_least("plans", self.plans, 1, 100_000)
        _at_least("least_tmax_ms", self.least_tmax_ms, 0, 10_000)
        _at_least("compaction_seconds", self.compaction_seconds, 0.05, 86_400)
        _at_least("compaction_rows", self.compaction_rows, 1, 10_000_000)
        _at_least("pacing_seconds", self.pacing_seconds, 0.05, 3_600)
        _at_least("most_body_bytes", self.most_body_bytes, 1_000, 100_000_000)
        _at_least("market_sigma", self.market_sigma, 1e-6, 20.0)
        _at_least("market_mu", self.market_mu, -50.0, 50.0)
        if self.hourly is not None and (
            len(self.hourly) != 24
            or not all(w >= 0.0 for w in self.hourly)
            or sum(self.hourly) <= 0
        ):
            raise KreachError.rule("hourly", "be 24 weights ≥ 0, not all 0", self.hourly)
        if self.token_key is not None:
            _key_bytes(self.token_key)

    @property
    def notices(self) -> str:
        """The address that notices come back to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")


class ReportingSettings(Settings, frozen=True, kw_only=True):
    """`[reporting]`: the server."""

    host: str = "127.0.0.1"
    port: int = 8403
    memory: str = "1500MB"  # for questions to the log

    def __post_init__(self) -> None:
        check_port(self.port)


def check_port(port: int) -> None:
    """A port to listen on; 0 takes any that is free."""
    _at_least("port", port, 0, 65_535)


def check_url(name: str, url: str | None) -> None:
    """An address that others are told."""
    if url is not None and not _URL.fullmatch(url):
        rule = "begin with http:// or https:// and have none of the characters that need escaping"
        raise KreachError.rule(name, rule, url)


def _at_least(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise KreachError.rule(name, f"lie between {least:g} and {most:g}", value)


def _key_bytes(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < 16:
        rule = "be at least 16 bytes written in hexadecimal"
        raise KreachError.rule("token_key", rule, f"{len(text)} characters")
    return key


def token_key(settings: BidderSettings, store: Path) -> bytes:
    """The key that signs notices: as set, or one made at the first start and kept."""
    if settings.token_key is not None:
        return _key_bytes(settings.token_key)
    path = store / "token.key"
    if not path.exists():
        draft = path.with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    return _key_bytes(path.read_text().strip())


def read_audience(settings: AdSystemSettings, catalogue: Catalogue, name: str) -> Audience:
    """An audience on a catalogue: everyone, or the head-counts of a groups file."""
    if name == EVERYONE:
        return catalogue.audience()
    if name not in settings.audiences:
        known = ", ".join([EVERYONE, *settings.audiences])
        raise KreachError.rule("audience", f"be one of {known}", name)
    ids, told = read_groups(settings.audiences[name])
    counts = getattr(told, "targeted_counts", told.group_sizes)
    by_group = [0] * len(catalogue)
    for group, count in zip(ids, counts.tolist(), strict=True):
        by_group[catalogue.index(group)] = int(count)
    return catalogue.audience(by_group)


def read_catalogues(settings: AdSystemSettings) -> list[Catalogue]:
    """The released catalogues, the newest last."""
    if not settings.catalogues:
        raise KreachError.rule("catalogues", "name at least one released folder", "none")
    found = [
        read_catalogue(path / "release" if (path / "release").is_dir() else path)
        for path in settings.catalogues
    ]
    if len({catalogue.version for catalogue in found}) != len(found):
        raise KreachError.rule("catalogues", "be of different versions", "a repeated version")
    return found


def check_adsystem(settings: AdSystemSettings) -> dict[str, Any]:
    """Read all that the settings name, and tell what was found."""
    found = read_catalogues(settings)
    newest = found[-1]
    audiences = {
        name: read_audience(settings, newest, name).targeted_user_count
        for name in [EVERYONE, *settings.audiences]
    }
    return {
        "store": str(settings.store),
        "catalogues": {catalogue.version: len(catalogue) for catalogue in found},
        "audiences": audiences,
        "currency": settings.currency,
    }
