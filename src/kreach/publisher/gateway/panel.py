"""A panel in the running gateway: counts showings of its groups, releases corrections on time.

Only showings to people of panel groups are kept, as pseudonyms, on disk before they are
acknowledged. What is released is decided by `publisher/panel`, as from files; noise is drawn once
and recorded before the file is written, so that a gateway that is killed repeats what it said.
"""

import asyncio
import sqlite3
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kreach.boundary.correction import (
    Correction,
    read_corrections,
    set_name,
    write_corrections,
)
from kreach.boundary.discrete_noise import Draw, opendp_draw
from kreach.boundary.times import (
    DAY_SECONDS,
    MICROS,
    PERIOD_LENGTH,
    Window,
    from_micros,
    start_of_period,
    to_micros,
)
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.gateway.pseudonyms import Pseudonyms
from kreach.publisher.gateway.settings import PanelSettings
from kreach.publisher.gateway.showings import Showing, ShowingStore, StoreUnavailable
from kreach.publisher.panel.differences import PanelShowings
from kreach.publisher.panel.ledger import PanelLedger
from kreach.publisher.panel.offline import LEDGER, panel_key
from kreach.publisher.panel.release import Floors, PanelPublisher, TooSmall
from kreach.publisher.panel.sample import Panel, choose_panel
from kreach.publisher.store import PanelBuild, read_panel_build
from kreach.service.clock import Clock, ClockMark, SteadyClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["PANEL_FOLDER", "GatewayPanel", "due_ends"]

PANEL_FOLDER = "panel"  # in the gateway's store
_CHECK_SECONDS = 5.0  # between looks whether a release is due
_MAX_CAMPAIGNS = 1_000
_ROWS = "SELECT user, shown_as, at_us FROM showing WHERE campaign = ?"
_CAMPAIGNS = "SELECT campaign, min(at_us), max(at_us) FROM showing GROUP BY campaign"


