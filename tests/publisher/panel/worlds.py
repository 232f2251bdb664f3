"""Small made panels: groups, people, who saw what when."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.discrete_noise import Part
from kreach.publisher.panel.differences import PanelShowings
from kreach.publisher.panel.sample import Panel, choose_panel

__all__ = ["DAY_US", "KEY", "PanelWorld", "no_noise"]

KEY = bytes(range(32))
DAY_US = 86_400_000_000


def no_noise(part: Part, values: Sequence[int]) -> list[int]:
    """A source of noise that adds none."""
    del part
    return list(values)


class PanelWorld:
    """Groups of twenty; `showings` on some days to members taken by uneven rates."""

    def __init__(self, groups: int = 200, rows: int = 8_000, seed: int = 1, **knowledge: object):
        self.generator = np.random.default_rng(seed)
        ids = tuple(f"g{at}" for at in range(groups))
        now = datetime(2026, 11, 1, tzinfo=UTC)
        sizes = np.full(groups, 20)
        self.catalogue = Catalogue("v1", now, 20, ids, sizes, **knowledge)  # type: ignore[arg-type]
        self.visits = np.zeros(groups, dtype=np.int64)
        rates = self.generator.gamma(0.5, size=20 * groups)
        self.person = self.generator.choice(20 * groups, rows, p=rates / rates.sum())
        self.group = self.person // 20
        self.at_us = self.generator.integers(0, 10 * DAY_US, rows)

    def panel(self, share: float = 0.1, key: bytes = KEY) -> Panel:
        return choose_panel(self.catalogue, self.visits, share, key, "spring")

    def showings(self, panel: Panel) -> PanelShowings:
        place = panel.positions()[self.group]
        inside = place >= 0
        return PanelShowings(self.person[inside], place[inside], self.at_us[inside])

    def truth(self, cap: int = 1) -> int:
        """Σ min(X_i, cap)."""
        return int(np.minimum(np.bincount(self.person), cap).sum())
