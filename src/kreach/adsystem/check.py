"""What `--check-config` looks at on the ad side: all that settings name, and what it comes to."""

from typing import Any

from kreach.adsystem.catalogues import read_audience, read_catalogues, visible_per_group
from kreach.adsystem.disclosure.audiences import Verdict, margins, verdicts, visible_floor
from kreach.adsystem.disclosure.chapters.store import stored_audiences
from kreach.adsystem.disclosure.combinations import check_together
from kreach.adsystem.settings import (
    EVERYONE,
    AdSystemSettings,
    BidderSettings,
    GuardSettings,
    NoiseSettings,
)
from kreach.adsystem.store_layout import GUARD_KEY, guard_key
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError

__all__ = ["check_adsystem", "check_closing"]


def check_closing(bidder: BidderSettings, guard: GuardSettings, noise: NoiseSettings) -> None:
    """Final numbers are made when no notice can come any more, or its impression is in none."""
    told: list[tuple[bool, str, float]] = [
        (guard.enabled, "closing_seconds of [guard]", guard.closing_seconds),
        (noise.enabled, "closing_seconds of [noise]", noise.closing_seconds),
    ]
    for used, name, seconds in told:
        if used and seconds <= bidder.expiry_seconds:
            rule = f"be more than expiry_seconds of [bidder] ({bidder.expiry_seconds:g})"
            raise KreachError.rule(name, rule, seconds)


def check_adsystem(
    settings: AdSystemSettings, guard: GuardSettings | None = None
) -> dict[str, Any]:
    """Read all that the settings name, and tell what was found.

    With the guard's settings also which audiences advertisers may use, or why not.
    """
    catalogues = read_catalogues(settings)
    names = [EVERYONE, *settings.audiences]
    audiences = {name: read_audience(settings, catalogues[-1], name) for name in names}
    found: dict[str, Any] = {
        "store": str(settings.store),
        "catalogues": {catalogue.version: len(catalogue) for catalogue in catalogues},
        "audiences": {name: one.targeted_user_count for name, one in audiences.items()},
        "visible per group": {name: _visible(one) for name, one in audiences.items()},
        "currency": settings.currency,
    }
    if guard is not None and guard.enabled:
        found["for advertisers"] = _for_advertisers(settings, guard, catalogues[-1], names)
    return found


def _for_advertisers(
    settings: AdSystemSettings, guard: GuardSettings, catalogue: Catalogue, names: list[str]
) -> dict[str, str]:
    """As reporting will tell. Nothing is made: margins are known once it has run."""
    apart, together = guard.min_difference, guard.audiences_together
    kept = stored_audiences(settings.store, catalogue.version)
    check_together(len({*kept, *names}), together)

    def read(name: str) -> Audience:
        return read_audience(settings, catalogue, name)

    known = (settings.store / GUARD_KEY).exists()
    margin = margins(guard_key(settings.store), apart) if known else lambda _: 0
    few = visible_floor(catalogue, guard.min_visible)
    told = verdicts(names, read, guard.min_audience, apart, margin, together, kept, few)
    return {name: _words(verdict) for name, verdict in told.items()}


def _visible(audience: Audience) -> str:
    low, median = visible_per_group(audience)
    return f"min {low}, median {median:g}"


def _words(verdict: Verdict) -> str:
    if verdict.reason is None:
        return "yes"
    return verdict.reason if verdict.near is None else f"{verdict.reason} (to {verdict.near})"
