"""Exchange profiles: how an exchange differs from OpenRTB 2.6, one TOML file each."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from kreach.adsystem.settings import BidderSettings
from kreach.errors import KreachError

__all__ = ["Profile", "profiles_by_exchange", "read_profiles"]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quirks of an exchange; `openrtb.toml` explains the fields."""

    auction: Literal[1, 2, 3] = 2
    currency: str | None = None
    billing: Literal["burl", "nurl"] = "burl"
    notices: tuple[Literal["burl", "nurl", "lurl"], ...] = ("burl", "nurl", "lurl")
    price: Literal["plain", "b64"] = "plain"
    group_in: tuple[Literal["user.data", "user.ext.data"], ...] = ("user.data", "user.ext.data")
    extra: tuple[Literal["adid", "bidid"], ...] = ()
    required: tuple[Literal["adomain", "cat", "attr", "language", "bundle"], ...] = ()
    no_bid: Literal["empty", "nbr"] = "empty"

    def __post_init__(self) -> None:
        if self.billing not in self.notices:
            rule = f"hold {self.billing}, which bills: money is spent by it alone"
            raise KreachError.rule("notices", rule, self.notices)


def read_profiles(folder: Path | None = None) -> Mapping[str, Profile]:
    """Profiles by name: those of the package, and on top of them those of a folder."""
    found: dict[str, Profile] = {}
    for entry in files(__package__).iterdir():
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = _profile(entry.name, entry.read_text("utf-8"))
    if folder is not None:
        if not folder.is_dir():
            raise KreachError.rule("profiles_folder", "be a folder", str(folder))
        for path in sorted(folder.glob("*.toml")):
            found[path.stem] = _profile(path.name, path.read_text("utf-8"))
    return found


def profiles_by_exchange(settings: BidderSettings) -> Mapping[str, Profile]:
    """Profiles by the exchange that an address names; "" for the address without a name."""
    known = read_profiles(settings.profiles_folder)
    for name in (settings.profile, *settings.profiles.values()):
        if name not in known:
            rule = f"be one of {', '.join(sorted(known))}"
            raise KreachError.rule("profile", rule, name)
    chosen = {name: name for name in known} | {"": settings.profile} | settings.profiles
    return {exchange: known[name] for exchange, name in chosen.items()}


def _profile(name: str, text: str) -> Profile:
    try:
        return msgspec.convert(tomllib.loads(text), Profile)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        problem = str(error).replace("`", "")
        raise KreachError(f"exchange profile {name}: {problem}", field="profile") from None
