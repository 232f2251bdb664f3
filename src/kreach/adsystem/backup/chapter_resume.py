"""New chapters for campaigns whose log lost rows that advertisers were shown.

A bidder that is restored without reporting has a log that lacks rows of closed chapters. Which of
its rows are in them, and which were waiting for the next, can then not be told any more, and rows
that come back would be counted twice. So no chapter is closed until an operator accepts the loss:
from then on chapters have rows from after the newest closed chapter only.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.disclosure.chapters.builder import WatchedPlace
from kreach.adsystem.disclosure.chapters.store import FILE, ChapterStore
from kreach.adsystem.disclosure.chapters.writer import ChapterWriter
from kreach.adsystem.log.running_counts import RunningCounts
from kreach.adsystem.log.snapshot import LiveLog
from kreach.adsystem.settings import GuardSettings
from kreach.adsystem.store_layout import BIDDERS_FOLDER
from kreach.boundary.times import MICROS, iso_micros
from kreach.errors import KreachError

__all__ = ["ChapterResume", "resume_chapters"]

_MEMORY = "1000MB"


@dataclass(frozen=True)
class ChapterResume:
    """A campaign on a catalogue that has new chapters again, with rows from `since` on."""

    campaign: str
    catalogue: str
    since: str


def resume_chapters(
    store: Path, guard: GuardSettings, bidders: Sequence[str], now: float
) -> list[ChapterResume]:
    """Accept what the logs of campaigns lack, wherever they lack rows of closed chapters.

    `bidders` names those whose logs must be here, if they have names.
    """
    if not (store / FILE).exists():
        raise KreachError(f"store {store} has no chapters: give reporting's settings")
    missing = [name for name in bidders if not (store / BIDDERS_FOLDER / name).exists()]
    if missing:
        raise KreachError(
            f"the log of {', '.join(missing)} has not arrived: wait until reporting is ready"
        )
    now_micros = int(now * MICROS)
    with closing(CampaignStore(store)) as campaigns:
        names = {one.number: one.campaign.id for one in campaigns.all()}
    with closing(ChapterStore(store)) as chapters, closing(LiveLog(store, _MEMORY)) as live:
        writer = ChapterWriter(chapters, guard)
        with live.snapshot() as snapshot:
            totals = RunningCounts().totals(snapshot)
            watched = [
                WatchedPlace(
                    place,
                    snapshot.place(int(place.campaign or 0), str(place.catalogue)),
                    groups=None,
                    start_micros=0,
                    over_micros=None,
                    people=None,
                    timed=True,
                )
                for place in chapters.places()
                if writer.chapters(place).newest_withheld  # after a final one nothing comes
            ]
            rows = {place: total.rows for place, total in totals.items()}
            behind = writer.find_behind(snapshot, rows, watched, now_micros)
        if not behind:
            raise KreachError(
                "no campaign's log lacks rows that advertisers were shown: nothing to resume"
            )
        found = []
        for place in behind:
            chapters.resume(place, now_micros)
            since = iso_micros(writer.chapters(place)[-1].end_micros)
            name = names.get(int(place.campaign or 0), f"number {place.campaign}")
            found.append(ChapterResume(name, str(place.catalogue), since))
    return found
