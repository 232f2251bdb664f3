"""The interface of a disclosure policy: which windows, which counts, and what is withheld.

The service asks the same questions under every policy and builds the same documents. A policy
decides what of the log a caller may see: everything (`disclosure.open`), whole chapters
(`disclosure.chapters`) or noisy answers (`disclosure.noise`).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.measurement.combination import Parts
from kreach.adsystem.reports.report import (
    Allowed,
    CapReport,
    CorrectionInfo,
    CurvePoint,
    ModelInfo,
    NoiseInfo,
    Pace,
    PrivacyBudget,
    SeriesPeriod,
    Suppressed,
)
from kreach.adsystem.reports.traffic import WindowTraffic
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

__all__ = ["Delivery", "Figures", "Policy", "Series", "Subject", "Together", "View", "Withheld"]


class Withheld(KreachError):
    """A question that a policy does not answer: why, and what it would answer."""

    def __init__(
        self,
        message: str,
        reason: str = "",
        allowed: Allowed | None = None,
        *,
        field: str | None = None,
    ) -> None:
        super().__init__(message, field=field)
        self.reason, self.allowed = reason, allowed


@dataclass(frozen=True)
class Subject:
    """The subject of a report: a campaign on a catalogue, and its audience there."""

    stored: StoredCampaign
    catalogue: Catalogue
    audience: Audience

    @property
    def model(self) -> VisitModel | None:
        """The visit model of the catalogue, where it describes the audience."""
        if self.catalogue.model is None or not isinstance(self.audience, DisjointAudience):
            return None
        return self.catalogue.model.for_audience(self.audience)


@dataclass(frozen=True)
class Delivery:
    """Impressions and spend of a campaign on all catalogues, up to `as_of`; None is withheld."""

    impressions: int | None
    spend_micros: int | None
    as_of: str | None = None
    notes: tuple[Suppressed, ...] = ()


@dataclass(frozen=True)
class Figures:
    """The figures of one window. Without impressions nothing is shown, and `notes` say why."""

    window: Window
    impressions: int | None = None
    spend_micros: int | None = None
    basis: str | None = None
    model: ModelInfo | None = None
    reports: tuple[CapReport, ...] = ()
    rejected: dict[str, int | None] | None = None
    warnings: dict[str, int | None] | None = None
    notes: tuple[Suppressed, ...] = ()
    noise: NoiseInfo | None = None
    correction: CorrectionInfo | None = None


@dataclass(frozen=True)
class Series:
    """The whole window, and its periods."""

    whole: Figures
    periods: tuple[SeriesPeriod, ...]


@dataclass(frozen=True, eq=False)
class Together:
    """Impressions of several campaigns in a window. Without parts nothing is shown; notes say why.

    `traffic` has the model that the parts are measured with.
    """

    window: Window
    parts: Parts | None
    traffic: WindowTraffic
    notes: tuple[Suppressed, ...] = ()


class View(Protocol):
    """The figures of some campaigns at one instant, as a policy shows them.

    `row_note` goes with documents that count rejected rows, `pacing_note` with those that show the
    bidder's own records, where the policy withholds these.
    """

    row_note: Suppressed | None
    pacing_note: Suppressed | None

    def delivery(self, stored: StoredCampaign) -> Delivery:
        """Impressions and spend so far."""

    def catalogue(self, stored: StoredCampaign, version: str | None) -> Catalogue:
        """The requested version; else the newest with something to show of the campaign."""

    def reach_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Why reach on this audience is withheld, or None."""

    def unique_reach(
        self, campaigns: Sequence[StoredCampaign]
    ) -> dict[int, tuple[str, float | None]]:
        """For a list: the catalogue and the people reached on it, by number of the campaign."""

    def figures(
        self, subject: Subject, window: Window, caps: tuple[int, ...], level: float
    ) -> Figures:
        """Reach in a window; raises `Withheld` where the policy does not answer for it."""

    def series(
        self, subject: Subject, window: Window, by: str, caps: tuple[int, ...], level: float
    ) -> Series:
        """Reach period by period, alone and cumulative."""

    def together(self, subjects: Mapping[str, Subject], window: Window) -> Together:
        """Several campaigns on one catalogue and audience, by the names of their parts."""

    def curve(
        self, subject: Subject, by: str, caps: tuple[int, ...], level: float
    ) -> tuple[tuple[CurvePoint, ...], tuple[Suppressed, ...]]:
        """Reach so far at the ends of periods, and what is left out."""

    def pacing(self, stored: StoredCampaign, window: Window, points: int) -> tuple[Pace, ...]:
        """Spend over time, thinned to about `points` rows."""

    def last_pace(self, stored: StoredCampaign) -> Pace | None:
        """The newest of them."""


class Policy(Protocol):
    """Decides what callers of one kind may see. For use by several threads."""

    def view(self, campaigns: Sequence[StoredCampaign]) -> AbstractContextManager[View]:
        """Look at some campaigns as of now."""

    def audience_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Why campaigns of these callers may not target this audience, or None."""

    def visible_floor(self, catalogue: Catalogue) -> int | None:
        """The fewest targeted people of a group that these callers are told; None: the count."""

    def campaign_changed(self, stored: StoredCampaign) -> None:
        """Record a change: bids from before it may still be outstanding."""

    def max_cap(self) -> int | None:
        """The largest cap that reports can have; None is any."""

    def noise_budget(self) -> PrivacyBudget | None:
        """The budget of noise and what these callers have spent of it; None without noise."""

    def chapters_behind(self) -> int:
        """Campaigns on catalogues whose log lacks rows that these callers were shown."""

    def close(self) -> None:
        """Release what the policy holds."""