_NOBODY = PanelShowings(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class _Sample:
    """A campaign's panel on a catalogue: where each group is in it, −1 for those outside."""

    panel: Panel
    place: IntArray


class GatewayPanel:
    """Counts and releases. Showings are counted in the event loop, releases made in a thread."""

    def __init__(
        self,
        settings: PanelSettings,
        store: Path,
        log: Log,
        metrics: Metrics,
        clock: Clock | None = None,
        draw: Draw | None = None,
    ) -> None:
        self._settings, self._log = settings, log
        self._draw = draw or opendp_draw("[gateway.panel]")
        self._quiet: set[str] = set()
        self._written: tuple[Correction, ...] = ()
        self._earlier = _read_earlier(settings.out, log)  # also of catalogues served no longer
        self.showings = ShowingStore(store / PANEL_FOLDER, self._prune_before)
        self._clock: Clock = clock or SteadyClock(ClockMark(self.showings.latest_us / MICROS))
        self._ledger = PanelLedger(store / PANEL_FOLDER / LEDGER)
        self._lock = threading.RLock()  # of the ledger and the samples
        self._builds: dict[str, PanelBuild] = {}
        self._indices: dict[str, dict[str, int]] = {}
        self._samples: dict[tuple[str, str], _Sample] = {}
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._task: asyncio.Task[None] | None = None
        self._counted = metrics.count("panel_showings", "Showings counted in panels", "campaign")
        self._made = metrics.count("panel_releases", "Corrections released", "campaign")
        self._failures = metrics.count("panel_failures", "Releases that failed, to be tried again")
        metrics.gauge(
            "panel_rows", "Showings in the panel's store", lambda: {"": self.showings.rows}
        )

    def load(self, build: Path) -> None:
        """Take up a build, before its catalogue is served."""
        found = read_panel_build(build)
        if found.catalogue.classes is not None:
            rule = "have disjoint groups with [gateway.panel]"
            raise KreachError.rule("build", rule, "overlapping groups")
        version = found.catalogue.version
        self._indices[version] = {group: at for at, group in enumerate(found.catalogue.groups)}
        self._builds[version] = found

    def start(self) -> None:
        """Start the writer and the releases, for the running event loop."""
        self.showings.start()
        self._task = asyncio.get_running_loop().create_task(self._release_forever())

    async def stop(self) -> None:
        """End the releases, write the waiting showings, close."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self.showings.stop)
        with self._lock:
            self._ledger.close()

    # -- counting -----------------------------------------------------------------------------

    async def shown(
        self, user_id: str, campaign: str, impression_id: str, version: str, group: str
    ) -> None:
        """Count a showing to somebody of a panel group; others leave no trace.

        Each set of campaigns has a panel of its own.
        """
        listed = self._settings.campaigns
        if (listed and campaign not in listed) or version not in self._builds:
            return
        await self._count(campaign, user_id, impression_id, version, group)
        for names in self._settings.together:
            if campaign in names:
                own_id = f"{campaign}/{impression_id}"  # two campaigns may use one id
                await self._count(set_name(names), user_id, own_id, version, group)

    async def _count(
        self, campaign: str, user_id: str, impression_id: str, version: str, group: str
    ) -> None:
        key = (campaign, version)
        if key not in self._samples:
            if len(self._samples) >= _MAX_CAMPAIGNS:
                return
            try:
                await asyncio.to_thread(self._sample, *key)
            except sqlite3.Error as error:
                raise StoreUnavailable(f"the ledger cannot be read: {error}") from None
        place = int(self._samples[key].place[self._indices[version][group]])
        if place < 0:
            return
        names = self._pseudonyms.get(campaign)
        if names is None:
            names = self._pseudonyms[campaign] = Pseudonyms(self.showings.key, (campaign,))
        showing = Showing(
            names.user(campaign, user_id),
            names.impression(campaign, user_id, impression_id),
            campaign,
            self.now_us(),
            f"{place} {version}",
        )
        if await self.showings.record(showing):
            self._counted.add(campaign)

    def now_us(self) -> int:
        """The time, in microseconds since 1970."""
        return round(self._clock() * MICROS)

    def _sample(self, campaign: str, version: str) -> _Sample:
        """The panel of a campaign; one that has releases keeps its share when settings change."""
        known = self._samples.get((campaign, version))
        if known is None:
            with self._lock:
                build = self._builds[version]
                terms = self._ledger.terms(campaign, version) or self._settings.terms()
                key = panel_key(build.key)
                panel = choose_panel(build.catalogue, build.visits, terms.share, key, campaign)
                known = _Sample(panel, panel.positions())
                self._samples[campaign, version] = known
        return known

    def _prune_before(self, campaign: str) -> int | None:
        """All rows of campaigns that are over."""
        return self.now_us() if campaign in self._quiet else None

    # -- releases -----------------------------------------------------------------------------

    async def _release_forever(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.release_due)
            except (KreachError, StoreUnavailable, sqlite3.Error, OSError) as error:
                self._failures.add()
                self._log.error("panel release failed", why=str(error))
            await asyncio.sleep(_CHECK_SECONDS)

    def release_due(self) -> tuple[Correction, ...]:
        """Make the releases that are due, and write the file if there is anything in it."""
        with self._lock:
            return self._release_due(self._ledger, self.now_us())

    def _release_due(self, ledger: PanelLedger, now_us: int) -> tuple[Correction, ...]:
        floors = Floors(self._settings.min_people, self._settings.min_reach)
        publisher = PanelPublisher(ledger, self._draw, floors)
        corrections: list[Correction] = []
        for campaign, first_us, last_us in self.showings.read(_CAMPAIGNS):
            for version in self._builds:
                shown_us = (first_us, last_us)
                made = self._released(publisher, ledger, campaign, version, shown_us, now_us)
                if made is not None:
                    corrections.append(made)
            if now_us - last_us > self._settings.quiet_days * DAY_SECONDS * MICROS:
                self._quiet.add(campaign)
        corrections += self._of_the_past(publisher, ledger, corrections)
        corrections += [each for each in self._earlier if each.catalogue not in self._builds]
        written = (tuple(corrections), self._settings.out.exists())
        if corrections and written != (self._written, True):
            write_corrections(corrections, self._settings.out)
            self._written = tuple(corrections)
        return tuple(corrections)

    def _released(
        self,
        publisher: PanelPublisher,
        ledger: PanelLedger,
        campaign: str,
        version: str,
        shown_us: tuple[int, int],
        now_us: int,
    ) -> Correction | None:
        """A campaign's correction on a catalogue, with what is due; None while it has none.

        Nothing is due of a campaign that was not shown since its last release, nor of one whose
        earlier showings were erased: it could not be counted on.
        """
        known = ledger.releases(campaign, version)
        settings, (first_us, last_us) = self._settings, shown_us
        ends = due_ends(settings.every, settings.late_seconds, first_us, now_us)
        terms = ledger.terms(campaign, version) or settings.terms()
        new = [] if ledger.closed(campaign) else ends[-1:]
        if known:
            done_us = known[-1].end_us
            counts = first_us < done_us <= last_us and len(known) < terms.max_releases
            new = [end for end in new if counts and end > done_us]
        if not known and not new:
            return None
        showings = self._showings(campaign, version) if new else _NOBODY
        if len(showings) == 0 and not known:
            return None
        sample = self._sample(campaign, version)
        catalogue = self._builds[version].catalogue
        try:
            made = publisher.release(campaign, catalogue, sample.panel, showings, terms, new)
        except TooSmall:
            return None
        if len(made.releases) > len(known):
            self._made.add(campaign)
            self._log.info(
                "panel released", campaign=campaign, catalogue=version, number=len(made.releases)
            )
        return made

    def _of_the_past(
        self, publisher: PanelPublisher, ledger: PanelLedger, current: list[Correction]
    ) -> list[Correction]:
        """Corrections of campaigns whose showings were erased."""
        here = {(each.campaign, each.catalogue) for each in current}
        found = []
        for campaign, version in ledger.campaigns():
            if (campaign, version) in here or version not in self._builds:
                continue
            sample, catalogue = self._sample(campaign, version), self._builds[version].catalogue
            terms = ledger.terms(campaign, version)
            if terms is not None:
                found.append(
                    publisher.release(campaign, catalogue, sample.panel, _NOBODY, terms, [])
                )
        return found

    def _showings(self, campaign: str, version: str) -> PanelShowings:
        users, places, times = [], [], []
        for user, shown_as, at_us in self.showings.read(_ROWS, (campaign,)):
            place, _, shown_version = str(shown_as).partition(" ")
            if shown_version == version:
                users.append(user)
                places.append(int(place))
                times.append(at_us)
        person = np.unique(np.array(users, dtype="V16"), return_inverse=True)[1]
        return PanelShowings(
            person.astype(np.int64).reshape(-1),
            np.array(places, dtype=np.int64),
            np.array(times, dtype=np.int64),
        )


def _read_earlier(out: Path, log: Log) -> tuple[Correction, ...]:
    """What a file holds that an earlier run wrote."""
    if not out.exists():
        return ()
    try:
        return read_corrections(out)
    except KreachError as error:
        log.error("corrections refused", file=out.name, why=str(error))
        return ()


def due_ends(every: str, late_seconds: float, first_us: int, now_us: int) -> list[int]:
    """The ends of periods since the first showing that are over, and late showings had time."""
    until = from_micros(now_us - round(late_seconds * MICROS))
    first = from_micros(first_us)
    if until <= first:
        return []
    periods = Window(first, start_of_period(until, every) + PERIOD_LENGTH[every]).periods(every)
    return [to_micros(each.end) for each in periods if each.end is not None and each.end <= until]
