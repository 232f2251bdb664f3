"""The noise policy: advertisers see noisy answers, each drawn once and charged to a ledger.

Figures so far are released at points of a grid, windows between them for a part of the budget.
Nothing that is shown, withheld or left out depends on the log but through noisy answers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.chapters.policy import ChapterPolicy
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.ledger import PrivacyLedger, check_ledger
from kreach.adsystem.disclosure.noise.source import NoisySource
from kreach.adsystem.disclosure.noise.view import NoiseView
from kreach.adsystem.log.snapshot import LogUnavailable
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.privacy_budget import privacy_budget
from kreach.adsystem.reports.report import PrivacyBudget, Suppressed
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.discrete_noise import Draw, opendp_draw
from kreach.service.clock import Clock

__all__ = ["NoisePolicy", "check_noise"]


def check_noise(settings: NoiseSettings, store: Path) -> dict[str, Any]:
    """The guarantee of `[noise]`, for --check-config; refuses settings that cannot meet it."""
    if not settings.enabled:
        return {"noise": "off"}
    opendp_draw()
    return {"noise": Budget(settings).facts() | {"answers": check_ledger(store)}}


class NoisePolicy:
    """Noisy answers. For use by several threads.

    `guard` judges audiences and follows the ends of flights, where it is on. `draw` is for tests
    of what follows a draw.
    """

    def __init__(
        self,
        store: ReportContext,
        settings: NoiseSettings,
        clock: Clock,
        guard: ChapterPolicy | None = None,
        draw: Draw | None = None,
    ) -> None:
        self.store, self._guard = store, guard
        self.budget = Budget(settings)
        drawing = opendp_draw() if draw is None else draw
        self.ledger = PrivacyLedger(store.settings.store)
        self.source = NoisySource(store, self.ledger, self.budget, drawing, clock)

    def close(self) -> None:
        """Close the ledger and the guard."""
        self.ledger.close()
        if self._guard is not None:
            self._guard.close()

    def chapters_behind(self) -> int:
        """There are no chapters."""
        return 0

    def max_cap(self) -> int | None:
        """People are counted up to one impression more."""
        return self.budget.settings.max_frequency - 1

    def noise_budget(self) -> PrivacyBudget:
        """What the ledger says."""
        chosen = self.budget.settings
        spent = self.ledger.spent(chosen.max_per_person)
        return privacy_budget(chosen.rho, chosen.delta, spent, chosen.max_per_person)

    def audience_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """As the guard judges it."""
        return None if self._guard is None else self._guard.audience_refusal(audience, catalogue)

    def visible_floor(self, catalogue: Catalogue) -> int | None:
        """As the guard promises; without it, as the publisher does."""
        return (
            catalogue.min_visible if self._guard is None else self._guard.visible_floor(catalogue)
        )

    def campaign_changed(self, stored: StoredCampaign) -> None:
        """The guard's chapters depend on it, should noise be turned off."""
        if self._guard is not None:
            self._guard.campaign_changed(stored)

    @contextmanager
    def view(self, campaigns: Sequence[StoredCampaign]) -> Iterator["NoiseView"]:
        """Take up new catalogues; recorded answers are shown without a log, too."""
        del campaigns
        with suppress(LogUnavailable), self.store.live.snapshot() as now:
            self.store.catalogues.refresh(now.catalogue_numbers)
        yield NoiseView(self.store.catalogues, self.source, self.budget, self.audience_refusal)
