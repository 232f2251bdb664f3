"""Corrections from files: a build of groups, and who saw what."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.correction import Correction
from kreach.boundary.discrete_noise import opendp_draw
from kreach.boundary.files import read_catalogue
from kreach.boundary.times import (
    PERIOD_LENGTH,
    Window,
    from_micros,
    start_of_period,
    to_micros,
)
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.panel.differences import PanelShowings
from kreach.publisher.panel.ledger import PanelLedger, Terms
from kreach.publisher.panel.release import Floors, PanelPublisher, TooSmall
from kreach.publisher.panel.sample import Panel, choose_panel
from kreach.publisher.panel.showings_file import CampaignShowings, read_showings
from kreach.publisher.store import Build, read_build

__all__ = ["LEDGER", "PanelQuestion", "PanelRun", "panel_corrections", "panel_key"]

LEDGER = "panel.sqlite3"  # in the publisher's part of a build


@dataclass(frozen=True)
class PanelQuestion:
    """What to release: of which showings, up to when, how often."""

    groups: Path
    showings: Path
    terms: Terms
    campaign: str | None = None
    by: str | None = None  # a release at the end of each hour, day or week
    start: datetime | None = None
    end: datetime | None = None
    together: tuple[tuple[str, ...], ...] = ()  # sets of campaigns, each counted as one


@dataclass(frozen=True)
class PanelRun:
    """The corrections, and why campaigns have none."""

    corrections: tuple[Correction, ...]
    too_small: tuple[str, ...]


def panel_key(build_key: bytes) -> bytes:
    """The key of a build's panels."""
    return hashlib.blake2b(b"panel", key=build_key[:64], digest_size=32).digest()


def panel_corrections(
    question: PanelQuestion,
    floors: Floors | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> PanelRun:
    """Count the truth in each campaign's panel and release its correction.

    Releases that were made before are repeated as they were.
    """
    progress("reading the build")
    build = read_build(question.groups)
    catalogue = read_catalogue(question.groups / "release")
    draw = None if question.terms.rho is None else opendp_draw("kreach panel")
    ledger = PanelLedger(question.groups / "publisher" / LEDGER)
    publisher = PanelPublisher(ledger, draw, floors)
    corrections, small = [], []
    place = _Places(build, catalogue)
    try:
        for shown in read_showings(question.showings, question.campaign, question.together):
            progress(f"counting {shown.campaign}")
            panel = place.panel(question.terms.share, shown.campaign)
            showings = place.showings(shown, panel, question)
            ends = _ends(shown.at_us, question)
            try:
                corrections.append(
                    publisher.release(
                        shown.campaign, catalogue, panel, showings, question.terms, ends
                    )
                )
            except TooSmall as error:
                small.append(str(error))
    finally:
        ledger.close()
    return PanelRun(tuple(corrections), tuple(small))


class _Places:
    """Where people are: their groups in the catalogue, and in a panel."""

    def __init__(self, build: Build, catalogue: Catalogue) -> None:
        self._catalogue, self._lookup = catalogue, build.group_lookup()
        self._key = panel_key(build.key)
        self._group_of: dict[str, int] = {}
        self._visits = np.bincount(
            build.group_indices[:, 0], weights=build.people.visits, minlength=len(catalogue)
        ).astype(np.int64)

    def panel(self, share: float, campaign: str) -> Panel:
        return choose_panel(self._catalogue, self._visits, share, self._key, campaign)

    def showings(
        self, shown: CampaignShowings, panel: Panel, question: PanelQuestion
    ) -> PanelShowings:
        """Those in the panel; people who are not in the build count in the group they are shown."""
        index = {group: at for at, group in enumerate(self._catalogue.groups)}
        group = np.array([index[self._lookup.identify(user).group] for user in shown.user_ids])
        place: IntArray = panel.positions()[group.astype(np.int64)][shown.person]
        inside = place >= 0
        if question.start is not None:
            inside &= shown.at_us >= to_micros(question.start)
        return PanelShowings(shown.person[inside], place[inside], shown.at_us[inside])


def _ends(at_us: IntArray, question: PanelQuestion) -> list[int]:
    """The times of the releases: the end of each period that is over, or the end of it all."""
    last = from_micros(int(at_us.max()))
    if question.by is None:
        return [to_micros(last) + 1 if question.end is None else to_micros(question.end)]
    whole = start_of_period(last, question.by) + PERIOD_LENGTH[question.by]
    end = to_micros(question.end or whole)
    first = question.start or from_micros(int(at_us.min()))
    if from_micros(end) <= first:
        raise KreachError.rule("end", "be after the start", from_micros(end).isoformat())
    periods = Window(first, from_micros(end)).periods(question.by)
    return [to_micros(period.end) for period in periods if period.end is not None]
